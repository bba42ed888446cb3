"""What a run was made from: its receipt tells the commit and digests, and every list says what changed in words."""

from __future__ import annotations

import importlib
import linecache
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import rejoinder
from rejoinder.model.inputs import MOST_SOURCES, Change, Digests, GitState, Inputs, changes_of
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


def with_code(**code: str) -> Digests:
    return structs.replace(DIGESTS, code=code)


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
        (Inputs(digests=DIGESTS), Inputs(digests=with_code(bot="1" * 64)), []),
        (Inputs(digests=with_code(bot="1" * 64)), Inputs(digests=with_code(bot="2" * 64)), ["code of bot"]),
        (
            Inputs(GitState(ONE, True), with_code(bot="1" * 64)),
            Inputs(GitState(ONE, True), with_code(bot="2" * 64)),
            ["code of bot"],
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


CALLED: Raw = {
    "targets": [{"name": "bot", "provider": "python", "call": "answerers.mine:reply"}],
    "target": "bot",
    "evals": [
        case("a", {"or": [{"python": "own.judging:kind"}, {"code": ["./look.sh"]}]}),
        case("b", {"check": "polite"}),
    ],
}
CODE = {
    "answerers/mine.py": "def reply(messages): return 'yes'\n",
    "tools.py": "def find(): return 1\n",
    "own/judging.py": "def kind(evidence): return True\n",
    "look.sh": "#!/bin/sh\necho '{\"passed\": true}'\n",
    ".rejoinder/checks.py": "import rejoinder\n@rejoinder.check\ndef polite(evidence): return True\n",
}


@pytest.mark.parametrize("file", CODE)
def test_code_that_changed_is_named_without_git(file: str, project: Project) -> None:
    suite = CALLED if file != "tools.py" else {**SUITE, "tools": [{"python": "tools:find"}]}
    for name, text in CODE.items():
        project.write(name, text).chmod(0o755)
    project.write("other.py", "")
    run(project, suite)
    project.write("other.py", "x = 1\n")
    assert run_again(project, suite).get("changed", []) == []
    project.write(file, CODE[file] + "# another one\n")
    assert run_again(project, suite)["changed"] == [f"code of {file}"]
    assert project.run_json("compare")["changed"] == [f"code of {file}"]


def run_again(project: Project, suite: Raw) -> dict[str, Any]:
    run(project, suite, code=None)
    return project.run_json("runs")[0]


def test_a_python_object_that_changed_is_named(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.folder)
    monkeypatch.syspath_prepend(project.folder)
    monkeypatch.delitem(sys.modules, "bots", raising=False)
    project.write("evals.yaml", SUITE)
    reports: list[rejoinder.RunReport] = []
    for reply in ("yes", "yes", "not"):
        project.write("bots.py", f"def shop(request):\n    return {reply!r}\n")
        linecache.clearcache()
        module = importlib.import_module("bots")
        reports.append(rejoinder.run("evals.yaml", target=module.shop))
        del sys.modules["bots"]
    first, same, other = reports
    assert rejoinder.compare(first, same).changed == ()
    assert rejoinder.compare(first, other).changed == ("code of shop",)


def test_a_secret_in_code_is_hidden_before_it_is_hashed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the digest would tell whether a guess is right."""
    monkeypatch.setenv("BOT_API_KEY", "a-secret-of-mine")
    script = project.write("bot.sh", "#!/bin/sh\n# a-secret-of-mine\necho yes\n")
    script.chmod(0o755)
    target = {"name": "bot", "provider": "cli", "command": ["./bot.sh"], "env": {"KEY": "${{ BOT_API_KEY }}"}}
    code = run(project, {**SUITE, "targets": [target]})["run"]["digests"]["code"]
    assert list(code) == ["bot.sh"] and code["bot.sh"] != sha256(script.read_bytes()).hexdigest()


def test_of_many_files_the_last_share_a_digest(project: Project) -> None:
    for number in range(30):
        project.write(f"m{number}.py", "def kind(evidence): return True\n")
    cases = [case(f"c{number}", {"python": f"m{number}:kind"}) for number in range(30)]
    suite = {**SUITE, "evals": cases}
    code = run(project, suite)["run"]["digests"]["code"]
    assert len(code) == MOST_SOURCES and "other files" in code
    project.write("m9.py", "def kind(evidence): return 1 == 1\n")
    assert run_again(project, suite)["changed"] == ["code of other files"]


def test_the_comment_says_what_changed_since_the_baseline(repository: Project) -> None:
    run(repository, SUITE)
    repository.run("baseline", "save", "--name", "main")
    repository.write("bot.py", "x = 2\n")
    run(repository, {**SUITE, "metadata": {"system_prompt": "Be curt."}})
    repository.run("ci", "--against", "main", "--comment", "comment.md")
    comment = (repository.folder / "comment.md").read_text()
    assert "Changed since: `prompt`; `code: " in comment and "with uncommitted changes" in comment


def test_a_change_has_a_kind() -> None:
    found = changes_of(Inputs(digests=DIGESTS), Inputs(digests=structs.replace(DIGESTS, checks="e" * 64)))
    assert found == (Change("checks", "checks"),)
