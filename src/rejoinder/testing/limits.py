"""Rate limits as the APIs enforce and announce them."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Literal

from msgspec import Struct


class RateLimit(Struct, frozen=True):
    """The number of accepted requests; the others get the API's own error 429.

    A `bucket` holds `burst` requests (by default `per_second`) and is refilled evenly. A `window` opens with a request,
    lasts a second and accepts `per_second` requests.

    `headers` is the style in which every answer announces the state of the limit. `limit` there is the content of a
    full bucket or a new window; `reset` is the time when it is full again. `retry_after` adds `retry-after` to the
    refusals, in whole seconds rounded up.
    """

    per_second: float
    burst: int | None = None
    headers: Literal["openai", "anthropic", "ietf"] | None = None
    retry_after: bool = False
    kind: Literal["bucket", "window"] = "bucket"

    def __post_init__(self) -> None:
        if self.per_second <= 0 or (self.burst is not None and self.burst < 1):
            raise ValueError("a rate limit lets at least something through")
        if self.kind not in _KEEPERS or (self.headers is not None and self.headers not in _FAMILIES):
            raise ValueError(f"unknown kind or headers: {self.kind!r}, {self.headers!r}")
        if self.kind == "window" and (self.burst is not None or self.per_second < 1):
            raise ValueError("a window has no burst and lets at least one request a second through")

    @property
    def capacity(self) -> int:
        return self.burst if self.burst is not None else max(1, math.floor(self.per_second))


class Taken(Struct, frozen=True):
    """The result of taking one request from the limit."""

    allowed: bool
    limit: int
    remaining: int
    reset: float
    """Seconds until the limit is completely unused."""
    wait: float
    """Seconds until the next request would be accepted."""


class _Bucket:
    def __init__(self, limit: RateLimit) -> None:
        self._rate = limit.per_second
        self._capacity = limit.capacity
        self._held = float(limit.capacity)
        self._at = -math.inf

    def take(self, now: float) -> Taken:
        self._held = min(self._capacity, self._held + (now - self._at) * self._rate)
        self._at = now
        allowed = self._held >= 1
        if allowed:
            self._held -= 1
        missing = max(0.0, 1 - self._held)
        full = (self._capacity - self._held) / self._rate
        return Taken(allowed, self._capacity, math.floor(self._held), full, missing / self._rate)


class _Window:
    def __init__(self, limit: RateLimit) -> None:
        self._capacity = limit.capacity
        self._used = 0
        self._ends = -math.inf

    def take(self, now: float) -> Taken:
        if now >= self._ends:
            self._used, self._ends = 0, now + 1
        allowed = self._used < self._capacity
        self._used += allowed
        remaining = self._capacity - self._used
        reset = self._ends - now
        return Taken(allowed, self._capacity, remaining, reset, 0.0 if remaining else reset)


def keep(limit: RateLimit) -> Callable[[float], Taken]:
    """A function that takes one request from the limit, at a time of a monotonic clock."""
    return _KEEPERS[limit.kind](limit).take


def limit_headers(limit: RateLimit, taken: Taken) -> dict[str, str]:
    if limit.headers is None:
        return {}
    name, write = _FAMILIES[limit.headers]
    values = {"limit": str(taken.limit), "remaining": str(taken.remaining), "reset": write(taken.reset)}
    return {name.format(what): value for what, value in values.items()}


def _date(seconds: float) -> str:
    # Whole seconds, rounded up: a client that waits until then is never early.
    reset = (datetime.now(UTC) + timedelta(seconds=seconds + 1)).replace(microsecond=0)
    return reset.isoformat().replace("+00:00", "Z")


def duration(seconds: float) -> str:
    """A duration in OpenAI's form: `120ms`, `1.5s`, `6m0s`, `1h0m0s`. Rounded up to milliseconds."""
    milliseconds = math.ceil(round(seconds * 1000, 6))
    if milliseconds == 0:
        return "0s"
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    last = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{last}"
    return f"{minutes}m{last}" if minutes else last


_KEEPERS: dict[str, type[_Bucket] | type[_Window]] = {"bucket": _Bucket, "window": _Window}
_FAMILIES: dict[str, tuple[str, Callable[[float], str]]] = {
    "openai": ("x-ratelimit-{}-requests", duration),
    "anthropic": ("anthropic-ratelimit-requests-{}", _date),
    "ietf": ("ratelimit-{}", lambda seconds: str(math.ceil(seconds))),
}
"""The names of the headers, and their form for the reset time."""
