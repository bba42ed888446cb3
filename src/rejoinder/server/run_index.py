"""The index of a run: rows made by one walk through its results.

A line that is not a result of ours ends the walk and is named, one that is too long is passed over, and so are lines
beyond a number that no run of ours has.

While a run goes on, its results are in a draft beside the file they will be in. Lines are only added to it, so the walk
goes on where it ended. A file that was replaced or cut is indexed anew.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from threading import Thread
from time import monotonic

from msgspec import Struct, structs

from rejoinder.model import Result
from rejoinder.run_files import RunDamaged, open_file
from rejoinder.server.errors import ApiError
from rejoinder.server.result_lines import LONGEST, MOST, MOST_BYTES, bounded_lines, read_line
from rejoinder.server.row_store import Address, RowStore, RowWriter, addressed
from rejoinder.views.rows import Frame, RowView, row_of

_TAIL = 64
"""Bytes before the place where the walk ended, by which a file is known again."""

ORDER = ("failed", "error", "recovered", "first", "skipped")
"""Outcomes as the list has them."""


class State(Struct, frozen=True):
    """How far an index has come."""

    rows: int
    done: bool
    """Was all of the file walked through that was there at the last look?"""
    left_out: int = 0
    """Lines that were too long, or too many."""
    damage: str | None = None
    """What is wrong with the first line that is not a result."""


class RunIndex(RowStore[RowView]):
    """The index of one file of results, made by `grow`."""

    def __init__(self, source: Path, place: Path, frame: Frame) -> None:
        """`frame`: what rows need to know of their run."""
        super().__init__(place, ORDER, RowView, (source,))
        self._frame = frame
        self._state = State(0, done=False)
        self._offset = 0
        self._seen: tuple[int, int, int] | None = None
        self._tail = b""
        self._thread: Thread | None = None

    @property
    def source(self) -> Path:
        return self.sources[0]

    @property
    def state(self) -> State:
        return self._state

    def is_of(self, source: Path) -> bool:
        """Is this the index of that file as it is now, or as far as it has been added to?"""
        if source != self.source:
            return False
        if self._seen is None:
            return True
        try:
            found = source.lstat()
            inode, size, time = self._seen
            if found.st_ino != inode or found.st_size < self._offset:
                return False
            if found.st_size == size and found.st_mtime_ns != time:
                return False
            with open_file(source) as stream:
                stream.seek(self._offset - len(self._tail))
                return stream.read(len(self._tail)) == self._tail
        except (OSError, RunDamaged):
            return False

    def grow_on(self) -> None:
        """Go on growing in a thread."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = Thread(target=self.grow, daemon=True)
            self._thread.start()

    def grow(self, seconds: float | None = None) -> State:
        """Index what the file has and the index has not, for so many seconds at most. A walk that another thread has
        begun is waited for no longer than that."""
        if not self.growing.acquire(timeout=-1 if seconds is None else seconds):
            return self._state
        try:
            self._grow(None if seconds is None else monotonic() + seconds)
        except FileNotFoundError:
            self._state = structs.replace(self._state, done=True)
        except RunDamaged as error:
            self._state = structs.replace(self._state, done=True, damage=error.reason)
        except (OSError, sqlite3.Error, ApiError) as error:
            self._state = structs.replace(self._state, done=True, damage=str(error))
        finally:
            self.growing.release()
        return self._state

    def _grow(self, end: float | None) -> None:
        if self._state.damage is not None:
            return
        with open_file(self.source) as stream, self.opened() as store:
            self._remember_source()
            stream.seek(self._offset)
            writer, state = RowWriter(store), structs.replace(self._state, done=False)
            for offset, line, size in bounded_lines(stream, self._offset):
                self._offset, self._tail = offset + size, line[-_TAIL:]
                if state.rows >= MOST:
                    state = structs.replace(state, left_out=state.left_out + 1)
                    break
                state, is_written = self._taken(state, line, (offset, size), writer)
                if state.damage is not None:
                    break
                if is_written:
                    self._state = state
                    if end is not None and monotonic() > end:
                        return
            writer.write()
            self._state = structs.replace(state, done=True)

    def _remember_source(self) -> None:
        """By what the file is known again. Raises RunDamaged for one that is too large."""
        stat = self.source.lstat()
        self._seen = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if stat.st_size > MOST_BYTES:
            raise RunDamaged(self.source, f"it has more than {MOST_BYTES >> 30} GiB, and is not read here")

    def _taken(self, state: State, line: bytes, here: tuple[int, int], writer: RowWriter) -> tuple[State, bool]:
        """The state with one more line, and whether all rows of it are written."""
        if here[1] > LONGEST:
            return structs.replace(state, left_out=state.left_out + 1), False
        try:
            result = read_line(line, Result, self.source, state.rows + state.left_out + 1)
        except RunDamaged as error:
            return structs.replace(state, damage=error.reason), False
        if result.confirming:  # it counts nowhere
            return state, False
        row = row_of(result, state.rows, self._frame)
        is_written = writer.add(row, ORDER.index(row.outcome), here)
        return structs.replace(state, rows=state.rows + 1), is_written

    def result(self, address: Address) -> Result | None:
        return self.read(0, "offset, size", *addressed(address))
