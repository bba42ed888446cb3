"""What is seen while a run goes on: rows that change on a terminal, a plain line now and then elsewhere.

Drawing never delays a call: the run counts, and a thread draws what was counted. Failures are printed above the rows as
they happen, and stay.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, deque
from typing import TextIO

from rejoinder.cli.output import is_screen, look, size_of, wants_colour, width_of
from rejoinder.engine.make_result import check_result
from rejoinder.engine.observer import Counting
from rejoinder.engine.plan import Job
from rejoinder.model import Outcome
from rejoinder.report.problems import columns_of
from rejoinder.report.styled import PARAGRAPH, Line, Piece, cut, fitted, line, paint, plain_text, safe, width_of_line
from rejoinder.views.course import step_words
from rejoinder.words.checks import described
from rejoinder.words.numbers import clock, count, in_seconds, money

QUIET_S = 1.0
"""Most small runs are over before anything is drawn."""
FRAME_S = 0.25
PATIENCE_S = 2.0
LEAST_LINES = 8
"""Of a terminal on which rows can be drawn."""
PLAIN_EVERY_S = 10.0
MOST_TICKS = 30
LEAST_QUOTE = 5
"""Columns below which a reply is left out."""
EVERY = 10
"""An error that comes again is printed this often."""
BAR = 40
MOST_IN_FLIGHT = 3
LEAST_DONE, LEAST_S = 5, 5.0
"""From here on the time that is left can be guessed."""


class LiveDisplay(Counting):
    """Counts, and says now and then how far it is, and what failed meanwhile."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._ticks: deque[Line] = deque()
        """Failures that are not printed yet."""
        self._ticked = 0
        self._equal: Counter[str] = Counter()
        """How often each error came."""
        self._flying: dict[int, tuple[str, float]] = {}
        """What is in flight: its number, id and start, the oldest first."""
        self._started = self._told = time.monotonic()

    def started(self, planned: int) -> None:
        super().started(planned)
        self._started = self._told = time.monotonic()

    def conversation_started(self, job: Job) -> None:
        super().conversation_started(job)
        self._flying[job.number] = job.prepared.case.id, time.monotonic()

    def conversation_finished(self, job: Job, outcome: Outcome) -> None:
        super().conversation_finished(job, outcome)
        self._flying.pop(job.number, None)
        if outcome.status in ("failed", "error") and not outcome.is_spoilt and self._is_news(outcome):
            self._ticked += 1
            if self._ticked <= MOST_TICKS:
                self._ticks.append(self._tick(job, outcome))
            elif self._ticked == MOST_TICKS + 1:
                self._ticks.append(line(("more failures follow at the end", "quiet")))
        self._tell()

    def _is_news(self, outcome: Outcome) -> bool:
        """False for an error that was printed already, but for every tenth time."""
        if outcome.status != "error" or outcome.error is None:
            return True
        self._equal[outcome.error.message] += 1
        times = self._equal[outcome.error.message]
        return times == 1 or times % EVERY == 0

    def _times(self, outcome: Outcome) -> str:
        """How often the error came, where that is more than once."""
        times = 0 if outcome.error is None else self._equal[outcome.error.message]
        return f"{times:,} times: " if times > 1 else ""

    def conversation_left(self, job: Job) -> None:
        super().conversation_left(job)
        self._flying.pop(job.number, None)
        self._tell()

    def retried(self) -> None:
        self.counts.retries += 1
        self._tell()

    def told(self, text: str) -> None:
        self._say(safe(text))

    def stopping(self) -> None:
        self._say("finishing the conversations in progress; press Ctrl-C again to stop at once")

    def cut_off(self, run: str) -> None:
        self._say(f"stopped at once; everything recorded is safe. To continue: rejoinder resume {run}")

    def _say(self, message: str) -> None:
        self._stream.write(f"{message}\n")
        self._stream.flush()

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._told < PLAIN_EVERY_S:
            return
        self._told = now
        for tick in iter(self._next_tick, None):
            self._say(plain_text(tick))
        counts = self.counts
        parts = [
            f"{counts.done:,} of {counts.planned:,} done",
            f"{counts.passed:,} passed",
            f"{counts.failed:,} failed",
        ]
        parts += [count(counts.errors, "error")] if counts.errors else []
        parts += [f"{counts.spoilt:,} invalid"] if counts.spoilt else []
        parts += [f"{len(self._flying):,} in flight"]
        parts += [f"{counts.retries:,} retries"] if counts.retries else []
        self._say(f"{clock(now - self._started)}  {', '.join([*parts, f'{counts.tokens:,} tokens'])}")

    def _next_tick(self) -> Line | None:
        return self._ticks.popleft() if self._ticks else None

    def _tick(self, job: Job, outcome: Outcome) -> Line:
        """`FAIL shipping-1 turn 2: icontains shipping: I am sorry, ...`"""
        where, why, reply = _why(outcome)
        word = "ERROR" if outcome.status == "error" else "FAIL"
        text = self._times(outcome) + ": ".join(filter(None, (why, reply)))
        return line(cut(f"{word} {_name(job)} {where}: {text}", PARAGRAPH, "..."))

    def _left(self, now: float) -> str:
        done, spent = self.counts.done, now - self._started
        if done < LEAST_DONE or spent < LEAST_S:
            return ""
        return f"   {clock(spent / done * (self.counts.planned - done))} left"


