"""What a run was made from: its receipt tells the commit and digests, and every list says what changed in words."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rejoinder.model.inputs import Change, Digests, GitState, Inputs, changes_of
from rejoinder.project.git_state import read_git_state
from tests.kit import Project, Raw, case, run, scripted, spec

SUITE: Raw = {
    "targets": [scripted("bot", "yes")],
    "metadata": {"system_prompt": "Be kind."},
    "evals": [case("a", {"match": "yes"}), case("b", {"match": "yes"})],
}


def git(folder: Path, *words: str) -> None:
    own = ["-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(project: Project) -> Project:
    git(project.folder, "init", "-q")
    project.write(".gitignore", ".rejoinder/\n")
    project.write("bot.py", "x = 1\n")
    project.write("evals.yaml", SUITE)
    git(project.folder, "add", ".")
    git(project.folder, "commit", "-qm", "one")
    return project


@spec("3B")
def test_a_receipt_has_the_commit_and_whether_files_differ(repository: Project) -> None:
    first = run(repository, SUITE)["run"]
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository.folder, check=True, capture_output=True)
    assert first["git"] == {"commit": head.stdout.decode().strip(), "dirty": False}
    repository.write("bot.py", "x = 2\n")
    assert run(repository, SUITE)["run"]["git"]["dirty"] is True


def test_without_a_repository_or_git_nothing_is_told(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(project, SUITE)["run"]["git"] is None
    git(project.folder, "init", "-q")
    assert run(project, SUITE)["run"]["git"] is None  # no commit yet
    monkeypatch.setenv("PATH", str(project.folder))
    assert read_git_state(project.folder) is None


HOSTILE = {
    "monitor": "[core]\n\tfsmonitor = {script}\n",
    "hooks": "[core]\n\thooksPath = {folder}\n",
    "filter": '[filter "x"]\n\tclean = {script}\n\tprocess = {script}\n\trequired = true\n',
    "filter beside": '[core] [FILTER "x"] clean = {script}\n',
    "included": "[include]\n\tpath = {folder}/more\n",
    "included if": '[includeIf "gitdir:**"]\n\tpath = {folder}/more\n',
    "difference": '[diff "x"]\n\tcommand = {script}\n\ttextconv = {script}\n[diff]\n\texternal = {script}\n',
    "pager": "[core]\n\tpager = {script}\n\teditor = {script}\n[alias]\n\tstatus = !{script}\n",
    "promisor": '[remote "origin"]\n\turl = ext::{script}\n\tpromisor = true\n[core]\n\tsshCommand = {script}\n',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_repository_runs_nothing(name: str, repository: Project) -> None:
    folder = repository.folder
    script = repository.write("evil/pre-commit", f"#!/bin/sh\ntouch {folder}/ran\ncat\n")
    script.chmod(0o755)
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        repository.write(f"evil/{hook}", script.read_bytes()).chmod(0o755)
    more = f'[filter "x"]\n\tclean = {script}\n'
    repository.write("evil/more", more)
    repository.write(".gitattributes", "* filter=x diff=x\n")
    with (folder / ".git" / "config").open("a") as config:
        config.write(HOSTILE[name].format(script=script, folder=script.parent))
    repository.write("bot.py", "x = 3\n")
    os.utime(folder / "evals.yaml")
    state = read_git_state(folder)
    assert state is not None and state.dirty is (None if "filter" in name or "included" in name else True)
    assert not (folder / "ran").exists()


DIGESTS = Digests(prompts="a" * 64, cases="b" * 64, checks="c" * 64, targets="d" * 64)
ONE, TWO = "1" * 40, "2" * 40


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (Inputs(), Inputs(GitState(ONE, False), DIGESTS), []),
        (Inputs(GitState(ONE, False)), Inputs(GitState(ONE, False)), []),
        (Inputs(GitState(ONE, False)), Inputs(GitState(TWO, False)), ["code: 11111111 and 22222222"]),
        (
            Inputs(GitState(ONE, False)),
            Inputs(GitState(ONE, True)),
            ["code: 11111111 and 11111111 with uncommitted changes"],
        ),
        (
            Inputs(GitState(ONE, True)),
            Inputs(GitState(ONE, True)),
            ["code, perhaps: both had uncommitted changes on 11111111"],
        ),
        (Inputs(models={"a": "x", "b": "y"}), Inputs(models={"a": "z", "c": "y"}), ["model of a: x and z"]),
    ],
)
def test_differences_in_words(before: Inputs, now: Inputs, words: list[str]) -> None:
    assert [one.words for one in changes_of(before, now)] == words


CHANGED: dict[str, tuple[Raw, list[str]]] = {
    "nothing": (SUITE, []),
    "order": ({**SUITE, "evals": SUITE["evals"][::-1]}, []),
    "prompt": ({**SUITE, "metadata": {"system_prompt": "Be curt."}}, ["prompt"]),
    "cases": ({**SUITE, "evals": [*SUITE["evals"], case("c", {"match": "yes"})]}, ["cases"]),
    "checks": ({**SUITE, "evals": [case("a", {"match": "y*"}), SUITE["evals"][1]]}, ["checks"]),
    "targets": ({**SUITE, "targets": [scripted("bot", "yes", "no")]}, ["settings of targets"]),
}


@pytest.mark.parametrize("name", CHANGED)
def test_lists_say_what_changed(name: str, project: Project) -> None:
    other, words = CHANGED[name]
    run(project, SUITE)
    run(project, f"# a line above\n# and another\n{project.write('x', other).read_text()}")
    latest = project.run_json("runs")[0]
    assert latest.get("changed", []) == words
    compared = project.run_json("compare")["changed"]
    assert bool(compared) is bool(words)
    assert ("  changed: " + "; ".join(words) in project.run("runs")) is bool(words)


def test_the_comment_says_what_changed_since_the_baseline(repository: Project) -> None:
    run(repository, SUITE)
    repository.run("baseline", "save", "--name", "main")
    repository.write("bot.py", "x = 2\n")
    run(repository, {**SUITE, "metadata": {"system_prompt": "Be curt."}})
    repository.run("ci", "--against", "main", "--comment", "comment.md")
    comment = (repository.folder / "comment.md").read_text()
    assert "Changed since: `prompt`; `code: " in comment and "with uncommitted changes" in comment


def test_a_change_has_a_kind() -> None:
    found = changes_of(Inputs(digests=DIGESTS), Inputs(digests=Digests(**{**_fields(DIGESTS), "checks": "e" * 64})))
    assert found == (Change("checks", "checks"),)


def _fields(digests: Digests) -> dict[str, str]:
    return {name: getattr(digests, name) for name in Digests.__struct_fields__}
