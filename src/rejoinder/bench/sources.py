"""The files of a benchmark, after their checksums were compared: as rows, and with one clear error if a row is odd."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

import msgspec

from rejoinder.errors import UsageError

Rows = Mapping[str, str]
"""The texts of files by their names."""


class SourceFault(UsageError):
    """A file does not have the form that its benchmark has."""

    def __init__(self, file: str, message: str) -> None:
        super().__init__(f"{file}: {message}", "Get the benchmark's own file, or give --from a file of the same form.")


def lines_of(files: Rows, name: str) -> list[str]:
    """The lines that have text."""
    return [line.strip() for line in files[name].splitlines() if line.strip()]


def json_rows(files: Rows, name: str) -> list[dict[str, Any]]:
    """An object of each line."""
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(files[name].splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise SourceFault(name, f"line {number} is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise SourceFault(name, f"line {number} is not an object")
        rows.append(row)
    return rows


def csv_rows(files: Rows, name: str) -> list[dict[str, str]]:
    try:
        return [*csv.DictReader(io.StringIO(files[name]), strict=True)]
    except csv.Error as error:
        raise SourceFault(name, f"it is not CSV: {error}") from None


def text_of(row: dict[str, Any], key: str) -> str:
    """A text of a row. Raises KeyError or TypeError, which the table turns into an error about the file."""
    value = row[key]
    if not isinstance(value, str):
        raise TypeError(f"`{key}` is not a text")
    return value
