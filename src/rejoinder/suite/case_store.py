"""Cases of a data set, cached on disk so that later passes need not rebuild them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from rejoinder.model import Case


class CaseStore:
    """Cases in a temporary file, deleted with this object, that can be iterated over any number of times.

    Reading them back takes a fifth of the time that building them from their rows takes.
    """

    def __init__(self) -> None:
        import weakref
        from tempfile import mkstemp

        descriptor, name = mkstemp(prefix="rejoinder-", suffix=".jsonl")
        self._path = Path(name)
        self._stream = open(descriptor, "wb", buffering=1 << 20)  # noqa: SIM115, PTH123 - closed with this object
        self._encode = msgspec.json.Encoder().encode
        weakref.finalize(self, _delete, self._stream, self._path)

    def add(self, case: Case) -> None:
        self._stream.write(self._encode(case) + b"\n")

    def __iter__(self) -> Iterator[Case]:
        decode = msgspec.json.Decoder(Case).decode
        return (decode(line) for line in self.lines())

    def lines(self) -> Iterator[bytes]:
        """The cases as JSON, one a line."""
        if not self._stream.closed:
            self._stream.close()  # all cases were added
        with self._path.open("rb", buffering=1 << 20) as stream:
            yield from stream


def _delete(stream: BinaryIO, path: Path) -> None:
    stream.close()
    path.unlink(missing_ok=True)
