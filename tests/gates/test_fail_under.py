"""`rejoinder run --fail-under`: the exit code by the pass rate."""

from __future__ import annotations

import json

import pytest

from rejoinder.testing import Answer, FakeServer
from tests.gates.suites import answers, suite_of
from tests.kit import Project, behind, case, refusal, run_process


@pytest.mark.parametrize(
    ("wanted", "code", "line"),
    [
        ("75%", 0, "PASS rate>=75%   pass   75% (53 to 89), 15 of 20 passed   exit 0"),
        ("76%", 1, "FAIL rate>=76%   fail   75% (53 to 89), 15 of 20 passed   exit 1"),
        ("lower:53%", 0, "PASS lower>=53%   pass   75% (53 to 89), 15 of 20 passed   exit 0"),
        ("lower:54%", 1, "FAIL lower>=54%   fail   75% (53 to 89), 15 of 20 passed;"),
    ],
)
def test_the_rate_decides_the_exit_code(project: Project, wanted: str, code: int, line: str) -> None:
    project.write("evals.yaml", suite_of(answers(14, 5, 1)))
    assert project.run("run", "--fail-under", wanted, code=code).splitlines()[-1].startswith(line)
    result = project.invoke("run", "--fail-under", wanted, "--format", "json")
    assert (result.exit_code, json.loads(result.stdout)["summary"]["exit_code"]) == (code, 1)
    assert result.stderr.splitlines()[-1].startswith(line)


def test_a_rate_below_all_passed_may_be_wanted_of_a_run_that_passed(project: Project) -> None:
    project.write("evals.yaml", suite_of(answers(3)))
    assert project.run("run", "--fail-under", "100%").endswith("exit 0\n")
    assert "FAIL lower>=90%" in project.run("run", "--fail-under", "lower:90%", code=1)


def test_errors_budgets_and_stops_are_never_hidden(project: Project) -> None:
    with FakeServer(Answer("yes", input_tokens=10, output_tokens=10)) as server:
        target = behind(server, "it", max_retries=0)
        suite = {"targets": [target], "target": "it", "evals": [case("a"), case("b")]}
        project.write("evals.yaml", suite)
        budget = ("--budget-tokens", "50", "--max-tokens", "20", "--workers", "1")
        output = project.run("run", "--fail-under", "0%", *budget, code=4)
        assert output.endswith("rate>=0% does not decide: the budget was reached   exit 4\n")
    output = project.run("run", "--fail-under", "0%", code=3)
    assert output.endswith("rate>=0% does not decide: the run had errors   exit 3\n")
    project.write("evals.yaml", suite_of(answers(1, 2)))
    output = project.run("run", "--fail-under", "0%", "--fail-fast", "--workers", "1", code=1)
    assert output.splitlines()[-1].endswith("stopped at the first failure: no rate   exit 1")


def test_a_least_rate_that_is_none_is_refused_before_anything_is_sent(project: Project) -> None:
    project.write("evals.yaml", suite_of(answers(1)))
    assert "write for example 90% or lower:85%" in refusal(project, "run", "--fail-under", "90")
    assert not (project.folder / ".rejoinder" / "runs").exists()


@pytest.mark.slow
def test_exit_codes_of_the_real_command(project: Project) -> None:
    project.write("evals.yaml", suite_of(answers(30, 2)))
    assert run_process(project.folder, "run", "--fail-under", "lower:75%").code == 0
    assert run_process(project.folder, "run", "--fail-under", "95%").code == 1
    ended = run_process(project.folder, "run", "--fail-under", "101%")
    assert (ended.code, ended.out) == (2, "")


def test_a_run_that_goes_on_is_decided_by_its_rate_too(project: Project) -> None:
    project.write("evals.yaml", suite_of(answers(3, 1)))
    project.run("run", code=1)
    assert project.run("resume", "last", "--fail-under", "75%").endswith("exit 0\n")
    assert project.run("resume", "last", "--fail-under", "76%", code=1).endswith("exit 1\n")
