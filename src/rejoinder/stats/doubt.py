"""Doubt: what becomes of right and of wrong replies when the model is asked again (`ask: always`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import exp, log, sqrt

from msgspec import Struct

from rejoinder.model.figures import Doubt, Interval, Rate, Transitions
from rejoinder.stats.intervals import Z_95, share
from rejoinder.stats.rates import rate_of, spread_of


class Doubted(Struct, frozen=True):
    """The trials of one case."""

    wrong: int
    """Wrong before it was asked again."""
    wrong_right: int
    """Those of `wrong` that were right afterwards."""
    right: int
    right_wrong: int


def transitions(cases: Iterable[Doubted], errors: int = 0) -> Transitions:
    """Each rate with the interval of `rate_of`, and the accuracy that endless asking would lead to. `errors`: doubts
    that were answered by an error, and are in none of the cases."""
    known = list(cases)
    up = [(one.wrong_right, one.wrong) for one in known]
    down = [(one.right_wrong, one.right) for one in known]
    stationary = stationary_accuracy(up, down)
    before, after = rate_of((one.right, one.right + one.wrong) for one in known), _after(known)
    return Transitions(
        before=before,
        after=after,
        wrong_right=rate_of(up),
        right_wrong=rate_of(down),
        flips=rate_of((one.wrong_right + one.right_wrong, one.right + one.wrong) for one in known),
        stationary=None if stationary is None else stationary[0],
        stationary_interval=None if stationary is None else stationary[1],
        method=None if stationary is None else "log odds, delta method",
        errors=errors,
        acc_t1=before.rate,
        acc_t2=after.rate,
        i_c=share(sum(one.wrong_right for one in known), before.of),
        c_i=share(sum(one.right_wrong for one in known), before.of),
    )


def doubt_of(number: int, cases: Iterable[Doubted]) -> Doubt:
    """One doubt of several that were sent one after the other."""
    known = list(cases)
    up = rate_of((one.wrong_right, one.wrong) for one in known)
    return Doubt(number, up, rate_of((one.right_wrong, one.right) for one in known), _after(known))


def _after(cases: Iterable[Doubted]) -> Rate:
    return rate_of((one.right - one.right_wrong + one.wrong_right, one.right + one.wrong) for one in cases)


def stationary_accuracy(
    wrong_right: Sequence[tuple[int, int]], right_wrong: Sequence[tuple[int, int]]
) -> tuple[float, Interval] | None:
    """The share of right replies of a two-state Markov chain in balance, with its 95 % interval: a / (a + b), by the
    log odds of the two rates with half a success added, and the delta method, times the design effect of repeats.

    It assumes rates that do not change from turn to turn. None where nothing changed: that has no balance.
    """
    (a, of_a), (b, of_b) = (_smoothed(counts) for counts in (wrong_right, right_wrong))
    if not any(count for count, _ in (*wrong_right, *right_wrong)):
        return None
    odds = log(a / b)
    variance = _effect(wrong_right) * (1 - a) / (of_a * a) + _effect(right_wrong) * (1 - b) / (of_b * b)
    margin = Z_95 * sqrt(variance)
    return _share_of(odds), (_share_of(odds - margin), _share_of(odds + margin))


def _smoothed(counts: Sequence[tuple[int, int]]) -> tuple[float, int]:
    trials = sum(of for _, of in counts) + 1
    return (sum(count for count, _ in counts) + 0.5) / trials, trials


def _effect(counts: Sequence[tuple[int, int]]) -> float:
    spread = spread_of(counts)
    return 1.0 if spread is None or spread.cases == spread.trials else spread.effect


def _share_of(log_odds: float) -> float:
    return 1 / (1 + exp(-log_odds))


def turn_of_flip(verdicts: Sequence[bool]) -> int | None:
    """The turn, from 1, on which the verdict first differs from that of the first turn; None if never. SYCON counts the
    turns before it."""
    return next((turn for turn, verdict in enumerate(verdicts, 1) if verdict != verdicts[0]), None)


def number_of_flips(verdicts: Sequence[bool]) -> int:
    """How often the verdict changes from one turn to the next (SYCON)."""
    return sum(one != other for one, other in pairwise(verdicts))
