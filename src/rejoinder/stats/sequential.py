"""Repeats that stop as soon as they tell (`--repeat auto`).

Two runs of the same cases are asked in whole rounds; trial r of A is paired with trial r of B. Looking after each round
at p < 0.05 would raise a false alarm in 13 to 17 %; the bounds below spend 5 % over all looks. A regression is about
these cases, not about cases like them; that there is none is never said where `compare_runs` cannot tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from math import ceil, erfc, exp, log, sqrt, tau
from operator import add
from typing import NamedTuple

from rejoinder.model.figures import Comparison, Look
from rejoinder.stats.distributions import normal_above
from rejoinder.stats.gates import excludes_drop
from rejoinder.stats.intervals import Z_95

ROUNDS = 10
_NO_LOOK = 1e-6
"""A round that may spend less than this is not looked at."""
_POINTS = 240
_LOG_LOSS, _LOG_WIN = log(4 / 3), log(2 / 3)


class Differing(NamedTuple):
    """Pairs of trials that only one run passes."""

    lost: int = 0
    """Only A passes them."""
    won: int = 0
    squares: int = 0
    """The sum over cases of (lost - won)^2."""
    cases: int = 0
    """All cases, also those without such a pair."""
    changed: int = 0
    """The cases that both passed and failed within one of the runs."""

    @property
    def spread(self) -> int:
        """The variance of lost - won if nothing has changed. Where trials are independent it is lost + won. Where a
        case has one state for a whole run (temperature 0, a cache, a bad backend for an hour), its trials go together,
        and the squares of cases are larger: so cases count there, and not trials."""
        return max(self.lost + self.won, self.squares)

    @property
    def design(self) -> float:
        """How many trials of a case say as much as one that is independent: 1, unless trials go together."""
        return self.spread / (self.lost + self.won) if self.spread else 1.0


def count_pairs(pairs: Iterable[tuple[Sequence[bool], Sequence[bool]]]) -> Differing:
    """Losses and wins over the verdicts of each case in A and in B: trials that only A passes, or only B."""
    found = Differing()
    for a, b in pairs:
        both = list(zip(a, b, strict=False))
        lost, won = sum(one and not other for one, other in both), sum(other and not one for one, other in both)
        changed = any(len(set(run)) > 1 for run in zip(*both, strict=True))
        found = Differing(*map(add, found, (lost, won, (lost - won) ** 2, 1, changed)))
    return found


def look(found: Differing, done: int, rounds: int = ROUNDS, *, compared: Comparison, in_plan: bool = True) -> Look:
    """What can be said after `done` of `rounds` whole rounds. `compared`: the same two runs by `compare_runs`.

    A regression where (lost - won) / sqrt(spread) exceeds the bound of this round (`bounds_of`). No regression where a
    drop beyond the margin is excluded twice: by the comparison, as without rounds, and by the interval of this round,
    (lost - won + bound sqrt(spread)) by all pairs, which allows for looks after every round (Jennison and Turnbull
    1989). After the last round, else, it cannot be told. Where the plan was broken (unequal rounds, repeats added
    later, stopped at will), a regression needs a likelihood ratio of 20 for two losses to each win, which holds at any
    time (Ville).
    """
    lost, won, design = found.lost, found.won, found.design
    statistic = (lost - won) / sqrt(found.spread) if found.spread else None
    log_evidence = (lost * _LOG_LOSS + won * _LOG_WIN) / design
    bound = bounds_of(rounds)[min(done, rounds) - 1] if in_plan and min(done, rounds) > 0 else None
    if in_plan:
        is_regression = bound is not None and statistic is not None and statistic > bound
    else:
        is_regression = log_evidence >= log(20)
    if is_regression:
        verdict = "regression"
    elif excludes_drop(compared) and (not in_plan or _is_drop_excluded(found, bound, done, compared.margin)):
        verdict = "no-regression"
    else:
        verdict = "go-on" if in_plan and done < rounds else "cannot-tell"
    return Look(
        verdict,
        lost,
        won,
        done,
        rounds,
        statistic,
        bound,
        evidence=exp(min(log_evidence, 700.0)),
        method="O'Brien-Fleming spending" if in_plan else "likelihood ratio",
        design=design,
        steady=done > 1 and not found.changed,
        margin=compared.margin,
    )


def _is_drop_excluded(found: Differing, bound: float | None, done: int, margin: float) -> bool:
    """By the interval of this round; one pair may differ if none does."""
    pairs = found.cases * done
    return bound is not None and found.lost - found.won + bound * sqrt(max(1, found.spread)) < margin * pairs


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
