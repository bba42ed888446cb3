"""The names that plug-ins provide, found without running their code: a project's checks by parsing its file, and
the plug-ins of packages by their metadata.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast
    from importlib.metadata import EntryPoint

CHECKS_FILE = ".rejoinder/checks.py"
CHECKS_GROUP = "rejoinder.checks"
PROVIDERS_GROUP = "rejoinder.providers"


def known_checks(root: Path) -> list[str] | None:
    """The names that `check:` may have in a project; None if its file is broken."""
    own = project_checks(root / CHECKS_FILE)
    return None if own is None else [*own, *entry_points(CHECKS_GROUP)]


def project_checks(file: Path) -> list[str] | None:
    """The checks that a file defines; None if only running it would show."""
    try:
        return _read_names(file, file.stat().st_mtime_ns)
    except OSError:
        return []


@lru_cache(maxsize=8)
def _read_names(file: Path, changed: int) -> list[str] | None:  # noqa: ARG001 - part of the key
    import ast

    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names: list[str] = []
    called = {"check"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = (node.module or "").partition(".")[0]
            called |= {one.asname for one in node.names if one.name == "check" and one.asname}
            if module != "rejoinder" and module not in sys.stdlib_module_names:
                return None  # checks may come from there
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found = list(_names(node, called))
            if None in found:
                return None
            names += [one for one in found if one is not None]
    return names


def _names(function: ast.FunctionDef | ast.AsyncFunctionDef, known: set[str]) -> Iterator[str | None]:
    """The names that a function registers checks under; None for a name that is not a literal."""
    import ast

    for decorator in function.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        word = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        if word not in known:
            continue
        if not isinstance(decorator, ast.Call):
            yield function.name
        else:
            first = decorator.args[0] if decorator.args else None
            yield str(first.value) if isinstance(first, ast.Constant) else None


@lru_cache(maxsize=8)
def entry_points(group: str) -> dict[str, EntryPoint]:
    """The entry points of installed packages, by name."""
    from importlib.metadata import entry_points as find

    return {entry.name: entry for entry in find(group=group)}


def find_entry_point(group: str, name: str) -> EntryPoint | None:
    return entry_points(group).get(name)
