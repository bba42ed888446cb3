"""`run --watch`: a real child that runs again when one of its files changes, and nothing else."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from rejoinder.cli import watch
from tests.kit import PATIENCE_S, Project
from tests.labs.watch_lab import Watching

pytestmark = pytest.mark.slow

SUITE = """\
targets: [{{name: script, provider: scripted, replies: [yes it is]}}]
target: script
evals:
  - id: {name}
    prompt: Is it?
    checks: [{{contains: "{wanted}"}}]
"""


@pytest.fixture
def watching(project: Project) -> Iterator[Callable[..., Watching]]:
    begun: list[Watching] = []

    def begin(*arguments: str) -> Watching:
        begun.append(Watching(project.folder, *arguments))
        return begun[-1]

    yield begin
    for child in begun:
        child.end()


@pytest.fixture
def two_suites(project: Project, watching: Callable[..., Watching]) -> Watching:
    project.write("one.yaml", SUITE.format(name="one", wanted="yes"))
    project.write("two.yaml", SUITE.format(name="two", wanted="yes"))
    return watching("one.yaml", "two.yaml")


def test_what_a_change_touches_is_run_again(two_suites: Watching, project: Project) -> None:
    assert "2 passed" in two_suites.wait_for("waiting for a change", 1)
    project.write("two.yaml", SUITE.format(name="two", wanted="no"))
    text = two_suites.wait_for("waiting for a change", 2)
    again = text.partition("\ntwo.yaml changed\n")[2]
    assert "two.yaml on script, 1 case" in again
    assert "1 failed" in again
    assert "one.yaml" not in again


def test_a_suite_that_breaks_is_told_and_waited_for(two_suites: Watching, project: Project) -> None:
    two_suites.wait_for("waiting for a change", 1)
    project.write("one.yaml", "evals: [{prompt: hi, cheks: []}]\n")
    two_suites.wait_for("waiting for a change", 2)
    assert "unknown-key" in two_suites.wait_for("one.yaml changed", 1)
    project.write("one.yaml", SUITE.format(name="mended", wanted="yes"))
    assert "Traceback" not in two_suites.wait_for("waiting for a change", 3)


PLAIN = "targets: [{name: script, provider: scripted, replies: [yes it is], judge: [1, 1, 1]}]\ntarget: script\n"
CASE = PLAIN + "evals: [{id: one, prompt: Is it?, checks: [%s]}]\n"
OWN = "def mine(context): return words.HOLDS\n"


class Depends(NamedTuple):
    """What a suite is made of, what is changed, and what is said then."""

    suite: str
    files: dict[str, str]
    changed: dict[str, str]
    says: str
    arguments: tuple[str, ...] = ()


DEPENDS = {
    "a data set in a folder below": Depends(
        PLAIN + "cases: data/rows.jsonl\ndefaults: {checks: [{contains: yes}]}\n",
        {"data/rows.jsonl": '{"id": "a", "prompt": "A?"}\n'},
        {"data/rows.jsonl": '{"id": "a", "prompt": "A?"}\n{"id": "b", "prompt": "B?"}\n'},
        "2 passed",
    ),
    "a file of targets": Depends(
        "target: script\nevals: [{id: one, prompt: Is it?, checks: [{contains: yes}]}]\n",
        {"more/targets.yaml": "targets: [{name: script, provider: scripted, replies: [yes]}]\n"},
        {"more/targets.yaml": "targets: [{name: script, provider: scripted, replies: [no]}]\n"},
        "1 failed",
        ("--targets", "more/targets.yaml"),
    ),
    "a script in a folder below": Depends(
        CASE % f'{{code: "{sys.executable} own/check.py"}}',
        {"own/check.py": """print('{"score": 1}')\n"""},
        {"own/check.py": """print('{"score": 0}')\n"""},
        "1 failed",
    ),
    "a script after a number sign": Depends(
        CASE % f'{{code: "TICKET=a#1 {sys.executable} own/check.py"}}',
        {"own/check.py": """print('{"score": 1}')\n"""},
        {"own/check.py": """print('{"score": 0}')\n"""},
        "1 failed",
    ),
    "a script in a folder of the project": Depends(
        CASE % f"{{code: {{script: [{sys.executable}, check.py], cwd: scripts}}}}",
        {"/scripts/check.py": """print('{"score": 1}')\n"""},
        {"/scripts/check.py": """print('{"score": 0}')\n"""},
        "1 failed",
    ),
    "the script of a target": Depends(
        f"targets: [{{name: bot, provider: cli, command_template: '{sys.executable} own/bot.py {{PROMPT}}'}}]\n"
        "evals: [{id: one, prompt: Is it?, checks: [{contains: yes}]}]\n",
        {"own/bot.py": "print('yes')\n"},
        {"own/bot.py": "print('no')\n"},
        "1 failed",
    ),
    "a judge's prompt": Depends(
        PLAIN + "evals: [{id: one, prompt: Is it?, "
        "execution: {evaluators: [{name: kind, type: llm_judge, prompt: prompts/kind.txt}]}}]\n",
        {"prompts/kind.txt": "Is it kind? {{candidate_answer}}"},
        {"prompts/kind.txt": "Is it rude? {{candidate_answer}}"},
        "1 passed",
    ),
    "a module": Depends(
        CASE % "{python: 'own:mine'}",
        {"own.py": "def mine(context): return True\n"},
        {"own.py": "def mine(context): return None is context\n"},
        "1 failed",
    ),
    "a module that a module of a package imports": Depends(
        CASE % "{python: 'own.checks:mine'}",
        {"own/__init__.py": "", "own/checks.py": f"from own import words\n{OWN}", "own/words.py": "HOLDS = 1 == 1\n"},
        {"own/words.py": "HOLDS = 1 == 2\n"},
        "1 failed",
    ),
    "a module of a mere folder": Depends(
        CASE % "{python: 'own.checks:mine'}",
        {"own/checks.py": f"from own import words\n{OWN}", "own/words.py": "HOLDS = 1 == 1\n"},
        {"own/words.py": "HOLDS = 1 == 2\n"},
        "1 failed",
    ),
    "a module that the project's checks import": Depends(
        CASE % "{check: mine}",
        {
            "/.rejoinder/checks.py": f"from helping import words\nfrom rejoinder import check\n@check\n{OWN}",
            "/helping/words.py": "HOLDS = 1 == 1\n",
        },
        {"/helping/words.py": "HOLDS = 1 == 2\n"},
        "1 failed",
    ),
    "the code of a target": Depends(
        "targets: [{name: own, provider: python, call: 'bots.plain:answer'}]\ntarget: own\n"
        "evals: [{id: one, prompt: Is it?, checks: [{contains: yes}]}]\n",
        {"bots/__init__.py": "", "bots/plain.py": "def answer(request): return 'yes'\n"},
        {"bots/plain.py": "def answer(request): return 'noo'\n"},
        "1 failed",
    ),
    "an environment that was not there": Depends(
        CASE % "{contains: \"{{ env('WORD') }}\"}", {"/.env": "WORD=yes\n"}, {".env": "WORD=never\n"}, "1 failed"
    ),
}


def place(name: str) -> str:
    """A file as seen from the suite, or with a slash from the project."""
    return name if name.startswith("/") else f"suites/{name}"


@pytest.mark.parametrize("what", DEPENDS)
def test_whatever_a_suite_depends_on_is_watched_and_counts_as_it_is(
    project: Project, watching: Callable[..., Watching], what: str
) -> None:
    one = DEPENDS[what]
    project.write("suites/evals.yaml", one.suite)
    for name, text in one.files.items():
        project.write(place(name), text)
    arguments = tuple(f"suites/{word}" if word.endswith(".yaml") else word for word in one.arguments)
    child = watching("suites/evals.yaml", *arguments)
    assert "1 passed" in child.wait_for("waiting for a change", 1)
    for name, text in one.changed.items():
        project.write(place(name), text)
    text = child.wait_for("waiting for a change", 2)
    [changed] = one.changed
    assert one.says in text.partition(f"\n{place(changed).lstrip('/')} changed\n")[2]
    assert "Traceback" not in text


def test_a_module_that_breaks_is_waited_for(project: Project, watching: Callable[..., Watching]) -> None:
    project.write("evals.yaml", CASE % "{python: 'own.checks:mine'}")
    project.write("own/__init__.py", "")
    project.write("own/checks.py", "def mine(context) return True\n")
    child = watching("evals.yaml")
    assert "1 error" in child.wait_for("waiting for a change", 1)
    project.write("own/checks.py", "def mine(context): return True\n")
    assert "1 passed" in child.wait_for("waiting for a change", 2)
    project.write("own/checks.py", "def mine(context): return (\n")
    child.wait_for("waiting for a change", 3)
    project.write("own/checks.py", "def mine(context): return True\n")
    assert child.wait_for("waiting for a change", 4).count("1 passed") == 2


def test_files_are_named_as_seen_from_here(project: Project) -> None:
    here = project.folder
    assert watch._named({here / "prompts/warm.md"}) == "prompts/warm.md"
    assert watch._named({here / "b", here / "a"}) == "a and b"
    assert watch._named({here / str(number) for number in range(5)}) == "0, 1, 2 and 2 more"


def test_ctrl_c_ends_it(two_suites: Watching) -> None:
    two_suites.wait_for("waiting for a change", 1)
    two_suites.process.send_signal(signal.SIGINT)
    assert two_suites.process.wait(PATIENCE_S) == 130
    assert "Traceback" not in two_suites.said.read_text(encoding="utf-8")
