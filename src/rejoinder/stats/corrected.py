"""The pass rate that people would see, from what an imperfect judge sees.

It holds for the first verdict on each reply: a judge that gets a second look after a follow-up has two chances to pass
what is wrong, and the labels know of one. And it holds for replies like the labelled ones.

All functions are total: what cannot be computed is None.
"""

from __future__ import annotations

from math import sqrt

from msgspec.structs import replace

from rejoinder.model.figures import Corrected, Rate
from rejoinder.model.passports import ClusteredRate
from rejoinder.stats.clustered import t_for
from rejoinder.stats.intervals import Z_95, Interval, around, share


def corrected_rate(
    observed: Rate, sensitivity: tuple[int, int], specificity: tuple[int, int], errors: int = 0
) -> Corrected:
    """The pass rate behind the judge's, from its first verdicts on replies and (right, labels) on replies that people
    pass and that people fail (Rogan and Gladen 1978), with its interval (`rogan_gladen_interval`).

    `errors` of the judge are not among the verdicts, and are told beside them.
    """
    passes, fails = share(*sensitivity), share(*specificity)
    nothing = Corrected(None, None, None, observed.of, observed.of + errors, observed.cases)
    if observed.rate is None:
        return replace(nothing, reason="no-verdicts")
    if passes is None or fails is None:
        return replace(nothing, reason="no-labels")
    rate = rogan_gladen(observed.rate, passes, fails)
    if rate is None:
        return replace(nothing, reason="tells-nothing")
    return replace(
        nothing,
        rate=rate,
        interval=rogan_gladen_interval(observed, sensitivity, specificity),
        method="Rogan-Gladen",
        clipped=not 1 - fails <= observed.rate <= passes,
    )


def rogan_gladen(observed: float, sensitivity: float, specificity: float) -> float | None:
    """The true pass rate behind the observed one; None for a judge that tells nothing, or the opposite."""
    if sensitivity + specificity <= 1:
        return None
    return min(1.0, max(0.0, (observed + specificity - 1) / (sensitivity + specificity - 1)))


def rogan_gladen_interval(
    observed: tuple[int, int] | ClusteredRate | Rate,
    sensitivity: tuple[int, int],
    specificity: tuple[int, int],
    z: float = Z_95,
) -> Interval | None:
    """The interval of the true pass rate, from (successes, trials) of the three rates, clipped to [0, 1].

    By the delta method, so what is not known of the judge widens it as well. It is laid around the clipped estimate:
    around an impossible one it could shrink to a single point at the edge. Verdicts of which several are of one case
    are given as a rate, which counts as its effective trials, or as a clustered rate, whose variance takes the place of
    the binomial one; a single case has none.
    """
    seen = share(*observed) if isinstance(observed, tuple) else observed.rate
    passes, fails = share(*sensitivity), share(*specificity)
    if seen is None or passes is None or fails is None:
        return None
    estimate = rogan_gladen(seen, passes, fails)
    spread = _variance(observed, z)
    if estimate is None or spread is None:
        return None
    variance = (
        spread
        + estimate**2 * _adjusted_variance(sensitivity, z)
        + (1 - estimate) ** 2 * _adjusted_variance(specificity, z)
    )
    return around(estimate, z * sqrt(variance) / (passes + fails - 1), 0.0)


def _variance(observed: tuple[int, int] | ClusteredRate | Rate, z: float) -> float | None:
    if isinstance(observed, ClusteredRate):
        return _clustered_variance(observed, z)
    if isinstance(observed, Rate):
        size = observed.effective or 0.0
        return _adjusted_variance(((observed.rate or 0.0) * size, size), z)
    return _adjusted_variance(observed, z)


def _adjusted_variance(counts: tuple[float, float], z: float) -> float:
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
        quantile = t_for(z, clusters)
        return None if quantile is None else (error * quantile / z if z else 0.0) ** 2
    size = clusters if observed.rate in (0, 1) else observed.n
    return _adjusted_variance((round(observed.rate * size), size), z)
