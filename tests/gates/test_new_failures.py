"""`no-new-failures` and `run --against`: a case that broke for good fails the gate, chance does not."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rejoinder
from rejoinder import Selection
from rejoinder.runs.options import Confirm
from rejoinder.stats.alarms import Outcome, new_failure_chance
from rejoinder.testing import FakeServer, Received
from tests.kit import KILLED, Process, Project, Raw, behind, only_run, refusal, run_process

BOT = """
import json
from pathlib import Path

def reply(request):
    with open("calls.log", "a") as calls:
        calls.write(f"{request.case_id} {request.trial}\\n")
    plan = json.loads(Path("plan.json").read_text())
    case = plan.get(request.case_id, {})
    if request.trial in case.get("errors", []):
        raise OSError("no line")
    return "yes" if request.trial in case.get("passes", []) or not case else "no"

def other(request):
    return "no" if f"other {request.case_id}" in json.loads(Path("plan.json").read_text()) else "yes"
"""
BROKEN: Raw = {"passes": []}


def write_bot(project: Project, plan: dict[str, Any], cases: int = 6, **more: Any) -> None:
    """A bot that passes every case but those of the plan, which pass in some trials and raise in others."""
    project.write("bot.py", BOT)
    project.write("plan.json", json.dumps({name: one or {"x": 1} for name, one in plan.items()}))
    targets = [{"name": "bot", "provider": "python", "call": "bot:reply", "max_retries": 0}]
    evals = [{"id": f"c{n}", "prompt": "Say yes.", "checks": [{"match": "yes"}]} for n in range(cases)]
    for case in evals:
        case.update(more.get(str(case["id"]), {}))
    project.write("evals.yaml", {"targets": targets, "target": "bot", "evals": evals})


def save_baseline(project: Project, repeats: int = 1, **more: Any) -> None:
    write_bot(project, {}, **more)
    project.run("run", "-q", "--repeat", str(repeats))
    project.run("bless")


def calls_of(folder: Path) -> Counter[str]:
    return Counter((folder / "calls.log").read_text().splitlines())


def rule_of(found: Raw, name: str = "no-new-failures") -> Raw:
    return next(rule for rule in found["rules"] if rule["rule"] == name)


def test_a_case_that_broke_for_good_fails_the_run(project: Project) -> None:
    save_baseline(project)
    write_bot(project, {"c3": BROKEN})
    result = project.invoke("run", "--against", "main")
    assert result.exit_code == 1
    assert "FAIL        no-new-failures   fail          1 new failure: c3 (0 of 8 now, 1 of 1 before)" in result.stdout
    assert "1 case fails that did not fail before: c3; asking again, up to 7 times" in result.stderr
    assert result.stdout.splitlines()[-1].endswith("exit 1")


@pytest.mark.parametrize("passes", [2, 4, 8])
def test_a_case_that_passes_when_it_is_asked_again_is_chance(project: Project, passes: int) -> None:
    save_baseline(project)
    write_bot(project, {"c3": {"passes": [passes]}})
    document = json.loads(project.invoke("run", "--against", "main", "--format", "json").stdout)
    confirming = [result for result in document["results"] if result.get("confirming")]
    assert [one["trial"] for one in confirming] == list(range(2, passes + 1))  # it ends with the first pass
    found = rule_of(project.run_json("gate", "--against", "main", code=None))
    assert found["verdict"] == "pass"
    assert f"1 passed when asked again: c3 (1 of {passes} now, 1 of 1 before)" in found["reason"]


def test_further_trials_count_in_no_rate_total_or_baseline(project: Project) -> None:
    save_baseline(project)
    write_bot(project, {"c3": {"passes": [4]}})
    document = json.loads(project.invoke("run", "--against", "main", "--format", "json").stdout)
    summary, results = document["summary"], document["results"]
    assert [result.get("confirming", False) for result in results] == [False] * 6 + [True] * 3
    assert (summary["total"], summary["passed"], summary["failed"]) == (6, 5, 1)
    assert summary["rates"]["eventual"]["of"] == 6
    assert summary["by_target"]["bot"]["total"] == 6
    asked = {"id": "c3", "target": "bot", "variant": None, "trials": 3, "passed": 1}
    assert [{key: one[key] for key in asked} for one in summary["confirmed"]] == [asked]
    project.run("bless", "--name", "next")
    kept = json.loads((project.folder / ".rejoinder/baselines/next.json").read_text())
    assert {case["id"]: len(case["trials"]) for case in kept["cases"]} == {f"c{n}": 1 for n in range(6)}
    assert project.run_json("show", code=None) == document
    compared = project.run_json("compare", code=None)
    assert compared["eventual"]["b"]["of"] == 6
    junit = project.run("export", "last", "--to", "junit")
    assert 'tests="6"' in junit


def test_a_run_with_further_trials_is_intact_shown_and_replayed(project: Project) -> None:
    save_baseline(project)
    write_bot(project, {"c3": BROKEN, "c4": {"passes": [3]}})
    project.invoke("run", "--against", "main")
    assert ", 6 of 6 conversations, " in project.run("verify")
    for command in (("report", "--out", "r.html"), ("export", "last", "--to", "csv", "--out", "r.csv"), ("runs",)):
        project.run(*command)
    replayed = project.run_json("replay", code=None)
    assert (replayed["summary"]["total"], replayed["summary"]["failed"]) == (6, 2)
    assert len((project.folder / "r.csv").read_text().splitlines()) == 7
    again = project.invoke("resume", project.run_json("runs")[0]["id"])
    assert again.exit_code == 1


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [
        (1, 1, "cannot-tell"),
        (2, 2, "cannot-tell"),  # four trials, and two of them now
        (3, 2, "cannot-tell"),  # five, and still two now
        (1, 3, "cannot-tell"),  # three now, and four in both
        (2, 3, "fail"),
        (1, 4, "fail"),
        (5, 3, "fail"),
    ],
)
def test_three_trials_now_and_five_in_both_runs_confirm_a_failure(
    project: Project, before: int, now: int, verdict: str
) -> None:
    save_baseline(project, before)
    write_bot(project, {"c3": BROKEN})
    project.run("run", "-q", "--repeat", str(now), code=1)
    rule = ("--rule", "no-new-failures")
    found = project.run_json("gate", "--against", "main", *rule, code={"fail": 1, "cannot-tell": 5}[verdict])
    assert found["verdict"] == verdict
    said = project.run("gate", "--against", "main", *rule, code=None)
    assert ("To confirm: rejoinder run evals.yaml --against main" in said) is (verdict == "cannot-tell")


@pytest.mark.parametrize(
    ("plan", "more", "verdict", "said"),
    [
        ({"c3": {"passes": [], "errors": [1]}}, {}, "cannot-tell", "1 ended in an error: c3 (no verdict now"),
        ({"c3": {"passes": [2]}}, {}, "pass", "no new failure in 6 cases"),  # one of its trials passes
        (
            {"c3": BROKEN},
            {"c3": {"quarantine": {"until": "2999-01-31", "reason": "known"}}},
            "pass",
            "no new failure in 5 cases",
        ),
    ],
)
def test_errors_and_quarantined_cases_are_no_new_failures(
    project: Project, plan: dict[str, Any], more: dict[str, Any], verdict: str, said: str
) -> None:
    save_baseline(project, 3)
    write_bot(project, plan, **more)
    repeats = "1" if "errors" in str(plan) else "3"
    project.run("run", "-q", "--repeat", repeats, code=None)
    found = rule_of(project.run_json("gate", "--against", "main", "--rule", "no-new-failures", code=None))
    assert (found["verdict"], said in found["reason"]) == (verdict, True), found
    assert "not in this run" not in found["reason"]  # a quarantined case is


def test_an_error_in_the_baseline_does_not_excuse_a_case(project: Project) -> None:
    """A service that was down for a moment says nothing about the case."""
    write_bot(project, {"c3": {"errors": [2], "passes": [1, 3]}, "c4": {"errors": [1, 2, 3]}})
    project.invoke("run", "-q", "--repeat", "3")
    project.run("bless")
    write_bot(project, {"c3": BROKEN, "c4": BROKEN})
    result = project.invoke("run", "--against", "main")
    assert result.exit_code == 1, result.output
    assert "1 new failure: c3 (0 of 8 now, 2 of 2 before)" in result.stdout  # c4 never passed


def test_a_case_that_is_missing_now_is_named_and_no_new_failure(project: Project) -> None:
    save_baseline(project, 3)
    write_bot(project, {}, cases=5)
    project.run("run", "-q")
    found = rule_of(project.run_json("gate", "--against", "main", "--rule", "no-new-failures"))
    assert found["verdict"] == "pass" and found["reason"].endswith("not in this run: c5")


@pytest.mark.parametrize("options", [(), ("--repeat", "3")])
def test_a_broken_case_that_the_baseline_does_not_know_is_never_green(
    options: tuple[str, ...], project: Project
) -> None:
    save_baseline(project, 3)
    write_bot(project, {"c6": BROKEN}, cases=7)
    result = project.invoke("run", "--against", "main", *options)
    assert result.exit_code == 5
    found = rule_of(project.run_json("gate", "--against", "main", code=None))
    now = f"0 of {7 + int(options[-1] if options else 1)} now"
    words = (
        f"no new failure in 6 cases; 1 failed that the baseline does not know: c6 ({now}, no verdict before); new: c6"
    )
    assert (found["verdict"], found["reason"]) == ("cannot-tell", words)
    assert found["cases"][0]["kind"] == "unknown"
    assert "1 case fails that did not fail before: c6; asking again, up to 7 times" in result.stderr
    assert "gate cannot tell: 2 of 2 rules; new and failing: c6   exit 5" in result.stdout
    project.run("ci", "--against", "main", "--comment", "comment.md")
    assert "**Gate cannot tell: 2 of 2 rules; new and failing: `c6`.**" in (project.folder / "comment.md").read_text()


def test_a_new_case_that_passes_when_asked_again_is_not_named(project: Project) -> None:
    save_baseline(project, 3)
    write_bot(project, {"c6": {"passes": [2]}}, cases=7)
    result = project.invoke("run", "--against", "main")
    assert "c6 passed in trial 1 of 7" in result.stderr
    found = rule_of(project.run_json("gate", "--against", "main", code=None))
    assert (found["verdict"], found["cases"][0]["kind"]) == ("pass", "flaky")
    assert "new and failing" not in result.stdout


def test_a_run_without_a_case_of_the_baseline_names_what_fails(project: Project) -> None:
    save_baseline(project)
    write_bot(project, {"n1": BROKEN})
    suite = (project.folder / "evals.yaml").read_text()
    project.write("evals.yaml", suite.replace("id: c", "id: n").replace('"id": "c', '"id": "n'))
    result = project.invoke("run", "--against", "main")
    found = project.run_json("gate", "--against", "main", code=5)
    assert rule_of(found)["reason"].startswith("no case is in both runs; 1 failed that the baseline does not know: n1 ")
    assert "asking again" not in result.stderr  # there is nothing to compare with
    assert "new and failing: n1" in result.stdout
    assert not found["false_alarms"] and "By chance" not in result.stdout


def test_a_broken_case_that_was_renamed_is_never_green(project: Project) -> None:
    save_baseline(project)
    write_bot(project, {"c9": BROKEN})
    suite = (project.folder / "evals.yaml").read_text()
    project.write("evals.yaml", suite.replace("c3", "c9"))
    result = project.invoke("run", "--against", "main")
    assert result.exit_code == 5
    assert "new and failing: c9" in result.stdout.splitlines()[-1]


def test_new_and_missing_cases_are_named_with_their_variants(project: Project) -> None:
    write_bot(project, {})
    suite = json.loads((project.folder / "evals.yaml").read_text())
    for names in (("old", "kept"), ("kept", "new")):
        variants = [{"name": name, "system_prompt": f"Be {name}."} for name in names]
        project.write("evals.yaml", suite | {"variants": variants})
        project.run("run", "-q")
        project.run("bless") if names[0] == "old" else None
    reason = rule_of(project.run_json("gate", "--against", "main", code=None))["reason"]
    assert "new: c0 (new), c1 (new), c2 (new) and 3 more" in reason
    assert "not in this run: c0 (old), c1 (old), c2 (old) and 3 more" in reason


def test_a_run_without_cases_says_that_the_gate_is_not_asked(project: Project) -> None:
    save_baseline(project)
    result = project.invoke("run", "--failed", "--against", "main", "--partial")
    assert result.exit_code == 0
    assert "there is nothing to run" in result.stderr
    assert "the gate is not asked: it would decide about no case" in result.stderr


def test_a_run_on_a_server_refuses_the_options_that_were_typed(project: Project) -> None:
    save_baseline(project)
    said = refusal(project, "run", "--server", "http://127.0.0.1:1", "--against", "main", "--cache-ttl", "3d")
    assert "a run on a server cannot have --against and --cache-ttl" in said
    assert "--confirm" not in said


def test_a_broken_case_that_had_only_errors_before_is_never_green(project: Project) -> None:
    write_bot(project, {"c3": {"errors": [1]}})
    project.run("run", "-q", code=3)
    project.run("bless")
    write_bot(project, {"c3": BROKEN})
    assert project.invoke("run", "--against", "main").exit_code == 5
    rule = rule_of(project.run_json("gate", "--against", "main", code=None))
    assert rule["verdict"] == "cannot-tell" and "c3 (0 of 8 now, no verdict before)" in rule["reason"]


def test_a_new_case_that_passes_is_no_matter(project: Project) -> None:
    save_baseline(project)
    write_bot(project, {"c6": {"passes": [1]}}, cases=7)
    project.run("run", "-q")
    assert rule_of(project.run_json("gate", "--against", "main", code=None))["verdict"] == "pass"


def save_flaky_baseline(project: Project, passed: int, of: int, *names: str) -> None:
    write_bot(project, {name: {"passes": list(range(1, passed + 1))} for name in names})
    project.run("run", "-q", "--repeat", str(of), code=1)
    project.run("bless")


@pytest.mark.parametrize(
    ("passed", "of", "code", "reason"),
    [
        (4, 5, 1, "1 new failure: c3 (0 of 12 now, 4 of 5 before)"),  # 0.010 by Fisher's test of 4 of 5 and 0 of 7
        (2, 3, 5, "1 always fails now and was flaky before: c3 (0 of 12 now, 2 of 3 before)"),  # 0.067
        (1, 3, 0, "no new failure in 6 cases"),
    ],
)
def test_a_case_that_was_flaky_and_always_fails_now_is_never_silent(
    project: Project, passed: int, of: int, code: int, reason: str
) -> None:
    save_flaky_baseline(project, passed, of, "c3")
    write_bot(project, {"c3": BROKEN})
    ended = project.invoke("run", "--against", "main", "--repeat", "5")
    found = rule_of(project.run_json("gate", "--against", "main", code=None))
    assert found["reason"] == reason
    assert found["verdict"] == {0: "pass", 1: "fail", 5: "cannot-tell"}[code]
    assert reason in " ".join(ended.stdout.split())
    if code:
        assert ended.exit_code in (1, code)  # `no-regression` may say more
        assert found["cases"][0]["before_failed"] == of - passed


def test_several_flaky_cases_are_tested_together(project: Project) -> None:
    """Of two, the chance of each is held against half of the level."""
    save_flaky_baseline(project, 4, 5, "c3", "c4")
    write_bot(project, {"c3": BROKEN, "c4": {"passes": [2]}})
    project.invoke("run", "--against", "main")
    found = rule_of(project.run_json("gate", "--against", "main", code=None))
    assert found["verdict"] == "cannot-tell"
    assert found["reason"] == (
        "1 always fails now and was flaky before: c3 (0 of 8 now, 4 of 5 before);"
        " 1 passed when asked again: c4 (1 of 2 now, 4 of 5 before)"
    )
    project.invoke("run", "--against", "main", "--confirm", "12")  # more trials tell
    assert rule_of(project.run_json("gate", "--against", "main", code=None))["verdict"] == "fail"


@pytest.mark.parametrize(("now", "verdict"), [(2, "pass"), (3, "cannot-tell")])
def test_a_recorded_run_cannot_tell_about_a_case_that_was_flaky(project: Project, now: int, verdict: str) -> None:
    """Its failures are the reason to look at the case, and so no evidence."""
    save_flaky_baseline(project, 9, 10, "c3")
    write_bot(project, {"c3": BROKEN})
    project.run("run", "-q", "--repeat", str(now), code=1)
    rule = ("--rule", "no-new-failures")
    found = rule_of(project.run_json("gate", "--against", "main", *rule, code=None))
    assert found["verdict"] == verdict
    said = project.run("gate", "--against", "main", *rule, code=None)
    assert ("1 unconfirmed failure: c3 (0 of 3 now, 9 of 10 before)" in said) is (verdict == "cannot-tell")
    assert ("To confirm: rejoinder run evals.yaml --against main" in said) is (verdict == "cannot-tell")


def test_a_flaky_case_whose_further_trials_are_errors_is_asked_once_more(project: Project) -> None:
    save_flaky_baseline(project, 4, 5, "c3")
    write_bot(project, {"c3": {"passes": [], "errors": [5, 6]}})
    ended = project.invoke("run", "--against", "main")
    assert ended.exit_code == 3, ended.output


def test_the_rule_can_be_limited_to_a_tag(project: Project) -> None:
    save_baseline(project)
    write_bot(project, {"c3": BROKEN}, c3={"tags": ["safety"]}, c4={"tags": ["other"]})
    project.run("run", "-q", "--repeat", "4", code=1)
    for tag, code in (("safety", 1), ("other", 0)):
        project.run("gate", "--against", "main", "--rule", f"tag:{tag}:no-new-failures", code=code)


def test_targets_are_judged_apart(project: Project) -> None:
    write_bot(project, {})
    suite = json.loads((project.folder / "evals.yaml").read_text())
    suite["targets"] += [{**suite["targets"][0], "name": "other", "call": "bot:other"}]
    project.write("evals.yaml", suite)
    project.run("run", "-q", "--target", "bot,other")
    project.run("bless")
    project.write("plan.json", json.dumps({"other c1": BROKEN}))
    result = project.invoke("run", "--against", "main", "--target", "bot,other")
    assert result.exit_code == 1
    assert "1 new failure: c1 on other (0 of 8 now, 1 of 1 before)" in result.stdout


def test_the_command_that_confirms_asks_the_same_targets(project: Project) -> None:
    write_bot(project, {})
    suite = json.loads((project.folder / "evals.yaml").read_text())
    suite["targets"] += [{**suite["targets"][0], "name": "other", "call": "bot:other"}]
    project.write("evals.yaml", suite)
    project.run("run", "-q", "--target", "other")
    project.run("bless")
    project.write("plan.json", json.dumps({"other c1": BROKEN}))
    project.run("run", "-q", "--target", "other", code=1)
    found = project.run_json("gate", "--against", "main", code=5)
    assert found["confirm"] == "rejoinder run evals.yaml -m other --against main"


def test_cases_by_their_own_rules(project: Project) -> None:
    """Trials and cases are two rates: 4 of 5 trials may be enough for a case."""
    rule = {"repeat": 5, "pass": "4 of 5"}
    write_bot(project, {"c0": {"passes": [1, 2, 3, 4]}, "c1": {"passes": [1]}}, cases=4, c0=rule, c1=rule)
    project.run("run", "-q", code=1)
    for bound, code in (("cases>=75%", 0), ("cases>=76%", 1), ("rate>=50%", 0)):
        project.run("gate", "--rule", bound, code=code)
    found = project.run_json("gate", "--rule", "cases>=75%")
    assert found["rules"][0]["reason"] == "3 of 4 cases passed by their own rules"


def test_both_rules_apply_unless_others_are_named(project: Project) -> None:
    save_baseline(project)
    project.run("run", "-q")
    assert [rule["rule"] for rule in project.run_json("gate", "--against", "main", code=None)["rules"]] == [
        "no-regression",
        "no-new-failures",
    ]
    assert [rule.rule for rule in rejoinder.gate(against="main").rules] == ["no-regression", "no-new-failures"]


def test_the_gate_decides_the_exit_code_of_a_run(project: Project) -> None:
    """A known failure does not fail the run; errors, a budget and wrong commands come first."""
    write_bot(project, {"c0": BROKEN}, cases=60)
    project.run("run", "-q", code=1)
    project.run("bless")
    project.run("run", "-q", "--against", "main", code=0)
    write_bot(project, {"c0": BROKEN, "c3": BROKEN}, cases=60)
    project.run("run", "-q", "--against", "main", code=1)
    assert project.invoke("run", "--against", "main", "--confirm", "0").exit_code == 5
    write_bot(project, {"c0": BROKEN, "c3": {"passes": [], "errors": [1]}}, cases=60)
    result = project.invoke("run", "--against", "main")
    assert result.exit_code == 3 and "the gate does not decide: the run had errors" in result.stderr
    assert "neither a baseline nor a run `mian`" in refusal(project, "run", "--against", "mian")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--against", "mian"), "neither a baseline nor a run `mian`"),
        (("--against", "main", "--fail-fast"), "--fail-fast ends a run at its first failure"),
    ],
)
def test_a_dry_run_is_refused_if_the_run_would_be(project: Project, more: tuple[str, ...], said: str) -> None:
    save_baseline(project)
    assert said in refusal(project, "run", *more, "--dry-run")
    assert "would run" in project.run("run", "--against", "main", "--dry-run")


def test_selected_cases_are_refused_before_anything_is_sent(project: Project) -> None:
    save_baseline(project)
    (project.folder / "calls.log").unlink()
    for more in (("--case", "c1"), ("--limit", "2")):
        assert "only some cases are selected" in refusal(project, "run", "--against", "main", *more)
    assert "leave out one of them" in refusal(project, "run", "--against", "main", "--watch")
    assert not (project.folder / "calls.log").exists()
    write_bot(project, {"c1": BROKEN})
    assert project.invoke("run", "--against", "main", "--case", "c1", "--partial").exit_code == 1


def test_further_trials_that_end_in_errors_are_told_and_made_again(project: Project) -> None:
    save_baseline(project)
    write_bot(project, {"c3": {"errors": list(range(2, 9)), "passes": []}})
    result = project.invoke("run", "--against", "main")
    assert result.exit_code == 3  # 5 would be let through by some pipelines, and c3 is broken
    assert "more trials ended in errors; ask them again: rejoinder resume" in result.stderr
    assert "asked again, not counted: c3 0 of 7 (7 errors) passed" in result.stdout
    write_bot(project, {"c3": BROKEN})
    result = project.invoke("resume", "--retry-errors")  # it finds the run without a name
    assert result.exit_code == 1, result.output
    assert "1 new failure: c3 (0 of 8 now, 1 of 1 before)" in result.stdout


def test_a_run_that_ends_at_its_first_failure_is_refused_before_anything_is_sent(project: Project) -> None:
    """It could tell nothing, and what cannot be told is let through by some pipelines."""
    save_baseline(project)
    (project.folder / "calls.log").unlink()
    write_bot(project, {"c3": BROKEN})
    assert "--fail-fast ends a run at its first failure" in refusal(project, "run", "--against", "main", "--fail-fast")
    assert not (project.folder / "calls.log").exists()


def test_further_trials_come_from_no_cache(project: Project) -> None:
    said, asked = {"text": "yes"}, list[str]()

    def reply(received: Received) -> str:
        asked.append(received.path)
        return said["text"]

    evals = [{"id": "c", "prompt": "q", "checks": [{"match": "yes"}]}]
    with FakeServer(reply) as server:
        suite = {"targets": [behind(server, "it", cache=True)], "target": "it", "evals": evals}
        project.write("evals.yaml", suite)
        project.run("run", "-q", "--cache")
        project.run("bless")
        evals[0]["prompt"], said["text"] = "another", "no"
        project.write("evals.yaml", suite)
        for calls in (8, 7):  # of the second run only its own trial is in the cache
            asked.clear()
            project.run("run", "-q", "--cache", "--against", "main", code=1)
            assert len(asked) == calls


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment",
    [
        *("conversation.finished:3", "run.closed", "conversation.finished:8", "conversation.finished:14"),
        *("told.queued:9", "results.before_rename:2", "results.written:2", "summary.written:2", "run.closed:2"),
    ],
)
@pytest.mark.every(4)
def test_confirming_survives_the_death_of_its_process(project: Project, moment: str) -> None:
    save_baseline(project)
    write_bot(project, {"c3": BROKEN, "c4": {"passes": [3]}})
    (project.folder / "calls.log").unlink()
    project.run("runs", "prune", "--keep", "0", "--yes")
    killed = run_process(project.folder, "run", "--against", "main", "--workers", "2", REJOINDER_KILL_AT=moment)
    assert killed.code == KILLED
    ended = run_process(project.folder, "resume", only_run(project.folder).name, "--format", "json")
    assert ended.code == 1
    trials = Counter((one["id"], one.get("confirming", False)) for one in ended.document["results"])
    assert trials["c3", True] == 7 and trials["c4", True] == 2 and sum(trials.values()) == 6 + 9
    calls = calls_of(project.folder)
    assert sum(calls.values()) <= 15 + 2  # at most what was under way is asked twice
    assert project.run("verify", only_run(project.folder).name).startswith("intact")


HANGING = """
import asyncio
from pathlib import Path

