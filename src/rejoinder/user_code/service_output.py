"""Output of a service: written to a log in bounded lines, searched for one text, its last lines kept.

A service may print anything, for ever. So lines are cut, the log ends at a size, and only a few lines stay in memory.
The log gets whole lines, so that a secret in them is found wherever the pipe was cut.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

MOST_LOG = 4 << 20
"""Bytes of output that are written to the log."""
LONGEST_LINE = 64 << 10
"""Bytes of a line that are looked at; the rest of the line is dropped."""
_KEPT = 10
"""Last lines that an error shows."""
_LONGEST_KEPT = 300


class ServiceOutput:
    """The output of one service. `write` gets whole lines for the log; `found` is called when a line has `wanted`."""

    def __init__(self, write: Callable[[list[str]], None], wanted: str = "") -> None:
        self._write = write
        self._wanted = wanted
        self.found: Callable[[], None] = lambda: None
        self._rests: tuple[bytearray, bytearray] = bytearray(), bytearray()
        self._dropping = [False, False]
        """Whether the rest of a line that is too long is being dropped, by pipe."""
        self._last: deque[str] = deque(maxlen=_KEPT)
        self._room = MOST_LOG

    @property
    def last_lines(self) -> list[str]:
        """The last lines, shortened; they may hold secrets."""
        return [f"{line[:_LONGEST_KEPT]}..." if len(line) > _LONGEST_KEPT else line for line in self._last]

    def take(self, data: bytes) -> None:
        """Standard output."""
        self._take(data, 0)

    def take_errors(self, data: bytes) -> None:
        """Standard error."""
        self._take(data, 1)

    def close(self) -> None:
        """Take what has no line end."""
        for rest in self._rests:
            if rest:
                self._tell([bytes(rest)])
                rest.clear()

    def _take(self, data: bytes, pipe: int) -> None:
        rest = self._rests[pipe]
        *lines, last = data.split(b"\n")
        if lines:
            first = b"" if self._dropping[pipe] else bytes(rest) + lines[0]
            whole = [first, *lines[1:]] if not self._dropping[pipe] else lines[1:]
            self._dropping[pipe] = False
            rest.clear()
            self._tell(whole)
        if self._dropping[pipe]:
            return
        rest += last
        if len(rest) > LONGEST_LINE:
            self._tell([bytes(rest[:LONGEST_LINE])])
            rest.clear()
            self._dropping[pipe] = True
        elif self._wanted and rest:
            self._look(_decoded(bytes(rest)))  # a prompt has no line end

    def _tell(self, lines: list[bytes]) -> None:
        texts = [_decoded(line[:LONGEST_LINE]).rstrip("\r") for line in (lines if self._room > 0 else lines[-_KEPT:])]
        self._last.extend(text for text in texts if text.strip())
        for text in texts if self._wanted else ():
            self._look(text)
        if self._room > 0:
            self._room -= sum(map(len, lines)) + len(lines)
            self._write(texts if self._room > 0 else [*texts, "... what it printed later is left out"])

    def _look(self, text: str) -> None:
        if self._wanted and self._wanted in text:
            self._wanted = ""
            self.found()


def _decoded(line: bytes) -> str:
    return line.decode(errors="replace")
