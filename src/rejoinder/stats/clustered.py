"""The t interval of a clustered rate, for records that hold a `ClusteredRate`: what position does to a judge.

Near 0 and 1 it is too narrow on the flattering side; a pass rate has the interval of `rates.rate_of`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import erf, sqrt

from rejoinder.model.passports import ClusteredRate
from rejoinder.stats.distributions import t_quantile
from rejoinder.stats.intervals import Z_95, around, wilson


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
    quantile = t_for(z, clusters)
    interval = (0.0, 1.0) if quantile is None else around(passed / n, quantile * error, 0.0)
    return ClusteredRate(passed / n, n, clusters, error, interval, "clustered t")


def t_for(z: float, clusters: int) -> float | None:
    """How many standard errors of so many clusters are as sure as `z` of a known spread."""
    return t_quantile((1 + erf(z / sqrt(2))) / 2, clusters - 1)