def _name(job: Job) -> str:
    trial = f" trial {job.trial}" if job.trial > 1 else ""
    return f"{safe(job.prepared.case.id)}{trial}"


def _why(outcome: Outcome) -> tuple[str, str, str]:
    """Where a conversation went wrong, by which check, and the beginning of the reply."""
    bad = next((one for one in outcome.steps if one.status in ("failed", "error")), None)
    turns = [turn for turn in outcome.turns if bad is None or turn.step == bad.step]
    turn = turns[-1] if turns else None
    verdicts = (*(turn.verdicts if turn is not None and not turn.passed else ()), *outcome.conversation_checks)
    failed = next((one for one in verdicts if one.state != "passed"), None)
    check = "" if failed is None else described(check_result(failed))
    why = outcome.error.message if outcome.error is not None else check
    where = f"turn {turn.turn if turn is not None else 1}"
    if bad is not None:
        where += f", {safe(step_words(bad.step, len(outcome.steps), bad.name))}"
    return where, safe(why), "" if turn is None or turn.response is None else safe(turn.response[:200])


class LiveScreen(LiveDisplay):
    """Rows at the bottom of a terminal, drawn again while something changes."""

    def __init__(self, stream: TextIO, *, colour: bool) -> None:
        super().__init__(stream)
        self._colour = colour
        self._drawn: list[int] = []
        """The columns of each row that stands on the screen now."""
        self._over = threading.Event()
        self._drawing = threading.Lock()
        self._thread: threading.Thread | None = None

    def started(self, planned: int) -> None:
        super().started(planned)
        self._thread = threading.Thread(target=self._draw_on, name="rejoinder-display", daemon=True)
        self._thread.start()

    def _tell(self) -> None:
        pass  # the thread does

    def _say(self, message: str) -> None:
        with self._drawing:
            self._write([f"{message}\n"], [])

    def finished(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)  # a terminal that is held with Ctrl-S takes nothing
        if not self._drawing.acquire(timeout=PATIENCE_S):
            return
        try:
            # All failures follow in full; a list that was begun is completed.
            above = list(map(self._painted, iter(self._next_tick, None))) if self._drawn else []
            self._write([*above, "\n"] if self._drawn and self._ticked else above, [])
        finally:
            self._drawing.release()

    def _draw_on(self) -> None:
        if self._over.wait(QUIET_S):
            return
        while not self._over.wait(FRAME_S):
            with self._drawing:
                above = list(map(self._painted, iter(self._next_tick, None)))
                self._write(above, self._rows(time.monotonic()))

    def _painted(self, tick: Line) -> str:
        return f"{paint(tick, colour=self._colour)}\n"

    def _write(self, above: list[str], rows: list[Line]) -> None:
        """One write for each frame: the rows of the last one are replaced, and what stays is put above them."""
        up = f"\r\033[{self._rows_drawn}A" if self._drawn else "\r"
        lines = [f"\033[K{paint(row, colour=self._colour)}\n" for row in rows]
        text = "".join([up, *(f"\033[K{one}" for one in above), *lines, "\033[J"])
        if not (rows or above or self._drawn):
            return
        self._drawn = list(map(width_of_line, rows))
        try:
            self._stream.write(f"\033[?2026h{text}\033[?2026l")
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone; the run goes on
            self._over.set()

    @property
    def _rows_drawn(self) -> int:
        """The rows of the last frame. A terminal that has become narrower since has broken the long ones in several."""
        width = width_of(self._stream)
        return sum(max(1, -(-columns // width)) for columns in self._drawn)

    def _rows(self, now: float) -> list[Line]:
        counts, width = self.counts, width_of(self._stream)
        share = counts.done / counts.planned if counts.planned else 0.0
        behind = f"  {counts.done:,} of {counts.planned:,}   {clock(now - self._started)}{self._left(now)}"
        bar = max(0, min(BAR, width - columns_of(behind) - 3))
        full = round(bar * share)
        first = line("  ", ("━" * full, "name"), ("─" * (bar - full), "quiet"), behind)
        rows = [first, self._so_far(), self._in_flight(now)]
        if counts.retries:
            rows.append(line(("  ! ", "warn"), (f"{counts.retries:,} retries", "warn")))
        return [fitted(row, width - 1) for row in rows if row]

    def _so_far(self) -> Line:
        """Counts, and no rate: quick cases end first."""
        counts = self.counts
        pieces = [Piece(f"  {counts.passed - counts.recovered:,} first try")]
        if counts.recovered:
            pieces += [Piece("   "), Piece(f"{counts.recovered:,} recovered", "recovered")]
        if counts.failed:
            pieces += [Piece("   "), Piece(f"{counts.failed:,} failed", "fail")]
        if counts.errors:
            pieces += [Piece("   "), Piece(count(counts.errors, "error"), "fail")]
        if counts.spoilt:
            pieces += [Piece("   "), Piece(f"{counts.spoilt:,} invalid", "warn")]
        if counts.cost:
            pieces.append(Piece(f"   {money(counts.cost)}", "quiet"))
        return tuple(pieces)

    def _in_flight(self, now: float) -> Line:
        flying = list(self._flying.values())
        if not flying:
            return ()
        oldest = "   ".join(f"{safe(name)} {in_seconds(round(now - start))}" for name, start in flying[:MOST_IN_FLIGHT])
        return line((f"  {len(flying):,} in flight:  {oldest}", "quiet"))

    def _tick(self, job: Job, outcome: Outcome) -> Line:
        """`✗ shipping-1  turn 2  icontains shipping  < I am sorry, ...`"""
        mark = Piece("!", "error") if outcome.status == "error" else Piece("✗", "fail")
        where, why, reply = _why(outcome)
        shown = cut(where, max(8, width_of(self._stream) // 3))
        start = (mark, Piece(f" {_name(job)}  "), Piece(f"{shown}  ", "quiet"))
        room = max(10, width_of(self._stream) - 1 - width_of_line(start))
        shown = cut(self._times(outcome) + why, max(10, room // 2 if reply else room))
        left = room - columns_of(shown)
        behind = cut(f"  < {reply}", left) if reply and left > LEAST_QUOTE else ""
        return (*start, Piece(shown, "reason"), Piece(behind, "quiet"))


class SilentDisplay(LiveDisplay):
    """Says only what has to be known: that it is being stopped."""

    def _tell(self) -> None:
        pass


def live_display() -> LiveDisplay:
    """Progress on standard error; with --quiet there is none."""
    if look().quiet:
        return SilentDisplay(sys.stderr)
    if is_screen(sys.stderr) and size_of(sys.stderr).lines >= LEAST_LINES:
        return LiveScreen(sys.stderr, colour=wants_colour(sys.stderr))
    return LiveDisplay(sys.stderr)
