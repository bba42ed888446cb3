"""The journal of an open run: every record is durable before the conversation continues.

`asked` is handed to the operating system before a call is made; `told` is written after it, and waited for until it is
on the disk. One thread commits the records: it takes all that wait, one write, one fdatasync, and wakes the waiters.
The records of one turn of the event loop are handed to that thread together, so that the two do not get in each
other's way for every record. There is no timer, so a lone record never waits for company.

Waiters are woken a few at a time. Conversations that were committed together would otherwise all continue before the
first of them makes its next call, and so keep in step: all would wait for their answers, and then for each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeAlias

import msgspec
from msgspec import structs

from rejoinder.errors import reason_of
from rejoinder.model.calls import Cost
from rejoinder.run_files import open_to_append
from rejoinder.runs.crash_points import is_due, reached
from rejoinder.runs.journal import (
    FORMAT,
    Asked,
    Failed,
    History,
    JournalError,
    Opened,
    Priced,
    Record,
    Told,
)
from rejoinder.runs.secrets import Mask

AT_ONCE = 16
"""Conversations that continue in one turn of the event loop: fewer cost more commits, more wait for each other."""


_Entry: TypeAlias = tuple[bytes, asyncio.Future[None] | None]
"""A line, and the task that waits for it to be on the disk."""


class _File:
    """The journal's file. It always ends with a whole record, as far as this process can help it."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._handle = open_to_append(path)
        self._size = size
        os.ftruncate(self._handle, size)
        self._writing = threading.Lock()
        self._failure: JournalError | None = None

    def append(self, data: bytes, *, may_tear: bool = False) -> None:
        """Raises JournalError."""
        with self._writing:
            if self._failure is not None:
                raise self._failure
            if may_tear:
                if is_due("batch.torn"):
                    os.write(self._handle, data[: len(data) // 2])
                reached("batch.torn")
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(self._handle, rest) :]
            except OSError as error:
                raise self._fail(error) from error
            self._size += len(data)

    def sync(self) -> None:
        """Raises JournalError."""
        try:
            os.fdatasync(self._handle)
        except OSError as error:
            raise self._fail(error) from error

    def close(self) -> None:
        os.close(self._handle)

    def _fail(self, error: OSError) -> JournalError:
        """From here on nothing is written: the file ends with its last whole record."""
        self._failure = JournalError(f"the journal {self._path} cannot be written: {reason_of(error)}")
        self._failure.__cause__ = error
        with contextlib.suppress(OSError):  # a torn last line is tolerated as well
            os.ftruncate(self._handle, self._size)
        return self._failure


class Journal:
    """The journal of an open run. `told` returns when the record is on the disk. Each method raises JournalError."""

    def __init__(self, path: Path, mask: Mask, history: History | None = None) -> None:
        self._mask = mask
        self._encode = msgspec.json.Encoder().encode
        self._file = _File(path, history.size if history else 0)
        self.open_calls: set[str] = set()
        """Calls that were asked and not told: in doubt, should the run end now."""
        self._has_asked = False
        """True if calls leave this process. Otherwise no call can be made early, and fewer commits are cheaper."""
        self._pending: list[_Entry] = []
        """The records of this turn of the event loop."""
        self._queue: SimpleQueue[list[_Entry] | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._commit_for_ever, name="rejoinder-journal", daemon=True)
        self._thread.start()
        self._file.append(self._line(Opened(FORMAT, history.in_doubt if history else 0)))

    def asked(self, record: Asked) -> None:
        """Returns when the operating system has the record: it survives the end of this process. Then call."""
        self._file.append(self._line(record))
        reached("asked.written")
        self.open_calls.add(record.key)
        self._has_asked = True

    def asked_inside(self, record: Asked) -> None:
        """A call that does not leave this process; its record may wait for the next commit."""
        self._gather((self._line(structs.replace(record, inside=True)), None))

    async def told(self, record: Told) -> None:
        waiter = self._loop.create_future()
        self._gather((self._line(record), waiter))
        self.open_calls.discard(record.key)  # what was gathered is written, even if no task waits any more
        reached("told.queued")
        await waiter
        reached("told.synced")

    def priced(self, key: str, price: Cost) -> None:
        """Return when the operating system has the price of a recorded reply. The price is not synced: if it is lost,
        it is looked up again."""
        self._file.append(self._line(Priced(key, price)))

    def failed(self, key: str, *, charged: bool, final: bool) -> None:
        """The attempt has failed for certain. If it was the last, this is written together with the call's outcome, so
        that the call is not made again; otherwise it is written before the record of the next attempt."""
        line, was_open = self._line(Failed(key, charged)), key in self.open_calls
        self.open_calls.discard(key)
        if was_open and not final:
            self._file.append(line)
        else:
            self._gather((line, None))

    def close(self) -> None:
        """Write what waits and let go of the file."""
        self.flush()
        self._file.close()

    def flush(self) -> None:
        """Write what waits, from any thread, when the event loop cannot. Nothing is written afterwards."""
        self._hand_over()
        self._queue.put(None)
        self._thread.join()

    def _gather(self, entry: _Entry) -> None:
        if not self._pending:
            self._loop.call_soon(self._hand_over)
        self._pending.append(entry)

    def _hand_over(self) -> None:
        if self._pending:
            entries, self._pending = self._pending, []
            self._queue.put(entries)

    def _line(self, record: Record) -> bytes:
        line = self._encode(record) + b"\n"
        return self._mask.hide(line)

    def _commit_for_ever(self) -> None:
        closing = False
        while not closing:
            first = self._queue.get()
            batch = first or []
            closing = first is None
            with contextlib.suppress(Empty):
                while True:
                    more = self._queue.get_nowait()
                    if more is None:
                        closing = True
                    else:
                        batch += more
            if batch:
                self._commit(batch)

    def _commit(self, batch: list[_Entry]) -> None:
        """One write and one sync for all that waits, then all waiters are woken."""
        failure: JournalError | None = None
        waiters = [waiter for _, waiter in batch if waiter is not None]
        try:
            reached("batch.before_write")
            self._file.append(b"".join(line for line, _ in batch), may_tear=True)
            reached("batch.written")
            if waiters:
                self._file.sync()
            reached("batch.synced")
        except JournalError as error:
            failure = error
        if waiters:
            self._loop.call_soon_threadsafe(self._wake, waiters, failure)

    def _wake(self, waiters: list[asyncio.Future[None]], failure: JournalError | None) -> None:
        """Wake the first waiters for a record, and the others in the next turn of the event loop."""
        count = AT_ONCE if self._has_asked else len(waiters)
        for waiter in waiters[:count]:
            if not waiter.done():
                if failure is None:
                    waiter.set_result(None)
                else:
                    waiter.set_exception(failure)
        if len(waiters) > count:
            self._loop.call_soon(self._wake, waiters[count:], failure)
