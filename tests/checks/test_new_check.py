"""A new check needs its struct and its function, and a plug-in check its function: no list of names anywhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import rejoinder
from tests.conftest import Project

ROOT = Path(__file__).parents[2]
START = ROOT / "docs" / "design" / "README.md"


def on_the_page(beginning: str) -> str:
    """The block of the start page that begins so: what a newcomer pastes."""
    blocks = re.findall(r"^ +```python\n(.*?)^ +```", START.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    [found] = [block for block in map(textwrap.dedent, blocks) if block.startswith(beginning)]
    return found


STRUCT = (
    "\n"
    + on_the_page("class MaxLines")
    + '''

class HasLine(Check, frozen=True, tag="has_line"):
    """The reply has to have this line."""

    line: Word


class Item('''
)
FUNCTIONS = (
    "\n\n"
    + on_the_page("@grades(kinds.MaxLines)")
    + """

@grades(kinds.HasLine)
def grade_has_line(check: kinds.HasLine, context: Context) -> Verdict:
    return verdict(check, check.line, check.line in context.reply.text.splitlines(), "looked at each line")
"""
)


class Package:
    """A copy of the package, with the command and the script that writes the schema."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "src" / "rejoinder"
        shutil.copytree(Path(rejoinder.__file__).parent, self.source, ignore=shutil.ignore_patterns("__pycache__"))
        self.environment = {**os.environ, "PYTHONPATH": str(folder / "src")}

    def add_checks(self) -> None:
        structs, functions = self.source / "model" / "checks.py", self.source / "checks" / "text.py"
        structs.write_text(structs.read_text(encoding="utf-8").replace("\nclass Item(", STRUCT, 1), encoding="utf-8")
        functions.write_text(functions.read_text(encoding="utf-8") + FUNCTIONS, encoding="utf-8")
        self.python(str(ROOT / "scripts" / "write_schema.py"))

    def python(self, *arguments: str, cwd: Path | None = None, code: int = 0) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=self.environment, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def package(tmp_path: Path) -> Package:
    package = Package(tmp_path)
    package.add_checks()
    return package


@pytest.mark.slow
def test_struct_and_function_are_all_that_a_check_needs(package: Package, project: Project) -> None:
    reply = {"name": "it", "provider": "scripted", "replies": ["one\ntwo"]}
    checks = [{"max_lines": 1}, {"not": {"max_lines": 2}}, {"has_line": "{{ word }}"}, {"max_lines": 5, "weight": 2}]
    suite = {"target": "it", "targets": [reply], "evals": [{"prompt": "Q", "vars": {"word": "two"}, "checks": checks}]}
    project.write("evals.yaml", suite)
    shown = package.python("-m", "rejoinder", "run", "-v", "evals.yaml", cwd=project.folder, code=1)
    assert "max_lines 1\n" in shown and "max_lines 5\n" in shown and 'has_line "two"\n' in shown
    assert "max_lines 1: 2 lines" in shown
    found = json.loads(package.python("-m", "rejoinder", "show", "--format", "json", cwd=project.folder))
    first, second, third, _ = found["results"][0]["turns"][0]["checks"]
    assert (first["kind"], first["value"], first["passed"]) == ("max_lines", 1, False)
    assert second["children"][0]["kind"] == "max_lines" and third["passed"]


@pytest.mark.slow
def test_validate_knows_a_new_check_by_its_struct(package: Package, project: Project) -> None:
    suite = {
        "target": "x",
        "evals": [{"prompt": "Q", "checks": [{"max_lines": -1}, {"max_line": 2}, {"has_line": ""}]}],
    }
    project.write("evals.yaml", suite)
    shown = package.python("-m", "rejoinder", "validate", "evals.yaml", cwd=project.folder, code=2)
    assert "`max_lines` must be at least 0, not -1" in shown
    assert "there is no check `max_line`; did you mean `max_lines`?" in shown
    assert "`has_line` is empty" in shown


def test_plugin_check_needs_its_function_alone(project: Project) -> None:
    project.write(
        ".rejoinder/checks.py",
        "import rejoinder\n"
        "@rejoinder.check\n"
        "def max_lines(context, limit): return len(context.reply.splitlines()) <= limit\n",
    )
    reply = {"name": "it", "provider": "scripted", "replies": ["one\ntwo"]}
    checks = [{"check": "max_lines", "with": {"limit": 1}}, {"check": "max_lines", "with": {"limit": 2}}]
    project.write("evals.yaml", {"target": "it", "targets": [reply], "evals": [{"prompt": "Q", "checks": checks}]})
    found = json.loads(project.run("run", "evals.yaml", "--format", "json", code=1))
    first, second = found["results"][0]["turns"][0]["checks"]
    assert (first["kind"], first["passed"], second["passed"]) == ("check", False, True)
    assert len(first["calls"]) == len(second["calls"]) == 1
    assert 'check "max_lines"' in project.run("show")
