"""Results of a run line by line, with a bound. They may come from strangers: a line that is too long is passed over,
and none of it is held."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

import msgspec

from rejoinder.errors import decoding_reason
from rejoinder.model import Result
from rejoinder.run_files import RunDamaged, open_file

LONGEST = 1 << 25
"""Bytes of a line that is read; a longer one is left out and counted."""
MOST_BYTES = 1 << 33
"""Of a file that is read at all."""
PIECE = 1 << 20
"""Bytes of a line that are read at once."""
MOST = 2_000_000
"""Conversations that are indexed."""
_Read = TypeVar("_Read")


class Placed(NamedTuple):
    """A result, and where its line stands in the file."""

    at: int
    """The number of the line, from 0."""
    offset: int
    size: int
    result: Result


def placed_results(path: Path, holding: bytes = b"") -> Iterator[Placed]:
    """The results of a file whose lines hold certain bytes. Raises RunDamaged, and OSError where there is no file."""
    with open_file(path) as stream:
        for at, (offset, line, size) in enumerate(bounded_lines(stream)):
            if size > LONGEST or holding not in line:
                continue
            if at >= MOST:
                return
            result = read_line(line, Result, path, at + 1)
            if not result.confirming:  # it counts nowhere
                yield Placed(at, offset, size, result)


def read_line(line: bytes, kind: type[_Read], path: Path, number: int, hint: str | None = None) -> _Read:
    """What a line of a file holds. `number`: its own, from 1. Raises RunDamaged for a line that rejoinder did not
    write."""
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise RunDamaged(path, f"line {number}: {decoding_reason(error)}", hint) from None


def bounded_lines(stream: BinaryIO, offset: int = 0) -> Iterator[tuple[int, bytes, int]]:
    """Place, bytes and size of each whole line. One of more than LONGEST bytes is passed over: none of them is held.
    The last line may still be written, or was torn, and is not there then."""
    parts: list[bytes] = []
    size = 0
    while part := stream.readline(PIECE):
        size += len(part)
        parts.append(part)
        if size > LONGEST:
            parts.clear()
        if part.endswith(b"\n"):
            yield offset, b"".join(parts), size
            parts.clear()
            offset, size = offset + size, 0
