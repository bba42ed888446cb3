"""The code keeps the bounds that docs/design/architecture.md names: short functions, few imports, plain words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.kit import ROOT

SRC = ROOT / "src"
MOST_LINES = 30
"""Lines of 99 functions of 100, docstrings not counted."""
MOST_IMPORTED = 28
"""Modules of the package that a module imports. Lower this number when a change allows it; never raise it."""
LONGEST_CHAIN = 44
"""Modules that import each other in a row. Lower this number when a change allows it; never raise it."""


@cache
def parsed() -> dict[str, ast.Module]:
    """The modules of the package by their names."""
    paths = sorted((SRC / "rejoinder").rglob("*.py"))
    return {name_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    docstring = function.body[0] if ast.get_docstring(function) is not None else None
    return size(function) - (size(docstring) if docstring is not None else 0)


def size(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def functions(module: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def imported(module: ast.Module, known: set[str]) -> set[str]:
    """The modules among `known` that a module imports anywhere, its functions included."""
    names = set[str]()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            within = (f"{node.module}.{alias.name}" for alias in node.names)
            names |= {name if name in known else node.module for name in within}
    return names & known


def test_functions_are_short() -> None:
    lengths = sorted(lines_of(function) for module in parsed().values() for function in functions(module))
    assert lengths[len(lengths) * 99 // 100] <= MOST_LINES


def test_no_module_imports_more_modules_than_before() -> None:
    known = set(parsed())
    counts = {name: len(imported(module, known)) for name, module in parsed().items()}
    assert {name: count for name, count in counts.items() if count > MOST_IMPORTED} == {}


def test_no_chain_of_imports_is_longer_than_before() -> None:
    """A change of the last module of a chain may reach all others. Imports in functions count, too."""
    known = set(parsed())
    imports = {name: imported(module, known) - {name} for name, module in parsed().items()}

    @cache
    def chain(name: str) -> tuple[str, ...]:
        return (name, *max((chain(one) for one in imports[name]), key=len, default=()))

    longest = max(map(chain, imports), key=len)
    assert len(longest) <= LONGEST_CHAIN, longest


def test_packages_pass_on_no_names_of_their_modules() -> None:
    """Importers name the module that defines a name; docs/design/architecture.md says why these packages differ."""
    packages = map(name_of, (SRC / "rejoinder").rglob("__init__.py"))
    importing = {name for name in packages if imported(parsed()[name], set(parsed()))}
    others = {
        f"rejoinder.{name}" for name in ("checks", "cli", "model", "pytest_plugin", "server.pages", "stats", "testing")
    }
    assert importing == {"rejoinder", *others}


def test_no_test_module_imports_another() -> None:
    """What several of them need is in `tests/kit.py`, in `tests/labs`, or in a module beside them that has no tests."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths}
    trees = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    found = {name: imported(tree, names) for name, tree in trees.items()}
    assert len(found) == len(paths)
    assert {name: others for name, others in found.items() if others} == {}


def test_imports_are_counted_wherever_they_are() -> None:
    source = "import a.b\nfrom a import c, D\ndef f():\n    from a.d import E\n    import os\n"
    assert imported(ast.parse(source), {"a", "a.b", "a.c", "a.d", "a.e"}) == {"a", "a.b", "a.c", "a.d"}


def test_a_docstring_does_not_make_a_function_long() -> None:
    [function] = functions(ast.parse('def f():\n    """One.\n\n    Two.\n    """\n    return 1\n'))
    assert lines_of(function) == 2


def test_no_text_calls_data_a_person() -> None:
    persons = re.compile(r"\b(?:nobody|whoever|somebody|anybody)\b", re.IGNORECASE)
    paths = [path for path in (SRC / "rejoinder").rglob("*") if path.suffix in (".py", ".js", ".json", ".yaml")]
    assert [path for path in paths if persons.search(path.read_text(encoding="utf-8"))] == []
