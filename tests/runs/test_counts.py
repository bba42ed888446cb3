"""What is counted: by case, by first replies, with errors in every denominator; and what answering back gained."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

import rejoinder
from rejoinder import Pace, Selection
from rejoinder.model import CaseStatus, Quarantine, Result, Status, judge_case, passes_together
from rejoinder.runs.counts import MOST_OPEN
from rejoinder.runs.summary import summarise
from rejoinder.testing import Answer, FakeServer, Received, is_judging, judge
from tests.kit import Project, Raw, behind, case, follow, run, scripted, spec
from tests.report.exports import made_run, result

YES = {"match": "yes"}


def python(function: str, name: str = "it") -> Raw:
    return {"name": name, "provider": "python", "call": f"own:{function}"}


def play(project: Project, cases: list[Raw], *targets: Raw, **options: Any) -> rejoinder.RunReport:
    first, *_ = targets
    project.write("evals.yaml", {"targets": list(targets), "target": first["name"], "evals": cases})
    return rejoinder.run("evals.yaml", **options)


BY_TRIAL = """
def answer(request):
    passes = {"always": 9, "often": 4, "never": 0}[request.case_id.split("-")[0]]
    return "yes" if request.trial <= passes else "no"
"""


@pytest.mark.slow
@spec("P45")
@pytest.mark.parametrize(
    ("names", "low", "high"), [(["always"] * 20, 0.8203, 1.0), (["always"] * 19 + ["often"], 0.8667, 0.9993)]
)
def test_one_failure_more_does_not_raise_the_lower_bound_beyond_reason(
    project: Project, names: list[str], low: float, high: float
) -> None:
    """F1, with the known answers of 100 of 100 and 99 of 100."""
    project.write("own.py", BY_TRIAL)
    report = play(project, [case(f"{name}-{n}", YES) for n, name in enumerate(names)], python("answer"), repeat=5)
    assert report.summary.rates is not None
    rate = report.summary.rates.eventual
    assert rate.interval == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))
    assert (rate.cases, rate.of, rate.method) == (20, 100, "effective wilson")
    assert (report.summary.pass_rate, report.summary.pass_rate_interval) == (rate.rate, rate.interval)


def test_cases_are_known_by_file_and_id(project: Project) -> None:
    """F2: two files with the same name and the same ids are four cases, and the best is named with its file."""
    for folder, reply in (("a", "yes"), ("b", "no")):
        content = {"metadata": {"name": "same"}, "targets": [scripted("it", reply, reply)], "target": "it"}
        project.write(f"{folder}/evals.yaml", {**content, "evals": [case("x", YES), case("y", YES)]})
    summary = rejoinder.run(["a/evals.yaml", "b/evals.yaml"]).summary
    assert (summary.cases, summary.pass_rate_method) == (4, "wilson")
    assert [(one.file, one.id, one.score) for one in summary.score.best] == [
        ("a/evals.yaml", "x", 1.0),
        ("a/evals.yaml", "y", 1.0),
    ]
    assert {one.file for one in summary.score.worst} == {"b/evals.yaml"}


def test_cases_that_are_closed_on_the_way_count_as_those_that_stay_open() -> None:
    """However many there are, and whatever becomes of their trials."""
    made: list[Result] = []
    for number in range(2 * MOST_OPEN + 7):
        scores = (1.0, number % 7 / 7, None)[: 1 + number % 3]
        states: list[Status] = ["error" if one is None else "passed" if one > 0.5 else "failed" for one in scores]
        for trial, (score, status) in enumerate(zip(scores, states, strict=True), 1):
            ended = {"status": status, "passed": status == "passed", "score": score, "trial": trial}
            made.append(structs.replace(result(f"case-{number}"), number=number, **ended))
    receipt = structs.replace(made_run(made).run, planned=len(made))
    on_the_way, at_the_end = summarise(made, receipt), summarise(iter(made), receipt)
    assert on_the_way == at_the_end
    assert (on_the_way.cases, on_the_way.total) == (2 * MOST_OPEN + 7, len(made))
    assert [one.id for one in on_the_way.score.best] == ["case-0", "case-3", "case-6"]


def test_judges_and_metrics_count_first_replies(project: Project) -> None:
    """F4: what follows a follow-up is a selection."""

    def answer(request: Received) -> Answer:
        if not is_judging(request):
            return Answer("better" if "Again" in request.raw.decode() else "poor")
        return judge(0.0 if "poor" in request.raw.decode() else 1.0)

    check = {"llm_judge": {"criteria": "good?"}, "metric": "good"}
    cases = [case(f"c{n}", check, follow("Again.", {"match": "*"})) for n in range(4)]
    with FakeServer(answer) as server:
        content = {"targets": [behind(server, "it")], "target": "it", "evals": cases}
        project.write("evals.yaml", content)
        summary = rejoinder.run("evals.yaml").summary
    assert summary.recovered == 4
    [found] = summary.judges
    assert (found.judged, found.passed) == (4, 0)
    assert (summary.metrics["good"].mean, summary.metrics["good"].cases) == (0.0, 4)


def test_judges_are_told_apart_by_name(project: Project) -> None:
    checks = [{"llm_judge": {"criteria": "good?"}, "name": name} for name in ("tone", "facts")]
    content = {
        "targets": [scripted("it", "hi"), {"name": "j", "provider": "scripted", "judge": [1, 0]}],
        "target": "it",
        "judge_target": "j",
        "evals": [case("a", *checks)],
    }
    summary = run(project, content, code=1)["summary"]
    assert [(one["name"], one["passed"]) for one in summary["judges"]] == [("tone", 1), ("facts", 0)]


def test_errors_stay_in_every_denominator(project: Project) -> None:
    """F5, F9, F10, F11."""
    good = {"match": "yes", "metric": "m"}
    replies = {"a": ["yes"], "b": [{"error": "down"}], "c": ["no", {"error": "down"}], "d": ["no", "yes"]}
    cases = [case(name, good, follow("Sure?", YES)) for name in "abcd"]
    report = play(project, cases, {"name": "it", "provider": "scripted", "replies": replies})
    summary = report.summary
    assert summary.rates is not None
    assert (summary.rates.eventual.of, summary.rates.eventual.errors) == (4, 2)
    assert summary.rates.eventual.without_errors == 1.0
    [row] = summary.recovery
    assert (row.at_risk, row.recovered, row.errors) == (2, 1, 1)
    metric = summary.metrics["m"]
    assert (metric.replies, metric.total_replies, metric.total_cases) == (3, 4, 4)
    shown = project.run("show", "--verbose", code=None)
    assert "50% (15 to 85)" in shown and "100% of the 2 without an error" in shown
    assert "after follow-up 1: 1 of 2" in shown and "1 error" in shown
    assert "over 3 of 4 cases, 3 of 4 replies" in shown


def test_scores_weigh_cases_and_one_case_has_no_spread(project: Project) -> None:
    """F6, F7."""
    code = (
        "def grade(context):\n    return {'often': 1.0, 'never': 0.0}[context.case_id] if context.trial < 9 else 0.0\n"
    )
    project.write("own.py", code)
    cases = [case("often", {"python": "own:grade"}, repeat=3), case("never", {"python": "own:grade"})]
    score = play(project, cases, scripted("it", *["x"] * 9)).summary.score
    assert (score.mean, score.cases, score.of) == (0.5, 2, 4)
    alone = play(project, cases[:1], scripted("it", *["x"] * 9)).summary.score
    assert (alone.mean, alone.stdev, alone.standard_error) == (1.0, None, None)


def test_recovery_counts_the_follow_ups_that_were_sent(project: Project) -> None:
    """F8, with `followups: all`: rows are the first, second and third that were sent, not their depth."""
    checks = [YES, *(follow(word, YES) for word in ("one", "two", "three"))]
    replies = {"a": ["no", "yes"], "b": ["no", "no", "yes"], "c": ["no", "no", "no", "yes"], "d": ["no"] * 4}
    cases = [case(name, *checks, followups="all") for name in replies]
    summary = play(project, cases, {"name": "it", "provider": "scripted", "replies": replies}).summary
    assert [(row.depth, row.at_risk, row.recovered) for row in summary.recovery] == [(1, 4, 1), (2, 3, 1), (3, 2, 1)]


def test_several_targets_have_no_common_rate(project: Project) -> None:
    cases = [case(name, YES) for name in "ab"]
    selection = Selection(targets=("it", "other"))
    summary = play(project, cases, scripted("it", "yes"), scripted("other", "no"), selection=selection).summary
    assert (summary.pass_rate, summary.pass_rate_interval, summary.rates) == (None, None, None)
    assert [one.rates is not None and one.rates.eventual.rate for one in summary.by_target.values()] == [1.0, 0.0]
    assert "pass rate" not in project.run("show", code=None)


def test_a_target_of_which_nothing_was_tested_has_no_rate(project: Project) -> None:
    """Neither beside a good one nor alone, and the list of runs says so; most errors are as bad on a screen."""
    cases = [case(name, YES) for name in "abc"]
    dead, bad = scripted("dead", {"error": "down"}), scripted("ill", "yes")
    bad["replies"] = {"a": ["yes"], "b": [{"error": "down"}], "c": [{"error": "down"}]}
    selection = Selection(targets=("it", "dead", "ill"))
    groups = play(project, cases, scripted("it", "yes"), dead, bad, selection=selection).summary.by_target
    assert [one.errors for one in groups.values()] == [0, 3, 2]
    assert [one.no_rate for one in groups.values()] == [None, "untested", "errors"]
    gone = groups["dead"]
    assert (gone.rates, gone.pass_rate, gone.pass_rate_interval, gone.pass_rate_method) == (None,) * 4
    ill = groups["ill"]
    assert (ill.pass_rate, ill.pass_rate_interval, ill.without_errors) == (None, None, None)
    assert ill.rates is not None
    assert ill.rates.eventual.rate == pytest.approx(1 / 3), "`rates` has what was counted"
    summary = play(project, cases, dead).summary
    assert (summary.rates, summary.pass_rate, summary.no_rate) == (None, None, "untested")
    assert "no rate: 3 of 3 had an error" in project.run("show", "--verbose", code=None)
    assert "   -   " in project.run("runs").splitlines()[1]


def test_each_of_several_targets_has_its_own_figures(project: Project) -> None:
    checks = [{"match": "yes", "metric": "m"}, follow("Sure?", YES)]
    targets = scripted("it", "no", "yes"), scripted("other", "yes")
    both = Selection(targets=("it", "other"))
    summary = play(project, [case(name, *checks) for name in "ab"], *targets, repeat=2, selection=both).summary
    assert (summary.score.mean, summary.recovery, summary.repeats, summary.metrics) == (None, (), None, {})
    it, other = summary.by_target["it"], summary.by_target["other"]
    assert [row.recovered for row in it.recovery] == [4] and other.recovery == ()
    assert (it.metrics["m"].mean, other.metrics["m"].mean) == (0.0, 1.0)
    for one in (it, other):
        assert one.repeats is not None and one.repeats.pass_hat_k.rate == 1.0
        assert one.score is not None and one.score.mean == 1.0
    shown = project.run("show", "--verbose", code=None)
    assert "  recovery  it: after follow-up 1: 4 of 4" in shown
    assert "            other: pass^2 100%" in shown
    assert "  metrics   it: m 0 over 2 cases" in shown


def test_pass_k_names_the_cases_that_it_leaves_out(project: Project) -> None:
    """A table of pass^1 to pass^4 is read from one run."""
    project.write("own.py", BY_TRIAL)
    cases = [case("often-1", YES, repeat=5), *(case(f"always-{n}", YES, repeat=4) for n in range(2))]
    cases += [case(f"always-{name}", YES) for name in "xy"]
    repeats = play(project, cases, python("answer")).summary.repeats
    assert repeats is not None
    found = repeats.pass_hat_k
    assert (found.k, found.cases, found.left_out, found.short) == (4, 3, ("always-x", "always-y"), 2)
    assert (found.passed, found.of, found.trials) == (None, None, 13)
    assert "over 3 of 5 cases" in project.run("show", "--verbose", code=None)
    assert [(one.k, one.cases, one.left_out) for one in repeats.by_k] == [
        (1, 5, 0),
        *((k, 3, 2) for k in (2, 3, 4)),
        (5, 1, 4),
    ]
    rates = [one.pass_hat_k.rate for one in repeats.by_k]
    assert rates == [pytest.approx(one) for one in (4.8 / 5, 2.6 / 3, 2.4 / 3, 2.2 / 3, 0.0)]
    assert [one.pass_at_k.rate for one in repeats.by_k][1:] == [1.0] * 4
    for one in repeats.by_k:
        assert one.pass_hat_k.interval is not None and one.pass_hat_k.method is not None


def test_every_rate_has_the_same_names(project: Project) -> None:
    names = {"rate", "passed", "of", "cases", "interval", "method"}
    checks = YES, follow("Sure?", YES)
    summary = run(
        project,
        {"targets": [scripted("it", "no", "yes")], "target": "it", "evals": [case(name, *checks) for name in "ab"]},
        "--repeat",
        "2",
    )["summary"]
    repeats = summary["repeats"]
    rates = [*summary["rates"].values(), *summary["recovery"], repeats["pass_hat_k"], repeats["pass_at_k"]]
    rates += [one[kind] for one in repeats["by_k"] for kind in ("pass_hat_k", "pass_at_k")]
    for rate in rates:
        assert names <= set(rate)
    [row] = summary["recovery"]
    assert (row["rate"], row["passed"], row["of"], row["at_risk"], row["recovered"]) == (1.0, 4, 4, 4, 4)
    assert not {"interval", "method"} & set(summary["score"]), "of two cases there is none"


def test_the_worst_cases_are_those_that_lost_something(project: Project) -> None:
    replies = {"a": ["yes"], "b": ["no"], "c": ["yes"], "d": ["yes"], "e": ["yes"], "f": ["yes"]}
    target = {"name": "it", "provider": "scripted", "replies": replies}
    score = play(project, [case(name, YES) for name in replies], target).summary.score
    assert [one.id for one in score.worst] == ["b"]


def test_a_selection_says_what_it_is_not_a_rate_of(project: Project) -> None:
    """F14 and the rest."""
    cases = [case(name, YES) for name in "abc"]
    replies = {"a": ["yes"], "b": ["no"], "c": ["yes"]}
    target = {"name": "it", "provider": "scripted", "replies": replies}
    first = play(project, cases, target, pace=Pace(workers=1, fail_fast=True))
    assert "stopped at the first failure: no rate" in project.run("show", "--verbose", code=None)
    project.run("run", "--verbose", "evals.yaml", "--failed-from", first.run.id, code=None)
    assert "of the 2 that did not pass before" in project.run("show", "--verbose", code=None)


def test_what_was_asked_again_is_said(project: Project) -> None:
    project.write("own.py", "import pathlib\ndef answer(request):\n    return pathlib.Path('reply').read_text()\n")
    report = play(project, [case("a", YES), case("b", YES)], python("answer"))
    assert report.summary.errors == 2
    project.write("reply", "yes")
    assert rejoinder.resume(report, retry_errors=True).summary.passed == 2
    assert "2 asked again after an error" in project.run("show", "--verbose")


# Trials that are judged together, and quarantine


@spec("P45")
@pytest.mark.parametrize(
    ("passed", "trials", "needed", "expected"),
    [
        (5, 5, None, True),
        (4, 5, None, False),
        (4, 5, (4, 5), True),
        (3, 5, (4, 5), False),
        (8, 10, (4, 5), True),
        (2, 3, (4, 5), False),
        (0, 0, None, False),
    ],
)
def test_trials_pass_together(passed: int, trials: int, needed: tuple[int, int] | None, expected: bool) -> None:
    assert passes_together(passed, trials, needed) is expected


@spec("P45")
@pytest.mark.parametrize(
    ("statuses", "needed", "expected"),
    [
        ({"passed": 1, "failed": 1}, None, "failed"),
        ({"passed": 1, "error": 1}, None, "error"),
        ({"failed": 1, "error": 4}, None, "failed"),
        ({"passed": 4, "failed": 1}, (4, 5), "passed"),
        ({"passed": 4, "error": 1}, (4, 5), "passed"),
        ({"passed": 3, "failed": 1, "error": 1}, (4, 5), "error"),
        ({"passed": 3, "failed": 2}, (4, 5), "failed"),
        ({"passed": 1, "skipped": 4}, None, "passed"),
        ({"skipped": 2}, None, "skipped"),
    ],
)
def test_one_rule_judges_a_case(
    statuses: dict[Status, int], needed: tuple[int, int] | None, expected: CaseStatus
) -> None:
    one = result(needed=needed)
    assert judge_case(statuses, one, "2026-11-16") == expected
    apart = structs.replace(one, quarantine=Quarantine("2026-11-17", "flaky"))
    assert judge_case(statuses, apart, "2026-11-16") == "apart"
    assert judge_case(statuses, apart, "2026-11-17") == expected


@spec("P45")
def test_failing_fast_leaves_cases_in_quarantine_apart(project: Project) -> None:
    """One that fails does not end the run, and one that is skipped is neither unfinished nor skipped."""
    apart = {"quarantine": {"until": "9999-12-31", "reason": "the tokenizer"}}
    cases = [case("flaky", YES, **apart), case("lost", YES), case("later", YES, **apart), case("last", YES)]
    replies = {name: ["no"] for name in ("flaky", "lost", "later", "last")}
    target = {"name": "it", "provider": "scripted", "replies": replies}
    report = play(project, cases, target, pace=Pace(workers=1, fail_fast=True))
    summary = report.summary
    assert [one.status for one in report.results] == ["failed", "failed", "skipped", "skipped"]
    assert (summary.failed, summary.skipped, summary.unfinished, summary.apart) == (1, 1, 0, 2)
    assert (summary.exit_code, summary.total, summary.decided) == (1, 4, 2)
    assert "stopped at the first failure" in project.run("gate", "--rule", "rate>=0%", code=5)


@spec("P45")
def test_only_cases_that_failed_together_are_run_again(project: Project) -> None:
    project.write("own.py", BY_TRIAL)
    apart = {"quarantine": {"until": "9999-12-31", "reason": "the tokenizer"}}
    cases = [case("often-1", YES, **{"pass": "4 of 5"}), case("never-1", YES), case("never-2", YES, **apart)]
    first = play(project, cases, python("answer"))
    again = project.run_json("run", "evals.yaml", "--failed-from", first.run.id, code=1)
    assert [one["id"] for one in again["results"]] == ["never-1"]


@spec("P45")
def test_the_terminal_says_what_the_run_does_not_fail_for(project: Project) -> None:
    project.write("own.py", BY_TRIAL)
    apart = {"quarantine": {"until": "9999-12-31", "reason": "the tokenizer"}}
    excused = [case("often-1", YES, **{"pass": "4 of 5"}), case("never-2", YES, **apart)]
    play(project, excused, python("answer"))
    shown = project.run("show")
    assert "PASS often-1  ....F  4 of 5  38 to 96  flaky, 4 of 5 needed" in shown
    assert "never-2 on it: 0 of 1 passed, not counted until 9999-12-31 (the tokenizer)" in shown
    assert shown.splitlines()[-1] == "PASS 1 of 1 case passed (1 flaky), 80% of trials (38 to 96)"
    play(project, [*excused, case("never-1", YES)], python("answer"))
    assert "FAIL never-1: Question never-1" in project.run("show")


@spec("P45")
def test_trials_of_a_case_are_judged_together(project: Project) -> None:
    project.write("own.py", BY_TRIAL)
    report = play(project, [case("often-1", YES, **{"pass": "4 of 5"})], python("answer"))
    assert (report.summary.total, report.summary.passed, report.summary.exit_code) == (5, 4, 0)
    assert (report.summary.by_case.passed, report.summary.by_case.failed) == (1, 0)
    report = play(project, [case("often-1", YES, repeat=5)], python("answer"))
    assert (report.summary.passed, report.summary.by_case.failed, report.summary.exit_code) == (4, 1, 1)
    assert report.summary.repeats is not None
    assert report.summary.repeats.pass_hat_k.rate == 0.0
    assert "0 of 1 case passed together" in project.run("show", "--verbose", code=None)


@spec("P45")
@pytest.mark.parametrize(("until", "code", "counted"), [("9999-12-31", 0, 1), ("2000-01-01", 1, 2)])
def test_a_quarantined_case_decides_nothing_before_its_date(
    project: Project, until: str, code: int, counted: int
) -> None:
    flaky = case("flaky", YES, quarantine={"until": until, "reason": "the tokenizer"})
    replies = {"sound": ["yes"], "flaky": ["no"]}
    report = play(project, [case("sound", YES), flaky], {"name": "it", "provider": "scripted", "replies": replies})
    summary = report.summary
    assert (summary.exit_code, summary.finished, summary.unfinished) == (code, counted, 0)
    [found] = summary.quarantined
    assert (found.id, found.passed, found.trials, found.active) == ("flaky", 0, 1, code == 0)
    assert summary.usage == sum((result.usage for result in report.results), summary.usage.__class__(0, 0, 0))
    assert ("not counted until 9999" if code == 0 else "ended on 2000-01-01, so it counts again") in project.run(
        "show", code=None
    )
    assert rejoinder.replay(report).summary.exit_code == code


@spec("P45")
@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"pass": "5 of 4"}, "`5 of 4` is not possible"),
        ({"pass": "0 of 4"}, "`0 of 4` is not possible"),
        ({"pass": "most"}, "pass"),
        ({"pass": "4 of 5", "repeat": 3}, "`repeat: 3` gives fewer trials"),
        ({"pass": "2 of 3", "repeat": 5}, "`repeat: 5` gives more trials"),
        ({"pass": 4}, 'write for example "4 of 5"'),
        ({"quarantine": {"until": "2026-02-30", "reason": "x"}}, "there is no day `2026-02-30`"),
        ({"quarantine": {"until": "2026-02-03"}}, "reason"),
        ({"control": "again"}, "control"),
    ],
)
def test_mistakes_in_trials_and_quarantine_are_found(project: Project, keys: Raw, said: str) -> None:
    [error, *_] = project.errors({"target": "it", "targets": [scripted("it", "x")], "evals": [case("a", **keys)]})
    assert said in error["message"]


def test_what_is_suggested_for_a_number_of_trials_is_right(project: Project) -> None:
    suite = "target: it\ntargets: [{name: it, provider: scripted, replies: [x]}]\nevals:\n  - id: a\n    prompt: Hi\n"
    suite += "    pass: 4\n    checks: [{match: x}]\n"
    [error] = project.errors(suite)
    assert error["suggestion"].strip() == 'pass: "4 of 5"'
    assert project.errors(suite.replace("    pass: 4", error["suggestion"])) == []


# Net recovery


DEAF = """
import random
def deaf(request):
    chance = random.Random(f"{request.case_id} {request.trial} {request.call}").random()
    return "yes" if chance < 0.4 else "no"
