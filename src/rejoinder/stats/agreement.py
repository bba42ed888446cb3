"""How far a judge can be trusted: against human labels, against itself, and against the order of two answers.

Suites have few labelled replies, so the samples here are often one-sided: no disagreement at all, or a judge that
passes everything. The usual formulas then give a standard error of zero, which would be printed as certainty. Each
interval below says what it does instead.

All functions are total: what cannot be computed is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from math import comb, fsum, sqrt

from rejoinder.model.passports import PositionBias, SelfConsistency, VerdictTable
from rejoinder.stats.clustered import clustered_rate
from rejoinder.stats.distributions import exact_binomial
from rejoinder.stats.intervals import Z_95, Interval, around, share, wilson


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
        return share(self.both_pass + self.both_fail, self.n)

    @property
    def base_rate(self) -> float | None:
        """The share that the human passes: agreement means little if it is near 0 or 1."""
        return share(self.both_pass + self.human_only, self.n)

    @property
    def sensitivity(self) -> float | None:
        """How often the judge passes what the human passes."""
        return share(*self.sensitivity_counts)

    @property
    def specificity(self) -> float | None:
        """How often the judge fails what the human fails."""
        return share(*self.specificity_counts)


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
        return around(estimate, z * sqrt(variance), -1.0)
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
    """Krippendorff's alpha for nominal values: one row per unit, one value per rater, None if it is missing.

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
        pairwise=fsum(_equalshare(row) for row in repeated) / len(repeated),
        unanimous=unanimous / len(repeated),
        unanimous_interval=interval,
        alpha=krippendorff_alpha(repeated),
    )


def _equalshare(verdicts: Sequence[bool]) -> float:
    passed = sum(map(bool, verdicts))
    return (comb(passed, 2) + comb(len(verdicts) - passed, 2)) / comb(len(verdicts), 2)


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
