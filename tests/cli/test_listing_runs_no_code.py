"""Commands that list, check or show run no code of the project, wherever it stands: in functions, in scripts, in
`.rejoinder/checks.py`, in recorded runs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from rejoinder.errors import RejoinderError
from tests.kit import Project

TRAP = "import pathlib\npathlib.Path({file!r}).write_text('ran')\n"
FUNCTION = "def f(*values, **more):\n    pathlib.Path({file!r}).write_text('ran')\n    return 'yes'\n"


def write_traps(project: Project) -> None:
    """A project in which everything that could run leaves a trace."""
    trap = (TRAP + FUNCTION).format(file=str(project.folder / "trace"))
    for name in ("evil.py", "package/__init__.py", "package/inner.py", "conftest.py", "sitecustomize.py"):
        project.write(name, trap)
    own = "@check\ndef kind(context):\n    return f()\n"
    project.write(".rejoinder/checks.py", f"from rejoinder import check\n{trap}\n{own}")
    targets = [
        {"name": "function", "provider": "python", "call": "evil:f"},
        {"name": "inner", "provider": "python", "call": "package.inner:f"},
        {
            "name": "command",
            "provider": "cli",
            "command_template": f"touch '{project.folder}/trace'",
            "healthcheck": {"type": "command", "command_template": f"touch '{project.folder}/trace'"},
        },
    ]
    project.write(".rejoinder/targets.yaml", {"targets": targets})
    checks: list[Any] = [
        {"python": "evil:f"},
        {"python": "package.inner:f"},
        {"check": "kind"},
        {"code": f"touch '{project.folder}/trace'; echo true"},
        {"code": [sys.executable, "evil.py"]},
    ]
    suite = {
        "targets": [{"name": "own", "provider": "python", "call": "evil:f"}],
        "target": "own",
        "evals": [{"id": "a", "prompt": "Hi", "checks": checks}],
    }
    project.write("evals.yaml", suite)


def record_run(project: Project) -> None:
    """A run that was killed before its checks, so that `show` has to derive it."""
    command = [sys.executable, "-m", "rejoinder", "run"]
    subprocess.run(
        command,
        cwd=project.folder,
        env={"PATH": "/usr/bin:/bin", "REJOINDER_KILL_AT": "told.queued:1"},
        capture_output=True,
        check=False,
    )
    (project.folder / "trace").unlink()  # the run itself may run code


COMMANDS = {
    "targets": ("targets",),
    "targets of a suite": ("targets", "--suite", "evals.yaml"),
    "targets as JSON": ("targets", "--suite", "evals.yaml", "--format", "json"),
    "validate": ("validate",),
    "validate strictly": ("validate", "--strict", "--format", "json"),
    "prompt": ("prompt",),
    "prompt as JSON": ("prompt", "--format", "json"),
    "models": ("models",),
    "schema": ("schema",),
    "dry run": ("run", "--dry-run"),
    "no code": ("run", "--no-code"),
    "show": ("show",),
    "show as JSON": ("show", "--format", "json", "--verbose"),
    "compare": ("compare", "--targets"),
    "export": ("export", "--to", "json"),
    "verify": ("verify",),
    "runs": ("runs",),
    "report": ("report", "--out", "page.html"),
    "gate": ("gate", "--rule", "rate>=1%"),
    "bless": ("bless",),
    "ci": ("ci", "--comment", "comment.md"),
    "tools without code": ("tools", "--no-code"),
    "cache": ("cache",),
    "completion": ("completion", "bash"),
}


@pytest.mark.slow
@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS.keys())
def test_no_code_of_the_project_is_run(project: Project, arguments: tuple[str, ...]) -> None:
    write_traps(project)
    if arguments[0] in ("show", "compare", "export", "verify", "runs", "report", "gate", "bless", "ci"):
        record_run(project)
    result = project.invoke(*arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit | RejoinderError)
    assert not (project.folder / "trace").exists()


def rows_of(project: Project) -> dict[str, str | None]:
    return {row["name"]: row["missing"] for row in project.run_json("targets")}


def test_the_list_says_what_functions_lack_without_running_them(project: Project) -> None:
    project.write("good.py", "import os\nif True:\n    def answer(request):\n        return 'x'\nother = answer\n")
    project.write("star.py", "from os import *\n")
    project.write("broken.py", "def answer(:\n")
    calls = {
        "function": "good:answer",
        "name": "good:other",
        "import": "good:os",
        "star": "star:anything",
        "installed": "json:loads",
        "no function": "good:nothing",
        "no module": "nowhere_at_all:f",
        "broken": "broken:answer",
    }
    targets = [{"name": name, "provider": "python", "call": call} for name, call in calls.items()]
    project.write(".rejoinder/targets.yaml", {"targets": targets})
    rows = rows_of(project)
    ready = {name for name, missing in rows.items() if missing is None}
    assert ready == {"function", "name", "import", "star", "installed"}
    assert rows["no function"] == "the module `good` has no function `nothing`"
    assert str(rows["no module"]).startswith("there is no module `nowhere_at_all` in ")
    assert "cannot be imported: SyntaxError" in str(rows["broken"])
