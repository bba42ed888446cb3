"""`rejoinder gate`: real runs, real exit codes."""

from __future__ import annotations

import json
from typing import Any

import pytest

import rejoinder
from rejoinder.model.figures import GateResult, RuleResult
from rejoinder.report.gate import write_gate
from rejoinder.report.styled import Form, plain_text
from rejoinder.testing import Answer, FakeServer
from tests.gates.suites import answers, run_of, suite_of
from tests.kit import Project, behind, case, file_contents, only_run, refusal, refused, run, run_process


@pytest.mark.slow
def test_a_run_passes_fails_or_cannot_be_told_against_a_baseline(project: Project) -> None:
    first = run_of(project, answers(50))
    project.run("bless", "--name", "main")
    second = run_of(project, answers(48, 0, 2))
    assert project.run_json("gate", "--against", "main") == {
        "run": second,
        "against": first,
        "verdict": "pass",
        "rules": [
            {
                "rule": "no-regression",
                "verdict": "pass",
                "reason": "no difference beyond 4.7 points: 0 points (-4.7 to +4.7 at 90%), mid-p 1",
            },
            {"rule": "no-new-failures", "verdict": "pass", "reason": "no new failure in 50 cases"},
        ],
        "false_alarms": {"no-regression": 0.025},  # with one trial in each run, the other rule cannot fail
        "confirm": None,
    }
    run_of(project, answers(36, 14))
    assert project.run_json("gate", "--against", "main", code=1)["verdict"] == "fail"
    run_of(project, answers(46, 4))
    assert project.run_json("gate", "--against", "main", code=5)["verdict"] == "cannot-tell"


@pytest.mark.slow
def test_a_run_may_stand_for_a_baseline(project: Project) -> None:
    first = run_of(project, answers(50))
    second = run_of(project, answers(30, 20))
    assert project.run_json("gate", "--against", first, code=1)["verdict"] == "fail"
    assert project.run_json("gate", first, "--against", second)["verdict"] == "pass"
    folder = str(project.folder / ".rejoinder" / "runs" / first)
    assert project.run_json("gate", "--against", folder, code=1)["verdict"] == "fail"


@pytest.mark.slow
def test_the_gate_of_several_rules_in_words(project: Project) -> None:
    first = run_of(project, answers(26, 4))
    project.run("bless")
    second = run_of(project, answers(12, 18), tags={"c000": ["refund"]})
    rules = ["no-regression", "rate>=40%", "tag:refund:no-regression", "cost<=0.15", "latency_p95<=4s"]
    output = project.run("gate", "--against", "main", *(part for rule in rules for part in ("--rule", rule)), code=1)
    assert output.splitlines() == [
        "FAIL        no-regression              fail          worse: -47 points (-66 to -28), mid-p < 0.001",
        "PASS        rate>=40%                  pass          40% (25 to 58), 12 of 30 passed",
        "CANNOT TELL tag:refund:no-regression   cannot tell   too few: 1 case of the tag in both runs, 20 would do",
        "PASS        cost<=0.15                 pass          $0",
        "CANNOT TELL latency_p95<=4s            cannot tell   the time of no reply is known",
        "By chance, an unchanged suite like this one fails no-regression in about 2.5% and tag:refund:no-regression in"
        " about 2.5% of runs.",
        "",
        "passed less often   before   now      it said",
        *(f"c{number:03}                passed   failed   no" for number in range(12, 17)),
        "... 9 more",
        "",
        f"run {second} against {first}",
        "FAIL gate failed: 1 of 5 rules, 2 cannot tell   exit 1",
    ]


