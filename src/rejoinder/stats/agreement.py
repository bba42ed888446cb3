"""How far a judge can be trusted: against human labels, against itself, and against the order of two answers.

Suites have few labelled replies, so the samples here are often one-sided: no disagreement at all, or a judge that
passes everything. The usual formulas then give a standard error of zero, which would be printed as certainty. Each
interval below says what it does instead.

All functions are total: what cannot be computed is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from math import atan2, comb, copysign, cos, erf, fsum, pi, sin, sqrt

from rejoinder.model.passports import ClusteredRate, PositionBias, SelfConsistency, VerdictTable
from rejoinder.stats.intervals import Z_95, wilson

Interval = tuple[float, float]


class Confusion(VerdictTable, frozen=True):
    """The table of verdicts, with its rates."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool, bool]]) -> Confusion:
        """Counted from pairs of (human, judge), True for a pass."""
        counts = Counter((bool(human), bool(judge)) for human, judge in pairs)
        return cls(counts[True, True], counts[False, True], counts[True, False], counts[False, False])

    @property
    def n(self) -> int:
        return self.both_pass + self.judge_only + self.human_only + self.both_fail

    @property
    def sensitivity_counts(self) -> tuple[int, int]:
        """(Successes, trials), as the intervals take them."""
        return self.both_pass, self.both_pass + self.human_only

    @property
    def specificity_counts(self) -> tuple[int, int]:
        return self.both_fail, self.both_fail + self.judge_only

    @property
    def agreement(self) -> float | None:
        return _share(self.both_pass + self.both_fail, self.n)

    @property
    def base_rate(self) -> float | None:
        """The share that the human passes: agreement means little where it is near 0 or 1."""
        return _share(self.both_pass + self.human_only, self.n)

    @property
    def sensitivity(self) -> float | None:
        """How often the judge passes what the human passes."""
        return _share(*self.sensitivity_counts)

    @property
    def specificity(self) -> float | None:
        """How often the judge fails what the human fails."""
        return _share(*self.specificity_counts)


def kappa(confusion: Confusion) -> float | None:
    """Cohen's kappa; None where chance alone explains full agreement, because only one verdict was ever given."""
    above, room = _kappa_terms(confusion)
    return above / room if room else None


def kappa_interval(confusion: Confusion, z: float = Z_95) -> Interval | None:
    """The large-sample interval of Fleiss, Cohen and Everitt (1969), clipped to [-1, 1].

    Its standard error is zero without a disagreement, and when one side gives a single verdict. Such a table cannot
    show its own spread. There the Wilson interval of the agreement is carried over to kappa, with the agreement
    expected by chance held as observed.
    """
    estimate = kappa(confusion)
    if estimate is None:
        return None
    variance = _kappa_variance(confusion)
    if variance > 0:
        return _around(estimate, z * sqrt(variance), -1.0)
    agreed = wilson(confusion.both_pass + confusion.both_fail, confusion.n, z) or (0.0, 1.0)
    room = _kappa_terms(confusion)[1] / confusion.n**2
    low, high = (1 - (1 - rate) / room for rate in agreed)
    # Rounding must not push the estimate out of its own interval.
    return max(-1.0, min(low, estimate)), min(1.0, max(high, estimate))


def _kappa_terms(table: Confusion) -> tuple[int, int]:
    """Agreement above chance, and the most it could be, each times n squared: whole numbers, so zero is exact."""
    a, b, c, d = table.both_pass, table.judge_only, table.human_only, table.both_fail
    return 2 * (a * d - b * c), (a + b) * (b + d) + (a + c) * (c + d)


def _kappa_variance(table: Confusion) -> float:
    """The variance of Fleiss, Cohen and Everitt: that of the weight each cell has on kappa.

    Computed in whole numbers (every weight times n * room), because it is a small difference of large terms.
    """
    a, b, c, d, n = table.both_pass, table.judge_only, table.human_only, table.both_fail, table.n
    above, room = _kappa_terms(table)
    lost = room - above
    weights = (
        (a, n * room - (a + c + a + b) * lost),
        (d, n * room - (b + d + c + d) * lost),
        (b, -(c + d + a + c) * lost),
        (c, -(a + b + b + d) * lost),
    )
    spread = n * sum(count * weight**2 for count, weight in weights)
    spread -= sum(count * weight for count, weight in weights) ** 2
    return spread / (n * room**4)


