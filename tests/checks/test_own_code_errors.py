"""Errors in the user's own code: the message names the line that raised, and run.log has the traceback once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit import Project, scripted

SECRET = "sk-live-0123456789abcdef"
BOT = """\
import os

def inner(found):
    return found["answer"]

def reply(request):
    return inner({})

async def later(request):
    return inner({})

class Bot:
    def __call__(self, request):
        return inner({})

bot = Bot()

def leak(request):
    raise RuntimeError("the key is " + os.environ["SHOP_KEY"])

def judge(context):
    return inner({})
"""


def suite(call: str = "bot:reply", checks: list[Any] | None = None, cases: int = 3, **more: Any) -> dict[str, Any]:
    targets = [{"name": "mine", "provider": "python", "call": call}]
    if checks is not None:
        targets = [scripted("mine", "Hello.")]
    evals = [{"id": f"c{number}", "prompt": "Hi", "checks": checks or [{"contains": "x"}]} for number in range(cases)]
    return {"targets": targets, "evals": evals, **more}


def log_of(project: Project) -> tuple[Path, str]:
    [log] = project.folder.glob(".rejoinder/runs/*/run.log")
    return log, log.read_text("utf-8")


@pytest.mark.parametrize(
    ("call", "place"),
    [("reply", "in reply"), ("later", "in later"), ("bot", "in __call__")],
    ids=["sync", "async", "object"],
)
def test_the_message_names_the_line_that_raised(project: Project, call: str, place: str) -> None:
    project.write("bot.py", BOT)
    project.write("evals.yaml", suite(f"bot:{call}"))
    printed = project.run("run", code=3)
    assert f"`bot:{call}` raised KeyError: 'answer' (bot.py:4 in inner)" in printed
    log, text = log_of(project)
    assert f"traceback: {log.relative_to(project.folder)}" in printed
    assert text.count("Traceback (most recent call last)") == 1  # three conversations, one error
    assert place in text
    assert 'return found["answer"]' in text
    assert "functions.py" not in text


def test_show_says_where_the_traceback_is(project: Project) -> None:
    project.write("bot.py", BOT)
    project.write("evals.yaml", suite())
    project.run("run", code=3)
    assert f"traceback: {log_of(project)[0].relative_to(project.folder)}" in project.run("show")


def test_errors_at_two_places_are_logged_twice(project: Project) -> None:
    project.write("bot.py", "def reply(request):\n    if request.case_id == 'c0':\n        1 / 0\n    [][0]\n")
    project.write("evals.yaml", suite())
    printed = project.run("run", code=3)
    assert "(bot.py:3 in reply)" in printed
    assert "(bot.py:4 in reply)" in printed
    assert log_of(project)[1].count("Traceback") == 2


def test_a_run_without_errors_of_own_code_names_no_traceback(project: Project) -> None:
    project.write("bot.py", "def reply(request):\n    return 'x'\n")
    project.write("evals.yaml", suite())
    assert "traceback" not in project.run("run")


@pytest.mark.parametrize("check", [{"python": "bot:judge"}, {"check": "judge"}], ids=["python", "own check"])
def test_a_check_that_raises_names_its_line(project: Project, check: dict[str, Any]) -> None:
    project.write("bot.py", BOT)
    project.write(
        ".rejoinder/checks.py",
        "import rejoinder\nfrom bot import inner\n\n@rejoinder.check\ndef judge(context):\n    inner({})\n",
    )
    project.write("evals.yaml", suite(checks=[check]))
    printed = project.run("run", code=3)
    assert "raised KeyError: 'answer' (bot.py:4 in inner)" in printed
    assert log_of(project)[1].count("Traceback") == 1


def test_a_check_that_cannot_be_imported_names_its_line(project: Project) -> None:
    project.write("judges.py", "x = 1\ny = {}['SHOP_KEY']\n")
    project.write("evals.yaml", suite(checks=[{"python": "judges:judge"}]))
    assert "cannot be imported: KeyError: 'SHOP_KEY' (judges.py:2)" in project.run("run", code=3)
    assert log_of(project)[1].count("Traceback") == 1


def test_an_assertion_of_a_check_is_a_verdict_and_no_error(project: Project) -> None:
    project.write("judges.py", "def judge(context):\n    assert False, 'too short'\n")
    project.write("evals.yaml", suite(checks=[{"python": "judges:judge"}]))
    assert "too short" in project.run("run", code=1)
    assert "Traceback" not in log_of(project)[1]


def test_a_target_that_cannot_be_imported_shows_its_traceback(project: Project) -> None:
    """There is no run, so there is no log."""
    project.write("lib/config.py", "import os\nKEY = {}['SHOP_KEY']\n")
    project.write("bot.py", "from lib import config\n")
    project.write("evals.yaml", suite())
    error = message(project, "run")
    assert "target `mine` (evals.yaml:1): the module of `bot:reply` cannot be imported" in error
    assert "KeyError: 'SHOP_KEY' (lib/config.py:2)" in error
    assert "KEY = {}['SHOP_KEY']" in error
    assert not list(project.folder.glob(".rejoinder/runs/*/run.json"))


def test_a_syntax_error_names_its_line(project: Project) -> None:
    project.write("bot.py", "x = 1\ndef reply(:\n")
    project.write("evals.yaml", suite())
    assert "SyntaxError: invalid syntax (bot.py:2)" in message(project, "run")


def test_a_module_that_is_not_there_is_looked_for_by_name(project: Project) -> None:
    project.write("bot.py", BOT)
    project.write("suites/evals.yaml", suite("bott:reply"))
    error = message(project, "run", "suites/evals.yaml")
    assert "target `mine` (suites/evals.yaml:1): `bott:reply` is not there" in error
    assert f"{project.folder / 'suites'} and {project.folder}" in error
    assert "did you mean `bot`?" in error
    assert "Traceback" not in error


def test_a_package_that_is_missing_is_told_from_the_own_module(project: Project) -> None:
    project.write("bot.py", "import json\nimport not_installed_here\n")
    project.write("evals.yaml", suite())
    error = message(project, "run")
    assert "there is no module `not_installed_here`" in error
    assert "-m pip install not_installed_here" in error
    assert "(bot.py:2)" in error


@pytest.mark.parametrize("when", ["reply", "import"])
def test_secrets_are_hidden_in_the_message_and_in_the_traceback(project: Project, when: str) -> None:
    project.write(".env", f"SHOP_KEY={SECRET}\n")
    leak = (
        f"import os\n{'' if when == 'import' else 'def reply(request): '}raise RuntimeError(os.environ['SHOP_KEY'])\n"
    )
    project.write("bot.py", leak)
    project.write("evals.yaml", suite())
    done = project.invoke("run")
    printed = f"{done.output}{done.exception}"
    assert "RuntimeError" in printed
    assert SECRET not in printed
    for file in project.folder.glob(".rejoinder/**/*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


def message(project: Project, *arguments: str) -> str:
    """The error that a command ends with, as it is shown."""
    error = project.invoke(*arguments).exception
    assert error is not None
    return str(error)
