"""A program that exchanges JSON values with us, one per line, until it is closed.

Two time limits apply. The caller limits the time for an answer; the silence limit is the longest time without any
output, because agents can hang silently.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from rejoinder.user_code.processes import end_of
from rejoinder.user_code.programs import GRACE_S, Program
from rejoinder.words.numbers import in_seconds

OF_LINE = 100
"""Bytes of overhead per waiting line."""
LONGEST_SHOWN = 200
"""Maximum bytes shown of a line that is not JSON."""
_MARKS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[,\[{]', re.DOTALL)
"""Texts, and the marks outside of them that precede a value."""
_QUOTE = ord('"')
Kind: TypeAlias = Literal["crash", "silence", "timeout", "flood"]


class Bounds(Struct, frozen=True):
    """Limits of a program's output: a program that exceeds them is ended."""

    longest_line: int = 32 << 20
    most_waiting: int = 64 << 20
    """Bytes that were printed but not read."""
    most_values: int | None = None
    """Values in one line: a small value takes a hundred times as much memory as its text."""


class LineFault(Exception):
    """The program ended, fell silent, took too long or printed too much. The message says which."""

    def __init__(self, message: str, kind: Kind) -> None:
        super().__init__(message)
        self.kind = kind


class LineProcess:
    """A running program that exchanges lines of JSON."""

    def __init__(
        self,
        words: tuple[str, ...],
        folder: Path,
        environment: Mapping[str, str],
        *,
        called: str,
        owner: str = "",
        bounds: Bounds | None = None,
    ) -> None:
        """Start the program. `called`: its name in messages. Raises ProcessFault if it cannot be started."""
        self._called = called
        self._bounds = bounds or Bounds()
        self._rest = bytearray()
        self._lines: deque[bytes] = deque()
        self._waiting = 0
        self._flooded = False
        self.passed_over = ""
        """The start of the last line that was not JSON."""
        self._news = asyncio.Event()
        self._program = Program(words, folder, environment, self._take, owner)
        self._program.exited.add_done_callback(lambda _: self._news.set())
        self._program.drained.add_done_callback(lambda _: self._news.set())

    @property
    def complaint(self) -> str:
        """The last words on its standard error."""
        return end_of(self._program.end_of_stderr)

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._program.exited.result() if self._program.exited.done() else None

    def send(self, value: Any) -> None:
        """Write a value as a line."""
        self._program.send(msgspec.json.encode(value) + b"\n", more=True)

    def send_text(self, text: str) -> None:
        """Write a text, which ends its standard input."""
        self._program.send(text.encode("utf-8", "replace"))

    async def receive(self, *, silence_s: float | None, until: float | None) -> Any:
        """The next printed value; None after the program has ended. Lines that are not JSON are skipped: agents print
        warnings among their values. `until`: the deadline by the loop's clock.

        Processes that it left behind may hold its pipes open: they are waited for only briefly.

        Raises LineFault.
        """
        loop = asyncio.get_running_loop()
        while True:
            while self._lines:
                line = self._lines.popleft()
                self._waiting -= len(line) + OF_LINE
                most = self._bounds.most_values
                if most is not None and len(line) > most and _has_more_values(line, most):
                    raise self._fault("prints more than can be read", "flood")
                value = _read(line)
                if value is not None:
                    return value
                self.passed_over = line[:LONGEST_SHOWN].decode(errors="replace").strip() or self.passed_over
            if self._flooded:
                raise self._fault("prints more than can be read", "flood")
            if self._program.drained.done():
                return self._last()
            self._news.clear()
            left = None if until is None else until - loop.time()
            has_exited = self._program.exited.done()
            bounds = left, silence_s, GRACE_S if has_exited else None
            patience = min((one for one in bounds if one is not None), default=None)
            try:
                async with asyncio.timeout(patience):
                    await self._news.wait()
            except TimeoutError:
                if has_exited:
                    return self._last()
                if left is not None and patience == left:
                    raise self._fault("did not answer in time", "timeout") from None
                raise self._fault(f"printed nothing for {in_seconds(patience or 0)}", "silence") from None

    def ended(self) -> LineFault:
        """The fault of a program that ended before it answered."""
        code = self.exit_code
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
        return self._fault(how, "crash")

    async def close(self, *, grace_s: float = 0.0) -> None:
        """End it and all processes that it started. `grace_s`: seconds to exit by itself after its input ends."""
        try:
            if grace_s and not self._program.drained.done():
                self._program.send(b"")
                await asyncio.wait([self._program.exited], timeout=grace_s)
            if not self._program.drained.done():
                await self._program.end(politely=True)
        finally:
            await self._program.put_down(well=False)

    def _take(self, data: bytes) -> None:
        if self._flooded:
            return
        self._rest += data
        if b"\n" in data:  # a long line comes in many pieces, which are not to be looked through each time
            *lines, rest = self._rest.split(b"\n")
            self._lines.extend(bytes(line) for line in lines)
            self._waiting += sum(len(line) + OF_LINE for line in lines)
            self._rest = bytearray(rest)
        longest = self._bounds.longest_line
        is_too_long = len(self._rest) > longest
        if is_too_long or self._waiting > self._bounds.most_waiting:
            self._flooded = True
            self._rest = bytearray()
            self._lines.clear()
        self._news.set()

    def _last(self) -> Any:
        """Read the last line. Without a line end, as of a program that was killed while writing, it is not a value."""
        line, self._rest = bytes(self._rest), bytearray()
        return _read(line)

    def _fault(self, what: str, kind: Kind) -> LineFault:
        said = self.complaint
        return LineFault(f"{self._called} {what}{f': {said}' if said else ''}", kind)


def _has_more_values(line: bytes, most: int) -> bool:
    """Whether a line of JSON has more than `most` values; marks inside of texts do not count. Nothing is stored in
    memory."""
    marks = (found for found in _MARKS.finditer(line) if line[found.start()] != _QUOTE)
    return next(islice(marks, most, None), None) is not None


def _read(line: bytes) -> Any:
    """The object on a line; None if there is none."""
    line = line.strip()
    if not line.startswith(b"{"):
        return None
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