def krippendorff_alpha(ratings: Sequence[Sequence[Hashable | None]]) -> float | None:
    """Krippendorff's alpha for nominal values: one row per unit, one value per rater, None where it is missing.

    A unit with fewer than two values has nothing to compare and is left out, also of the expected disagreement. None
    where all values are equal: without variation there is no disagreement to expect.
    """
    totals: Counter[Hashable] = Counter()
    disagreements: list[float] = []
    for unit in ratings:
        counts = Counter(value for value in unit if value is not None)
        size = counts.total()
        if size > 1:
            totals.update(counts)
            disagreements.append(_unequal_pairs(counts) / (size - 1))
    expected = _unequal_pairs(totals)
    return 1 - (totals.total() - 1) * fsum(disagreements) / expected if expected else None


def _unequal_pairs(counts: Counter[Hashable]) -> int:
    return counts.total() ** 2 - sum(count * count for count in counts.values())


def rogan_gladen(observed: float, sensitivity: float, specificity: float) -> float | None:
    """The true pass rate behind the observed one; None for a judge that tells nothing, or the opposite."""
    if sensitivity + specificity <= 1:
        return None
    return min(1.0, max(0.0, (observed + specificity - 1) / (sensitivity + specificity - 1)))


def rogan_gladen_interval(
    observed: tuple[int, int] | ClusteredRate,
    sensitivity: tuple[int, int],
    specificity: tuple[int, int],
    z: float = Z_95,
) -> Interval | None:
    """The interval of the true pass rate, from (successes, trials) of the three rates, clipped to [0, 1].

    By the delta method, so what is not known of the judge widens it as well. It is laid around the clipped estimate:
    around an impossible one it could shrink to a single point at the edge. Verdicts of which several are of one case
    are given as a clustered rate, whose variance takes the place of the binomial one; a single case has none.
    """
    clustered = isinstance(observed, ClusteredRate)
    seen = observed.rate if clustered else _share(*observed)
    passes, fails = _share(*sensitivity), _share(*specificity)
    if seen is None or passes is None or fails is None:
        return None
    estimate = rogan_gladen(seen, passes, fails)
    spread = _clustered_variance(observed, z) if clustered else _adjusted_variance(observed, z)
    if estimate is None or spread is None:
        return None
    variance = (
        spread
        + estimate**2 * _adjusted_variance(sensitivity, z)
        + (1 - estimate) ** 2 * _adjusted_variance(specificity, z)
    )
    return _around(estimate, z * sqrt(variance) / (passes + fails - 1), 0.0)


def _adjusted_variance(counts: tuple[int, int], z: float) -> float:
    """The binomial variance of a rate, after Agresti and Coull.

    A rate of exactly 0 or 1 has variance 0 by the plain formula: a judge that was right on all of five labels would
    count as known to be perfect. Half of z squared more successes and as many failures keep the doubt that five
    labels leave. The estimate itself is not moved.
    """
    successes, trials = counts
    size = trials + z * z
    rate = (successes + z * z / 2) / size
    return rate * (1 - rate) / size


def _clustered_variance(observed: ClusteredRate, z: float) -> float | None:
    """The variance of a rate over clusters, as if it were known: the quantile of Student's t is put into it.

    Clusters without any spread are as many observations as there are clusters where all are equal, else as many as
    there are values, as for the rate's own interval.
    """
    error, clusters = observed.standard_error, observed.clusters
    if error is None:
        return None
    if error > 0:
        quantile = _t_for(z, clusters)
        return None if quantile is None else (error * quantile / z if z else 0.0) ** 2
    size = clusters if observed.rate in (0, 1) else observed.n
    return _adjusted_variance((round(observed.rate * size), size), z)


def self_consistency(trials: Sequence[Sequence[bool]], z: float = Z_95) -> SelfConsistency | None:
    """From the verdicts of one judge, a row per reply; None where no reply was judged twice."""
    repeated = [row for row in trials if len(row) > 1]
    unanimous = sum(all(row) or not any(row) for row in repeated)
    interval = wilson(unanimous, len(repeated), z)
    if interval is None:
        return None
    return SelfConsistency(
        replies=len(repeated),
        total=len(trials),
        pairwise=fsum(_equal_share(row) for row in repeated) / len(repeated),
        unanimous=unanimous / len(repeated),
        unanimous_interval=interval,
        alpha=krippendorff_alpha(repeated),
    )


def _equal_share(verdicts: Sequence[bool]) -> float:
    passed = sum(map(bool, verdicts))
    return (comb(passed, 2) + comb(len(verdicts) - passed, 2)) / comb(len(verdicts), 2)


def clustered_rate(values: Sequence[Sequence[bool]], z: float = Z_95) -> ClusteredRate | None:
    """The rate over all values, a row per cluster; None without any value, no interval with a single cluster.

    The interval is of Student's t with one degree of freedom less than there are clusters. Clusters with one and the
    same rate give a standard error of zero, and the interval is Wilson's: over clusters when all values are equal,
    since within a cluster they may be copies of each other, else over values, since equal clusters of mixed values
    are no copies.
    """
    return clustered_counts([(sum(map(bool, row)), len(row)) for row in values], z)


