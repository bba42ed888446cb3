"""Data sets: JSONL and CSV files whose rows become cases. They are streamed, never held."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import msgspec
from msgspec import Struct

from rejoinder.model import Problem
from rejoinder.suite.files import FileFault, measure
from rejoinder.suite.source import RowSource

LONGEST_ROW = 10 * 1024 * 1024
SUFFIXES = (".jsonl", ".ndjson", ".csv")


class Row(Struct, frozen=True):
    number: int
    """Counts from 1."""
    values: dict[str, Any]
    source: RowSource


def read_rows(path: Path, file: str) -> Iterator[Row | Problem]:
    """The rows of a file in order; a broken row is a problem, and the next one is read all the same."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        yield Problem(
            code="unreadable-file",
            message=f"{path.name!r} is no data set that can be read; use a .jsonl or a .csv file",
            file=file,
        )
        return
    try:
        measure(path)
        with path.open(encoding="utf-8-sig", newline="") as stream:
            yield from (_read_csv if suffix == ".csv" else _read_jsonl)(stream, file)
    except FileFault as fault:
        yield Problem(code=fault.code, message=fault.message, file=file)
    except UnicodeDecodeError:
        yield Problem(code="not-utf8", message=f"{path.name!r} is not UTF-8; save it as UTF-8", file=file)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        yield Problem(code="unreadable-file", message=f"{path.name!r} cannot be read: {reason}", file=file)


def _read_jsonl(stream: TextIO, file: str) -> Iterator[Row | Problem]:
    number = 0
    for line_number, line in enumerate(_bounded_lines(stream), 1):
        text = line.strip()
        if not text:
            continue
        source = RowSource(file, line_number, text)
        try:
            values = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError) as error:
            yield source.problem("json-syntax", "", f"this line is not valid JSON: {error}")
            continue
        if not isinstance(values, dict):
            yield source.problem("wrong-type", "", "each line must be a JSON object")
            continue
        number += 1
        yield Row(number, values, source)


def _read_csv(stream: TextIO, file: str) -> Iterator[Row | Problem]:
    reader = csv.reader(_bounded_lines(stream), strict=True)
    header: list[str] | None = None
    number = 0
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            yield RowSource(file, line, None).problem("csv-syntax", "", f"this row is not valid CSV: {error}")
            return
        if fields is None:
            return
        if not any(field.strip() for field in fields):
            continue
        source = RowSource(file, line, ",".join(fields))
        if header is None:
            header = [field.strip() for field in fields]
            yield from _check_header(header, source)
            continue
        if len(fields) != len(header):
            message = f"this row has {len(fields)} fields and the header has {len(header)}; is a comma unquoted?"
            yield source.problem("csv-syntax", "", message)
            continue
        number += 1
        # An empty cell of a key is a key that is not given; the case's default stands.
        yield Row(number, dict(zip(header, fields, strict=True)), source)


def _check_header(header: list[str], source: RowSource) -> Iterator[Problem]:
    for name in dict.fromkeys(name for name in header if header.count(name) > 1):
        yield source.problem("duplicate-key", "", f"the column `{name}` stands in the header twice")


def _bounded_lines(stream: TextIO) -> Iterator[str]:
    while line := stream.readline(LONGEST_ROW + 1):
        if len(line) > LONGEST_ROW:
            raise FileFault("too-large", f"a row has more than {LONGEST_ROW // 1024 // 1024} MB")
        yield line
