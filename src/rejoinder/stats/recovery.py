"""Net recovery: what answering back gained over simply asking again.

Follow-ups go to failures only. A model that ignores every word and is right 40 % of the time at random "recovers" some
40 % of its failures after a follow-up; its net recovery is 0. Only the first follow-up counts: of several, such a model
has several chances, and asking afresh has one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import sqrt

from msgspec import Struct
from msgspec.structs import replace

from rejoinder.model.figures import NetRecovery, NetRecoveryDifference, RatioMethod
from rejoinder.model.trials import TrialCounts
from rejoinder.stats.distributions import t_quantile
from rejoinder.stats.intervals import around
from rejoinder.stats.sums import sum_of

LEAST_CASES = 8
"""Cases with a failure from which on an interval is given."""
FEW_CASES = 3
"""Fewer cases that gained, or that lost, cannot tell how much cases vary."""


class Tries(Struct, frozen=True):
    """The trials of one case. An error after a follow-up counts as not passed."""

    trials: int
    first: int
    """Trials that passed on the first try."""
    failed: int
    """Trials whose first try failed and got a follow-up."""
    recovered: int
    """Those of `failed` that passed after the first follow-up; asking afresh is one try as well."""
    afresh: int | None = None
    """With `control: afresh`: those of `failed` whose first turn passed when it was asked in a new conversation."""
    uncontrolled: int = 0
    """Further failures, whose control was not had or could not be judged."""
    errors: int = 0
    """Those of `trials` whose first turn ended in an error: neither right nor wrong, so they say nothing of how often
    asking afresh passes."""

    @property
    def control(self) -> float | None:
        """How many of the failures would have passed if asked afresh; None where nothing tells.

        Given that this trial failed, the other trials of its case are an unbiased "asked afresh"; those whose first
        turn ended in an error are left out. Counted as failures they would make a deaf model seem to listen: errors on
        first turns (a cold start, a rate limit) are no follow-ups that could recover.
        """
        if self.afresh is not None:
            return float(self.afresh)
        others = self.trials - self.errors - 1
        return self.failed * self.first / others if others > 0 else None

    @property
    def left_out(self) -> int:
        """The errors that are left out of the control of its failures."""
        return self.errors if self.failed and self.afresh is None else 0


@lru_cache(maxsize=1 << 12)
def tries_of(counts: TrialCounts) -> Tries:
    """Cases are many and their counts few: equal ones are one value."""
    if not counts.controlled:
        return Tries(counts.trials, counts.opened, counts.failed, counts.recovered, errors=counts.unjudged)
    apart = counts.failed - counts.controlled
    return Tries(counts.trials, counts.opened, counts.controlled, counts.against, counts.afresh, apart)


def net_recovery(tries: Iterable[Tries] | Mapping[Tries, int]) -> NetRecovery:
    """Net recovery over all cases of a run, also those without a failure, with its 95 % interval. From the tries of
    each case, or from those that there are with the number of cases that have them.

    The ratio estimator of clustered samples (Cochran 1977) with its linearised variance, and Student's t with the
    cases that had a failure. Below `LEAST_CASES` of these there is no interval, and the verdict is `too-few`. Where
    nearly all cases gain, or nearly all lose, the few that would not are not seen, and the spread with them: there two
    made-up cases, one all gain and one all loss, are added. Without them a deaf model that is mostly right would be
    called listening in up to 19 %.
    """
    return _net_recovery(Counter(tries).items())


def _net_recovery(tries: Iterable[tuple[Tries, int]]) -> NetRecovery:
    gains = _Gains(tries)
    if not gains.failures:
        return NetRecovery(
            None, None, None, None, 0, 0, "too-few", uncontrolled=gains.uncontrolled, errors=gains.errors
        )
    found = NetRecovery(
        net=gains.net,
        interval=None,
        answered_back=gains.recovered / gains.failures,
        afresh=gains.control / gains.failures,
        failures=gains.failures,
        cases=gains.failing,
        verdict="too-few",
        uncontrolled=gains.uncontrolled,
        errors=gains.errors,
    )
    quantile = t_quantile(0.975, gains.failing - 1)
    if gains.failing < LEAST_CASES or quantile is None:
        return found
    centre, residuals, made_up = gains.linearised()
    error = _standard_error([*residuals, *((one, 1) for one in made_up)])
    low, high = around(centre, quantile * error, -1.0)
    low, high = min(low, gains.net), max(high, gains.net)
    verdict = "listens" if low > 0 else "stuck" if high < 0 else "cannot-tell"
    return replace(found, interval=(low, high), verdict=verdict, method=_method(made_up), standard_error=error)


_NOTHING = 1e-9
"""What rounding leaves of a gain of zero."""


class _Gains:
    """What each case gained over its control; equal cases are counted."""

    def __init__(self, tries: Iterable[tuple[Tries, int]]) -> None:
        self.gains: list[tuple[float, int, int]] = []
        """The gain and the failures of a case, and how many cases there are of it."""
        self.failures = self.recovered = self.uncontrolled = self.failing = self.errors = 0
        controls: list[tuple[float, int]] = []
        for one, cases in tries:
            control = one.control
            self.errors += cases * one.left_out
            if control is None:
                self.uncontrolled += cases * one.failed
                continue
            controls.append((control, cases))
            self.uncontrolled += cases * one.uncontrolled
            self.gains.append((one.recovered - control, one.failed, cases))
            self.failures += cases * one.failed
            self.recovered += cases * one.recovered
            self.failing += cases * (one.failed > 0)
        self.control = sum_of(controls)
        self.net = sum_of((gain, cases) for gain, _, cases in self.gains) / self.failures if self.failures else 0.0

    def linearised(self) -> tuple[float, list[_Move], list[float]]:
        """The centre of the interval, how far each case moves it (gain - centre * failures, by all failures), and the
        same of the made-up cases if there are any."""
        gained = sum(cases for gain, _, cases in self.gains if gain > _NOTHING)
        lost = sum(cases for gain, _, cases in self.gains if gain < -_NOTHING)
        size = 0.0 if min(gained, lost) >= FEW_CASES else self.failures / self.failing
        total = self.failures + 2 * size
        centre = self.net * self.failures / total
        moves = [((gain - centre * failed) / total, cases) for gain, failed, cases in self.gains]
        return centre, moves, [(gain - centre * size) / total for gain in (size, -size)] if size else []


_Move = tuple[float, int]
"""How far a case moves the estimate, and how many such cases there are."""


def _standard_error(moves: Sequence[_Move]) -> float:
    cases = sum(cases for _, cases in moves)
    return sqrt(cases / (cases - 1) * sum_of((one * one, cases) for one, cases in moves))


def _method(made_up: Sequence[float]) -> RatioMethod:
    return "ratio of clusters, t, two made-up cases" if made_up else "ratio of clusters, t"


PairOfTries = tuple[Tries, Tries]


def compare_net_recovery(pairs: Iterable[PairOfTries] | Mapping[PairOfTries, int]) -> NetRecoveryDifference:
    """Net recovery of B less that of A, from the tries of each case in both runs, with its 95 % interval.

    d_i = e_i(B)/F_B - e_i(A)/F_A, linearised as for one run; Student's t with the cases that failed in either.
    """
    every = list(Counter(pairs).items())
    a, b = (_net_recovery((pair[side], cases) for pair, cases in every) for side in (0, 1))
    known = [(pair, cases) for pair, cases in every if pair[0].control is not None and pair[1].control is not None]
    in_a, in_b = (_Gains((pair[side], cases) for pair, cases in known) for side in (0, 1))
    both = sum(cases for (one, other), cases in known if one.failed > 0 and other.failed > 0)
    either = sum(cases for (one, other), cases in known if one.failed > 0 or other.failed > 0)
    if not (in_a.failures and in_b.failures):
        return NetRecoveryDifference(a, b, None, None, both, "too-few")
    difference = in_b.net - in_a.net
    quantile = t_quantile(0.975, either - 1)
    if both < LEAST_CASES or quantile is None:
        return NetRecoveryDifference(a, b, difference, None, both, "too-few")
    (centre_a, moves_a, made_up_a), (centre_b, moves_b, made_up_b) = in_a.linearised(), in_b.linearised()
    moves = [(own - others, cases) for (own, cases), (others, _) in zip(moves_b, moves_a, strict=True)]
    made_up = made_up_a + made_up_b
    margin = quantile * _standard_error([*moves, *((one, 1) for one in made_up)])
    low, high = around(centre_b - centre_a, margin, -2.0, 2.0)
    low, high = min(low, difference), max(high, difference)
    verdict = "better" if low > 0 else "worse" if high < 0 else "cannot-tell"
    return NetRecoveryDifference(a, b, difference, (low, high), both, verdict, _method(made_up))