@pytest.mark.parametrize(
    ("verdicts", "last"),
    [
        (("pass",), "✓ gate passed: 1 rule   exit 0"),
        (("pass", "cannot-tell"), "? gate cannot tell: 1 of 2 rules   exit 5"),
        (("fail", "fail", "pass"), "✗ gate failed: 2 of 3 rules   exit 1"),
    ],
)
def test_the_result_line(verdicts: tuple[Any, ...], last: str) -> None:
    worst: Any = next(one for one in ("fail", "cannot-tell", "pass") if one in verdicts)
    found = GateResult(worst, tuple(RuleResult("rate>=90%", verdict, "") for verdict in verdicts))
    assert plain_text(list(write_gate(found, Form(symbols=True)))[-1]) == last


def test_what_is_in_quarantine_is_named(project: Project) -> None:
    suite = suite_of(answers(3, 1))
    suite["evals"][3]["quarantine"] = {"until": "9999-12-31", "reason": "the carrier moves"}
    recorded = run(project, suite)["run"]["id"]
    assert project.run("gate", "--rule", "rate>=100%").splitlines() == [
        "PASS rate>=100%   pass   100% (44 to 100), 3 of 3 passed",
        "quarantined, not counted: c003 until 9999-12-31 (the carrier moves)",
        "",
        f"run {recorded}",
        "PASS gate passed: 1 rule   exit 0",
    ]


@pytest.mark.slow
def test_a_terminal_is_told_what_to_type_next(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_of(project, answers(5))
    project.run("bless")
    second = run_of(project, answers(5), "--limit", "4")
    last = project.run("gate", "--against", "main", "--partial", code=5).splitlines()[-1]
    assert last.endswith("exit 5"), "a pipe ends with the verdict"
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    monkeypatch.setenv("COLUMNS", "160")
    screen = project.run("gate", "--against", "main", "--partial", code=5).splitlines()
    commands = [line.split("   ")[0].split() for line in screen if line.lstrip().startswith("rejoinder")]
    assert commands == [
        ["rejoinder", "compare", first, second],
        ["rejoinder", "baseline", "save", second, "--name", "main", "--partial"],
    ]
    for _, *command in commands:
        project.run(*command)


def test_nothing_is_called_and_nothing_is_written(project: Project) -> None:
    with FakeServer(Answer("yes")) as server:
        project.write("evals.yaml", {"targets": [behind(server, "it")], "target": "it", "evals": [case("a")]})
        project.run("run", "evals.yaml")
        project.run("bless")
        asked, before = len(server.requests), file_contents(project.folder)
        project.run("gate", "--against", "main", "--rule", "rate>=90%")
        assert (len(server.requests), file_contents(project.folder)) == (asked, before)


def test_an_unfinished_run_cannot_be_told(project: Project) -> None:
    run_of(project, answers(1, 2), "--fail-fast", "--workers", "1")
    [found] = project.run_json("gate", "--rule", "rate>=10%", code=5)["rules"]
    assert found == {"rule": "rate>=10%", "verdict": "cannot-tell", "reason": "stopped at the first failure: no rate"}
    receipt = only_run(project.folder) / "run.json"
    receipt.write_text(json.dumps({**json.loads(receipt.read_bytes()), "status": "running"}))
    [found] = project.run_json("gate", "--rule", "rate>=10%", code=5)["rules"]
    assert found["reason"] == "the run has not ended: no rate yet"
    assert "compares with an earlier run" in refusal(project, "gate")


def test_a_run_that_its_budget_ended_cannot_be_told(project: Project) -> None:
    with FakeServer(Answer("yes", input_tokens=10, output_tokens=10)) as server:
        suite = {"targets": [behind(server, "it")], "target": "it", "evals": [case("a"), case("b")]}
        run(project, suite, "--budget-tokens", "50", "--max-tokens", "20", "--workers", "1", code=4)
    [found] = project.run_json("gate", "--rule", "rate>=10%", code=5)["rules"]
    assert found["reason"].endswith("of 2: no rate yet")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("--limit", "3"), ("--case", "c001"), ("--failed-from", "last"), ("--shard", "1/3")]
)
def test_a_run_of_some_cases_says_so(project: Project, arguments: tuple[str, ...]) -> None:
    run_of(project, answers(16, 4))
    document = run(project, suite_of(answers(16, 4)), *arguments)
    chosen, conversations = document["run"]["chosen"], len(document["results"])
    assert chosen == {"cases": conversations, "of": 20}
    words = f"{conversations} of 20 cases (selected)"
    assert words in project.run("show")
    assert words in refusal(project, "gate", "--rule", "rate>=0%")
    with pytest.raises(rejoinder.UsageError, match="selected"):
        rejoinder.gate(rules=["rate>=0%"])
    [found] = project.run_json("gate", "--rule", "rate>=0%", "--partial")["rules"]
    assert found["reason"].endswith(f"; {words}")
    assert rejoinder.gate(rules=["rate>=0%"], partial=True).verdict == "pass"
    assert words in refusal(project, "bless")
    with pytest.raises(rejoinder.UsageError, match="selected"):
        rejoinder.bless()
    project.run("bless", "--partial")
    assert rejoinder.bless(partial=True).exists()


