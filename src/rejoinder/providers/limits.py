"""The limiter: how fast a provider may be asked. One for each provider and key, shared by all conversations.

It starts open. What it learns, it learns from answers:

- Headers that tell what is left until when (`x-ratelimit-*`, `anthropic-ratelimit-*`, `ratelimit-*`): no more is sent
  than what is left.
- A 429: we ask too often. From what was let through lately follows a *rate*; it is set a little below that, and grows
  again while nothing is refused, slowly where the limit was last.
- A 529 or 503: too much at once. The *window* of calls under way shrinks by a third, and grows by one for each
  round of answers.
- Nothing but refusals: we are *locked out*, which says nothing about how much would be let through. Single calls try
  after longer and longer pauses, and the time until one succeeds counts when the rate is worked out.

`Retry-After` holds for all calls with the same key.

Refusals come at once and answers after seconds, so a call counts as let through until it is refused. When calls that
were sent before a cut are refused as well, they only tell how many of them were too many: a wave of refusals cuts once.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from math import isfinite

from msgspec import Struct

from rejoinder.model.runs import LimiterResult as LimiterReport

BELOW = 0.92
"""Of what was let through, what is asked for after a refusal."""
LEAST_GROWTH, MOST_GROWTH = 0.003, 0.1
"""By what share the rate grows in a second: the least where the limit was last, the most far from there."""
SHORTEST_RATE = 0.05
SHRINK = 0.7
"""What is left of the window after an overload."""
LONGEST_HOLD_S = 60.0
"""For so long a header is believed that nothing is left; then the next call asks again."""
VAGUE_S = 5.0
"""A reset nearer than this is not waited for where it is told in whole seconds, which may be twice the truth, nor
where a rate is known, which is closer to it, unless a call was refused."""
TRIAL_S = 0.5
"""After a lock-out one call goes ahead of the others, for as long as a refusal takes to come back."""
ON_THE_WAY_S = 0.2
"""The longest that a request is thought to be on its way; the rest of the time until its answer is the model's."""
_CATCH_UP_S = 0.05
"""A late timer is made up for, but not by a burst."""


class Closed(Exception):
    """The limiter was shut down."""


class Sent(Struct, frozen=True):
    """When a request went out, and as which one: its answer tells what was left then."""

    at: float
    number: int


