"""Suites of known truth, drawn by chance from a fixed seed, to try intervals and verdicts on."""

from __future__ import annotations

import random

Counts = list[tuple[int, int]]


class Draw:
    """Draws of one simulation; equal seeds draw the same."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def passes(self, rate: float, trials: int) -> int:
        chance = self._random.random
        return sum(chance() < rate for _ in range(trials))

    def rates(self, cases: int, mean: float, likeness: float) -> list[float]:
        """The true rate of each case. `likeness` is the correlation of two trials of a case: 0 where all cases are
        equal, 1 where each case always passes or always fails."""
        if likeness == 0:
            return [mean] * cases
        size = 1 / likeness - 1
        return [self._random.betavariate(mean * size, (1 - mean) * size) for _ in range(cases)]

    def suite(self, cases: int, trials: int, mean: float, likeness: float) -> Counts:
        return [(self.passes(rate, trials), trials) for rate in self.rates(cases, mean, likeness)]

    def hard_cases(self, cases: int, trials: int, share: float) -> Counts:
        """Most cases are nearly sure, and a few are hard; the true rate is 0.3 share + 0.99 (1 - share)."""
        chance = self._random.random
        return [(self.passes(0.3 if chance() < share else 0.99, trials), trials) for _ in range(cases)]