def listens(request):
    return "yes" if request.turn > 1 or deaf(request) == "yes" else "no"
"""


def recovering(count: int, **more: Any) -> list[Raw]:
    return [case(f"case-{n}", YES, follow("Look again.", YES), **more) for n in range(count)]


@pytest.mark.slow
def test_a_deaf_model_is_not_said_to_listen_and_one_that_listens_is(project: Project) -> None:
    project.write("own.py", DEAF)
    deaf = play(project, recovering(30), python("deaf"), repeat=5).summary.net_recovery
    listens = play(project, recovering(30), python("listens"), repeat=5).summary.net_recovery
    assert deaf is not None and listens is not None
    assert deaf.answered_back is not None and deaf.answered_back > 0.25
    assert deaf.verdict == "cannot-tell"
    assert listens.verdict == "listens"
    assert "listens (passed after one follow-up 100%" in project.run("show", "--verbose", code=None)


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"control": "afresh"}])
def test_a_deaf_model_with_many_chances_is_not_said_to_listen(project: Project, more: Raw) -> None:
    """Asked three times more it is right by chance more often than asked once: the first follow-up counts."""
    project.write("own.py", DEAF)
    nested = follow("Look again.", YES, follow("And again.", YES, follow("Once more.", YES)))
    cases = [case(f"case-{n}", YES, nested, **more) for n in range(30)]
    summary = play(project, cases, python("deaf"), repeat=1 if more else 5).summary
    net = summary.net_recovery
    assert net is not None and net.answered_back is not None and net.afresh is not None
    assert net.verdict == "cannot-tell"
    recovered = sum(row.recovered for row in summary.recovery)
    assert recovered / net.failures > net.answered_back + 0.2, "later follow-ups helped, and do not count"


def test_a_control_is_asked_afresh_for_each_failure_that_gets_a_follow_up(project: Project) -> None:
    """Turn 1 in a new conversation: recorded, paid, foreseen, replayed and forgotten by the conversation itself."""
    replies = {"a": ["no", "yes", "yes"], "b": ["no", "no", "yes"], "c": ["yes"]}
    cases = [case(name, YES, follow("Sure?", YES)) for name in replies]
    project.write(
        "evals.yaml",
        {
            "control": "afresh",
            "targets": [{"name": "it", "provider": "scripted", "replies": replies}],
            "target": "it",
            "evals": cases,
        },
    )
    foreseen = project.run_json("run", "evals.yaml", "--dry-run")["targets"]["it"]
    assert (foreseen["least_calls"], foreseen["most_calls"]) == (3, 9)
    report = rejoinder.run("evals.yaml", selection=Selection(include_messages=True))
    a, b, c = report.results
    assert [result.control is not None and result.control.passed for result in (a, b, c)] == [True, False, False]
    assert c.control is None
    assert [turn.prompt for turn in a.turns] == ["Question a", "Sure?"]
    assert a.turns[1].messages is not None
    assert [message.content for message in a.turns[1].messages] == ["Question a", "no", "Sure?"]
    assert a.usage.total_tokens == sum(turn.usage.total_tokens for turn in (*a.turns, a.control) if turn is not None)
    net = report.summary.net_recovery
    assert net is not None
    assert (net.failures, net.answered_back, net.afresh, net.net, net.verdict) == (2, 1.0, 0.5, 0.5, "too-few")
    again = rejoinder.replay(report)
    assert [result.control for result in again.results] == [result.control for result in report.results]
    assert again.summary.net_recovery == net


def test_a_control_of_a_case_and_judges_of_a_control(project: Project) -> None:
    def answer(request: Received) -> Answer:
        return judge(0.0) if is_judging(request) else Answer("hm")

    checks = [{"llm_judge": {"criteria": "good?"}}, follow("Sure?", {"match": "*"})]
    with FakeServer(answer) as server:
        cases = [case("a", *checks, control="afresh"), case("b", *checks)]
        project.write("evals.yaml", {"targets": [behind(server, "it")], "target": "it", "evals": cases})
        report = rejoinder.run("evals.yaml")
        asked = [request for request in server.requests if not is_judging(request)]
    assert len(asked) == 5
    assert [result.control is not None for result in report.results] == [True, False]
    [first, second] = report.results
    assert first.judge_usage.total_tokens == 2 * second.judge_usage.total_tokens


def test_a_control_that_fails_is_no_control(project: Project) -> None:
    replies = {"a": ["no", {"error": "down"}, "yes"]}
    cases = [case("a", YES, follow("Sure?", YES), control="afresh")]
    report = play(project, cases, {"name": "it", "provider": "scripted", "replies": replies})
    [result] = report.results
    assert (result.status, result.control) == ("passed", None)
    assert report.summary.net_recovery is not None
    assert (report.summary.net_recovery.failures, report.summary.net_recovery.uncontrolled) == (0, 1)


UNCONTROLLED = """
asked = set()
def answer(request):
    if request.turn > 1:
        return "yes"
    if request.trial not in asked:
        asked.add(request.trial)
        return "no"
    assert request.trial == 1, "no control"
    return "yes"