class Limiter:
    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._returned: deque[asyncio.Future[int]] = deque()
        """Calls that were refused: they are older than those that wait."""
        self._waiters: deque[asyncio.Future[int]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._in_flight = 0
        self._closed = False
        # What holds calls back
        self._paused_until = 0.0
        self._next_at = 0.0
        self._rate: float | None = None
        self._ceiling = 0.0
        self._window: float | None = None
        self._allowances: dict[str, _Allowance] = {}
        # What was seen
        self._stretch = _Stretch(1)
        self._ended = _Stretch(0)
        self._locked_out = 0
        self._tokens_each = 0.0
        # For the report
        self._requests = 0
        self._refused = 0
        self._waited_s = 0.0

    async def enter(self, *, again: bool = False) -> int:
        """Wait until a call may be made. The ticket that comes back is handed in with what came of the call."""
        now = self._clock()
        if not self._is_anyone_waiting() and self._delay(now) <= 0:
            return self._let_in(now)
        if self._closed:
            raise Closed
        waiter: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        (self._returned if again else self._waiters).append(waiter)
        self._pump()
        try:
            ticket = await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._turn_back(waiter.result())
            raise
        self._waited_s += self._clock() - now
        return ticket

    def close(self) -> None:
        """Shut down: calls that wait, or would have to wait, end with `Closed`."""
        self._closed = True
        for waiter in (*self._returned, *self._waiters):
            if not waiter.done():
                waiter.set_exception(Closed())

    def sending(self) -> Sent:
        """A request goes out now. What comes back is handed in with the headers of its answer."""
        self._requests += 1
        return Sent(self._clock(), self._requests)

    def leave(self, *, tokens: int | None = None) -> None:
        """A call was answered; `tokens` is what it used, None when it was not accepted but not refused either."""
        self._in_flight -= 1
        if tokens is not None:
            self._tokens_each = tokens if not self._tokens_each else 0.9 * self._tokens_each + 0.1 * tokens
            self._grow()
        self._pump()

    def refused(self, ticket: int, pressure: str, retry_after_s: float | None, back_off: tuple[float, float]) -> None:
        """A call was turned away. `back_off` is the first and the longest pause where the provider names none."""
        now = self._clock()
        self._in_flight -= 1
        self._refused += 1
        if ticket == self._stretch.number:
            self._end_stretch(now)
        if ticket == self._ended.number:
            self._ended.refused += 1
            self._settle(pressure)
            # Locked out again after the wait that the server asked for: the next wait has to be longer.
            told = retry_after_s is not None or self._is_told_when(now)
            if self._locked_out > 1 or not told:
                self._pause_until(self._ended.ended + self._own_pause(pressure, *back_off))
        if retry_after_s is not None:
            self._pause_until(now + retry_after_s)
        self._stretch.pause_s = max(self._stretch.pause_s, self._paused_until - now)
        self._pump()

    def read(self, headers: Mapping[str, str], sent: Sent, *, failed: bool = False) -> None:
        """Learn from the headers of an answer what was left when its request arrived, and until when.

        A failure is told at once, so its figures are fresh. Other answers are as old as the model took to think.
        """
        now = self._clock()
        arrived = now if failed else min(now, sent.at + ON_THE_WAY_S)
        for kind, left_name, reset_name in _FAMILIES:
            if left_name not in headers:
                continue
            left, until = _number(headers.get(left_name, "")), _until(headers.get(reset_name, ""), arrived, now)
            if left is None or left < 0 or until is None:
                continue
            vague = until.moment - now < VAGUE_S and (until.rounded or (self._rate is not None and not failed))
            # What went out later was not counted yet.
            news = _Allowance(left, until.moment, now, self._requests - sent.number, vague)
            known = self._allowances.get(kind)
            # Of calls that were under way together, the one that found the least was counted last.
            if known is None or known.until <= now or known.read_at < sent.at or left < known.left:
                self._allowances[kind] = news

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

    # Letting in.

    def _is_anyone_waiting(self) -> bool:
        return bool(self._returned or self._waiters)

    def _delay(self, now: float) -> float:
        """Seconds until the next call may be made; infinite where it waits for another to come back."""
        if self._window is not None and self._in_flight >= max(1, int(self._window)):
            return float("inf")
        free_at = max(self._paused_until, self._next_at)
        for kind, allowance in self._allowances.items():
            if allowance.left < (allowance.since + 1) * self._each(kind):
                free_at = max(free_at, allowance.held_until)
        return max(0.0, free_at - now)

    def _each(self, kind: str) -> float:
        """What a call takes from an allowance."""
        return self._tokens_each if kind == "tokens" else 1.0

    def _let_in(self, now: float) -> int:
        stretch = self._stretch
        step = 0.0 if self._rate is None else 1 / self._rate
        if self._locked_out and not stretch.sent:
            step = max(step, TRIAL_S)
        if step:
            self._next_at = max(self._next_at, now - _CATCH_UP_S) + step
        for allowance in self._allowances.values():
            allowance.since += 1
        if not stretch.sent:
            stretch.began = now
        stretch.sent += 1
        self._in_flight += 1
        return stretch.number

    def _turn_back(self, ticket: int) -> None:
        """A caller was admitted and had been cancelled."""
        self._in_flight -= 1
        for stretch in (self._stretch, self._ended):
            stretch.sent -= stretch.number == ticket
        self._pump()

    def _pump(self) -> None:
        """Admit the calls that may go now, and come back when the next one may."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._is_anyone_waiting():
            waiters = self._returned or self._waiters
            if waiters[0].done():  # gone
                waiters.popleft()
                continue
            now = self._clock()
            delay = self._delay(now)
            if delay > 0:
                if delay != float("inf"):
                    self._timer = asyncio.get_running_loop().call_later(delay, self._pump)
                return
            waiters.popleft().set_result(self._let_in(now))

    # Learning.

    def _end_stretch(self, now: float) -> None:
        """The first refusal of a wave."""
        ended = self._ended = self._stretch
        ended.ended = now
        ended.rate, ended.window, ended.locked_out = self._rate, self._window, self._locked_out
        ended.under_way = self._in_flight + 1
        ended.jitter = random.uniform(1, 1.1)
        self._next_at = now  # if this was a trial, it is over
        self._stretch = _Stretch(ended.number + 1)

    def _settle(self, pressure: str) -> None:
        """Draw the conclusions from a wave of refusals, with each of them anew."""
        ended = self._ended
        # Who has too much to do may be at work for others that were sent long ago.
        passed = (ended.sent if pressure == "rate" else ended.under_way) - ended.refused
        # A wave may have both kinds of refusals; each undoes and draws its own conclusion only.
        if pressure == "rate":
            self._rate = ended.rate
        else:
            self._window = ended.window
        if passed <= 0:
            self._locked_out = ended.locked_out + 1
            self._stretch.after = ended.after
            return
        self._locked_out = 0
        self._stretch.after = ended.ended
        if pressure == "rate":
            self._rate = self._cut_rate(passed)
        else:
            most = ended.under_way if ended.window is None else min(ended.window, ended.under_way)
            self._window = max(1.0, min(SHRINK * most, passed))

    def _cut_rate(self, passed: int) -> float:
        """A little less than what was let through since the last cut."""
        ended = self._ended
        began = ended.after if ended.locked_out and ended.after else ended.began
        let_through = passed / max(1.0, ended.ended - began, ended.pause_s)
        self._ceiling = let_through
        if ended.rate is not None:
            let_through = min(let_through, ended.rate)
            if not ended.locked_out:
                # A short stretch says little: half of the rate that went well so far is the least to go on with.
                let_through = max(let_through, ended.rate / 2)
                self._ceiling = ended.rate
        return max(SHORTEST_RATE, BELOW * let_through)

    def _is_told_when(self, now: float) -> bool:
        """Do headers say when there will be more? Then nothing has to be guessed."""
        return any(one.held_until > now and one.left < self._each(kind) for kind, one in self._allowances.items())

    def _own_pause(self, pressure: str, first: float, longest: float) -> float:
        """How long to hold back where the provider does not say."""
        ended = self._ended
        if self._locked_out:
            return min(longest, first * 2 ** min(self._locked_out - 1, 60) * ended.jitter)
        if pressure == "rate" and ended.rate is not None:
            return min(first, 4 / ended.rate)  # the rate is known by now, and was exceeded by a little
        if pressure == "overload" and ended.window is not None:
            return 0.0  # some of those under way have to come back first
        return first * ended.jitter

    def _pause_until(self, moment: float) -> None:
        self._paused_until = max(self._paused_until, moment)

    def _grow(self) -> None:
        if not self._is_anyone_waiting():
            return  # a limit that is not used up proves nothing
        if self._window is not None:
            self._window += 1 / self._window
        if self._rate is not None:
            # In a second there are as many answers as the rate says, so this is the share by which it grows.
            beyond = self._rate / self._ceiling - 1
            share = min(MOST_GROWTH, max(LEAST_GROWTH, beyond / 3, -beyond / 8))
            self._rate += min(share, self._rate / 50)


class _Stretch(Struct):
    """The calls between two waves of refusals."""

    number: int
    sent: int = 0
    refused: int = 0
    after: float = 0.0
    """When the last stretch ended that was not a lock-out."""
    began: float = 0.0
    ended: float = 0.0
    pause_s: float = 0.0
    """For how long no call was admitted before it."""
    # How things were when it ended
    rate: float | None = None
    window: float | None = None
    locked_out: int = 0
    under_way: int = 0
    jitter: float = 1.0


class _Allowance(Struct):
    """What a provider says is left, and until when."""

    left: float
    until: float
    read_at: float
    since: int
    """Calls that were sent since and count against it."""
    vague: bool

    @property
    def held_until(self) -> float:
        return 0.0 if self.vague else min(self.until, self.read_at + LONGEST_HOLD_S)


class _Until(Struct, frozen=True):
    moment: float
    rounded: bool
    """Is it told in whole seconds?"""


_FAMILIES = (
    ("requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("requests", "anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("tokens", "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("requests", "ratelimit-remaining", "ratelimit-reset"),
    ("requests", "x-ratelimit-remaining", "x-ratelimit-reset"),
)
"""Headers that say how much is left and when there will be all of it again."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SECONDS_OF_DATES = 1e9
_MILLISECONDS_OF_DATES = 1e12
"""Numbers as large as these are dates."""


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _until(text: str, arrived: float, now: float) -> _Until | None:
    """The moment that a header names: `6m0s`, `120ms` or plain seconds after the request arrived, or a date."""
    parts = _DURATION.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return _Until(arrived + sum(float(number) * _UNITS[unit] for number, unit in parts), rounded=False)
    number = _number(text)
    if number is not None and number < _SECONDS_OF_DATES:
        return _Until(arrived + number, rounded=number.is_integer())
    try:
        date = datetime.fromisoformat(text).timestamp() if number is None else number
    except (ValueError, OverflowError, OSError):
        return None
    date = date / 1000 if date >= _MILLISECONDS_OF_DATES else date
    return _Until(now + date - time.time(), rounded=date.is_integer())


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
        from email.utils import parsedate_to_datetime

        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, OverflowError, OSError):
            return None
    return max(0.0, seconds)
