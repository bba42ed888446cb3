"""The journal: every call and what came of it, durable before the conversation goes on.

An append-only file with one JSON record a line. `asked` is written before a call and not waited for; `told` is
written after it, and waited for until it is on the disk. So a call that was asked and not told is *in doubt*: only such
calls can be made twice. One thread writes: it takes all that waits, one write, one fdatasync, and wakes the waiters.
There is no timer, so a lone record never waits for company.

A last line that was torn by a crash is cut off when the journal is opened again. A line that is damaged elsewhere is
an error that names it: nothing is guessed.
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
from msgspec import Struct

from rejoinder.engine.masking import Mask
from rejoinder.engine.points import is_due, reached
from rejoinder.errors import RejoinderError
from rejoinder.model import Failure, Reply

FORMAT = 1


class JournalError(RejoinderError):
    """The journal cannot be written or read. What is in it is safe."""

    exit_code = 3


class Opened(Struct, frozen=True, tag="opened"):
    """The first record, and one for each time that the run is taken up again."""

    format: int
    in_doubt: int = 0


class Asked(Struct, frozen=True, tag="asked", omit_defaults=True):
    key: str
    case: str
    target: str
    trial: int
    turn: int
    judging: bool = False


class Told(Struct, frozen=True, tag="told", omit_defaults=True):
    """What came of a call: a reply or a failure, after so many attempts."""

    key: str
    reply: Reply | None = None
    failure: Failure | None = None
    attempts: int = 1


Record: TypeAlias = Opened | Asked | Told


class History(Struct, frozen=True):
    """What a journal holds."""

    told: dict[str, Told]
    in_doubt: int
    """Calls that were made and whose outcome nobody knows, over the whole life of the run."""
    size: int
    """Bytes up to the end of the last whole record."""


def read_journal(path: Path, mask: Mask) -> History:
    told: dict[str, Told] = {}
    asked: set[str] = set()
    in_doubt = size = 0
    decode = msgspec.json.Decoder(Record).decode
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.endswith(b"\n"):
                break  # torn by a crash in the middle of a write
            try:
                record = decode(mask.reveal(line) if mask else line)
            except msgspec.MsgspecError as error:
                raise JournalError(
                    f"line {number} of {path} is damaged: {error}",
                    "The lines before it are sound. Restore the file from a copy, or start a new run.",
                ) from None
            size += len(line)
            if isinstance(record, Told):
                told[record.key] = record
                asked.discard(record.key)
            elif isinstance(record, Asked):
                asked.add(record.key)
            else:
                in_doubt = record.in_doubt
                asked.clear()
    return History(told, in_doubt + len(asked), size)


class Journal:
    """The journal of an open run. `told` returns when the record is on the disk, or raises JournalError."""

    def __init__(self, path: Path, mask: Mask, history: History | None = None) -> None:
        self._path = path
        self._mask = mask
        self._encode = msgspec.json.Encoder().encode
        self._queue: SimpleQueue[tuple[bytes, asyncio.Future[None] | None] | None] = SimpleQueue()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._size = history.size if history else 0
        os.ftruncate(self._file, self._size)
        os.lseek(self._file, self._size, os.SEEK_SET)
        self._failed: JournalError | None = None
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._write_for_ever, name="rejoinder-journal", daemon=True)
        self._thread.start()
        self._put(Opened(FORMAT, history.in_doubt if history else 0), None)

    def asked(self, record: Asked) -> None:
        self._put(record, None)
        reached("asked.queued")

    async def told(self, record: Told) -> None:
        waiter = self._loop.create_future()
        self._put(record, waiter)
        reached("told.queued")
        await waiter

    def close(self) -> None:
        """Write what waits and let go of the file."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()
        os.close(self._file)

    def _put(self, record: Record, waiter: asyncio.Future[None] | None) -> None:
        if self._failed is not None:
            raise self._failed
        line = self._encode(record) + b"\n"
        self._queue.put((self._mask.hide(line) if self._mask else line, waiter))

    def _write_for_ever(self) -> None:
        closing = False
        while not closing:
            first = self._queue.get()
            batch = [] if first is None else [first]
            closing = first is None
            try:
                while True:
                    entry = self._queue.get_nowait()
                    if entry is None:
                        closing = True
                    else:
                        batch.append(entry)
            except Empty:
                pass
            if batch:
                self._commit(batch)

    def _commit(self, batch: list[tuple[bytes, asyncio.Future[None] | None]]) -> None:
        waiters = [waiter for _, waiter in batch if waiter is not None]
        try:
            if self._failed is None:
                self._write(b"".join(line for line, _ in batch), durable=bool(waiters))
        except OSError as error:
            self._failed = JournalError(
                f"the journal {self._path} cannot be written: {(error.strerror or str(error)).lower()}",
                "Make room on the disk; everything up to here is safe.",
            )
            with contextlib.suppress(OSError):  # a torn last line is tolerated as well
                os.ftruncate(self._file, self._size)
                os.lseek(self._file, self._size, os.SEEK_SET)
        if waiters:
            self._loop.call_soon_threadsafe(_wake, waiters, self._failed)

    def _write(self, data: bytes, *, durable: bool) -> None:
        reached("batch.before_write")
        if is_due("batch.torn"):
            os.write(self._file, data[: len(data) // 2])
        reached("batch.torn")
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._file, rest) :]
        reached("batch.written")
        # `asked` alone need not be on the disk: nothing waits for it, and it survives the end of this process.
        if durable:
            os.fdatasync(self._file)
        self._size += len(data)
        reached("batch.synced")


def _wake(waiters: list[asyncio.Future[None]], failure: JournalError | None) -> None:
    for waiter in waiters:
        if not waiter.done():
            if failure is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(failure)
