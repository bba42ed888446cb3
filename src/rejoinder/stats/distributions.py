"""The normal distribution, Student's t and coin tosses: quantiles and tails, in the standard library's `math` alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import atan2, copysign, cos, erfc, exp, fsum, log, pi, sin, sqrt

_MANY_DEGREES = 300
_NOTHING = 1e-25
"""Of the largest term; further ones change no digit."""


def normal_above(z: float) -> float:
    """The share of the normal distribution above z."""
    return erfc(z / sqrt(2)) / 2


def normal_quantile(probability: float) -> float | None:
    """The z below which this share lies; None if it is infinite.

    Abramowitz and Stegun 26.2.23 as a start, then Newton's steps on the exact tail, in logarithms because tails are
    small.
    """
    tail = min(probability, 1 - probability)
    if not 0 < tail <= 0.5:
        return None
    t = sqrt(-2 * log(tail))
    z = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
    for _ in range(4):
        above = normal_above(z)
        z += (log(above) - log(tail)) * above / (exp(-z * z / 2) / sqrt(2 * pi))
    return copysign(z, probability - 0.5)


@cache
def t_quantile(probability: float, degrees: int) -> float | None:
    """The quantile of Student's t; None without degrees of freedom, and where it is infinite."""
    within = abs(2 * probability - 1)
    if degrees < 1 or within >= 1:
        return None
    if within == 0:
        return 0.0
    if degrees > _MANY_DEGREES:
        return _t_of_many_degrees(probability, degrees)
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


def _t_of_many_degrees(probability: float, degrees: int) -> float | None:
    """The expansion around the normal quantile (Abramowitz and Stegun 26.7.5): a sum of 50,000 terms for 100,000
    cases would take a second, and differs in the tenth digit at most."""
    z = normal_quantile(probability)
    if z is None:
        return None
    s = z * z
    terms = (
        (s + 1) / 4,
        ((5 * s + 16) * s + 3) / 96,
        (((3 * s + 19) * s + 17) * s - 15) / 384,
        ((((79 * s + 776) * s + 1482) * s - 1920) * s - 945) / 92160,
    )
    return z + sum(z * term / degrees**power for power, term in enumerate(terms, 1))


def exact_binomial(successes: int, trials: int) -> float | None:
    """The exact two-sided p-value against a rate of one half (the sign test); None without any trial."""
    if trials == 0:
        return None
    ways, tail = 1, 1
    for count in range(1, min(successes, trials - successes) + 1):
        ways = ways * (trials - count + 1) // count
        tail += ways
    # Whole numbers until the end: 2 ** trials is too large for a float from 1024 trials on.
    return min(1.0, 2 * tail / 2**trials)


def fisher_one_sided(before: tuple[int, int], after: tuple[int, int]) -> float:
    """Fisher's exact test that `after` passes less often than `before`, both as (passed, trials): the chance of so few
    passes after, or fewer, if the passes of both were dealt out at random.

    Each chance is the one beside it times a ratio of small numbers, from the most likely number of passes outward, so
    neither large binomials nor their logarithms round anything away. Chances too small to count end the walk.
    """
    (a, m), (b, n) = before, after
    passes = a + b
    least, most = max(0, passes - m), min(n, passes)
    if b >= most:
        return 1.0
    peak = min(most, max(least, (passes + 1) * (n + 1) // (m + n + 2)))
    below, above = [1.0], list[float]()
    few, term, first = peak, 1.0, 1.0
    while few > least and (few > b or term > _NOTHING * first):
        term *= few * (m - passes + few) / ((passes - few + 1) * (n - few + 1))
        few -= 1
        first = term if few == b else first
        below.append(term)
    many, term = peak, 1.0
    while many < most and term > _NOTHING:
        term *= (passes - many) * (n - many) / ((many + 1) * (m - passes + many + 1))
        many += 1
        above.append(term)
    every = fsum(below) + fsum(above)
    if b >= peak:
        return min(1.0, (fsum(below) + fsum(above[: b - peak])) / every)
    return fsum(below[peak - b :]) / every


def hypergeometric(passes: int, m: int, n: int) -> tuple[int, list[float]]:
    """How many of `passes` among m + n trials fall on the n of them: the least possible number, and the chance of each
    from it on. From the most likely number outward, so that nothing is too large; what is next to impossible is 0."""
    least, most = max(0, passes - m), min(n, passes)
    peak = min(most, max(least, (passes + 1) * (n + 1) // (m + n + 2)))
    terms = [0.0] * (most - least + 1)
    terms[peak - least] = term = 1.0
    for many in range(peak, least, -1):
        term *= many * (m - passes + many) / ((passes - many + 1) * (n - many + 1))
        terms[many - 1 - least] = term
    term = 1.0
    for many in range(peak, most):
        term *= (passes - many) * (n - many) / ((many + 1) * (m - passes + many + 1))
        terms[many + 1 - least] = term
    every = fsum(terms)
    return least, [one / every for one in terms]


def holm(p_values: Sequence[float], times: Sequence[int] | None = None) -> list[float]:
    """Holm's step-down correction: the p-values that may be held against the level of all tests together. `times`: how
    many tests have each of them; one, if nothing is said."""
    adjusted = [1.0] * len(p_values)
    least, left = 0.0, len(p_values) if times is None else sum(times)
    for place in sorted(range(len(p_values)), key=p_values.__getitem__):
        least = max(least, min(1.0, p_values[place] * left))
        adjusted[place] = least
        left -= 1 if times is None else times[place]
    return adjusted
