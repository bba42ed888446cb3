"""Repeats that stop as soon as they tell (`--repeat auto`).

Two runs of the same cases are asked in whole rounds; trial r of A is paired with trial r of B. Looking after each round
at p < 0.05 would raise a false alarm in 13 to 17 %; the bounds below spend 5 % over all looks. The answer is about
these cases, not about cases like them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from math import ceil, erfc, exp, log, sqrt, tau

from rejoinder.model.figures import Look
from rejoinder.stats.distributions import normal_above
from rejoinder.stats.intervals import Z_95

ROUNDS = 10
_NO_LOOK = 1e-6
"""A round that may spend less than this is not looked at."""
_POINTS = 240
_LOG_LOSS, _LOG_WIN = log(4 / 3), log(2 / 3)


def count_pairs(pairs: Iterable[tuple[Sequence[bool], Sequence[bool]]]) -> tuple[int, int]:
    """Losses and wins over the verdicts of each case in A and in B: trials that only A passes, or only B."""
    lost = won = 0
    for a, b in pairs:
        for before, after in zip(a, b, strict=False):
            lost += before and not after
            won += after and not before
    return lost, won


def look(lost: int, won: int, done: int, rounds: int = ROUNDS, *, in_plan: bool = True) -> Look:
    """What can be said after `done` of `rounds` whole rounds.

    A regression where (lost - won) / sqrt(lost + won) exceeds the bound of this round (`bounds_of`). No regression
    beyond two losses for each win where the likelihood ratio of that against equal numbers falls to 1/10 (Wald's
    sequential test). After the last round, else, it cannot be told. Where the plan was broken (unequal rounds, repeats
    added later, stopped at will), only the likelihood ratio counts, which holds at any time (Ville): from 20 on.
    """
    differing = lost + won
    statistic = (lost - won) / sqrt(differing) if differing else None
    log_evidence = lost * _LOG_LOSS + won * _LOG_WIN
    bound = bounds_of(rounds)[min(done, rounds) - 1] if in_plan and min(done, rounds) > 0 else None
    if in_plan:
        is_regression = bound is not None and statistic is not None and statistic > bound
    else:
        is_regression = log_evidence >= log(20)
    if is_regression:
        verdict = "regression"
    elif log_evidence <= -log(10):
        verdict = "no-regression"
    else:
        verdict = "go-on" if in_plan and done < rounds else "cannot-tell"
    evidence = exp(min(log_evidence, 700.0))
    method = "O'Brien-Fleming spending" if in_plan else "likelihood ratio"
    return Look(verdict, lost, won, done, rounds, statistic, bound, evidence, method)


def spent_by(share: float) -> float:
    """How much of the 5 % (one-sided) may be spent when this share of the rounds is done: the spending function of Lan
    and DeMets (1983) like O'Brien and Fleming's."""
    return 2 * normal_above(Z_95 / sqrt(share))


@cache
def bounds_of(rounds: int) -> tuple[float | None, ...]:
    """The bound of each round; None for early rounds that are not looked at.

    By the recursion of Armitage, McPherson and Rowe (1969): the density of the sum of r standard normal steps, among
    the paths that no earlier bound has stopped, is carried from round to round on a grid.
    """
    bounds: list[float | None] = []
    grid: list[tuple[float, float]] = [(0.0, 1.0)]  # places and masses
    spent = 0.0
    for done in range(1, rounds + 1):
        allowed = spent_by(done / rounds)
        if allowed < _NO_LOOK:
            bounds.append(None)
            end = 9 * sqrt(done)
        else:
            end = _bound(grid, allowed - spent, 9 * sqrt(done))
            bounds.append(end / sqrt(done))
            spent = allowed
        if done < rounds:
            grid = _next_grid(grid, -9 * sqrt(done), end)
    return tuple(bounds)


def _bound(grid: Sequence[tuple[float, float]], mass: float, most: float) -> float:
    """Where so much of the next round's mass lies above."""
    low, high = 0.0, most
    while low < (middle := (low + high) / 2) < high and high - low > 1e-9:
        above = sum(weight * erfc((middle - place) / sqrt(2)) for place, weight in grid) / 2
        if above > mass:
            low = middle
        else:
            high = middle
    return high


def _next_grid(grid: Sequence[tuple[float, float]], low: float, high: float) -> list[tuple[float, float]]:
    """One step more, cut off at both ends; masses by Simpson's rule."""
    # A grid as fine for a hundred rounds as for ten, of an even number of steps.
    points = max(_POINTS, 2 * ceil((high - low) / 0.9))
    step = (high - low) / points
    scale = step / 3 / sqrt(tau)
    found: list[tuple[float, float]] = []
    for number in range(points + 1):
        place = low + number * step
        density = sum(weight * exp(-((place - before) ** 2) / 2) for before, weight in grid)
        factor = 1 if number in (0, points) else 4 if number % 2 else 2
        found.append((place, scale * factor * density))
    return found
