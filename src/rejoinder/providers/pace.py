"""The pace of calls: a rate and a window, computed from accepted and refused calls."""

from __future__ import annotations

import random

from msgspec import Struct

BELOW = 0.92
"""The share of the accepted rate that is used after a refusal."""
LEAST_GROWTH, MOST_GROWTH = 0.003, 0.1
"""Growth of the rate per second: the first near the last limit, the second far from it."""
SHORTEST_RATE = 0.05
SHRINK = 0.7
"""The share of the window that remains after an overload."""
TRIAL_S = 0.5
"""After a lock-out one call goes first, and the others wait this long: the time that a refusal takes to return."""
_CATCH_UP_S = 0.05
"""A late timer is made up for, but without a burst."""


class Pace:
    def __init__(self) -> None:
        self.in_flight = 0
        # What holds calls back
        self._paused_until = 0.0
        self._next_at = 0.0
        self.rate: float | None = None
        self._ceiling = 0.0
        self.window: float | None = None
        # What was seen
        self._stretch = _Stretch(1)
        self._ended = _Stretch(0)
        self._end = _End()
        self._locked_out = 0

    def free_at(self) -> float:
        """The time when the next call may be made; infinite if it waits for another call to return."""
        if self.window is not None and self.in_flight >= max(1, int(self.window)):
            return float("inf")
        return max(self._paused_until, self._next_at)

    def let_in(self, now: float) -> int:
        stretch = self._stretch
        step = 0.0 if self.rate is None else 1 / self.rate
        if self._locked_out and not stretch.sent:
            step = max(step, TRIAL_S)
        if step:
            self._next_at = max(self._next_at, now - _CATCH_UP_S) + step
        if not stretch.sent:
            stretch.began = now
        stretch.sent += 1
        self.in_flight += 1
        return stretch.number

    def turn_back(self, ticket: int) -> None:
        self.in_flight -= 1
        for stretch in (self._stretch, self._ended):
            stretch.sent -= stretch.number == ticket

    def refuse(
        self, now: float, ticket: int, pressure: str, back_off: tuple[float, float], *, is_told_when: bool
    ) -> None:
        """Learn from a refusal. `is_told_when`: the provider says when more will be allowed."""
        self.in_flight -= 1
        if ticket == self._stretch.number:
            self._end_stretch(now)
        if ticket == self._ended.number:
            self._ended.refused += 1
            self._settle(pressure)
            # Locked out again after the wait that the server asked for: the next wait has to be longer.
            if self._locked_out > 1 or not is_told_when:
                self._paused_until = max(self._paused_until, self._end.at + self._own_pause(pressure, *back_off))

    def pause(self, now: float, seconds: float) -> None:
        self._paused_until = max(self._paused_until, now + seconds)
        self._stretch.pause_s = max(self._stretch.pause_s, self._paused_until - now)

    def grow(self) -> None:
        """Note that a call was answered while others had to wait."""
        if self.window is not None:
            self.window += 1 / self.window
        if self.rate is not None:
            # In a second there are as many answers as the rate says, so this is the share by which it grows.
            beyond = self.rate / self._ceiling - 1
            share = min(MOST_GROWTH, max(LEAST_GROWTH, beyond / 3, -beyond / 8))
            self.rate += min(share, self.rate / 50)

    def _end_stretch(self, now: float) -> None:
        """End a stretch, at the first refusal of a wave."""
        self._ended = self._stretch
        jitter = random.uniform(1, 1.1)
        self._end = _End(now, self.rate, self.window, self._locked_out, self.in_flight + 1, jitter)
        self._next_at = now  # if this was a trial, it is over
        self._stretch = _Stretch(self._ended.number + 1)

    def _settle(self, pressure: str) -> None:
        """Compute rate and window from a wave of refusals, again after each of them."""
        ended, end = self._ended, self._end
        # An overloaded server may still be working on calls sent long ago.
        passed = (ended.sent if pressure == "rate" else end.under_way) - ended.refused
        # A wave may have both kinds of refusals; each undoes and draws its own conclusion only.
        if pressure == "rate":
            self.rate = end.rate
        else:
            self.window = end.window
        if passed <= 0:
            self._locked_out = end.locked_out + 1
            self._stretch.after = ended.after
            return
        self._locked_out = 0
        self._stretch.after = end.at
        if pressure == "rate":
            self.rate = self._cut_rate(passed)
        else:
            most = end.under_way if end.window is None else min(end.window, end.under_way)
            self.window = max(1.0, min(SHRINK * most, passed))

    def _cut_rate(self, accepted: int) -> float:
        """A little less than the rate accepted since the last cut."""
        ended, end = self._ended, self._end
        began = ended.after if end.locked_out and ended.after else ended.began
        let_through = accepted / max(1.0, end.at - began, ended.pause_s)
        self._ceiling = let_through
        if end.rate is not None:
            let_through = min(let_through, end.rate)
            if not end.locked_out:
                # A short stretch says little: the new rate is at least half of the rate that worked so far.
                let_through = max(let_through, end.rate / 2)
                self._ceiling = end.rate
        return max(SHORTEST_RATE, BELOW * let_through)

    def _own_pause(self, pressure: str, first: float, longest: float) -> float:
        """Seconds to pause if the provider does not say."""
        end = self._end
        if self._locked_out:
            return min(longest, first * 2 ** min(self._locked_out - 1, 60) * end.jitter)
        if pressure == "rate" and end.rate is not None:
            return min(first, 4 / end.rate)  # the rate is known by now, and was exceeded by a little
        if pressure == "overload" and end.window is not None:
            return 0.0  # some of those under way have to come back first
        return first * end.jitter


class _Stretch(Struct):
    """The calls between two waves of refusals."""

    number: int
    sent: int = 0
    refused: int = 0
    after: float = 0.0
    """The end of the last stretch that was not a lock-out."""
    began: float = 0.0
    pause_s: float = 0.0
    """Seconds before it in which no call was admitted."""


class _End(Struct, frozen=True):
    """The state at the end of a stretch."""

    at: float = 0.0
    rate: float | None = None
    window: float | None = None
    locked_out: int = 0
    under_way: int = 0
    jitter: float = 1.0
