"""The calls that a run is waiting for: its journal says that they were made, and has no answer to them yet.

The end of the journal is read, and then what is added to it. A journal does not say when a call was made. One that
comes while it is watched was made just now; one that was there before was made no later than the record behind it,
and that is what its age is counted from.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec
from msgspec import Struct

from rejoinder.run_files import RunDamaged, open_file
from rejoinder.server.result_lines import bounded_lines

LAST = 1 << 20
"""Bytes at the end of a journal that are read first."""
MOST_READ = 4 << 20
"""Bytes that are read at a time; of more than that, only the end."""
MOST_KNOWN = 10_000


class InFlight(Struct, frozen=True):
    """A call that was made, and has no answer yet."""

    case: str
    target: str
    trial: int
    turn: int
    age_s: float

    @property
    def place(self) -> tuple[str, str, int, int]:
        return self.case, self.target, self.trial, self.turn


class _Began(Struct, frozen=True, tag="asked"):
    key: str
    case: str
    target: str
    trial: int = 1
    turn: int = 1


class _Times(Struct, frozen=True):
    started_at: float | None = None
    latency_s: float | None = None

    @property
    def ended(self) -> float | None:
        return None if self.started_at is None else self.started_at + (self.latency_s or 0.0)


class _Answered(Struct, frozen=True, tag="told"):
    key: str
    reply: _Times | None = None


class _GaveUp(Struct, frozen=True, tag="failed"):
    key: str


class _TakenUp(Struct, frozen=True, tag="opened"):
    """The run was started or resumed: it does not wait for calls made before that."""


class _Other(Struct, frozen=True, tag="priced"):
    pass


_Line: TypeAlias = _Began | _Answered | _GaveUp | _TakenUp | _Other
_decode = msgspec.json.Decoder(_Line).decode


class Waiting:
    """The calls of one journal that are waited for, followed from look to look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = -1
        """Bytes that were read; -1 before the first look."""
        self._began: dict[str, _Began] = {}
        self._since: dict[str, float] = {}
        """The times at which they were made, or the latest possible ones."""

    def look(self) -> list[InFlight]:
        """The calls that wait now, the longest first. None if the file is not a journal."""
        with suppress(OSError, RunDamaged), open_file(self._path) as stream:
            self._read(stream)
        now = time.time()
        found = [
            InFlight(one.case, one.target, one.trial, one.turn, round(max(0.0, now - self._since.get(key, now)), 1))
            for key, one in self._began.items()
        ]
        return sorted(found, key=lambda one: -one.age_s)

    def _read(self, stream: BinaryIO) -> None:
        known = os.fstat(stream.fileno())
        if self._place < 0 or not 0 <= known.st_size - self._place <= MOST_READ:
            self._begin(stream, known.st_size)
            latest = min(time.time(), known.st_mtime)
        else:
            stream.seek(self._place)
            latest = time.time()
        for offset, line, size in bounded_lines(stream, self._place):
            self._place = offset + size
            with suppress(msgspec.MsgspecError, RecursionError, ValueError):
                self._take(_decode(line))
            if self._place >= known.st_size:
                break
        for key in self._began:
            self._since.setdefault(key, latest)

    def _begin(self, stream: BinaryIO, size: int) -> None:
        """At the last lines, of whose calls the answers before them say when they were made."""
        self._forget()
        self._place = max(0, size - LAST)
        stream.seek(self._place)
        if self._place:
            self._place += len(stream.readline(LAST))  # the rest of a line

    def _forget(self) -> None:
        self._began.clear()
        self._since.clear()

    def _take(self, line: _Line) -> None:
        match line:
            case _Began() if len(self._began) < MOST_KNOWN:
                self._began[line.key] = line
            case _Answered() | _GaveUp():
                self._began.pop(line.key, None)
                self._since.pop(line.key, None)
                if isinstance(line, _Answered) and line.reply is not None and line.reply.ended is not None:
                    for key in self._began:  # they come before it, so they were made before it was answered
                        self._since.setdefault(key, line.reply.ended)
            case _TakenUp():
                self._forget()
            case _:
                pass
