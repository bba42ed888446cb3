"""The results of this room, as frozen values. They hold numbers only; `words` says them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Interval = tuple[float, float]
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
