"""What repeats of a case tell: pass@k and pass^k, flips, and whose noise it is.

A case is never called stable: no failure in K trials leaves a failure rate of up to 1 - 0.05^(1/K), 45 % for five.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import comb, fsum, sqrt

from rejoinder.model.figures import Advice, Aptitude, CaseRepeats, FlipRate, Noise, PassK
from rejoinder.stats.distributions import t_quantile
from rejoinder.stats.intervals import around, percentile, wilson, wilson_of_rate
from rejoinder.stats.rates import effective_spread
from rejoinder.stats.sums import sum_of

FLIPS_FROM = 5
"""Repeats from which on a flip rate is printed: with fewer its interval is too narrow."""
APTITUDE_FROM = 10
MOST_NAMED = 20
"""Cases that are named if they have too few trials; the others are counted."""


_CountsOfCases = Iterable[tuple[int, int]] | Mapping[tuple[int, int], int]
"""Passed and trials of each case; or those that there are, with the number of cases that have them."""


def pass_at_k(counts: _CountsOfCases, k: int, names: Sequence[str] = ()) -> PassK:
    """The chance that at least one of k trials passes: the unbiased estimator of Chen and others (2021), the mean over
    cases of 1 - C(m - c, k) / C(m, k)."""
    return _pass_k(counts, k, lambda passed, trials: 1 - comb(trials - passed, k) / comb(trials, k), names)


def pass_hat_k(counts: _CountsOfCases, k: int, names: Sequence[str] = ()) -> PassK:
    """The chance that all of k trials pass, pass^k: the unbiased estimator of Yao and others (2024), the mean over
    cases of C(c, k) / C(m, k). The rate to the power of k would be too high."""
    return _pass_k(counts, k, lambda passed, trials: comb(passed, k) / comb(trials, k), names)


def _pass_k(counts: _CountsOfCases, k: int, value: Callable[[int, int], float], names: Sequence[str]) -> PassK:
    """`names`: those of the cases, in the order of their counts; or of the first that have too few trials, where equal
    counts come together."""
    if isinstance(counts, Mapping):
        every, named = counts, tuple(names[:MOST_NAMED])
    else:
        listed = list(counts)
        short = [place for place, (_, trials) in enumerate(listed) if trials < k]
        every, named = Counter(listed), tuple(names[place] if names else str(place) for place in short[:MOST_NAMED])
    known = {count: cases for count, cases in every.items() if count[1] >= k}
    values = [(value(*count), cases) for count, cases in known.items()]
    trials, cases = sum(size * cases for (_, size), cases in known.items()), sum(known.values())
    left_out = named, sum(every.values()) - cases, trials
    if not cases:
        return PassK(k, None, 0, 0, 0, None, None, *left_out)
    # A case is a share of passes unless it has k trials: then the rate is no number of cases by all of them.
    whole = all(one in (0, 1) for one, _ in values)
    counted = (round(sum_of(values)), cases) if whole else (None, None)
    mean = min(1.0, sum_of(values) / cases)
    if cases == 1:  # as many tries of k as are apart from each other
        interval = wilson_of_rate(mean, trials / k)
        return PassK(k, mean, *counted, 1, interval, "wilson", *left_out)
    variance = sum_of(((one - mean) ** 2, times) for one, times in values) / (cases - 1) / cases
    mixed = min(sum(times for one, times in values if one < 1), sum(times for one, times in values if one > 0))
    sizes = trials, sum(size * size * times for (_, size), times in known.items())
    effective = effective_spread(mean, variance, cases, sizes, mixed).effective
    return PassK(k, mean, *counted, cases, wilson_of_rate(mean, effective), "effective wilson", *left_out)


def case_repeats(passed: int, trials: int) -> CaseRepeats:
    """One case: its interval (Wilson), its flips, and what its trials leave open."""
    hidden = 1 - 0.05 ** (1 / trials) if trials and passed in (0, trials) else None
    return CaseRepeats(passed, trials, wilson(passed, trials), _flip(passed, trials), hidden)


def _flip(passed: int, trials: int) -> float | None:
    """2 c (m - c) / (m (m - 1)): the share of pairs of trials that differ (Gini's index, unbiased)."""
    return 2 * passed * (trials - passed) / (trials * (trials - 1)) if trials > 1 else None


def flip_rate(counts: _CountsOfCases) -> FlipRate:
    """The chance that a verdict differs between two runs: the mean over cases with at least two trials. Its interval is
    Student's t over cases, from five repeats on."""
    known = {count: cases for count, cases in Counter(counts).items() if count[1] > 1}
    flips = [(flip, cases) for count, cases in known.items() if (flip := _flip(*count)) is not None]
    n = sum(known.values())
    if not n:
        return FlipRate(None, 0, 0, None, None)
    mean, repeats = sum_of(flips) / n, min(trials for _, trials in known)
    quantile = t_quantile(0.975, n - 1)
    error = sqrt(sum_of(((one - mean) ** 2, cases) for one, cases in flips) / (n - 1) / n) if n > 1 else 0.0
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


def judge_noise(votes: Iterable[Sequence[Sequence[float]]]) -> Noise:
    """The noise of the judge apart from that of the model, from the scores of votes on repeats of cases.

    Nested analysis of variance with random effects (Searle, Casella and McCulloch 1992), by the method of moments, cut
    at 0; numbers of votes and repeats may differ. It needs the votes, not the score that they were joined to. They are
    read several times, a case at a time.
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

    def __init__(self, votes: Iterable[Sequence[Sequence[float]]]) -> None:
        self._given = votes
        self.votes = self._repeats = self._cases = 0
        squares_of_repeats = squares_of_cases = 0
        for case in self._known():
            sizes = list(map(len, case))
            self.votes, self._repeats, self._cases = (
                self.votes + sum(sizes),
                self._repeats + len(sizes),
                self._cases + 1,
            )
            squares_of_repeats += sum(size * size for size in sizes)
            squares_of_cases += sum(sizes) ** 2
        n = self.votes or 1
        self._of_repeats, self._of_cases = squares_of_repeats / n, squares_of_cases / n
        self._within_cases = fsum(sum(len(one) ** 2 for one in case) / sum(map(len, case)) for case in self._known())
        self.weights = 1 / n, self._of_repeats / n, self._of_cases / n
        """What the noise of judge, model and case counts in the variance of the mean."""

        mean = fsum(score for case in self._known() for repeat in case for score in repeat) / n
        by_case = fsum(sum(_sums(case, mean)) ** 2 / sum(map(len, case)) for case in self._known())
        by_repeat = fsum(
            one * one / len(repeat)
            for case in self._known()
            for one, repeat in zip(_sums(case, mean), case, strict=True)
        )
        by_vote = fsum((score - mean) ** 2 for case in self._known() for repeat in case for score in repeat)
        self.mean_squares: _Parts = (
            _mean_square(by_vote - by_repeat, self.votes - self._repeats),
            _mean_square(by_repeat - by_case, self._repeats - self._cases),
            _mean_square(by_case, self._cases - 1),
        )

    def _known(self) -> Iterator[list[Sequence[float]]]:
        return filter(None, ([repeat for repeat in case if repeat] for case in self._given))

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


def _sums(case: Sequence[Sequence[float]], mean: float) -> list[float]:
    """How far the votes of each repeat lie above the mean, together."""
    return [fsum(score - mean for score in repeat) for repeat in case]


def _mean_square(squares: float, degrees: int) -> float | None:
    return max(0.0, squares) / degrees if degrees > 0 else None