def test_a_gate_refuses_one_case_that_passed(project: Project) -> None:
    """Planted: 26 of 30 cases fail; the one case that was run alone passes."""
    run_of(project, answers(4, 26))
    one = run_of(project, answers(4, 26), "--case", "c000")
    error = refused(project, "gate", "--rule", "rate>=50%")
    assert error.message == f"run {one} has 1 of 30 cases (selected)" and "--partial" in error.hint
    assert error.exit_code == 2
    assert "1 of 30 cases (selected)" in project.run("gate", "--rule", "rate>=50%", "--partial")


def test_merged_shards_are_all_cases(project: Project) -> None:
    parts = [run_of(project, answers(20), "--shard", f"{number}/2") for number in (1, 2)]
    project.run("merge", *parts)
    assert project.run_json("gate", "--rule", "rate>=90%")["verdict"] == "pass"


def test_a_run_of_all_cases_says_nothing(project: Project) -> None:
    document = run(project, suite_of(answers(3)), "--limit", "3")
    assert "chosen" not in document["run"]
    project.run("bless")


def test_what_is_wrong_about_the_command_is_said(project: Project) -> None:
    run_of(project, answers(1))
    assert "there is no rule `rates`" in refusal(project, "gate", "--rule", "rates")
    assert "neither a baseline nor a run `mian`" in refusal(project, "gate", "--against", "mian")
    project.run("bless")
    assert "The baselines are main." in refusal(project, "gate", "--against", "mian")
    assert "cannot be the name" in refused(project, "bless", "--name", "../x").message
    unfinished = run_of(project, answers(1, 2), "--fail-fast", "--workers", "1")
    assert "is not finished" in refusal(project, "gate", "--against", unfinished)


@pytest.mark.slow
def test_from_python(project: Project) -> None:
    project.write("evals.yaml", suite_of(answers(30)))
    report = rejoinder.run("evals.yaml")
    assert rejoinder.bless(report, "main") == project.folder / ".rejoinder/baselines/main.json"
    project.write("evals.yaml", suite_of(answers(10, 20)))
    worse = rejoinder.run("evals.yaml")
    found = rejoinder.gate(worse, against="main")
    assert isinstance(found, rejoinder.GateResult)
    assert (found.verdict, found.rules[0].rule) == ("fail", "no-regression")
    assert rejoinder.gate(against=report, rules=["no-regression", "rate>=30%"]).rules[1].verdict == "pass"
    assert rejoinder.gate(report, against=worse.folder.path).verdict == "pass"
    with pytest.raises(rejoinder.UsageError, match="rules are a list"):
        rejoinder.gate(rules="rate>=30%")


