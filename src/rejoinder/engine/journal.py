"""The journal: every call and what came of it, durable before the conversation goes on.

An append-only file with one JSON record a line. `asked` is handed to the operating system before a call is made;
`told` is written after it, and waited for until it is on the disk. So a call that was asked and not told is *in
doubt*: only such calls can be made twice. One thread commits what was told: it takes all that waits, one write, one
fdatasync, and wakes the waiters. What one turn of the event loop tells is handed to that thread together, so that the
two do not get in each other's way for every record. There is no timer, so a lone record never waits for company.

Waiters are woken a few at a time. Conversations that were committed together would otherwise all go on before the
first of them makes its next call, and so keep in step: all would wait for their answers, and then for each other.

A last line that was torn by a crash is cut off when the journal is opened again. A line that is damaged elsewhere is
an error that names it: nothing is guessed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeAlias

import msgspec
from msgspec import Struct, structs

from rejoinder.engine.budget import Amount, Ledger
from rejoinder.engine.crash_points import is_due, reached
from rejoinder.engine.secrets import Mask
from rejoinder.errors import RejoinderError, decoding_reason, reason_of
from rejoinder.model import CUT_OFF, Failure, Reply
from rejoinder.run_files import lines_of, open_file, open_to_append

FORMAT = 2
AT_ONCE = 16
"""Conversations that go on in one turn of the event loop: fewer cost more commits, more wait for each other."""


class JournalError(RejoinderError):
    """The journal cannot be written or read. What is in it is safe."""

    exit_code = 3


class Opened(Struct, frozen=True, tag="opened"):
    """The first record, and one for each time that the run is taken up again."""

    format: int
    in_doubt: int = 0


class Asked(Struct, frozen=True, gc=False, tag="asked", omit_defaults=True):
    key: str
    case: str
    target: str
    trial: int
    turn: int
    most: Amount | None = None
    """What it can cost at most, where a budget was reserved for it."""
    suite: str = ""
    """The suite's file as seen from its project, where a run has several: their targets may share a name."""
    inside: bool = False
    """The call does not leave this process, so it cannot be in doubt."""


class Told(Struct, frozen=True, gc=False, tag="told", omit_defaults=True):
    """What came of a call: a reply or a failure, after so many attempts."""

    key: str
    reply: Reply | None = None
    failure: Failure | None = None
    attempts: int = 1

    @property
    def has_failed(self) -> bool:
        """Did the call end in an error? A conversation that was cut off and began anew did not."""
        return self.failure is not None and self.failure.type != CUT_OFF


class Failed(Struct, frozen=True, tag="failed", omit_defaults=True):
    """An attempt that is known to have come to nothing: it is not in doubt, and may be made again."""

    key: str
    charged: bool = False
    """May it have to be paid for all the same?"""


Record: TypeAlias = Opened | Asked | Told | Failed
_Entry: TypeAlias = tuple[bytes, asyncio.Future[None] | None]
"""A line, and the task that waits for it to be on the disk."""


class History(Struct, frozen=True):
    """What a journal holds."""

    told: dict[str, Told]
    in_doubt: int
    """Calls that were made and whose outcome is unknown, over the whole life of the run."""
    size: int
    """Bytes up to the end of the last whole record."""
    heard: Mapping[str, int] = {}
    """How often each call was made that has no reply, where the target may have heard it."""


def read_journal(path: Path, mask: Mask, ledger: Ledger | None = None) -> History:
    """What a journal holds; the ledger, if one is given, is told what was spent."""
    told: dict[str, Told] = {}
    asked: set[str] = set()
    heard: Counter[str] = Counter()
    in_doubt = size = 0
    decode = msgspec.json.Decoder(Record).decode
    with open_file(path) as stream:
        for number, line in enumerate(lines_of(stream, path), 1):
            if not line.endswith(b"\n"):
                break  # torn by a crash in the middle of a write
            try:
                record = decode(mask.reveal(line) if mask else line)
            except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
                raise JournalError(
                    f"line {number} of {path} is damaged: {decoding_reason(error)}",
                    "The lines before it are intact. Restore the file from a copy, or start a new run.",
                ) from None
            size += len(line)
            if isinstance(record, Told):
                told[record.key] = record
                asked.discard(record.key)
                if record.failure is None:
                    heard.pop(record.key, None)
                elif not record.failure.was_turned_away:
                    heard[record.key] += 1
            elif isinstance(record, Asked):
                if not record.inside:
                    asked.add(record.key)
                    heard[record.key] += 1
            elif isinstance(record, Failed):
                asked.discard(record.key)
                heard[record.key] -= 1
            elif record.format != FORMAT:
                raise JournalError(
                    f"{path} has format {record.format}, and this version reads format {FORMAT}",
                    "Use the version of rejoinder that started the run.",
                )
            else:
                in_doubt = record.in_doubt
                asked.clear()
            if ledger is not None:
                _enter(record, ledger)
    if ledger is not None:
        ledger.taken_up()
    return History(told, in_doubt + len(asked), size, +heard)


def _enter(record: Record, ledger: Ledger) -> None:
    if isinstance(record, Asked):
        ledger.asked(record.key, (record.suite, record.target), record.most)
    elif isinstance(record, Told):
        ledger.told(record.key, record.reply)
    elif isinstance(record, Failed):
        ledger.failed(record.key, charged=record.charged)
    else:
        ledger.taken_up()


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
        self._mask = mask if mask else None
        self._encode = msgspec.json.Encoder().encode
        self._file = _File(path, history.size if history else 0)
        self.open_calls: set[str] = set()
        """Calls that were asked and not told: in doubt, should the run end now."""
        self._has_asked = False
        """Do calls leave this process? Otherwise none can be made early, and fewer commits are cheaper."""
        self._pending: list[_Entry] = []
        """What this turn of the event loop has brought."""
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

    def failed(self, key: str, *, charged: bool, final: bool) -> None:
        """The attempt has failed for certain. If it was the last, this is written together with what is told of the
        call, so that the call is not made again; else it stands before the record of the next attempt."""
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
        return self._mask.hide(line) if self._mask else line

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
        """Let those go on that wait for a record, the others in the next turn of the event loop."""
        count = AT_ONCE if self._has_asked else len(waiters)
        for waiter in waiters[:count]:
            if not waiter.done():
                if failure is None:
                    waiter.set_result(None)
                else:
                    waiter.set_exception(failure)
        if len(waiters) > count:
            self._loop.call_soon(self._wake, waiters[count:], failure)
