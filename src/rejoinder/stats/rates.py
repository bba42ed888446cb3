"""Rates over cases that may count more than once: repeats, several targets, several turns.

Trials of one case say less than as many cases. How much less is seen in the data (the design effect), and where few
cases can tell it, the worst is assumed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import fsum, sqrt

from rejoinder.model.figures import Mean, Rate, Spread
from rejoinder.stats.intervals import Z_95, around, share, wilson_of_rate


def rate_of(counts: Iterable[tuple[int, int]], errors: int = 0) -> Rate:
    """The rate over (passed, trials) of each case, with its 95 % interval. Cases without a trial do not count.

    Wilson's over cases where each counts once, and over the trials of a case alone; else the effective Wilson interval
    (`spread_of`). `errors` says how many of the trials ended in an error; they are among the trials, not passed.
    The counts are read once, and only different ones are kept; a `Counter` has each as often as it says.
    """
    sums = _Sums(counts)
    rate = share(sums.passed, sums.trials)
    if rate is None:
        return Rate(None, 0, 0, 0, None, None)
    if sums.cases in (1, sums.trials):
        size, method = float(sums.trials), "wilson"
    else:
        size, method = sums.spread().effective, "effective wilson"
    interval = wilson_of_rate(rate, size)
    return Rate(rate, sums.passed, sums.trials, sums.cases, interval, method, errors, size)


def spread_of(counts: Iterable[tuple[int, int]]) -> Spread | None:
    """The design effect of (passed, trials) of each case, and the effective number of trials; None below two cases."""
    sums = _Sums(counts)
    return sums.spread() if sums.cases > 1 else None


class _Sums:
    """Whole numbers, so that no spread is exactly zero; added up in one pass, for any number of cases."""

    def __init__(self, counts: Iterable[tuple[int, int]]) -> None:
        self.cases = self.passed = self.trials = 0
        self._squares = self._products = self._sizes = 0
        self._failing = self._passing = 0
        for (passed, trials), cases in Counter(counts).items():
            if trials:
                self.cases += cases
                self.passed += cases * passed
                self.trials += cases * trials
                self._squares += cases * passed * passed
                self._products += cases * passed * trials
                self._sizes += cases * trials * trials
                self._failing += cases * (passed < trials)
                self._passing += cases * (passed > 0)

    def spread(self) -> Spread:
        n, passed = self.trials, self.passed
        squares = n * n * self._squares - 2 * n * passed * self._products + passed * passed * self._sizes
        variance = squares * self.cases / ((self.cases - 1) * n**4)
        mixed = min(self._failing, self._passing)
        return effective_spread(passed / n, variance, self.cases, (n, self._sizes), mixed)


def effective_spread(rate: float, variance: float, cases: int, sizes: tuple[int, int], mixed: int) -> Spread:
    """The effective number of trials behind a mean over clusters, for `wilson`.

    The design effect of Kish (1965), as Korn and Graubard (1998) put it into an interval of a proportion with the
    quantile of Student's t; drawn towards its largest value with the weight of one mixed case. `sizes` are the sums of
    trials and of their squares; `mixed` is the number of clusters that tell how far repeats copy each other.
    """
    from rejoinder.stats.distributions import t_quantile

    trials, squares = sizes
    largest = squares / trials
    binomial = rate * (1 - rate) / trials
    design = min(max(variance / binomial, 1.0), largest) if binomial > 0 else largest
    effect = (mixed * design + largest) / (mixed + 1)
    quantile = t_quantile(0.975, cases - 1) or Z_95
    effective = trials / effect * (Z_95 / quantile) ** 2
    return Spread(rate, trials, cases, sqrt(variance), design, mixed, effect, effective)


LEAST_SCORED = 5
"""Cases with a score from which on their mean has an interval."""


def mean_of_cases(means: Sequence[float], count: int, *, scores: bool = True) -> Mean:
    """The mean over cases, from the mean of each. `count`: the number of values behind them.

    The interval is Student's t over the means of cases, inside the scale if all scores are between 0 and 1. Cases
    without any spread cannot show it: there it is Wilson's, since no score between 0 and 1 spreads more than a pass or
    a failure with the same mean. Below `LEAST_SCORED` cases there is none. Only `scores` are known to be between 0
    and 1; other values without any spread have no interval.
    """
    n = len(means)
    if not n:
        return Mean(None, 0, 0, None, None, None, None)
    mean = fsum(means) / n
    in_scale = scores and min(means) >= 0 and max(means) <= 1
    bounded = (wilson_of_rate(mean, n), "wilson") if in_scale and n >= LEAST_SCORED else (None, None)
    if n == 1:
        return Mean(mean, 1, count, None, None, *bounded)
    from rejoinder.stats.distributions import t_quantile

    deviation = sqrt(fsum((one - mean) ** 2 for one in means) / (n - 1)) if max(means) > min(means) else 0.0
    error, quantile = deviation / sqrt(n), t_quantile(0.975, n - 1)
    if not deviation or quantile is None:
        return Mean(mean, n, count, error, deviation, *bounded)
    if scores and n < LEAST_SCORED:
        return Mean(mean, n, count, error, deviation, None, None)
    margin = quantile * error
    interval = around(mean, margin) if in_scale else (mean - margin, mean + margin)
    return Mean(mean, n, count, error, deviation, interval, "t over cases")


def sample_size(before: float, after: float) -> int | None:
    """Cases in each of two independent groups to see this difference with 80 % power at 5 % (two proportions, unpooled
    variance). For planning only: two runs of the same cases are compared in pairs, which needs fewer."""
    from math import ceil

    gap = before - after
    both = Z_95 + 0.8416212335729143
    return ceil(both**2 * (before * (1 - before) + after * (1 - after)) / gap**2) if gap else None
