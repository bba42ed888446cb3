"""What repeats of a case tell: pass@k and pass^k, flips, and whose noise it is.

A case is never called stable: no failure in K trials leaves a failure rate of up to 1 - 0.05^(1/K), 45 % for five.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from math import comb, fsum, sqrt

from rejoinder.model.figures import Advice, Aptitude, CaseRepeats, FlipRate, Noise, PassK
from rejoinder.stats.distributions import t_quantile
from rejoinder.stats.intervals import around, percentile, wilson, wilson_of_rate
from rejoinder.stats.rates import effective_spread

FLIPS_FROM = 5
"""Repeats from which on a flip rate is printed: with fewer its interval is too narrow."""
APTITUDE_FROM = 10
MOST_NAMED = 20
"""Cases that are named where they have too few trials; the others are counted."""


def pass_at_k(counts: Iterable[tuple[int, int]], k: int, names: Sequence[str] = ()) -> PassK:
    """The chance that at least one of k trials passes: the unbiased estimator of Chen and others (2021), the mean over
    cases of 1 - C(m - c, k) / C(m, k)."""
    return _pass_k(counts, k, lambda passed, trials: 1 - comb(trials - passed, k) / comb(trials, k), names)


def pass_hat_k(counts: Iterable[tuple[int, int]], k: int, names: Sequence[str] = ()) -> PassK:
    """The chance that all of k trials pass, pass^k: the unbiased estimator of Yao and others (2024), the mean over
    cases of C(c, k) / C(m, k). The rate to the power of k would be too high."""
    return _pass_k(counts, k, lambda passed, trials: comb(passed, k) / comb(trials, k), names)


def _pass_k(
    counts: Iterable[tuple[int, int]], k: int, value: Callable[[int, int], float], names: Sequence[str]
) -> PassK:
    """`names`: those of the cases, in the order of their counts."""
    every = list(counts)
    short = [place for place, (_, trials) in enumerate(every) if trials < k]
    named = tuple(names[place] if names else str(place) for place in short[:MOST_NAMED])
    known = [(passed, trials) for passed, trials in every if trials >= k]
    value = cache(value)  # cases are many, and their counts few
    values = [value(passed, trials) for passed, trials in known]
    trials, cases = sum(size for _, size in known), len(known)
    left_out = named, sum(passed for passed, _ in known), len(short)
    if not cases:
        return PassK(k, None, 0, 0, None, None, *left_out)
    mean = min(1.0, fsum(values) / cases)
    if cases == 1:  # as many tries of k as are apart from each other
        interval = wilson_of_rate(mean, trials / k)
        return PassK(k, mean, trials, 1, interval, "wilson", *left_out)
    variance = fsum((one - mean) ** 2 for one in values) / (cases - 1) / cases
    mixed = min(sum(one < 1 for one in values), sum(one > 0 for one in values))
    sizes = trials, sum(size * size for _, size in known)
    effective = effective_spread(mean, variance, cases, sizes, mixed).effective
    return PassK(k, mean, trials, cases, wilson_of_rate(mean, effective), "effective wilson", *left_out)


def case_repeats(passed: int, trials: int) -> CaseRepeats:
    """One case: its interval (Wilson), its flips, and what its trials leave open."""
    hidden = 1 - 0.05 ** (1 / trials) if trials and passed in (0, trials) else None
    return CaseRepeats(passed, trials, wilson(passed, trials), _flip(passed, trials), hidden)


def _flip(passed: int, trials: int) -> float | None:
    """2 c (m - c) / (m (m - 1)): the share of pairs of trials that differ (Gini's index, unbiased)."""
    return 2 * passed * (trials - passed) / (trials * (trials - 1)) if trials > 1 else None


def flip_rate(counts: Iterable[tuple[int, int]]) -> FlipRate:
    """The chance that a verdict differs between two runs: the mean over cases with at least two trials. Its interval is
    Student's t over cases, from five repeats on."""
    known = [(passed, trials) for passed, trials in counts if trials > 1]
    flips = [flip for passed, trials in known if (flip := _flip(passed, trials)) is not None]
    n = len(flips)
    if not n:
        return FlipRate(None, 0, 0, None, None)
    mean, repeats = fsum(flips) / n, min(trials for _, trials in known)
    quantile = t_quantile(0.975, n - 1)
    error = sqrt(fsum((one - mean) ** 2 for one in flips) / (n - 1) / n) if n > 1 else 0.0
    if repeats < FLIPS_FROM or quantile is None or error == 0:
        return FlipRate(mean, n, repeats, None, None)
    return FlipRate(mean, n, repeats, around(mean, quantile * error), "t over cases")


def aptitude(scores: Iterable[Sequence[float]]) -> Aptitude | None:
    """From the scores of each case; None where a case has fewer than ten, of which percentiles say little."""
    rows = list(scores)
    repeats = min(map(len, rows), default=0)
    if repeats < APTITUDE_FROM:
        return None
    n = len(rows)
    best, worst = fsum(percentile(row, 0.9) for row in rows) / n, fsum(percentile(row, 0.1) for row in rows) / n
    return Aptitude(fsum(fsum(row) / len(row) for row in rows) / n, best, best - worst, repeats, n)


_Parts = tuple[float | None, float | None, float | None]


def judge_noise(votes: Sequence[Sequence[Sequence[float]]]) -> Noise:
    """The noise of the judge apart from that of the model, from the scores of votes on repeats of cases.

    Nested analysis of variance with random effects (Searle, Casella and McCulloch 1992), by the method of moments, cut
    at 0; numbers of votes and repeats may differ. It needs the votes, not the score that they were joined to.
    """
    nested = _Nested(votes)
    if not nested.votes:
        return Noise(None, None, None, (None, None, None), None, (None, None, None), None)
    found = nested.parts()
    parts = tuple(None if one is None else max(0.0, one) for one in found)
    spreads = tuple(None if one is None else one * weight for one, weight in zip(parts, nested.weights, strict=True))
    variance = fsum(one for one in spreads if one is not None)
    judge, model, case = (None if one is None or not variance else one / variance for one in spreads)
    by_share: dict[Advice, float | None] = {"more cases": case, "more repeats": model, "more votes": judge}
    known: dict[Advice, float] = {advice: one for advice, one in by_share.items() if one is not None}
    return Noise(
        *parts,
        mean_squares=nested.mean_squares,
        variance=variance if found[2] is not None else None,
        shares=(judge, model, case),
        advice=max(known, key=known.__getitem__) if known else None,
    )


class _Nested:
    """Votes within repeats within cases, as sums of squares."""

    def __init__(self, votes: Sequence[Sequence[Sequence[float]]]) -> None:
        given = [[repeat for repeat in case if repeat] for case in votes]
        cases = [case for case in given if case]
        sizes = [[len(repeat) for repeat in case] for case in cases]
        self.votes, self._repeats, self._cases = sum(map(sum, sizes)), sum(map(len, sizes)), len(sizes)
        n = self.votes or 1
        self._within_cases = fsum(sum(size * size for size in row) / sum(row) for row in sizes)
        self._of_repeats = sum(size * size for row in sizes for size in row) / n
        self._of_cases = sum(sum(row) ** 2 for row in sizes) / n
        self.weights = 1 / n, self._of_repeats / n, self._of_cases / n
        """What the noise of judge, model and case counts in the variance of the mean."""

        mean = fsum(score for case in cases for repeat in case for score in repeat) / n
        sums = [[fsum(score - mean for score in repeat) for repeat in case] for case in cases]
        by_case = fsum(sum(row) ** 2 / sum(size) for row, size in zip(sums, sizes, strict=True))
        by_repeat = fsum(
            one * one / size
            for row, row_sizes in zip(sums, sizes, strict=True)
            for one, size in zip(row, row_sizes, strict=True)
        )
        by_vote = fsum((score - mean) ** 2 for case in cases for repeat in case for score in repeat)
        self.mean_squares: _Parts = (
            _mean_square(by_vote - by_repeat, self.votes - self._repeats),
            _mean_square(by_repeat - by_case, self._repeats - self._cases),
            _mean_square(by_case, self._cases - 1),
        )

    def parts(self) -> _Parts:
        """Judge, model and case, solved from what the mean squares are expected to be: J for votes, J + k1 M for
        repeats, J + k2 M + k3 C for cases. With equal numbers k1 = k2 = V and k3 = K V."""
        of_votes, of_repeats, of_cases = self.mean_squares
        judge = of_votes or 0.0
        model = case = None
        if of_repeats is not None:
            model = (of_repeats - judge) * (self._repeats - self._cases) / (self.votes - self._within_cases)
        if of_cases is not None:
            below = (self._within_cases - self._of_repeats) / (self._cases - 1) * (model or 0.0)
            case = (of_cases - judge - below) * (self._cases - 1) / (self.votes - self._of_cases)
        return of_votes, model, case


def _mean_square(squares: float, degrees: int) -> float | None:
    return max(0.0, squares) / degrees if degrees > 0 else None
