"""Intervals that hold for the ten to fifty cases of a suite."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from heapq import merge
from itertools import islice
from math import ceil, sqrt

Z_95 = 1.959963984540054
Interval = tuple[float, float]
PIECE = 10_000
"""More values are put in order by pieces: a list of all of them would take four times the memory of their array."""


def wilson(successes: float, trials: float, z: float = Z_95) -> Interval | None:
    """The interval of Wilson (1927) for a rate; None without any trial."""
    return wilson_of_rate(successes / trials, trials, z) if trials > 0 else None


def wilson_of_rate(rate: float, trials: float, z: float = Z_95) -> Interval:
    """The same for a rate over a number of trials that need not be whole: what repeats are worth is not."""
    square = z * z
    centre = rate + square / (2 * trials)
    margin = z * sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials))
    scale = 1 + square / trials
    # Rounding must not push the rate out of its own interval.
    return max(0.0, min(rate, (centre - margin) / scale)), min(1.0, max(rate, (centre + margin) / scale))


def around(estimate: float, margin: float, least: float = 0.0, most: float = 1.0) -> Interval:
    """So far on both sides, within what is possible."""
    return max(least, estimate - margin), min(most, estimate + margin)


def share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def percentile(values: Sequence[float], share: float) -> float:
    """Between the two nearest values in proportion (type 7 of Hyndman and Fan 1996)."""
    if len(values) <= PIECE:
        return percentile_of(sorted(values), share)
    pieces = [array("d", sorted(values[start : start + PIECE])) for start in range(0, len(values), PIECE)]
    place = share * (len(values) - 1)
    low, *high = islice(merge(*pieces), int(place), int(place) + 2)
    return percentile_of([low, *high], place - int(place))


def percentile_of(ordered: Sequence[float], share: float) -> float:
    """The same of values that are in order."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def kept_by(values: Sequence[float], share: float) -> float:
    """The smallest of the values that at least this share of them keep to (nearest rank): a time that a reply had."""
    rank = ceil(share * len(values) - 1e-9)
    return sorted(values)[max(0, rank - 1)]


def median_interval(ordered: Sequence[float]) -> Interval | None:
    """The order statistics that hold the median with 95 %, by the sign test; None below six values, which cannot."""
    n = len(ordered)
    if n > 1000:  # the normal approximation of the same ranks
        rank = int((n - 1 - Z_95 * sqrt(n)) / 2)
        return ordered[rank], ordered[n - 1 - rank]
    ways, tail, rank = 1, 1, 0
    while 40 * tail <= 2**n:
        rank += 1
        ways = ways * (n - rank + 1) // rank
        tail += ways
    return (ordered[rank - 1], ordered[n - rank]) if rank else None
