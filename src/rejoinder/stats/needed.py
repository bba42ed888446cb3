"""About how many cases would tell, where these cannot."""

from __future__ import annotations

from math import ceil, floor, inf, log10, sqrt
from typing import Protocol

from rejoinder.stats.distributions import normal_above, normal_quantile, t_quantile

LEVEL = 0.05
POWER = 0.8
"""How often as many cases tell."""
FEW_DIFFERING = 5
"""Fewer cases that differ cannot show how much cases differ."""
MOST_CASES = 100_000
"""More are not worth naming."""
HALVINGS = 20
"""Of a range that a bound is looked for in."""


class Seen(Protocol):
    """What was seen of the differences of cases."""

    n: int
    differing: int
    mean: float
    squares: float
    """Their sum."""
    is_uniform: bool
    """Whether there is only one difference, so that they show no spread."""
    score: float | None
    """Where trials are unequal: by how many standard deviations the better run has more passes than are dealt to it."""


def cases_needed(seen: Seen, margin: float, tests: int = 1) -> int | None:
    """About how many cases in all would tell in four of five tries, if further ones differ as these do: the difference
    would be called, or would be within the margin. With several tests at once each has its share of the level. Further
    ones are rounded up to two digits that count: it is an estimate. None where `MOST_CASES` would not do."""
    few, many = seen.n, 2 * seen.n
    while _chance_to_tell(seen, many, margin, tests) < POWER:
        few, many = many, 2 * many
        if few > MOST_CASES:
            return None
    while many - few > max(1, few // 200):
        middle = (few + many) // 2
        few, many = (few, middle) if _chance_to_tell(seen, middle, margin, tests) >= POWER else (middle, many)
    return seen.n + rounded_up(many - seen.n)


def rounded_up(number: float) -> int:
    """To two digits that count: 139 is 140."""
    step = 10 ** max(0, floor(log10(number)) - 1) if number > 0 else 1
    return ceil(number / step) * step


def _chance_to_tell(seen: Seen, cases: int, margin: float, tests: int) -> float:
    """How likely so many cases tell, if their mean is normal around that of these. It is told above one bound, where a
    difference is called, and below another, if it is within the margin."""
    called, within = _bound_of_difference(seen, cases, tests), _bound_of_none(seen, cases, margin, tests)
    if within >= called:
        return 1.0
    error = sqrt(max(0.0, seen.squares / seen.n - seen.mean**2) / cases)
    size = abs(seen.mean)
    if error == 0:
        return float(size > called or size < within)
    told = normal_above((called - size) / error) + normal_above((called + size) / error)
    if within > 0:
        told += normal_above((-within - size) / error) - normal_above((within - size) / error)
    return told


def _bound_of_difference(seen: Seen, cases: int, tests: int) -> float:
    """The smallest mean that is called: by the interval and by the test."""
    share = cases / seen.n
    made_up = 0 if share * seen.differing >= FEW_DIFFERING and not seen.is_uniform else 2
    interval = _half_width(seen, cases, made_up, 0.975) * (cases + made_up) / cases
    flips = _bound_of_flips(seen, cases, tests)
    return max(interval, flips if seen.score is None else _bound_of_both(seen, seen.score, cases, tests, flips))


def _bound_of_both(seen: Seen, score: float, cases: int, tests: int, flips: float) -> float:
    """With unequal trials, the smallest mean at which the p-values of the sign-flip test and of dealing trials out
    have a mean below the level, and the former is below it."""
    if score <= 0 or flips == inf:
        return inf
    dealt, flipped = abs(seen.mean) / score * sqrt(seen.n / cases), sqrt(seen.squares / seen.n / cases)
    few, many = flips, max(flips, _z(tests) * dealt)
    for _ in range(HALVINGS):
        middle = (few + many) / 2
        is_called = normal_above(middle / dealt) + normal_above(middle / flipped) < LEVEL / tests
        few, many = (few, middle) if is_called else (middle, many)
    return many


def _bound_of_flips(seen: Seen, cases: int, tests: int) -> float:
    differing = cases / seen.n * seen.differing
    if abs(seen.mean) * seen.n == seen.differing:  # all differ by the same and one way: mid-p is a power of a half
        return 0.0 if 0.5 ** round(differing) < LEVEL / tests else inf
    return _z(tests) * sqrt(seen.squares / seen.n / cases)


def _z(tests: int) -> float:
    return normal_quantile(1 - LEVEL / 2 / tests) or inf


def _bound_of_none(seen: Seen, cases: int, margin: float, tests: int) -> float:
    """The largest mean that is within the margin."""
    return (margin - _half_width(seen, cases, 2, 1 - LEVEL / tests)) * (cases + 2) / cases


def _half_width(seen: Seen, cases: int, made_up: int, probability: float) -> float:
    """Of Student's t interval, if so many cases differ as these do; `made_up` cases of +1 and -1 are added."""
    n = cases + made_up
    mean, squares = seen.mean * cases / n, seen.squares * cases / seen.n
    error = sqrt(max(0.0, (squares + made_up) / n - mean**2) / (n - 1))
    return (t_quantile(probability, cases - 1) or inf) * error
