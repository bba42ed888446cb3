"""Results for programs: a table of formats, and the writers of the plain ones.

A writer takes a run and yields pieces of text, so that a large run is never in memory as a whole. A new format is a
writer in a module of its own, and a line in `FORMATS`; the commands and `write_results` take it from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from rejoinder.errors import RejoinderError, UsageError
from rejoinder.run_files import write_whole
from rejoinder.views.cases import PartOfRun, Run, every_result


def write_json(run: Run, **further: Any) -> Iterator[str]:
    """One document: `run`, `summary`, `results`, for some results of a run `selected`, and what else it is to have."""
    if isinstance(run, PartOfRun):
        further = {"selected": run.selected, **further}
    yield f'{{\n  "run": {_indented(run.run.document(), 1)},\n  "summary": {_indented(run.summary, 1)},\n  "results": ['
    separator, end = "", "]"
    for result in every_result(run):
        yield f"{separator}\n    {_indented(result, 2)}"
        separator, end = ",", "\n  ]"
    yield end
    yield from (f',\n  "{key}": {_indented(value, 1)}' for key, value in further.items())
    yield "\n}\n"


def _indented(value: Any, depth: int) -> str:
    from rejoinder.words.inert import to_json

    return to_json(value, indent=2).replace("\n", f"\n{'  ' * depth}")


def write_jsonl(run: Run) -> Iterator[str]:
    """One result on each line."""
    from rejoinder.words.inert import to_json

    return (to_json(result, indent=0) + "\n" for result in every_result(run))


def write_yaml(run: Run) -> Iterator[str]:
    """One result in each document."""
    import yaml

    for result in every_result(run):
        yield "---\n" + yaml.safe_dump(msgspec.to_builtins(result), allow_unicode=True, sort_keys=False)


class Archive(Struct, frozen=True):
    """The same format as a file of bytes."""

    write: Callable[[Run, BinaryIO], None]
    suffixes: tuple[str, ...]


class Format(Struct, frozen=True):
    write: Callable[[Run], Iterator[str]]
    suffixes: tuple[str, ...]
    archive: Archive | None = None


def _writer(module: str, function: str = "write") -> Callable[[Run], Iterator[str]]:
    """A function of a module that is imported when it is used."""

    def write(run: Run) -> Iterator[str]:
        return getattr(import_module(module), function)(run)

    return write


def _write_eval(run: Run, stream: BinaryIO) -> None:
    from rejoinder.exports.inspect_log import write_archive

    write_archive(run, stream)


def _guarded(write: Callable[[Run], Iterator[str]]) -> Callable[[Run], Iterator[str]]:
    """The writer, with words for data that is nested more deeply than its library can go; a run of others may be so."""

    def write_or_refuse(run: Run) -> Iterator[str]:
        try:
            yield from write(run)
        except RecursionError:
            raise RunTooDeep from None

    return write_or_refuse


class RunTooDeep(RejoinderError):
    """A result cannot be written, because its data has too many levels."""

    exit_code = 3

    def __init__(self) -> None:
        super().__init__(
            "a result holds data that is nested too deeply for this form", "Other forms may hold it: --format csv."
        )


FORMATS: dict[str, Format] = {
    "json": Format(_guarded(write_json), (".json",)),
    "jsonl": Format(_guarded(write_jsonl), (".jsonl",)),
    "yaml": Format(_guarded(write_yaml), (".yaml", ".yml")),
    "junit": Format(_writer("rejoinder.exports.junit"), (".xml",)),
    "ctrf": Format(_writer("rejoinder.exports.ctrf"), (".ctrf.json",)),
    "markdown": Format(_writer("rejoinder.report.markdown"), (".md",)),
    "html": Format(_guarded(_writer("rejoinder.report.html")), (".html", ".htm")),
    "csv": Format(_writer("rejoinder.exports.csv"), (".csv",)),
    "toon": Format(_writer("rejoinder.exports.toon"), (".toon",)),
    "otlp": Format(_writer("rejoinder.exports.otlp"), (".otlp.json",)),
    "otlp-lines": Format(_writer("rejoinder.exports.otlp", "write_lines"), (".otlp.jsonl",)),
    "inspect": Format(_writer("rejoinder.exports.inspect_log"), (".inspect.json",), Archive(_write_eval, (".eval",))),
}


def find_format(path: Path, name: str | None = None) -> Format:
    """The format by its name, else by the file's suffix. Raises UsageError for one that is not known."""
    name = name_format(path) if name is None else name
    if name not in FORMATS:
        raise UsageError(f"there is no format `{name}` of results", f"The formats are {', '.join(FORMATS)}.")
    return FORMATS[name]


def name_format(path: Path, otherwise: str | None = None, option: str = "--format") -> str:
    """The name of a file's format: by the longest suffix that is known, else `otherwise`. Raises UsageError where
    neither says one; `option` is the command's that could."""
    by_suffix = {suffix: name for name, form in FORMATS.items() for suffix in _suffixes(form)}
    longest = max((suffix for suffix in by_suffix if _has(path, suffix)), key=len, default=None)
    name = otherwise if longest is None else by_suffix[longest]
    if name is None:
        raise UsageError(
            f"the suffix of {path} names no format of results",
            f"The suffixes are {', '.join(by_suffix)}; {option} names the format for any other.",
        )
    return name


def _suffixes(form: Format) -> tuple[str, ...]:
    return form.suffixes if form.archive is None else (*form.suffixes, *form.archive.suffixes)


def _has(path: Path, suffix: str) -> bool:
    return path.name.lower().endswith(suffix) and len(path.name) > len(suffix)


def write_results(run: Run, path: Path, form: str | None = None) -> None:
    """Write a file of results. Raises OSError."""
    found = find_format(path, form)
    path.parent.mkdir(parents=True, exist_ok=True)
    archive = found.archive
    with write_whole(path) as stream:
        if archive is not None and any(_has(path, suffix) for suffix in archive.suffixes):
            archive.write(run, stream)
        else:
            stream.writelines(line.encode() for line in found.write(run))
