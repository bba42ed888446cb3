"""Results for programs: a table of formats, and their writers.

A writer takes a run and yields pieces of text, so that a large run is never in memory as a whole. A new format is a
writer in a module of its own, and a line in `FORMATS`; the commands and `write_results` take it from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from rejoinder.errors import UsageError
from rejoinder.model import Receipt, Result, Summary


class Run(Protocol):
    """What a writer needs of a `RunReport`."""

    @property
    def run(self) -> Receipt: ...
    @property
    def summary(self) -> Summary: ...
    @property
    def results(self) -> Iterable[Result]: ...


def write_json(run: Run, **further: Any) -> Iterator[str]:
    """One document: `run`, `summary`, `results`, and what else it is to have."""
    yield f'{{\n  "run": {_indented(run.run.document(), 1)},\n  "summary": {_indented(run.summary, 1)},\n  "results": ['
    separator, end = "", "]"
    for result in run.results:
        yield f"{separator}\n    {_indented(result, 2)}"
        separator, end = ",", "\n  ]"
    yield end
    yield from (f',\n  "{key}": {_indented(value, 1)}' for key, value in further.items())
    yield "\n}\n"


def _indented(value: Any, depth: int) -> str:
    import json

    text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, indent=2)
    return text.replace("\n", f"\n{'  ' * depth}")


def write_jsonl(run: Run) -> Iterator[str]:
    """One result on each line."""
    import json

    return (json.dumps(msgspec.to_builtins(result), ensure_ascii=False) + "\n" for result in run.results)


def write_yaml(run: Run) -> Iterator[str]:
    """One result in each document."""
    import yaml

    for result in run.results:
        yield "---\n" + yaml.safe_dump(msgspec.to_builtins(result), allow_unicode=True, sort_keys=False)


class Format(Struct, frozen=True):
    write: Callable[[Run], Iterator[str]]
    suffixes: tuple[str, ...]


FORMATS: dict[str, Format] = {
    "json": Format(write_json, (".json",)),
    "jsonl": Format(write_jsonl, (".jsonl",)),
    "yaml": Format(write_yaml, (".yaml", ".yml")),
}


def find_format(path: Path, name: str | None = None) -> Format:
    """The format of a file by its name, else by the file's suffix. Raises UsageError where neither says one."""
    by_suffix = {suffix: form for form in FORMATS.values() for suffix in form.suffixes}
    form = by_suffix.get(path.suffix.lower()) if name is None else FORMATS.get(name)
    if form is None:
        raise UsageError(
            f"the suffix of {path} names no format of results",
            f"The suffixes are {', '.join(by_suffix)}; --format names the format for any other.",
        )
    return form


def write_results(run: Run, path: Path, form: str | None = None) -> None:
    """Write a file of results. Raises OSError."""
    pieces = find_format(path, form).write(run)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(pieces)
