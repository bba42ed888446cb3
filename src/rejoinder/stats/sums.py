"""Exact sums of many values in little memory."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, repeat
from math import fsum, isfinite


def sum_of(values: Iterable[tuple[float, int]]) -> float:
    """Values with the number of cases that have them, rounded once: digit for digit the same as if all were listed."""
    return fsum(chain.from_iterable(repeat(value, cases) for value, cases in values))


class ExactSum:
    """A sum that values are added to one by one, rounded once at its end as by `fsum`; the values are not kept."""

    def __init__(self) -> None:
        self._parts: list[float] = []
        """Numbers that do not overlap and have exactly this sum (Shewchuk 1997)."""

    def add(self, value: float) -> None:
        """Raises OverflowError."""
        parts: list[float] = []
        for part in self._parts:
            small, large = (value, part) if abs(value) < abs(part) else (part, value)
            value = large + small
            if not isfinite(value):
                raise OverflowError("the sum is too large")
            if rest := small - (value - large):
                parts.append(rest)
        self._parts = [*parts, value]

    def include(self, other: ExactSum) -> None:
        for part in other._parts:
            self.add(part)

    def total(self) -> float:
        return fsum(self._parts)

    def __bool__(self) -> bool:
        """Was anything added?"""
        return bool(self._parts)
