"""Cost, time and tokens of two runs, case by case. They have long tails: medians are tested, not means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import fsum, isclose
from typing import Literal, Protocol

from rejoinder.model.figures import Delta, Interval
from rejoinder.stats.intervals import median_interval, percentile_of


class Values(Protocol):
    """A value of each case in both runs, read as often as is needed: they may lie on a disk."""

    def __iter__(self) -> Iterator[tuple[float, float]]: ...

    def differences(self) -> Sequence[float]:
        """B less A, in order of size."""
        ...

    def changes(self) -> Sequence[float]:
        """B by A, less 1, in order of size."""
        ...


SAME = 1e-9


def settled(before: float, after: float) -> float:
    """The later of two means; the earlier where they differ by rounding alone."""
    return before if isclose(before, after, rel_tol=SAME) else after


def delta_of(values: Values) -> Delta:
    """B against A, from a value of each case in both runs (the mean over its trials).

    The median of the differences, with the interval of the sign test (order statistics, Conover 1999): it needs no
    shape of the values and no resampling, and one slow reply does not move it. The means are told and not tested.
    """
    differences = values.differences()
    n = len(differences)
    if not n:
        return Delta(None, None, None, None, None, None, "cannot-tell", 0, None)
    interval = median_interval(differences)
    changes = values.changes() if all(before > 0 for before, _ in values) else None
    return Delta(
        a=fsum(before for before, _ in values) / n,
        b=fsum(after for _, after in values) / n,
        difference=percentile_of(differences, 0.5),
        interval=interval,
        change=percentile_of(changes, 0.5) if changes else None,
        change_interval=median_interval(changes) if changes else None,
        verdict=_verdict(differences, interval),
        cases=n,
        method="median of pairs, sign test" if interval is not None else None,
    )


def _verdict(ordered: Sequence[float], interval: Interval | None) -> Literal["more", "less", "same", "cannot-tell"]:
    if ordered[0] == 0 == ordered[-1]:
        return "same"
    if interval is None or interval[0] <= 0 <= interval[1]:
        return "cannot-tell"
    return "more" if interval[0] > 0 else "less"
