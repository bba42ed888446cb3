"""The package of statistics as a whole: its public names, its values, its imports."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from msgspec import Struct

from rejoinder import stats
from rejoinder.stats import comparison
from rejoinder.stats.rates import rate_of
from rejoinder.stats.recovery import net_recovery
from rejoinder.stats.sequential import count_pairs, look


def modules() -> list[ModuleType]:
    paths = Path(stats.__file__).parent.glob("*.py")
    return [import_module(f"rejoinder.stats.{path.stem}") for path in paths if path.stem != "__init__"]


def test_programs_may_import_two_names_from_the_package() -> None:
    assert stats.__all__ == ["Trials", "compare_runs"]
    assert (stats.Trials, stats.compare_runs) == (comparison.Trials, comparison.compare_runs)
    with pytest.raises(AttributeError, match="no attribute 'kapa'"):
        stats.kapa  # noqa: B018


def test_results_are_frozen_and_can_be_written() -> None:
    values = {value for module in modules() for value in vars(module).values() if inspect.isclass(value)}
    structs = [value for value in values if issubclass(value, Struct) and value is not Struct]
    assert len(structs) > 20
    assert all(value.__struct_config__.frozen for value in structs)
    interim = look(count_pairs([]), 1, 2, compared=stats.compare_runs([]))
    for value in (rate_of([(3, 5), (1, 2)]), net_recovery([]), stats.compare_runs([]), interim):
        assert msgspec.json.decode(msgspec.json.encode(value), type=type(value)) == value


def test_the_package_needs_nothing_but_the_standard_library() -> None:
    allowed = {
        "__future__",
        "array",
        "collections",
        "functools",
        "heapq",
        "importlib",
        "itertools",
        "math",
        "msgspec",
        "operator",
        "rejoinder",
        "typing",
    }
    for path in Path(stats.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {name.partition(".")[0] for name in names} <= allowed, path.name
