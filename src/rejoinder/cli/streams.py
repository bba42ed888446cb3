"""Standard output and error, so that a reader that has gone or a full disk is no crash of a command.

A command writes as if all were well, does what it has begun and ends with its own exit code; a reader that has closed
the pipe (`| head`) wants no more. Where output was lost for another reason, the end of the command says so.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rejoinder.errors import RejoinderError, reason_of, remedy_for

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

CANNOT_WRITE = 3
"""The exit code of a command whose output, or a file of it, could not be written."""


class LostOutput(RejoinderError):
    """Something that a command wrote did not arrive."""

    exit_code = CANNOT_WRITE

    def __init__(self, place: str, error: OSError) -> None:
        super().__init__(f"{place} cannot be written: {reason_of(error)}; {remedy_for(error)}")


class _Guarded(io.RawIOBase):
    """The bytes of a standard stream. After the first failure nothing more is written."""

    def __init__(self, raw: io.RawIOBase | io.BufferedIOBase) -> None:
        self._raw = raw
        self.failure: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int | None:
        if self.failure is None:
            try:
                return self._raw.write(data)
            except OSError as error:
                self.failure = error
        return memoryview(data).nbytes

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def isatty(self) -> bool:
        return self._raw.isatty()


def guard_streams() -> None:
    """Put guarded streams in place of the standard ones. Text from suites may hold anything; a terminal that cannot
    show it must not end the program."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # it was closed before we began
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - as long as the process
            continue
        if not isinstance(stream, io.TextIOWrapper) or stream is not getattr(sys, f"__{name}__"):
            continue  # it is captured: not ours
        encoding, is_line_buffered, is_unbuffered = stream.encoding, stream.line_buffering, stream.write_through
        buffer = stream.detach()
        raw = buffer.detach() if isinstance(buffer, io.BufferedWriter) else buffer
        guarded = io.TextIOWrapper(
            io.BufferedWriter(_Guarded(raw)),
            encoding,
            errors="backslashreplace",
            line_buffering=is_line_buffered,
            write_through=is_unbuffered,
        )
        setattr(sys, name, guarded)
        setattr(sys, f"__{name}__", guarded)  # by this one, code that captures output is told from ours


def is_read() -> bool:
    """Does what is written to standard output arrive? The rest of a long text need not be made if not."""
    return _failure() is None


def lost_output() -> LostOutput | None:
    """Why standard output did not arrive, at the end of a command; None where it did, or its reader has gone."""
    if sys.stdout is not None:
        sys.stdout.flush()
    failure = _failure()
    return None if failure is None or isinstance(failure, BrokenPipeError) else LostOutput("standard output", failure)


def _failure() -> OSError | None:
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.failure if isinstance(raw, _Guarded) else None
