"""The limiter: how fast a provider may be called. One per provider and key, shared by all conversations.

It starts open, and learns from answers:

- Headers with the remaining allowance and its renewal (`x-ratelimit-*`, `anthropic-ratelimit-*`, `ratelimit-*`): no
  more is sent than remains.
- A 429: we call too often. The calls that were accepted lately give a *rate*. The limiter sets it a little lower, and
  raises it while nothing is refused, slowly near the last limit.
- A 529 or 503: too many at once. The *window* of calls in progress shrinks by a third, and grows by one for each
  round of answers.
- Nothing but refusals: we are *locked out*, which does not show how much would be accepted. Single calls try after
  longer and longer pauses, and the time until one succeeds counts when the rate is computed.

`Retry-After` holds for all calls with the same key.

Refusals arrive at once and answers after seconds, so a call counts as accepted until it is refused. If calls that were
sent before a cut are refused as well, they only show how many of them were too many: a wave of refusals cuts once.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping

from rejoinder.errors import ShutDown
from rejoinder.model.runs import LimiterResult
from rejoinder.providers.allowances import Allowances, Sent
from rejoinder.providers.pace import Pace


class Limiter:
    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._returned: deque[asyncio.Future[int]] = deque()
        """Refused calls: they are older than the calls that wait."""
        self._waiters: deque[asyncio.Future[int]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._pace = Pace()
        self._allowances = Allowances()
        self._refused = 0
        self._waited_s = 0.0

    async def enter(self, *, again: bool = False) -> int:
        """Wait until a call may be made; return a ticket, which is handed in with the call's result."""
        now = self._clock()
        if not self._is_anyone_waiting() and self._delay(now) <= 0:
            return self._let_in(now)
        if self._closed:
            raise ShutDown
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
        """Shut down: calls that wait, or would have to wait, end with `ShutDown`."""
        self._closed = True
        for waiter in (*self._returned, *self._waiters):
            if not waiter.done():
                waiter.set_exception(ShutDown())

    def sending(self) -> Sent:
        """Note that a request is sent now. The returned value is handed in with the headers of its answer."""
        return self._allowances.sending(self._clock())

    def leave(self, *, tokens: int | None = None, refused: bool = False) -> None:
        """Note that a call has returned. `tokens`: its usage; None if it was not accepted. `refused`: no calls follow,
        so nothing is learned from the refusal."""
        self._pace.in_flight -= 1
        self._refused += refused
        if tokens is not None:
            self._allowances.use_tokens(tokens)
            if self._is_anyone_waiting():  # a limit that is not used up proves nothing
                self._pace.grow()
        self._pump()

    def refused(self, ticket: int, pressure: str, retry_after_s: float | None, back_off: tuple[float, float]) -> None:
        """Note a refused call. `back_off`: the first and the longest pause if the provider names none."""
        now = self._clock()
        self._refused += 1
        is_told_when = retry_after_s is not None or self._allowances.tell_when(now)
        self._pace.refuse(now, ticket, pressure, back_off, is_told_when=is_told_when)
        self._pace.pause(now, retry_after_s or 0.0)
        self._pump()

    def read(self, headers: Mapping[str, str], sent: Sent, *, failed: bool = False) -> None:
        """Learn from an answer's headers how much was left when its request arrived, and until when.

        A failure is reported at once, so its figures are current. Other answers are as old as the model's thinking
        time.
        """
        has_rate = self._pace.rate is not None
        self._allowances.read(headers, sent, self._clock(), failed=failed, has_rate=has_rate)

    @property
    def next_in_s(self) -> float:
        """Seconds until the next call may be made, as far as known."""
        delay = self._delay(self._clock())
        return 0.0 if delay == float("inf") else delay

    def left(self) -> dict[str, tuple[float, float]]:
        """The last reported allowance of each kind, and the seconds until it is renewed."""
        now = self._clock()
        return {kind: (one.left, max(0.0, one.until - now)) for kind, one in self._allowances.by_kind.items()}

    def report(self, targets: tuple[str, ...] = ()) -> LimiterResult:
        rate, window = self._pace.rate, self._pace.window
        return LimiterResult(
            self._name,
            self._allowances.requests,
            self._refused,
            round(self._waited_s, 3),
            None if rate is None else round(rate, 2),
            None if window is None else max(1, int(window)),
            targets,
        )

    def _is_anyone_waiting(self) -> bool:
        return bool(self._returned or self._waiters)

    def _delay(self, now: float) -> float:
        """Seconds until the next call may be made; infinite if it waits for another call to return."""
        return max(0.0, max(self._pace.free_at(), self._allowances.free_at()) - now)

    def _let_in(self, now: float) -> int:
        self._allowances.let_in()
        return self._pace.let_in(now)

    def _turn_back(self, ticket: int) -> None:
        """Take back the admission of a cancelled caller."""
        self._pace.turn_back(ticket)
        self._pump()

    def _pump(self) -> None:
        """Admit the calls that may be made now, and run again when the next one may."""
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
