"""Programs that use the library have types for everything: pyright in strict mode finds no `Any`."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rejoinder
from rejoinder.testing.runner import RunKeys

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("program.py")
WRONG = """\
import rejoinder; from rejoinder import Case, Suite, checks
checks.contains("x", nme="y")
checks.contains(["x"])
checks.levenshtein(expected="x")
Case(promt="x")
Suite(evals=[Case(followups="some")])
checks.finish_reason(1)
rejoinder.arunn("evals.yaml")
rejoinder.run("evals.yaml", tagret="demo")
rejoinder.Requests
rejoinder.checks.contians("x")
rejoinder.testing.assert_pased(rejoinder.show())
rejoinder.load({"evals": []}).casse
rejoinder.testing.cases(3)
rejoinder.run("evals.yaml", selection=rejoinder.failed_of())
def test_one(runner: rejoinder.testing.Runner) -> None:
    runner.run("evals.yaml", tagret=3)
    runner.run("evals.yaml", repeat="3")
async def test_two(runner: rejoinder.testing.Runner) -> None:
    await runner.arun("evals.yaml", pace=3)
"""
RIGHT_LINES = ("def ", "async def ")


def found_by_pyright(program: Path, folder: Path) -> list[dict[str, Any]]:
    settings = {
        "include": [program.name],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "reportMissingTypeStubs": False,
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=folder)
    return json.loads(done.stdout)["generalDiagnostics"]


@pytest.mark.slow
def test_a_program_has_no_any(tmp_path: Path) -> None:
    program = tmp_path / PROGRAM.name
    program.write_text(PROGRAM.read_text(encoding="utf-8"), encoding="utf-8")
    found = found_by_pyright(program, tmp_path)
    assert [one["message"] for one in found if one["severity"] != "information"] == []
    types = [one["message"] for one in found]
    assert len(types) == PROGRAM.read_text(encoding="utf-8").count("reveal_type(")
    assert [one for one in types if re.search(r"\b(?:Any|Unknown)\b", one)] == []


@pytest.mark.slow
def test_a_wrong_key_is_an_error_of_types(tmp_path: Path) -> None:
    program = tmp_path / "wrong.py"
    program.write_text(WRONG, encoding="utf-8")
    found = found_by_pyright(program, tmp_path)
    wrong = {number for number, row in enumerate(WRONG.splitlines()) if number and not row.startswith(RIGHT_LINES)}
    assert {one["range"]["start"]["line"] for one in found if one["severity"] == "error"} == wrong


def test_the_options_of_the_fixture_are_those_of_run() -> None:
    parameters = list(inspect.signature(rejoinder.run).parameters)
    assert list(RunKeys.__annotations__) == parameters[1:]


@pytest.mark.parametrize("module", ["rejoinder", "rejoinder.testing", "rejoinder.checks"])
def test_every_name_that_has_a_type_can_be_imported(module: str) -> None:
    found = importlib.import_module(module)
    text = Path(str(found.__file__)).read_text(encoding="utf-8")
    typed = re.findall(rf"^    from {module}(?:\.\S+)? import \w+ as (\w+)$", text, re.MULTILINE)
    assert set(typed) <= set(dir(found)) | set(found.__all__ if module != "rejoinder.checks" else ())
    assert [name for name in typed if getattr(found, name, None) is None] == []


def test_modules_need_no_import_of_their_own() -> None:
    code = "import rejoinder; rejoinder.checks.contains('x'); rejoinder.testing.assert_passed; rejoinder.Request"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
