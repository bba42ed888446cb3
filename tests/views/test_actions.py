"""Actions after a run: each command does what it says when it is pasted."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from msgspec import structs

import rejoinder
from rejoinder.engine.run import show_run
from rejoinder.runs.recorded import open_recorded
from rejoinder.runs.report import RunReport
from rejoinder.testing import FakeServer
from rejoinder.views.actions import Action, next_actions
from tests.kit import Project, Raw, behind, case, cases_of, run_folders, scripted

NO = {"equals": "no"}


def report_of(run: str | None = None) -> RunReport:
    return show_run(open_recorded(run))


def proposed(run: str | None = None) -> list[list[str]]:
    return [shlex.split(action.command() or "")[1:] for action in next_actions(report_of(run))]


def asked(project: Project, words: list[str], code: int | None = None) -> list[tuple[str, str | None, str]]:
    """Whom a command asks, in which variant, and with which words of the system."""
    document = project.run_json(*words, "--include", "messages", code=code)
    turns = [(result, result["turns"][0]["messages"]) for result in document["results"]]
    return [(result["target"], result.get("variant"), messages[0]["content"]) for result, messages in turns]


@pytest.fixture
def suite(project: Project) -> Raw:
    content: Raw = {
        "targets": [scripted("good", *["no"] * 9), scripted("bad", *["yes"] * 9)],
        "target": "good",
        "variants": [{"name": "a-b", "system_prompt": "A."}, {"name": "c", "system_prompt": "C."}],
        "evals": [case("k k", NO), case("other", {"match": "*"})],
    }
    project.write("suites/shop floor.yaml", content)
    return content


@pytest.mark.usefixtures("suite")
def test_a_case_is_run_again_as_it_was(project: Project) -> None:
    given = ["-m", "bad", "--variant", "a-b", "--system-prompt", "Be 'brief'.", "--max-tokens", "9"]
    first = asked(project, ["run", "suites/shop floor.yaml", "--case", "k k", *given], code=1)
    shown, again = proposed()
    assert shown == ["show", "--case", "k k"]
    assert again[:2] == ["run", "suites/shop floor.yaml"] and again[-2:] == ["--repeat", "5"]
    assert asked(project, again, code=1) == first * 5 == [("bad", "a-b", "Be 'brief'.")] * 5


def test_a_suite_that_is_found_is_not_named(project: Project) -> None:
    project.write("evals.yaml", {"targets": [scripted("bot", "yes")], "evals": [case("k", NO)]})
    project.run("run", code=1)
    assert proposed()[1] == ["run", "--case", "k", "--repeat", "5"]


def test_failures_are_run_again_from_anywhere_with_their_words(project: Project) -> None:
    evals = [case("a", NO), case("b", NO)]
    project.write("suites/two.yaml", {"targets": [scripted("bot", *["yes"] * 9)], "evals": evals})
    first = asked(project, ["run", "suites/two.yaml", "--system-prompt", "Be brief."], code=1)
    assert proposed()[1] == ["run", "--failed", "--system-prompt", "Be brief."]
    assert asked(project, proposed()[1], code=1) == first
    shown, again = proposed("last~1")  # what names no run means the latest
    run = report_of("last~1").run.id
    assert shown == ["show", run, "--case", "a"] and again[:3] == ["run", "--failed-from", run]
    (project.folder / "suites/two.yaml").unlink()
    assert proposed() == [["show", "--case", "a"]]


def test_a_fork_is_not_run_again_with_the_words_of_the_suite(project: Project) -> None:
    project.write("evals.yaml", {"targets": [scripted("bot", *["yes"] * 9)], "evals": [case("k", NO)]})
    project.run("run", code=1)
    project.run("fork", "--case", "k", "--prompt", "Other words", code=1)
    fork = run_folders(project.folder)[-1].name
    assert proposed(fork) == [["show", fork, "--case", "k"]], "it is never the latest run, so it is named"


@pytest.mark.parametrize("file", ["evals.yaml", "suites/own.yaml"])
def test_a_dead_target_of_a_suite_is_found(project: Project, file: str) -> None:
    dead = {"name": "dead", "provider": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key": "key"}
    project.write(file, {"targets": [{**dead, "max_retries": 0}], "evals": cases_of(3, {"match": "*"})})
    project.run("run", file, "--workers", "1", "--max-retries", "0", code=3)
    report = report_of()
    assert [one.target for one in report.run.given_up] == ["dead"]
    check = proposed()[0]
    assert check == ["targets", "check", "dead", *([] if file == "evals.yaml" else ["--suite", file])]
    [row] = project.run_json(*check, code=3)
    assert row["name"] == "dead"


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["--budget-tokens", "--budget-usd"])
@pytest.mark.parametrize("follow_up", [False, True])
def test_the_proposed_budget_is_enough_for_all_the_rest(project: Project, budget: str, follow_up: bool) -> None:
    more: list[Any] = [{"prompt": "Are you sure of that?", "checks": [NO]}] if follow_up else []
    project.write(".rejoinder/config.yaml", {"prices": {"bot": {"input": 1, "output": 2}}})
    with FakeServer("yes, that is so") as server:
        target = behind(server, "bot", max_tokens=40)
        project.write("evals.yaml", {"targets": [target], "evals": cases_of(40, NO, *more)})
        few = {"--budget-tokens": "200", "--budget-usd": "0.0003"}[budget]
        project.run("run", budget, few, "--workers", "1", code=4)
        assert report_of().summary.unfinished > 20, "twice as much would not be enough"
        [resume] = proposed()
        assert resume[0] == "resume" and resume[2] == budget
        ended = project.run_json(*resume, code=1)
    assert ended["run"]["status"] == "completed" and len(ended["results"]) == 40


@pytest.mark.parametrize(
    ("in_doubt", "says"),
    [
        (0, "recorded replies are reused"),
        (1, "the cut off call is asked again"),
        (2, "the 2 cut off calls are asked again"),
    ],
)
def test_calls_that_were_cut_off_are_asked_again(project: Project, in_doubt: int, says: str) -> None:
    project.write("evals.yaml", {"targets": [scripted("bot", "yes")], "evals": cases_of(3, {"match": "*"})})
    project.run("run", code=0)
    report = report_of()
    run = structs.replace(report.run, status="interrupted", in_doubt=in_doubt)
    ended = structs.replace(report, run=run, summary=structs.replace(report.summary, unfinished=3))
    [action] = next_actions(ended)
    assert action.why == f"the other 3; {says}"


@pytest.mark.usefixtures("suite")
def test_an_action_is_data_for_programs(project: Project) -> None:
    project.run("run", "suites/shop floor.yaml", "--case", "k k", "-m", "bad", "--variant", "a-b", code=1)
    shown, again = next_actions(report_of())
    assert shown == Action("show", ("--case", "k k"), "the whole conversation")
    assert shown.command() == "rejoinder show --case 'k k'"
    assert (again.verb, again.arguments[0], again.why) == ("run", "suites/shop floor.yaml", "is it chance?")
    assert Action("targets check", ("bot",), "try one call").command() == "rejoinder targets check bot"
    assert Action("show", ("--case", "a\x1b[2J"), "the whole conversation").command() is None


def test_a_run_of_another_project_has_no_actions(
    project: Project, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("evals.yaml", {"targets": [scripted("bot", "yes")], "evals": [case("k", NO)]})
    project.run("run", code=1)
    report = report_of()
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert next_actions(report) == ()


def test_python_programs_get_the_next_steps_of_a_run(project: Project) -> None:
    project.write("evals.yaml", {"targets": [scripted("bot", "yes")], "evals": [case("k", NO)]})
    report = rejoinder.run("evals.yaml")
    steps = rejoinder.next_steps(report)
    assert steps == rejoinder.next_steps() == rejoinder.next_steps(report.run.id)
    assert [step.command() for step in steps] == ["rejoinder show --case k", "rejoinder run --case k --repeat 5"]
    assert all(isinstance(step, rejoinder.Action) for step in steps)
