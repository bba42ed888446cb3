"""Which run a command means: `last`, `last~1`, a missing name, parts of ids, names of baselines."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

import rejoinder
from rejoinder.model.runs import is_run_id
from rejoinder.runs.folder import new_run_id, reserve_run_id
from tests.kit import Project, Raw, case, refused, run, run_folders, scripted


def suite(*replies: str, **more: Any) -> Raw:
    return {
        "metadata": {"name": "capitals"},
        "targets": [scripted("bot", *replies)],
        "evals": [case(name, {"contains": "yes"}) for name in ("france", "spain")],
        **more,
    }


@pytest.fixture
def forked(project: Project) -> tuple[str, str]:
    """The id of a run whose cases all failed, and of a later fork of it that passed."""
    failed = run(project, suite("no"), code=1)["run"]["id"]
    project.write("evals.yaml", json.dumps(suite("yes")))
    project.run("fork", "last", "--case", "france", "--turn", "1", "--prompt", "Please!")
    fork = run_folders(project.folder)[-1].name
    project.write("evals.yaml", json.dumps(suite("no")))
    assert fork != failed
    return failed, fork


def run_as(name: str, project: Project, *replies: str) -> str:
    """A run that has this id."""
    reserve_run_id(name)
    return run(project, suite(*replies))["run"]["id"]


@pytest.mark.parametrize("words", [(), ("last",)])
def test_show_means_the_latest_run_that_is_no_fork(
    project: Project, forked: tuple[str, str], words: tuple[str, ...]
) -> None:
    failed, fork = forked
    shown = project.run_json("show", *words)
    assert shown["run"]["id"] == failed and shown["summary"]["failed"] == 2
    assert project.run_json("show", fork)["summary"]["passed"] == 1, "a fork is found by its id"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("verify",), 0),
        (("report", "--out", "r.html"), 0),
        (("export", "--to", "markdown"), 0),
        (("bless",), 0),
        (("gate", "--rule", "rate>=50%"), 1),
        (("replay",), 1),
        (("ci",), 0),
    ],
)
def test_every_command_means_the_same_run(
    project: Project, forked: tuple[str, str], command: tuple[str, ...], code: int
) -> None:
    failed, fork = forked
    result = project.invoke(*command)
    assert result.exit_code == code, result.output
    said = result.stdout + result.stderr
    said += "".join(
        path.read_text() for path in [Path("r.html"), Path(".rejoinder/baselines/main.json")] if path.exists()
    )
    assert fork not in said
    if command[0] in ("verify", "report", "bless", "gate"):
        assert failed in said


def test_a_gate_does_not_pass_on_a_fork(project: Project, forked: tuple[str, str]) -> None:
    found = project.run_json("gate", "--rule", "rate>=50%", code=1)
    assert found["run"] == forked[0] and found["verdict"] == "fail"


def test_compare_takes_no_fork_for_the_run_before_or_after(project: Project, forked: tuple[str, str]) -> None:
    assert "there is no other run of the suites" in refused(project, "compare").message
    later = run(project, suite("yes"))["run"]["id"]
    project.run("fork", later, "--case", "france", "--turn", "1", "--prompt", "Please!")
    found = project.run_json("compare", code=None)
    assert (found["a"], found["b"]) == (forked[0], later)
    named = project.run_json("compare", forked[0], code=None)
    assert (named["a"], named["b"]) == (forked[0], later)


def test_counting_back_passes_forks_over(project: Project, forked: tuple[str, str]) -> None:
    later = run(project, suite("yes"))["run"]["id"]
    assert project.run_json("show", "last")["run"]["id"] == later
    assert project.run_json("show", "last~1")["run"]["id"] == forked[0]
    assert project.run_json("show", "capitals~1")["run"]["id"] == forked[0], "the name of a suite means the same"
    assert "the project has 2 runs" in refused(project, "show", "last~2").message


def test_a_regrade_is_not_the_latest_run(project: Project) -> None:
    first = run(project, suite("no"), code=1)["run"]["id"]
    project.run("grade", code=1)
    assert project.run_json("show")["run"]["id"] == first
    listed = project.run_json("runs")
    assert [row["grade_of"] for row in listed] == [first, None]


def test_where_there_are_only_forks_one_has_to_be_named(project: Project, forked: tuple[str, str]) -> None:
    failed, fork = forked
    shutil.rmtree(project.folder / ".rejoinder" / "runs" / failed)
    error = refused(project, "show")
    assert "the project has only forks" in error.message and "by its id" in error.hint
    assert project.run_json("show", fork)["run"]["id"] == fork


def test_lists_mark_forks_and_the_latest_run(project: Project, forked: tuple[str, str]) -> None:
    failed, fork = forked
    lines = {line.split()[0]: line for line in project.run("runs").splitlines() if line.startswith("20")}
    assert f"(fork of {failed})" in lines[fork] and f"{fork} last" not in lines[fork]
    assert f"{failed} last" in lines[failed]
    assert [row["fork_of"] for row in project.run_json("runs")] == [failed, None]


def test_python_means_the_same_run(project: Project, forked: tuple[str, str]) -> None:
    assert rejoinder.show().run.id == forked[0]
    assert rejoinder.show("last").run.id == forked[0]


@pytest.mark.parametrize("name", ["a", "b2", "0a1"])
def test_less_than_four_characters_name_no_run(project: Project, name: str) -> None:
    for one in ("20260101-000000-b0a1", "20260101-000001-00b2", "20260101-000002-000a"):
        run_as(one, project, "yes")
    for command in (("show", name), ("compare", name, "last"), ("verify", name), ("runs", "tag", name, "x")):
        error = refused(project, *command)
        assert error.message == f"there is no run `{name}`"
        assert "needs 4 characters" in error.hint and "rejoinder runs" in error.hint
    gate = refused(project, "gate", "--against", name)
    assert f"there is neither a baseline nor a run `{name}`" in gate.message


def test_four_characters_name_a_run(project: Project) -> None:
    one = run(project, suite("yes"))["run"]["id"]
    assert project.run_json("show", one[-4:])["run"]["id"] == one
    assert project.run_json("show", one[:4])["run"]["id"] == one


def test_a_baseline_has_its_name_before_a_run(project: Project) -> None:
    """A name such as `beef` may end an id and name a baseline."""
    good = run(project, suite("yes"))["run"]["id"]
    bad = run(project, suite("no"), code=1)["run"]["id"]
    beef = run_as("20260101-000000-beef", project, "no")
    assert project.run_json("show", "beef")["run"]["id"] == beef
    project.run("bless", good, "--name", "beef")
    found = project.run_json("gate", bad, "--against", "beef", code=None)
    assert found["against"] == good
    assert project.run_json("compare", "beef", bad, code=None)["a"] == good
    assert rejoinder.compare("beef", bad).a.run == good


def test_ids_are_of_a_time_and_eight_digits(project: Project) -> None:
    ids = [run(project, suite("yes"))["run"]["id"] for _ in range(3)]
    assert all(re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{8}", one) for one in ids)
    assert ids == sorted(ids), "later runs come later, also within a second"


def test_many_ids_of_one_moment_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that start at the same moment on many machines: sixteen ids a millisecond were too few."""
    monkeypatch.setattr(time, "time", lambda: 1_794_981_800.25)
    ids = [new_run_id() for _ in range(100)]
    assert len(set(ids)) > 97 and all(map(is_run_id, ids))


def test_runs_with_ids_of_earlier_versions_are_still_known(project: Project) -> None:
    old = run_as("20260101-000000-beef", project, "no")
    new = run(project, suite("yes"))["run"]["id"]
    assert [row["id"] for row in project.run_json("runs")] == [new, old]
    for name in ("beef", "20260101", old, "last~1"):
        assert project.run_json("show", name)["run"]["id"] == old
    assert project.run_json("compare", code=None)["a"] == old
    assert project.run_json("resume", old)["run"]["id"] == old
    assert "intact" in project.run("verify", old)
