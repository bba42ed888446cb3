"""Data sets: JSONL and CSV files whose rows become cases. They are streamed, never held."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import msgspec
from msgspec import Struct, structs

from rejoinder.errors import reason_of
from rejoinder.model import Problem, file_in_project
from rejoinder.project.files import FileFault, in_quotes, measure, record_file
from rejoinder.suite.source import RowSource
from rejoinder.suite.yaml import MOST_DEPTH
from rejoinder.words.numbers import count, listed

MOST_FILES = 1000
"""Maximum number of data sets in a folder."""
LONGEST_ROW = 10 * 1024 * 1024
TOO_DEEP = f"nested more than {MOST_DEPTH} levels deep"
SUFFIXES = (".jsonl", ".ndjson", ".csv")
_KEY_END = re.compile(r'"\s*:')


class Row(Struct, frozen=True):
    number: int
    """Counts from 1."""
    values: dict[str, Any]
    source: RowSource
    file: str = ""
    """Its file, relative to the project's root."""
    is_text: bool = False
    """Whether all values are text, as in CSV files."""


def data_sets_in(folder: Path) -> list[Path]:
    """The data sets of a folder and of the folders below it, by path. Hidden files and links to folders are left out.
    Raises FileFault."""
    record_file(folder)
    found: list[Path] = []
    try:
        for inside, folders, files in os.walk(folder, onerror=_raise):
            folders[:] = [name for name in folders if not name.startswith(".")]
            found += (Path(inside, name) for name in files if _is_data_set(name))
            if len(found) > MOST_FILES:
                raise FileFault(
                    "too-large", f"the folder {in_quotes(folder.name)} has more than {MOST_FILES:,} data sets"
                )
    except OSError as error:
        message = f"the folder {in_quotes(folder.name)} cannot be read: {reason_of(error)}"
        raise FileFault("unreadable-file", message) from None
    if not found:
        suffixes = listed(SUFFIXES, "or")
        message = f"the folder {in_quotes(folder.name)} has no data set: no file that ends with {suffixes}"
        raise FileFault("file-not-found", message)
    return sorted(found)


def _is_data_set(name: str) -> bool:
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")


def _raise(error: OSError) -> None:
    raise error


def read_rows(path: Path, file: str, root: Path | None = None) -> Iterator[Row | Problem]:
    """The rows of a file in order; a broken row gives a problem, and the next row is still read. `file` is its name in
    problems, `root` the project's root."""
    suffix = path.suffix.lower()
    name = in_quotes(path.name)
    if suffix not in SUFFIXES:
        message = f"{name} is not a data set that can be read; use a .jsonl or a .csv file"
        yield Problem(code="unreadable-file", message=message, file=file)
        return
    try:
        measure(path)
        with path.open(encoding="utf-8-sig", newline="") as stream:
            seen = file_in_project(str(path.resolve()), str(root)) if root is not None else file
            yield from (_read_csv if suffix == ".csv" else _read_jsonl)(stream, file, seen)
    except FileFault as fault:
        yield Problem(code=fault.code, message=fault.message, file=file)
    except UnicodeDecodeError:
        yield Problem(code="not-utf8", message=f"{name} is not UTF-8; save it as UTF-8", file=file)
    except OSError as error:
        reason = reason_of(error)
        yield Problem(code="unreadable-file", message=f"{name} cannot be read: {reason}", file=file)


# JSONL


def _read_jsonl(stream: TextIO, file: str, seen: str) -> Iterator[Row | Problem]:
    number = 0
    for line_number, line in enumerate(_bounded_lines(stream), 1):
        text = line.strip()
        if not text:
            continue
        source = RowSource(file, line_number, line.rstrip())
        if not number and text in ("{", "["):
            message = "this is JSON over several lines; in a data set each line is one complete object"
            yield source.problem("json-syntax", "", message)
            return
        try:
            values = msgspec.json.decode(text)
        except RecursionError:
            yield source.problem("too-deep", "", TOO_DEEP)
            continue
        except (msgspec.DecodeError, UnicodeError) as error:
            yield _json_problem(source, str(error), len(line) - len(line.lstrip()), text)
            continue
        if not isinstance(values, dict):
            yield source.problem("wrong-type", "", "each line must be a JSON object")
            continue
        keys, depth = survey(values)
        if depth > MOST_DEPTH:
            yield source.problem("too-deep", "", TOO_DEEP)
            continue
        # The decoder keeps the last of two equal keys. Only a line that seems to have lost one is read with care.
        if len(_KEY_END.findall(text)) > keys and (twice := _find_twin(text)):
            yield _twice(source, twice, f"the key `{twice}` is set twice in one object of this line")
            continue
        number += 1
        yield Row(number, values, source, seen)


