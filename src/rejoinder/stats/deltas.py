"""Cost, time and tokens of two runs, case by case. They have long tails: medians are tested, not means."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Literal

from rejoinder.model.figures import Delta, Interval
from rejoinder.stats.intervals import median_interval, percentile


def paired_delta(pairs: Sequence[tuple[float, float]]) -> Delta:
    """B against A, from a value of each case in both runs (the mean over its trials).

    The median of the differences, with the interval of the sign test (order statistics, Conover 1999): it needs no
    shape of the values and no resampling, and one slow reply does not move it. The means are told and not tested.
    """
    n = len(pairs)
    if not n:
        return Delta(None, None, None, None, None, None, "cannot-tell", 0, None)
    differences = [after - before for before, after in pairs]
    interval = median_interval(sorted(differences))
    changes = [after / before - 1 for before, after in pairs] if all(before > 0 for before, _ in pairs) else None
    return Delta(
        a=fsum(before for before, _ in pairs) / n,
        b=fsum(after for _, after in pairs) / n,
        difference=percentile(differences, 0.5),
        interval=interval,
        change=percentile(changes, 0.5) if changes else None,
        change_interval=median_interval(sorted(changes)) if changes else None,
        verdict=_verdict(differences, interval),
        cases=n,
        method="median of pairs, sign test" if interval is not None else None,
    )


def _verdict(differences: Sequence[float], interval: Interval | None) -> Literal["more", "less", "same", "cannot-tell"]:
    if not any(differences):
        return "same"
    if interval is None or interval[0] <= 0 <= interval[1]:
        return "cannot-tell"
    return "more" if interval[0] > 0 else "less"
