"""Programs that use the library have types for everything: pyright in strict mode finds no `Any`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("program.py")
WRONG = """\
from rejoinder import Case, Suite, checks
checks.contains("x", nme="y")
checks.contains(["x"])
checks.levenshtein(expected="x")
Case(promt="x")
Suite(evals=[Case(followups="some")])
checks.finish_reason(1)
"""


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
    assert len(types) == PROGRAM.read_text(encoding="utf-8").count("\nreveal_type(")
    assert [one for one in types if re.search(r"\b(?:Any|Unknown)\b", one)] == []


@pytest.mark.slow
def test_a_wrong_key_is_an_error_of_types(tmp_path: Path) -> None:
    program = tmp_path / "wrong.py"
    program.write_text(WRONG, encoding="utf-8")
    found = found_by_pyright(program, tmp_path)
    assert {one["range"]["start"]["line"] for one in found if one["severity"] == "error"} == set(range(1, 7))