async def reply(request):
    if request.trial > 1 and not Path("go").exists():
        for _ in range(100):  # further trials that wait for this one begin meanwhile
            await asyncio.sleep(0)
        Path("begun").touch()
        await asyncio.sleep(600)
    return "no" if Path("broken").exists() else "yes"
"""


def test_a_signal_ends_further_trials_as_it_ends_others(project: Project, start: Callable[..., Process]) -> None:
    save_baseline(project, cases=1)
    project.write("bot.py", HANGING)
    project.write("broken", "")
    process = start("run", "--against", "main", "--workers", "4")
    process.wait_for((project.folder / "begun").exists, "no case is asked again")
    process.process.send_signal(signal.SIGTERM)
    ended = process.end()
    assert (ended.code, "Traceback" in ended.err) == (130, False), ended.err
    missing = "more trials of 1 newly failing case are missing"
    assert missing in refusal(project, "bless")
    assert rule_of(project.run_json("gate", "--against", "main", code=5))["reason"] == missing
    project.write("go", "")
    assert run_process(project.folder, "resume").code == 1


@pytest.mark.slow
def test_parts_confirm_and_the_merged_run_decides(project: Project) -> None:
    save_baseline(project)
    write_bot(project, {"c3": BROKEN, "c4": {"passes": [3]}})
    folders = []
    for part in ("1/2", "2/2"):
        code = project.invoke("run", "--shard", part, "--against", "main", "--format", "json")
        folders.append(json.loads(code.stdout)["run"]["folder"])
        assert code.exit_code in (0, 1)
        assert "no-new-failures" not in code.stderr  # a part decides nothing
    project.run("merge", "-q", *folders, code=1)
    found = rule_of(project.run_json("gate", "--against", "main", code=1))
    assert found["reason"].startswith("1 new failure: c3 (0 of 8 now, 1 of 1 before); 1 passed when asked again: c4")


def test_from_python(project: Project) -> None:
    save_baseline(project)
    write_bot(project, {"c3": BROKEN})
    report = rejoinder.run("evals.yaml", selection=Selection(confirm=Confirm(against="main", times=4)))
    assert [one.trials for one in report.summary.confirmed] == [4]
    assert len(report.results) == 6 and len(report.confirming) == 4
    assert rejoinder.gate(report, against="main").verdict == "fail"


@pytest.mark.parametrize(
    ("counts", "trials", "least", "most"),
    [
        ([(2, 2)] * 30, [(1, 8)] * 30, 0.0001, 0.02),  # nothing ever changed: little, and not nothing
        ([(2, 2)] * 10, [(1, 8)] * 10, 0.0001, 0.02),
        ([(1, 2)] * 100, [(1, 8)] * 100, 0.15, 0.25),  # 100 times a half to the ninth power: 0.18
        ([(7, 10)] * 200, [(1, 8)] * 200, 0.005, 0.02),  # 200 * 0.7 * 0.3^8 = 0.0092
        ([(7, 10)] * 200, [(1, 4)] * 200, 0.5, 0.8),  # four trials are too few for 200 such cases
        ([(0, 2)] * 10 + [(2, 2)] * 10, [(1, 8)] * 20, 0.0, 0.1),
    ],
)
def test_how_often_an_unchanged_suite_fails_by_chance(
    counts: list[tuple[int, int]], trials: list[tuple[int, int]], least: float, most: float
) -> None:
    outcomes = [[Outcome(1, before, now)] for before, now in trials]
    assert least <= new_failure_chance(counts, outcomes) <= most


@pytest.mark.parametrize("name", ["last~1", "four last characters", "folder"])
def test_a_run_that_is_named_is_the_one_of_before_the_start(project: Project, name: str) -> None:
    """`last~1` is another run as soon as this one is begun."""
    write_bot(project, {})
    project.run("run", "-q")
    good = only_run(project.folder)
    write_bot(project, {"c3": BROKEN})
    project.invoke("run", "-q")
    words = {"last~1": name, "four last characters": good.name[-4:], "folder": str(good)}
    result = project.invoke("run", "--against", words[name])
    assert result.exit_code == 1, result.output
    assert "1 new failure: c3 (0 of 8 now, 1 of 1 before)" in result.stdout
    assert f"against {good.name}" in result.stdout
    assert project.invoke("resume", project.run_json("runs")[0]["id"]).exit_code == 1


def test_a_baseline_that_is_replaced_during_a_run_does_not_decide(project: Project) -> None:
    save_baseline(project)
    write_bot(project, {"c3": BROKEN})
    project.invoke("run", "-q")
    project.run("bless", "--name", "worse")
    worse = project.folder / ".rejoinder/baselines/worse.json"
    copied = f"shutil.copy({str(worse)!r}, {str(worse.with_name('main.json'))!r})"
    project.write(
        "bot.py", BOT.replace("import json", "import json, shutil").replace("    plan =", f"    {copied}\n    plan =")
    )
    result = run_process(project.folder, "run", "--against", "main")
    assert result.code == 5, result
    assert "when this run began, and is run" in result.out


def test_the_baseline_is_that_of_the_project_of_the_suite(project: Project, tmp_path: Path) -> None:
    """A run can be started from outside of its project."""
    says: Raw = {"targets": [{"name": "bot", "provider": "scripted", "replies": ["yes"]}], "target": "bot"}
    suite: Raw = {**says, "evals": [{"id": "one", "prompt": "Say yes.", "checks": [{"match": "yes"}]}]}
    project.write("evals.yaml", suite)
    project.run("run", "-q")
    project.run("bless")
    project.write("evals.yaml", {**suite, "evals": [{**suite["evals"][0], "checks": [{"match": "no"}]}]})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ended = run_process(elsewhere, "run", str(project.folder / "evals.yaml"), "--against", "main")
    assert ended.code == 1, ended
    assert "1 new failure: one" in ended.out