"""


def test_a_failure_beside_one_with_a_control_is_counted(project: Project) -> None:
    """Of two failed trials of a case, the control of one ended in an error."""
    project.write("own.py", UNCONTROLLED)
    cases = [case("a", YES, follow("Sure?", YES), control="afresh", repeat=2)]
    report = play(project, cases, {**python("answer"), "max_retries": 0})
    assert [result.control is not None for result in report.results] == [True, False]
    net = report.summary.net_recovery
    assert net is not None
    assert (net.failures, net.uncontrolled) == (1, 1)
    compared = rejoinder.compare(report, report).net_recovery
    assert (compared.a.failures, compared.a.uncontrolled) == (1, 1)


COLD = """
def answer(request):
    if request.turn == 1 and request.trial == 1:
        raise RuntimeError("a cold start")
    return "yes" if (request.trial + request.turn) % 2 == 0 else "no"
"""


def test_first_turns_that_ended_in_an_error_are_left_out_of_what_asking_afresh_gives(project: Project) -> None:
    """Of five trials one ended in an error and two were right: of the three others of a failure, two pass."""
    project.write("own.py", COLD)
    cases = [case(f"c{number}", YES, follow("Sure?", YES)) for number in range(9)]
    suite = {"targets": [{**python("answer"), "max_retries": 0}], "target": "it", "evals": cases}
    project.write("evals.yaml", suite)
    document = project.run_json("run", "evals.yaml", "--repeat", "5", code=None)
    net = document["summary"]["net_recovery"]
    assert (net["failures"], net["answered_back"], net["errors"]) == (18, 1.0, 9)
    assert net["afresh"] == pytest.approx(2 / 3)
    text = project.run("show", code=None)
    assert "; 9 errors left out" in text
    assert "; 9 errors left out" in project.run("show", "--verbose", code=None)
    compared = rejoinder.compare("last", "last").net_recovery
    assert (compared.a.errors, compared.b.errors) == (9, 9)


@pytest.mark.slow
def test_what_is_in_quarantine_decides_no_gate_and_no_comparison(project: Project) -> None:
    def played(flaky: str) -> rejoinder.RunReport:
        replies = {f"c{n}": ["yes"] for n in range(9)} | {"flaky": [flaky]}
        quarantine = {"until": "9999-12-31", "reason": "the tokenizer"}
        cases = [case(f"c{n}", YES) for n in range(9)] + [case("flaky", YES, quarantine=quarantine)]
        return play(project, cases, {"name": "it", "provider": "scripted", "replies": replies})

    good, bad = played("yes"), played("no")
    found = rejoinder.compare(good, bad)
    assert (found.matched, found.flips) == (9, ())
    rejoinder.bless(good, "main")
    assert project.invoke("gate", bad.run.id, "--against", "main", "--rule", "rate>=100%").exit_code == 0
    assert project.invoke("verify", bad.run.id).exit_code == 0


@pytest.mark.slow
def test_a_comparison_uses_the_control_of_both_runs(project: Project) -> None:
    project.write("own.py", DEAF)
    runs = [play(project, recovering(20, control="afresh"), python(name)) for name in ("deaf", "listens")]
    net = rejoinder.compare(*runs).net_recovery
    assert net is not None
    assert [side.verdict for side in (net.a, net.b)] == ["cannot-tell", "listens"]
