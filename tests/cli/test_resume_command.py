"""`rejoinder resume` without a name, and what `run --failed` says, after a run that was cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

import rejoinder
from tests.kit import Project, Raw, case, refusal, refused, run, run_folders, run_process, scripted

KILLED = -9


def suite(*replies: object, cases: int = 4) -> Raw:
    evals = [case(f"c{number}", {"contains": "yes"}) for number in range(cases)]
    return {"targets": [scripted("bot", *replies)], "evals": evals}


@pytest.fixture
def killed(project: Project) -> str:
    """The id of a run that was killed after two replies of four."""
    project.write("evals.yaml", suite("yes"))
    ended = run_process(project.folder, "run", "--workers", "1", REJOINDER_KILL_AT="told.queued:3")
    assert ended.code == KILLED
    return run_folders(project.folder)[-1].name


def test_the_latest_unfinished_run_is_resumed_though_a_later_one_has_ended(project: Project, killed: str) -> None:
    later = project.run_json("run")["run"]["id"]
    result = project.invoke("resume", "--format", "json")
    assert f"resuming run {killed}" in result.stderr
    shown = project.run_json("show", killed)
    assert (shown["run"]["status"], shown["summary"]["passed"]) == ("completed", 4)
    message = refused(project, "resume").message
    assert message == f"there is no unfinished run; the latest run is {later}", "both have ended now"


def test_python_takes_the_same_run(project: Project, killed: str) -> None:
    project.run("run")
    assert rejoinder.resume().run.id == killed


def test_an_edited_suite_changes_nothing_that_is_shown_of_a_killed_run(project: Project, killed: str) -> None:
    """It showed 0 cases of the edited suite, and nothing of what was recorded."""
    other = suite("yes", cases=6)
    other["evals"] = [{**one, "id": f"new-{one['id']}"} for one in other["evals"]]
    for edited in (other, "evals: ["):
        project.write("evals.yaml", edited)
        shown = project.run_json("show", killed, code=None)
        assert [one["id"] for one in shown["results"]] == ["c0", "c1"]
        assert (shown["run"]["planned"], shown["summary"]["unfinished"]) == (4, 2)


def test_resume_says_what_changed_and_what_it_plays(project: Project, killed: str) -> None:
    other = suite("yes", cases=5)
    other["evals"] = other["evals"][1:]
    other["evals"][0]["checks"] = [{"contains": "y"}]
    project.write("evals.yaml", other)
    said = project.invoke("resume", "--format", "json").stderr
    assert f"changed since {killed} began: cases and checks; this plays 4 conversations of the suites as they" in said
    assert "and 4 were planned; new: c4; no longer there: c0; recorded replies are used where nothing changed" in said
    assert "changed since" in (run_folders(project.folder)[-1] / "run.log").read_text()
    project.write("evals.yaml", suite("yes"))
    assert "changed since" in project.invoke("resume", killed).stderr, "against the suite that was played last"
    assert "changed since" not in project.invoke("resume", killed).stderr


def test_a_run_that_was_resumed_with_an_edited_suite_is_shown_by_it(project: Project, killed: str) -> None:
    other = suite("yes")
    other["evals"][3]["id"] = "edited"
    project.write("evals.yaml", other)
    run_process(project.folder, "resume", killed, "--workers", "1", REJOINDER_KILL_AT="results.before_rename")
    shown = project.run_json("show", killed, code=None)
    assert [one["id"] for one in shown["results"]] == ["c0", "c1", "c2", "edited"]


def test_a_finished_run_is_not_shown_as_if_it_had_been_resumed(project: Project) -> None:
    one = run(project, suite("no"), code=1)["run"]["id"]
    said = refusal(project, "resume")
    assert "there is no unfinished run" in said and f"rejoinder resume {one}" in said
    assert "passed" not in said.replace("not passed", "")
    assert project.run_json("resume", one, code=1)["run"]["id"] == one, "a run that is named is graded again"


def test_a_run_that_its_budget_ended_is_unfinished(project: Project) -> None:
    priced = [{"text": "yes", "input_tokens": 5, "output_tokens": 5}]
    one = run(project, suite(*priced), "--budget-tokens", "15", "--max-tokens", "5", "--workers", "1", code=None)
    assert one["run"]["status"] == "budget"
    run(project, suite("yes"))
    resumed = project.invoke("resume", "--budget-tokens", "100000", "--format", "json")
    assert one["run"]["id"] in resumed.stderr


def test_errors_are_repeated_only_if_that_is_asked_for(project: Project) -> None:
    first = run(project, suite({"error": "down"}), code=3)["run"]["id"]
    assert f"rejoinder resume {first} --retry-errors" in refusal(project, "resume")
    project.write("evals.yaml", suite("yes"))
    again = project.invoke("resume", "--retry-errors", "--format", "json")
    assert f"resuming run {first}" in again.stderr


def test_an_unfinished_fork_is_named_and_not_taken(project: Project) -> None:
    project.write("evals.yaml", suite("no", cases=1))
    project.run("run", code=1)
    arguments = ("fork", "last", "--case", "c0", "--turn", "1", "--prompt", "Please!")
    assert run_process(project.folder, *arguments, REJOINDER_KILL_AT="told.queued:1").code == KILLED
    fork = run_folders(project.folder)[-1].name
    assert f"rejoinder resume {fork}` continues a fork" in refusal(project, "resume")
    assert project.run_json("resume", fork, code=None)["run"]["id"] == fork


def test_cases_that_were_never_asked_are_not_called_failed(project: Project, killed: str) -> None:
    result = project.invoke("run", "--failed")
    unasked = 2
    assert f"again what did not pass in run {killed}: {unasked} on bot ({unasked} not finished before)" in result.stderr
    assert "failed" not in result.stdout.replace("0 failed", ""), result.stdout
    assert "of the 2 that did not pass before" in result.stdout
    page = Path("page.html")
    project.run("report", "--out", str(page))
    assert f"Only what did not pass in {killed} was run." in page.read_text()


def test_failed_cases_and_unasked_ones_are_told_apart(project: Project) -> None:
    project.write("evals.yaml", suite("no"))
    assert run_process(project.folder, "run", "--workers", "1", REJOINDER_KILL_AT="told.queued:3").code == KILLED
    result = project.invoke("run", "--failed")
    assert ": 4 on bot (2 not finished before)" in result.stderr
