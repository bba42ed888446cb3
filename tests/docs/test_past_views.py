"""Layouts take views. The list of those that look past them only shrinks.

A layout that imports a type of results or runs, or reads a stored run, makes a decision that belongs in a view.
`past_views.txt` lists the imports of today. A line is deleted when its module takes a view instead; no line is added.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.kit import ROOT

SOURCE = ROOT / "src" / "rejoinder"
LAYOUTS = ("report", "server/pages")
PAST = ("rejoinder.engine", "rejoinder.runs", "rejoinder.model.results", "rejoinder.model.runs")
LISTED = Path(__file__).with_name("past_views.txt")


def names_in(module: str) -> set[str]:
    """The names that a module of the model defines."""
    tree = ast.parse((SOURCE / "model" / f"{module}.py").read_text(encoding="utf-8"))
    classes = (node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return {name for name in classes if not name.startswith("_")}


OF_RUNS = names_in("results") | names_in("runs")


def imports_past_views(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if is_past(alias.name)}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            if node.module == "rejoinder.model":
                found |= {one for one in whole if one.rpartition(".")[2] in OF_RUNS}
            elif node.module == "rejoinder":
                found |= {one for one in whole if is_past(one)}
            elif is_past(node.module):
                found |= whole
    return found


def is_past(module: str) -> bool:
    return any(module == one or module.startswith(f"{one}.") for one in PAST)


def past_views() -> list[str]:
    files = sorted(path for place in LAYOUTS for path in (SOURCE / place).rglob("*.py"))
    return [
        f"{path.relative_to(SOURCE).as_posix()} {name}" for path in files for name in sorted(imports_past_views(path))
    ]


def test_no_more_layouts_look_past_views() -> None:
    new = sorted(set(past_views()) - set(LISTED.read_text(encoding="utf-8").split("\n")))
    assert new == [], "take a view, or add to one what is missing"


def test_layouts_that_take_views_leave_the_list() -> None:
    listed = [line for line in LISTED.read_text(encoding="utf-8").split("\n") if line]
    assert sorted(set(listed) - set(past_views())) == [], "delete these lines"
    assert listed == sorted(listed)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from rejoinder.model import Result, Problem", {"rejoinder.model.Result"}),
        ("from rejoinder.model.runs import Summary", {"rejoinder.model.runs.Summary"}),
        ("def f():\n    from rejoinder.runs.folder import RunFolder", {"rejoinder.runs.folder.RunFolder"}),
        ("import rejoinder.engine.run", {"rejoinder.engine.run"}),
        ("from rejoinder import runs", {"rejoinder.runs"}),
        ("from rejoinder.views.cases import Run\nfrom rejoinder.model.figures import Rate", set()),
    ],
)
def test_every_way_past_views_is_found(tmp_path: Path, text: str, found: set[str]) -> None:
    file = tmp_path / "layout.py"
    file.write_text(text, encoding="utf-8")
    assert imports_past_views(file) == found
