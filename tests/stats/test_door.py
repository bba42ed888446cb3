"""The door of the room."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import msgspec

from rejoinder import stats


def test_every_name_is_there_and_is_explained() -> None:
    for name in stats.__all__:
        value = getattr(stats, name)
        assert not inspect.ismodule(value), f"{name} is hidden by a module of that name"
        assert not inspect.isfunction(value) or inspect.getdoc(value)


def test_results_are_frozen_and_can_be_written() -> None:
    figures = [getattr(stats, name) for name in stats.__all__]
    structs = [one for one in figures if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    assert len(structs) > 20
    assert all(one.__struct_config__.frozen for one in structs)
    looked = stats.look(stats.count_pairs([]), 1, 2, compared=stats.compare_runs([]))
    for found in (stats.rate_of([(3, 5), (1, 2)]), stats.net_recovery([]), stats.compare_runs([]), looked):
        assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found


def test_the_room_needs_nothing_but_the_standard_library() -> None:
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