def _json_problem(source: RowSource, error: str, indentation: int, text: str) -> Problem:
    if "truncated" in error:
        message = "this line ends before the object is closed; each line is one complete object"
        return _at_column(source, message, indentation + len(text))
    found = re.search(r" \(byte (\d+)\)$", error)
    before = text.encode("utf-8", "surrogatepass")[: int(found[1])] if found else b""
    reason = error.removesuffix(found[0] if found else "").removeprefix("JSON is malformed: ")
    column = indentation + len(before.decode("utf-8", "replace")) + 1
    return _at_column(source, f"this line is not valid JSON: {reason}", column)


def _at_column(source: RowSource, message: str, column: int) -> Problem:
    return structs.replace(source.problem("json-syntax", "", message), column=column)


def survey(values: Any) -> tuple[int, int]:
    """The number of keys on all levels of a value, and the number of levels. Stops counting if there are too many
    levels."""
    if isinstance(values, dict) and not any(isinstance(one, dict | list) for one in values.values()):
        return len(values), 1  # as most rows are
    keys = depth = 0
    level = [values]
    while level and depth <= MOST_DEPTH:
        depth += 1
        inner: list[Any] = []
        for one in level:
            children = one
            if isinstance(one, dict):
                keys += len(one)
                children = one.values()
            inner += [child for child in children if isinstance(child, dict | list)]
        level = inner
    return keys, depth


def _find_twin(text: str) -> str | None:
    twins: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                twins.append(key)
            seen.add(key)

    import json

    try:
        json.loads(text, object_pairs_hook=look)
    except (ValueError, RecursionError):
        return None
    return twins[0] if twins else None


# CSV


class _Lines:
    """The lines of a file, and the first one of the row that is being read."""

    def __init__(self, stream: TextIO) -> None:
        self.lines = _bounded_lines(stream)
        self.first: str | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self.lines)
        if self.first is None:
            self.first = line.rstrip("\r\n")
        return line


def _read_csv(stream: TextIO, file: str, seen: str) -> Iterator[Row | Problem]:
    import csv

    lines = _Lines(stream)
    reader = csv.reader(lines, strict=True)
    header: list[str] | None = None
    number = 0
    while True:
        line = reader.line_num + 1
        lines.first = None
        try:
            fields = next(reader, None)
        except csv.Error as error:
            message, is_over = _csv_words(str(error))
            yield RowSource(file, line, lines.first).problem("csv-syntax", "", message)
            if is_over:
                return
            continue
        if fields is None:
            return
        if not any(field.strip() for field in fields):
            continue
        source = RowSource(file, line, lines.first)
        if header is None:
            header = [field.strip() for field in fields]
            if len(header) == 1 and ";" in header[0]:
                yield source.problem("csv-syntax", "", "the columns are separated by `;`; separate them by commas")
                return
            yield from _check_header(header, source)
            continue
        if len(fields) != len(header):
            yield source.problem("csv-syntax", "", _wrong_length(len(fields), len(header)))
            continue
        number += 1
        # An empty cell of a key is a key that is not given; the case's default stands.
        yield Row(number, dict(zip(header, fields, strict=True)), source, seen, is_text=True)


def _csv_words(error: str) -> tuple[str, bool]:
    """The CSV reader's error in our words, and whether nothing after it can be read."""
    if "unexpected end of data" in error:
        return "a quote that opens in this row is never closed", True
    if "expected after" in error:
        return "text follows a closing quote; put the whole cell in quotes, and write quotes in it twice", False
    if "field limit" in error:
        import csv

        most = f"{csv.field_size_limit():,}"
        return f"a cell of this row has more than {most} characters; is a quote not closed?", True
    return f"this row is not valid CSV: {error}", True


def _wrong_length(found: int, wanted: int) -> str:
    fields = count(found, "field")
    cause = "is a comma unquoted?" if found > wanted else "a cell is missing"
    return f"this row has {fields} and the header has {wanted}; {cause}"


def _check_header(header: list[str], source: RowSource) -> Iterator[Problem]:
    for name in dict.fromkeys(name for name in header if header.count(name) > 1):
        yield _twice(source, name, f"the column `{name}` is in the header twice")


def _twice(source: RowSource, key: str, message: str) -> Problem:
    return structs.replace(source.problem("duplicate-key", "", message), key=key, first_line=source.number)


def _bounded_lines(stream: TextIO) -> Iterator[str]:
    while line := stream.readline(LONGEST_ROW + 1):
        if len(line) > LONGEST_ROW:
            raise FileFault("too-large", f"a row is too large; the limit is {LONGEST_ROW // 1024 // 1024} MB")
        yield line
