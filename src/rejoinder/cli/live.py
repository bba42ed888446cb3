"""What is seen while a run goes on: one line that changes on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from rejoinder.cli.output import width_of
from rejoinder.engine.observer import Observer
from rejoinder.engine.plan import Job
from rejoinder.model import Outcome

REFRESH_S = 0.1
PLAIN_EVERY_S = 10.0


class _Counts:
    def __init__(self) -> None:
        self.planned = self.done = self.passed = self.under_way = self.retries = self.tokens = 0


class LiveDisplay(Observer):
    def __init__(self, stream: TextIO, width: int) -> None:
        self._stream = stream
        self._width = width
        self._terminal = stream.isatty()
        self._counts = _Counts()
        self._started = self._drawn = time.monotonic()
        self._stopping = False

    def started(self, planned: int) -> None:
        self._counts.planned = planned
        self._started = self._drawn = time.monotonic()

    def conversation_started(self, job: Job) -> None:  # noqa: ARG002 - the observer's signature
        self._counts.under_way += 1

    def conversation_finished(self, job: Job, outcome: Outcome) -> None:  # noqa: ARG002
        self._counts.under_way -= 1
        self._counts.done += 1
        self._counts.passed += outcome.status == "passed"
        for turn in outcome.turns:
            self._counts.tokens += turn.usage.total_tokens
        self._draw()

    def conversation_left(self, job: Job) -> None:  # noqa: ARG002
        self._counts.under_way -= 1
        self._counts.done += 1
        self._draw()

    def retried(self) -> None:
        self._counts.retries += 1
        self._draw()

    def stopping(self) -> None:
        self._stopping = True
        self._say("finishing the conversations in progress; press Ctrl-C again to stop at once")

    def cut_off(self, run: str) -> None:
        self._say(f"stopped at once; everything recorded is safe. Go on with: rejoinder resume {run}")

    def _say(self, message: str) -> None:
        self._stream.write(f"\r\033[K{message}\n" if self._terminal else f"{message}\n")
        self._stream.flush()

    def finished(self) -> None:
        if self._terminal:
            self._stream.write("\r\033[K")
            self._stream.flush()

    def _draw(self) -> None:
        now = time.monotonic()
        if now - self._drawn < (REFRESH_S if self._terminal else PLAIN_EVERY_S):
            return
        self._drawn = now
        line = self._line(now)
        self._stream.write(f"\r\033[K{line[: self._width - 1]}" if self._terminal else f"{line}\n")
        self._stream.flush()

    def _line(self, now: float) -> str:
        rate = f"{self._counts.passed / self._counts.done:.0%} passed" if self._counts.done else "none finished"
        parts = [f"{self._counts.done:,}/{self._counts.planned:,}", rate, f"{self._counts.under_way} under way"]
        if self._counts.retries:
            parts.append(f"{self._counts.retries} retries")
        parts.append(f"{self._counts.tokens:,} tokens")
        if self._counts.done:
            left = (now - self._started) / self._counts.done * (self._counts.planned - self._counts.done)
            parts.append(f"{int(left // 60)}:{int(left % 60):02d} left")
        return ", ".join(parts)


def live_display() -> LiveDisplay:
    """Progress on standard error."""
    return LiveDisplay(sys.stderr, width_of(sys.stderr))
