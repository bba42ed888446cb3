"""The limiter: how fast a provider may be asked. One for each provider and key, shared by all conversations.

It starts open. What it learns, it learns from answers:

- Headers that tell what is left until when (`x-ratelimit-*`, `anthropic-ratelimit-*`, `ratelimit-*`): no more is sent
  than what is left.
- A 429: we ask too often. From what was accepted lately follows a *rate*; it is cut a little below that, and grows
  again while nothing is refused.
- A 529 or 503: too much at once. The *window* of calls under way shrinks by a third, and grows by one for each
  round of answers.

`Retry-After` is obeyed by everybody who shares the key. Calls that were sent before a cut tell nothing new when they
are refused as well, so a wave of refusals cuts once.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime

from msgspec import Struct

BELOW = 0.9
"""Of what was accepted, what is asked for after a refusal."""
GROWTH = 0.02
"""By how much the rate grows in a second near the last known limit."""
GROWTH_FAR_BELOW = 0.1
SHRINK = 0.7
"""What is left of the window after an overload."""
LONGEST_PAUSE_S = 60.0
SHORTEST_RATE = 0.05
_CATCH_UP_S = 0.02
"""A late timer is made up for, but not by a burst."""


class LimiterReport(Struct, frozen=True):
    """What a limiter did."""

    name: str
    requests: int
    refused: int
    waited_s: float
    """Time that calls waited, added up over all of them."""
    rate: float | None
    """Requests a second that it settled on; None where it never had to."""
    window: int | None
    """Calls under way at once that it settled on."""


class Limiter:
    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._in_flight = 0
        self._paused_until = 0.0
        self._allowances: dict[str, _Allowance] = {}
        self._tokens_each = 0.0
        # Pace
        self._rate: float | None = None
        self._ceiling = 0.0
        self._next_at = 0.0
        self._window: float | None = None
        # What was seen since the last cut
        self._epoch = 0
        self._accepted = 0
        self._stretch_began: float | None = None
        self._cut_at = 0.0
        self._cuts = 0
        self._locked_out = 0
        # For the report
        self._requests = 0
        self._refused = 0
        self._waited_s = 0.0

    async def enter(self, *, again: bool = False) -> int:
        """Wait until a call may be made. The ticket that comes back is handed in with what came of the call."""
        now = self._clock()
        if self._waiters or self._delay(now) > 0:
            waiter = asyncio.get_running_loop().create_future()
            # A call that was refused is older than those that wait.
            self._waiters.appendleft(waiter) if again else self._waiters.append(waiter)
            self._pump()
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._in_flight -= 1
                    self._pump()
                raise
            self._waited_s += self._clock() - now
        else:
            self._let_in(now)
        return self._epoch

    def leave(self, *, tokens: int | None = None) -> None:
        """A call was answered; `tokens` is what it used, None when it was not accepted but not refused either."""
        self._in_flight -= 1
        if tokens is not None:
            self._accepted += 1
            self._locked_out = 0
            self._tokens_each = tokens if not self._tokens_each else 0.9 * self._tokens_each + 0.1 * tokens
            self._grow()
        if self._waiters:
            self._pump()

    def refused(self, ticket: int, pressure: str, retry_after_s: float | None, back_off: tuple[float, float]) -> None:
        """A call was turned away. `back_off` is the first and the longest pause where the provider names none."""
        now = self._clock()
        self._in_flight -= 1
        self._refused += 1
        if ticket == self._epoch:
            self._epoch += 1
            if self._accepted == 0:
                self._locked_out += 1  # nothing gets through, which says nothing about how much would
                if self._cut_at:
                    self._stretch_began = self._cut_at  # so long a wait belongs to what the provider allows
            elif pressure == "rate":
                self._cut_rate(now)
            if pressure == "overload":
                under_way = self._in_flight + 1 if self._window is None else min(self._window, self._in_flight + 1)
                self._window = max(1.0, under_way * SHRINK)
            if retry_after_s is None:
                self._pause(now, self._own_pause(pressure, *back_off))
        if retry_after_s is not None:
            self._pause(now, retry_after_s)
        self._pump()

    def read(self, headers: Mapping[str, str]) -> None:
        """Learn from the headers of an answer what is left until when."""
        now = self._clock()
        for kind, names in _FAMILIES:
            left = headers.get(names[0])
            if left is None:
                continue
            remaining, seconds = _number(left), _seconds_until(headers.get(names[1]))
            if remaining is None or remaining < 0 or seconds is None:
                continue
            # Calls under way may not have been counted yet; those that were come back with a newer figure.
            self._allowances[kind] = _Allowance(remaining, now + min(seconds, LONGEST_PAUSE_S), self._in_flight - 1)

    def left(self) -> dict[str, tuple[float, float]]:
        """What the provider last said is left of each kind, and in how many seconds it is renewed."""
        now = self._clock()
        return {kind: (one.left, max(0.0, one.until - now)) for kind, one in self._allowances.items()}

    def report(self) -> LimiterReport:
        return LimiterReport(
            self._name,
            self._requests,
            self._refused,
            round(self._waited_s, 3),
            None if self._rate is None else round(self._rate, 2),
            None if self._window is None else max(1, int(self._window)),
        )

    def _delay(self, now: float) -> float:
        """Seconds until the next call may be made; infinite where it waits for another to come back."""
        if self._window is not None and self._in_flight >= max(1, int(self._window)):
            return float("inf")
        wait = self._paused_until - now
        if self._rate is not None:
            wait = max(wait, self._next_at - now)
        for kind, allowance in self._allowances.items():
            each = self._tokens_each if kind == "tokens" else 1
            if allowance.until > now and allowance.left - allowance.sent * each < each:
                wait = max(wait, allowance.until - now)
        return max(0.0, wait)

    def _let_in(self, now: float) -> None:
        self._in_flight += 1
        self._requests += 1
        if self._stretch_began is None:
            self._stretch_began = now
        if self._rate is not None:
            self._next_at = max(self._next_at, now - _CATCH_UP_S) + 1 / self._rate
        for allowance in self._allowances.values():
            allowance.sent += 1

    def _pump(self) -> None:
        """Let in whoever may go in now, and come back when the next one may."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiters:
            now = self._clock()
            delay = self._delay(now)
            if delay > 0:
                if delay != float("inf"):
                    self._timer = asyncio.get_running_loop().call_later(delay, self._pump)
                return
            waiter = self._waiters.popleft()
            if not waiter.done():
                self._let_in(now)
                waiter.set_result(None)

    def _cut_rate(self, now: float) -> None:
        """Ask for a little less than what was accepted since the last cut."""
        began = now if self._stretch_began is None else self._stretch_began
        accepted = self._accepted / max(1.0, now - began)
        if self._rate is not None:
            self._ceiling = self._rate
            # A short stretch says little: half of the rate that went well so far is the least to go on with.
            accepted = min(self._rate, accepted if began == self._cut_at else max(accepted, self._rate / 2))
        else:
            self._ceiling = accepted
        self._rate = max(SHORTEST_RATE, BELOW * accepted)
        self._next_at = now
        self._accepted = 0
        self._cuts += 1
        self._cut_at = now
        self._stretch_began = None

    def _own_pause(self, pressure: str, first: float, longest: float) -> float:
        """How long to hold back where the provider does not say."""
        if pressure == "rate" and self._cuts > 1 and not self._locked_out:
            return min(first, 4 / (self._rate or 1))  # the rate is known by now, and was exceeded by a little
        pause = min(longest, first * 2**self._locked_out)
        return pause * random.uniform(0.75, 1)

    def _pause(self, now: float, seconds: float) -> None:
        self._paused_until = max(self._paused_until, now + seconds)

    def _grow(self) -> None:
        if self._window is not None:
            self._window += 1 / self._window
        if self._rate is not None and self._waiters:  # a rate that nobody uses up proves nothing
            self._rate += GROWTH if self._rate > 0.75 * self._ceiling else GROWTH_FAR_BELOW


class _Allowance(Struct):
    """What a provider says is left, and until when."""

    left: float
    until: float
    sent: int
    """Calls that were sent since and may count against it."""


_FAMILIES = (
    ("requests", ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests")),
    ("tokens", ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens")),
    ("requests", ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset")),
    ("tokens", ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset")),
    ("requests", ("ratelimit-remaining", "ratelimit-reset")),
)
"""Headers that say how much is left and when there will be all of it again."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _seconds_until(text: str | None) -> float | None:
    """`6m0s`, `120ms`, plain seconds, or a date as Anthropic writes it."""
    if text is None:
        return None
    parts = _DURATION.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    seconds = _number(text)
    if seconds is None:
        try:
            seconds = datetime.fromisoformat(text).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return seconds if 0 <= seconds < float("inf") else 0.0


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How many seconds the provider asks us to wait: `retry-after-ms`, `retry-after` in seconds or as a date."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    text = headers.get("retry-after")
    if text is None:
        return None
    seconds = _number(text)
    if seconds is None:
        from email.utils import parsedate_to_datetime  # noqa: PLC0415 - dates are rare here

        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds)