def clustered_counts(counts: Iterable[tuple[int, int]], z: float = Z_95) -> ClusteredRate | None:
    """The same from (successes, trials) of each cluster."""
    sums = [(part, size) for part, size in counts if size]
    passed, n, clusters = sum(part for part, _ in sums), sum(size for _, size in sums), len(sums)
    if n == 0:
        return None
    if clusters == 1:
        return ClusteredRate(passed / n, n, clusters)
    # Whole numbers (every deviation times n), so that no spread is exactly zero.
    squares = sum((part * n - size * passed) ** 2 for part, size in sums)
    error = sqrt(squares * clusters / (clusters - 1)) / (n * n)
    if squares == 0:
        trials = clusters if passed in (0, n) else n
        return ClusteredRate(passed / n, n, clusters, error, wilson(passed * trials // n, trials, z), "wilson")
    quantile = _t_for(z, clusters)
    interval = (0.0, 1.0) if quantile is None else _around(passed / n, quantile * error, 0.0)
    return ClusteredRate(passed / n, n, clusters, error, interval, "clustered t")


def _t_for(z: float, clusters: int) -> float | None:
    """How many standard errors of so many clusters are as sure as `z` of a known spread."""
    return t_quantile((1 + erf(z / sqrt(2))) / 2, clusters - 1)


def position_bias(pairs: Sequence[tuple[float, float]], z: float = Z_95) -> PositionBias | None:
    """From the preference for the same answer, shown first and shown second: 0 it loses, 0.5 a tie, 1 it wins.

    The two orders of a pair are not independent: a judge that looks at the answers alone lets each position win once.
    The test is therefore the sign test on the pairs that depend on the order, and not one over all orders, which
    would miss a bias in a judge that is mostly consistent.
    """
    leans = [(_side(first), _side(second)) for first, second in pairs]
    to_first = sum(first > second for first, second in leans)
    to_second = sum(first < second for first, second in leans)
    same = len(leans) - to_first - to_second
    interval = wilson(same, len(leans), z)
    if interval is None:
        return None
    # Shown second, the answer loses when the first position wins.
    wins = [[side > 0 for side in (first, -second) if side] for first, second in leans]
    return PositionBias(
        pairs=len(leans),
        consistent=same / len(leans),
        consistent_interval=interval,
        to_first=to_first,
        to_second=to_second,
        first=clustered_rate(wins, z),
        p_value=exact_binomial(to_first, to_first + to_second),
        flips=(to_first + to_second) / len(leans),
    )


def _side(score: float) -> int:
    return (score > 0.5) - (score < 0.5)


def exact_binomial(successes: int, trials: int) -> float | None:
    """The exact two-sided p-value against a rate of one half; None without any trial."""
    if trials == 0:
        return None
    ways, tail = 1, 1
    for count in range(1, min(successes, trials - successes) + 1):
        ways = ways * (trials - count + 1) // count
        tail += ways
    # Whole numbers until the end: 2 ** trials is too large for a float from 1024 trials on.
    return min(1.0, 2 * tail / 2**trials)


def t_quantile(probability: float, degrees: int) -> float | None:
    """The quantile of Student's t; None without degrees of freedom, and where it is infinite."""
    within = abs(2 * probability - 1)
    if degrees < 1 or within >= 1:
        return None
    if within == 0:
        return 0.0
    low, high = 0.0, 1.0
    # The bound ends the search where rounding keeps the share below what was asked.
    while _t_within(high, degrees) < within and high < 1e20:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        if _t_within(middle, degrees) < within:
            low = middle
        else:
            high = middle
    return copysign(high, probability - 0.5)


def _t_within(t: float, degrees: int) -> float:
    """The share of Student's t within [-t, t].

    For whole degrees of freedom it is a finite sum of positive terms (Abramowitz and Stegun 26.7.3 and 26.7.4), which
    needs no approximation.
    """
    angle = atan2(t, sqrt(degrees))
    square = degrees / (degrees + t * t)
    odd = degrees % 2
    term, terms = 1.0, [1.0]
    for k in range(2 + odd, degrees, 2):
        term *= square * (k - 1) / k
        terms.append(term)
    if not odd:
        return sin(angle) * fsum(terms)
    return 2 / pi * (angle + (sin(angle) * cos(angle) * fsum(terms) if degrees > 1 else 0.0))


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _around(estimate: float, margin: float, least: float) -> Interval:
    return max(least, estimate - margin), min(1.0, estimate + margin)
