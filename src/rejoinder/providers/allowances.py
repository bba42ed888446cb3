"""Rate-limit headers of providers: the remaining allowance, and the time when it is renewed."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import datetime
from math import isfinite

from msgspec import Struct

LONGEST_HOLD_S = 60.0
"""Seconds for which a header that reports nothing left is believed; then the next call tries again."""
VAGUE_S = 5.0
"""A reset closer than this is not waited for in two cases: if it is given in whole seconds, which may be twice the real
time; and if a rate is known, which is more exact, unless a call was refused."""
ON_THE_WAY_S = 0.2
"""Maximum seconds that count as a request's way to the server; the remaining time is the model's."""


class Sent(Struct, frozen=True):
    """The time and number of a request: its answer reports the allowance at that moment."""

    at: float
    number: int


class Allowances:
    """The last reported allowance of each kind."""

    def __init__(self) -> None:
        self.by_kind: dict[str, _Allowance] = {}
        self.requests = 0
        self._tokens_each = 0.0

    def sending(self, now: float) -> Sent:
        self.requests += 1
        return Sent(now, self.requests)

    def let_in(self) -> None:
        for allowance in self.by_kind.values():
            allowance.since += 1

    def use_tokens(self, tokens: int) -> None:
        self._tokens_each = tokens if not self._tokens_each else 0.9 * self._tokens_each + 0.1 * tokens

    def read(self, headers: Mapping[str, str], sent: Sent, now: float, *, failed: bool, has_rate: bool) -> None:
        """Read the headers of an answer. `has_rate`: a rate is known from accepted calls."""
        arrived = now if failed else min(now, sent.at + ON_THE_WAY_S)
        for kind, left_name, reset_name in _FAMILIES:
            if left_name not in headers:
                continue
            left, until = _number(headers.get(left_name, "")), _until(headers.get(reset_name, ""), arrived, now)
            if left is None or left < 0 or until is None:
                continue
            vague = until.moment - now < VAGUE_S and (until.rounded or (has_rate and not failed))
            # What went out later was not counted yet.
            news = _Allowance(left, until.moment, now, self.requests - sent.number, vague)
            known = self.by_kind.get(kind)
            # Of calls that were under way together, the one that found the least was counted last.
            if known is None or known.until <= now or known.read_at < sent.at or left < known.left:
                self.by_kind[kind] = news

    def free_at(self) -> float:
        """The time when the next call may be made."""
        used_up = (
            allowance.held_until
            for kind, allowance in self.by_kind.items()
            if allowance.left < (allowance.since + 1) * self._each(kind)
        )
        return max(used_up, default=0.0)

    def tell_when(self, now: float) -> bool:
        """Whether headers give the time of renewal. Then nothing has to be guessed."""
        return any(one.held_until > now and one.left < self._each(kind) for kind, one in self.by_kind.items())

    def _each(self, kind: str) -> float:
        """The share of an allowance that one call uses."""
        return self._tokens_each if kind == "tokens" else 1.0


class _Allowance(Struct):
    """A reported allowance, and the time until which it holds."""

    left: float
    until: float
    read_at: float
    since: int
    """Later calls that count against it."""
    vague: bool

    @property
    def held_until(self) -> float:
        return 0.0 if self.vague else min(self.until, self.read_at + LONGEST_HOLD_S)


class _Until(Struct, frozen=True):
    moment: float
    rounded: bool
    """Whether the time is given in whole seconds."""


_FAMILIES = (
    ("requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("requests", "anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("tokens", "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("requests", "ratelimit-remaining", "ratelimit-reset"),
    ("requests", "x-ratelimit-remaining", "x-ratelimit-reset"),
)
"""Headers with the remaining allowance and the time when it is full again."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SECONDS_OF_DATES = 1e9
_MILLISECONDS_OF_DATES = 1e12
"""Numbers at least this large are dates."""


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
    """Seconds that the provider asks us to wait: `retry-after-ms`, or `retry-after` in seconds or as a date."""
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
