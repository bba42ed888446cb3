"""A comparison as JSON. Flips may be many: they are written one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from rejoinder.model.comparisons import RunComparison
from rejoinder.words.inert import to_json


def write_comparisons_json(comparisons: Sequence[RunComparison]) -> Iterator[str]:
    """One comparison is a document; several are a list of them."""
    if len(comparisons) == 1:
        yield from _write_json(comparisons[0])
        yield "\n"
        return
    yield '{"comparisons": [\n'
    for place, one in enumerate(comparisons):
        yield ",\n" if place else ""
        yield from _write_json(one)
    yield "\n]}\n"


def _write_json(found: RunComparison) -> Iterator[str]:
    for place, (name, value) in enumerate(found.parts().items()):
        yield f'{"," if place else "{"}\n  "{name}": '
        if isinstance(value, Iterator | tuple):
            yield from _list_json(cast("Iterable[object]", value), "\n    ", "\n  ")
        elif isinstance(value, dict):
            yield from _object_json(cast("dict[str, object]", value))
        else:
            yield to_json(value)
    yield "\n}"


def _object_json(value: dict[str, object]) -> Iterator[str]:
    for place, (name, entry) in enumerate(value.items()):
        yield f'{"," if place else "{"}"{name}":'
        if isinstance(entry, Iterator):
            yield from _list_json(cast("Iterable[object]", entry))
        else:
            yield to_json(entry)
    yield "}"


def _list_json(entries: Iterable[object], before: str = "", end: str = "") -> Iterator[str]:
    """Each entry by itself, with these spaces before it, and before the end of the list."""
    number = 0
    for number, entry in enumerate(entries, 1):
        yield f"{',' if number > 1 else '['}{before}{to_json(entry)}"
    yield f"{end}]" if number else "[]"
