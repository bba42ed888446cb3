"""What becomes of a call whose attempt has failed: it is retried, or the failure is final and may end its target."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs

from rejoinder.model import Reply
from rejoinder.providers.base import ProviderError
from rejoinder.words.numbers import seconds

LONGEST_WAIT_S = 600.0
"""A provider that asks for a longer wait has no room today; waiting is then for the user to decide."""


class Retries(Struct, frozen=True):
    """How often and after what time a failed call is made again, with full jitter."""

    most: int = 3
    first_delay_s: float = 1.0
    longest_delay_s: float = 60.0
    factor: float = 2.0
    most_refusals: int = 50
    """How often a call may be refused because of too many calls: the pace is wrong then, not the call."""
    most_together: int | None = None
    """How often a call is made again for any reason, where the user sets a number."""

    def delay(self, attempt: int) -> float:
        ceiling = min(self.longest_delay_s, self.first_delay_s * self.factor ** min(attempt, 60))
        return random.uniform(0, ceiling)


USUAL = Retries()


def read_retries(settings: Mapping[str, Any], max_retries: int | None) -> Retries:
    """The retries of a target's settings; `max_retries` of the command replaces its number."""
    most = settings.get("max_retries") if max_retries is None else max_retries
    first, longest = settings.get("retry_initial_delay_ms"), settings.get("retry_max_delay_ms")
    return Retries(
        most=USUAL.most if most is None else most,
        first_delay_s=USUAL.first_delay_s if first is None else first / 1000,
        longest_delay_s=USUAL.longest_delay_s if longest is None else longest / 1000,
        factor=settings.get("retry_backoff_factor", USUAL.factor),
        most_refusals=USUAL.most_refusals if most is None else most,
        most_together=most,
    )


class Tries:
    """The attempts of one call, and how long they took."""

    __slots__ = ("_began", "_calling_s", "failures", "refusals", "started_at")

    def __init__(self) -> None:
        self.failures = self.refusals = 0
        self.started_at: float | None = None
        self._began = time.perf_counter()
        self._calling_s = 0.0

    @property
    def made(self) -> int:
        return 1 + self.failures + self.refusals

    def begin(self) -> float:
        self.started_at = self.started_at or time.time()
        return time.perf_counter()

    def end(self, started: float) -> float:
        """The seconds that the attempt took."""
        seconds = time.perf_counter() - started
        self._calling_s += seconds
        return seconds

    def count(self, error: ProviderError) -> None:
        self.refusals += error.pressure is not None
        self.failures += error.pressure is None

    def noted(self, reply: Reply, seconds: float) -> Reply:
        """The reply with the times of its call."""
        waited = time.perf_counter() - self._began - self._calling_s
        return structs.replace(
            reply,
            latency_s=None if reply.latency_s is None else reply.latency_s or round(seconds, 6),
            started_at=self.started_at,
            retries=self.made - 1,
            waited_s=round(waited, 3),
        )


class Decision(Struct, frozen=True, kw_only=True):
    """What becomes of a call whose attempt has failed."""

    retry_in_s: float | None = None
    """None where the failure is final."""
    ends_target: bool = False
    """Would every other call of the target fail in the same way?"""
    because: str = ""
    """Why it is final, where the failure alone does not say it."""
    slows_down: bool = True
    """Should other calls wait as this one was told to?"""


class Refusals(Struct, frozen=True):
    """For how long a target has answered nothing but 429, and in how many rounds of calls."""

    seconds: float = 0.0
    rounds: int = 0
    has_answered: bool = False
    """True if the target has answered a call in this run: then its limit is used up, and will be renewed."""

    def giving_up(self, retries: Retries) -> str:
        """When rejoinder gives up, for a message."""
        if self.counts(retries):
            return f"giving up after {retries.most} retries"
        return f"giving up at {time.strftime('%H:%M', time.localtime(time.time() + LONGEST_WAIT_S - self.seconds))}"

    def counts(self, retries: Retries) -> bool:
        """True if refusals count towards `max_retries`."""
        return not self.has_answered or retries.most_together is not None


NO_REFUSALS = Refusals()


def decide_retry(error: ProviderError, retries: Retries, tries: Tries, refusals: Refusals) -> Decision:
    """`refusals`: what the target has answered lately."""
    refused = error.pressure is not None
    if error.retryable and error.retry_after_s is not None and error.retry_after_s > LONGEST_WAIT_S:
        because = f"; the provider asks for a wait of {seconds(error.retry_after_s)}, longer than rejoinder waits"
        return Decision(ends_target=True, because=because, slows_down=False)
    if refused and refusals.seconds > LONGEST_WAIT_S:
        because = f"; no request was accepted for {seconds(LONGEST_WAIT_S)}"
        return Decision(ends_target=True, because=because, slows_down=False)
    if refused and refusals.rounds > max(retries.most, USUAL.most) and not refusals.has_answered:
        return Decision(ends_target=True, because="; it has refused every request of this run", slows_down=False)
    tried, most = (tries.refusals, retries.most_refusals) if refused else (tries.failures, retries.most)
    together = retries.most_together is None or tries.made <= retries.most_together
    if not (error.retryable and tried < most and together):
        return Decision(ends_target=error.ends_target)
    if refused:
        return Decision(retry_in_s=0.0)  # the limiter delays it
    return Decision(retry_in_s=retries.delay(tries.failures) if error.retry_after_s is None else error.retry_after_s)
