"""Intervals that hold for the ten to fifty cases of a suite."""

from __future__ import annotations

from math import sqrt

Z_95 = 1.959963984540054


def wilson(successes: int, trials: int, z: float = Z_95) -> tuple[float, float] | None:
    """The Wilson interval of a rate; None without any trial."""
    if trials == 0:
        return None
    rate = successes / trials
    square = z * z
    centre = rate + square / (2 * trials)
    margin = z * sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials))
    scale = 1 + square / trials
    return max(0.0, (centre - margin) / scale), min(1.0, (centre + margin) / scale)
