"""Untrusted files as JSON values: one document, or a value per line. Sizes are limited, and faults name their place."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from rejoinder.errors import UsageError, reason_of
from rejoinder.project.files import in_quotes

MOST_BYTES = 256 << 20
LONGEST_LINE = 32 << 20
MOST_LINES = 1_000_000
MOST_VALUES = 20_000_000
"""Maximum values; a value of three bytes takes a hundred bytes in memory."""
_BEFORE_VALUES = (b",", b"[", b"{")
"""Characters before every value except the outermost."""
DEEPEST = 100
"""Maximum nesting. The known formats have at most twenty levels."""
MOST_FILES = 5_000
SUFFIXES = (".json", ".jsonl", ".ndjson")
"""The files of a folder to read."""


class Entry(Struct, frozen=True):
    """A value and its line."""

    value: Any
    line: int


class Document(Struct, frozen=True):
    """The content of a file."""

    name: str
    """The file's name in messages."""
    entries: tuple[Entry, ...]
    lines: bool = True
    """Whether each value is on its own line."""
    cut_off: str = ""
    """The last line, if it is truncated."""

    @property
    def values(self) -> list[Any]:
        return [entry.value for entry in self.entries]

    @property
    def stem(self) -> str:
        return Path(self.name).stem


def list_files(path: Path) -> list[Path]:
    """The file itself, or all files in a folder and its subfolders, in order. Raises UsageError."""
    try:
        if not path.is_dir():
            return [path]
        found = sorted(one for one in path.rglob("*") if one.suffix.lower() in SUFFIXES and one.is_file())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {reason_of(error)}") from error
    if not found:
        raise UsageError(f"{path} has no file that ends with {', '.join(SUFFIXES)}", "Name a file.")
    if len(found) > MOST_FILES:
        raise UsageError(
            f"{path} has {len(found):,} files, and at most {MOST_FILES:,} are read", "Name a part of them."
        )
    return found


def read_file(path: Path) -> bytes:
    """Read a file. Raises UsageError if it is missing, not a file, or too large."""
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):
            raise UsageError(f"{path} is not a file")
        if state.st_size > MOST_BYTES:
            raise UsageError(f"{path} has {state.st_size:,} bytes, and at most {MOST_BYTES:,} are read")
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"there is no file {in_quotes(str(path))}") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {reason_of(error)}") from error
    except ValueError:  # a name with a null character
        raise UsageError(f"there is no file {in_quotes(str(path))}") from None
    if len(data) > MOST_BYTES:
        raise UsageError(f"{path} grows while it is read")
    return data


def parse(data: bytes, name: str) -> Document:
    """Parse a file. Raises UsageError that names the place of the fault."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{name}:{line}: this is not UTF-8 text") from None
    if not data.strip():
        raise UsageError(f"{name} is empty")
    if sum(map(data.count, _BEFORE_VALUES)) > MOST_VALUES:
        raise UsageError(f"{name} holds more than {MOST_VALUES:,} values", "Cut it into parts.")
    if not _has_lines(data):
        value = _decode(data, name, None)
        if isinstance(value, dict | list):
            return Document(name, (Entry(value, 1),), lines=False)
        raise UsageError(f"{name} holds {_kind(value)}, not a conversation")
    entries, cut_off = _read_lines(data, name)
    if not entries:
        raise UsageError(f"{name}:1: this is not JSON")
    return Document(name, tuple(entries), cut_off=cut_off)


def _has_lines(data: bytes) -> bool:
    """Whether the first non-blank line is a complete value, and another one follows."""
    first, _, rest = data.lstrip().partition(b"\n")
    return bool(rest.strip()) and first.rstrip()[-1:] in (b"}", b"]") and _try(first[:LONGEST_LINE]) is not None


def _read_lines(data: bytes, name: str) -> tuple[list[Entry], str]:
    if data.count(b"\n") > MOST_LINES:
        raise UsageError(f"{name} has more than {MOST_LINES:,} lines", "Cut it into parts.")
    entries: list[Entry] = []
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if len(line) > LONGEST_LINE:
            raise UsageError(
                f"{name}:{number}: this line has {len(line):,} bytes, and at most {LONGEST_LINE:,} are read"
            )
        if number == len(lines) and _try(line) is None:
            # Programs that are killed leave half a line behind.
            return entries, line.decode()
        entries.append(Entry(_decode(line, name, number), number))
    return entries, ""


def _try(data: bytes) -> Any:
    try:
        return _loads(data)
    except (ValueError, RecursionError):
        return None


def _decode(data: bytes, name: str, line: int | None) -> Any:
    try:
        value = _loads(data)
    except RecursionError:
        raise _too_deep(name, line or 1) from None
    except ValueError as error:
        place = getattr(error, "lineno", 1) if line is None else line
        raise UsageError(f"{name}:{place}: this is not JSON: {_why(error)}") from None
    if _is_too_deep(value):
        raise _too_deep(name, line or 1)
    return value


def _loads(data: bytes) -> Any:
    """Decode strictly, which is fast; if that fails, accept unpaired surrogates, which programs in JavaScript write."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return _whole_characters(json.loads(data))


def _whole_characters(value: Any) -> Any:
    """The value with unpaired surrogates replaced."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_whole_characters(one) for one in value]
    if isinstance(value, dict):
        return {_whole_characters(key): _whole_characters(one) for key, one in value.items()}
    return value


def _too_deep(name: str, line: int) -> UsageError:
    return UsageError(f"{name}:{line}: this is nested more than {DEEPEST} deep")


def _is_too_deep(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterator[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (one for one in inner if isinstance(one, dict | list))


def _why(error: ValueError) -> str:
    return getattr(error, "msg", "") or str(error)[:100]


def _kind(value: Any) -> str:
    return "a text" if isinstance(value, str) else "a number" if isinstance(value, int | float) else "nothing"
