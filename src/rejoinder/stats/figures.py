"""The results of this room, as frozen values. They hold numbers only; `words` says them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Interval = tuple[float, float]
RatioMethod = Literal["ratio of clusters, t", "ratio of clusters, t, two made-up cases"]
RateMethod = Literal["wilson", "effective wilson"]


class Rate(Struct, frozen=True):
    """A share of passes, with the cases behind it. Without any trial, rate and interval are None."""

    rate: float | None
    passed: int
    of: int
    """All trials, those that ended in an error too."""
    cases: int
    interval: Interval | None
    method: RateMethod | None
    errors: int = 0
    """Those of `of` that ended in an error. They count as not passed, and never leave the denominator silently."""
    effective: float | None = None
    """As many independent trials would say as much."""

    @property
    def without_errors(self) -> float | None:
        """The share of passes among the trials without an error."""
        return self.passed / (self.of - self.errors) if self.of > self.errors else None


class Spread(Struct, frozen=True):
    """How much the repeats of cases copy each other: what an effective Wilson interval is made of."""

    rate: float
    trials: int
    cases: int
    standard_error: float
    design: float
    """The design effect as it was seen, between 1 (repeats are independent) and the largest one (they are copies)."""
    mixed: int
    """The cases that can tell it: those with a failure or those with a pass, whichever are fewer."""
    effect: float
    """The design effect that is used: drawn towards the largest one, the more the fewer cases can tell."""
    effective: float
    """The trials divided by the effect, less what few cases leave unknown (Student's t for the normal)."""

    @property
    def method(self) -> RateMethod:
        return "effective wilson"


class Mean(Struct, frozen=True):
    """A mean over cases, each of which counts once however often it was repeated."""

    mean: float | None
    cases: int
    n: int
    """All values."""
    standard_error: float | None
    stdev: float | None
    """Of the means of cases; of one case it is not known."""
    interval: Interval | None
    method: Literal["t over cases"] | None


class NetRecovery(Struct, frozen=True):
    """What answering back gained over asking afresh, by failed first tries."""

    net: float | None
    """`answered_back - afresh`; None without a failure that has a control."""
    interval: Interval | None
    """None where too few cases failed to tell."""
    answered_back: float | None
    """The share of failures that passed after a follow-up."""
    afresh: float | None
    """The share of failures that would have passed in a new conversation."""
    failures: int
    """Failed first tries that got a follow-up and have a control."""
    cases: int
    """The cases that had such a failure."""
    verdict: Literal["listens", "cannot-tell", "stuck", "too-few"]
    method: RatioMethod | None = None
    standard_error: float | None = None
    uncontrolled: int = 0
    """Failures without a control: one trial, and not asked afresh."""


class NetRecoveryDifference(Struct, frozen=True):
    """Net recovery of run B less that of run A, on the cases of both."""

    a: NetRecovery
    b: NetRecovery
    difference: float | None
    interval: Interval | None
    cases: int
    """The cases that failed in both runs."""
    verdict: Literal["better", "worse", "cannot-tell", "too-few"]
    method: RatioMethod | None = None