@pytest.mark.slow
def test_exit_codes_of_the_real_command(project: Project) -> None:
    project.write("evals.yaml", suite_of(answers(30)))
    folder = project.folder
    assert run_process(folder, "run").code == 0
    assert run_process(folder, "bless").code == 0
    project.write("evals.yaml", suite_of(answers(12, 18)))
    assert run_process(folder, "run").code == 1
    ended = run_process(folder, "gate", "--against", "main", "--format", "json")
    assert (ended.code, ended.document["verdict"], ended.err) == (1, "fail", "")
    project.write("evals.yaml", suite_of(answers(28, 2)))
    assert run_process(folder, "run").code == 1
    assert run_process(folder, "gate", "--against", "main").code == 5
    assert run_process(folder, "gate", "--rule", "rate>=93%").code == 0
    assert run_process(folder, "gate", "--rule", "rate=93%").code == 2
    baseline = folder / ".rejoinder/baselines/main.json"
    baseline.write_bytes(baseline.read_bytes()[:-9])
    ended = run_process(folder, "gate", "--against", "main")
    assert ended.code == 3
    assert "main.json is damaged" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.slow
def test_a_run_is_not_compared_with_itself(project: Project) -> None:
    run_of(project, answers(50))
    project.run("bless")
    for against in ("main", "last"):
        for rule in project.run_json("gate", "--against", against, code=5)["rules"]:
            assert "it is compared with itself" in rule["reason"]


@pytest.mark.slow
def test_cases_that_were_run_again_because_they_failed_tell_nothing(project: Project) -> None:
    run_of(project, answers(20, 20))
    project.run("bless")
    project.write("evals.yaml", suite_of(answers(40)))
    project.run("run", "evals.yaml", "--failed-from", "last")
    found = project.run_json(
        "gate", "--against", "main", "--partial", "--rule", "no-regression", "--rule", "rate>=90%", code=5
    )
    assert [rule["verdict"] for rule in found["rules"]] == ["cannot-tell", "pass"]
    assert "only cases that failed before" in found["rules"][0]["reason"]


@pytest.mark.slow
def test_suites_that_share_a_data_set_are_kept_apart(project: Project) -> None:
    """All cases of one suite break while those of the other are fixed: that is a regression of the first."""
    project.write("rows.csv", "id\n" + "\n".join(f"r{number}" for number in range(30)))

    def run_suites(good: str) -> str:
        for name in ("a", "b"):
            replies = ["yes"] if name == good else ["no"]
            project.write(
                f"{name}.yaml",
                {
                    "target": "it",
                    "targets": [{"name": "it", "provider": "scripted", "replies": replies}],
                    "cases": "rows.csv",
                    "defaults": {"prompt": f"{name} {{{{ id }}}}", "checks": [{"match": "yes"}]},
                },
            )
        return project.run_json("run", "a.yaml", "b.yaml", code=1)["run"]["id"]

    run_suites("a")
    project.run("bless")
    before = json.loads((project.folder / ".rejoinder/baselines/main.json").read_text())
    assert len(before["cases"]) == 60
    assert {one["file"] for one in before["cases"]} == {"a.yaml > rows.csv", "b.yaml > rows.csv"}
    run_suites("b")
    compared = project.run_json("compare", code=None)
    assert (compared["matched"], len(compared["flips"])) == (60, 60)
    assert project.run_json("gate", "--against", "main", "--rule", "pass^1>=0%")["verdict"] == "pass"
    assert "60 cases" in project.run("compare", code=None)


def test_a_run_of_which_nothing_counts_passes_no_limit_and_is_no_baseline(project: Project) -> None:
    quarantine = {"until": "2999-01-01", "reason": "flaky"}
    suite = suite_of({"a": ["no", "no"]})
    suite["evals"][0]["quarantine"] = quarantine
    project.write("evals.yaml", suite)
    shown = project.run("run", "evals.yaml", "--fail-under", "90%", code=5)
    assert shown.splitlines()[-2] == "CANNOT TELL nothing counts: 1 conversation in quarantine, no rate"
    assert "does not decide: nothing counts: 1 conversation in quarantine   exit 5" in shown
    assert "no verdict that counts" in refusal(project, "bless")
