"""Net recovery: what answering back gained over simply asking again.

Follow-ups go to failures only. A model that ignores every word and is right 40 % of the time at random "recovers" some
40 % of its failures after a follow-up; its net recovery is 0. Only the first follow-up counts: of several, such a model
has several chances, and asking afresh has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum, sqrt

from msgspec import Struct
from msgspec.structs import replace

from rejoinder.model.figures import NetRecovery, NetRecoveryDifference, RatioMethod
from rejoinder.stats.distributions import t_quantile
from rejoinder.stats.intervals import around

LEAST_CASES = 8
"""Cases with a failure from which on an interval is given."""
FEW_CASES = 3
"""Fewer cases that gained, or that lost, cannot tell how much cases vary."""


class Tries(Struct, frozen=True):
    """The trials of one case. An error counts as not passed, wherever it happens."""

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

    @property
    def control(self) -> float | None:
        """How many of the failures would have passed if asked afresh; None where nothing tells.

        Given that this trial failed, the other trials of its case are an unbiased "asked afresh".
        """
        if self.afresh is not None:
            return float(self.afresh)
        return self.failed * self.first / (self.trials - 1) if self.trials > 1 else None


def net_recovery(tries: Iterable[Tries]) -> NetRecovery:
    """Net recovery over all cases of a run, also those without a failure, with its 95 % interval.

    The ratio estimator of clustered samples (Cochran 1977) with its linearised variance, and Student's t with the
    cases that had a failure. Below `LEAST_CASES` of these there is no interval, and the verdict is `too-few`. Where
    nearly all cases gain, or nearly all lose, the few that would not are not seen, and the spread with them: there two
    made-up cases, one all gain and one all loss, are added. Without them a deaf model that is mostly right would be
    called listening in up to 19 %.
    """
    gains = _Gains(tries)
    if not gains.failures:
        return NetRecovery(None, None, None, None, 0, 0, "too-few", uncontrolled=gains.uncontrolled)
    found = NetRecovery(
        net=gains.net,
        interval=None,
        answered_back=gains.recovered / gains.failures,
        afresh=gains.control / gains.failures,
        failures=gains.failures,
        cases=gains.failing,
        verdict="too-few",
        uncontrolled=gains.uncontrolled,
    )
    quantile = t_quantile(0.975, gains.failing - 1)
    if gains.failing < LEAST_CASES or quantile is None:
        return found
    centre, residuals, made_up = gains.linearised()
    error = _standard_error([*residuals, *made_up])
    low, high = around(centre, quantile * error, -1.0)
    low, high = min(low, gains.net), max(high, gains.net)
    verdict = "listens" if low > 0 else "stuck" if high < 0 else "cannot-tell"
    return replace(found, interval=(low, high), verdict=verdict, method=_method(made_up), standard_error=error)


_NOTHING = 1e-9
"""What rounding leaves of a gain of zero."""


class _Gains:
    """What each case gained over its control."""

    def __init__(self, tries: Iterable[Tries]) -> None:
        self.gains: list[float] = []
        self.failed: list[int] = []
        self.failures = self.recovered = self.uncontrolled = self.failing = 0
        controls: list[float] = []
        for one in tries:
            control = one.control
            if control is None:
                self.uncontrolled += one.failed
                continue
            controls.append(control)
            self.uncontrolled += one.uncontrolled
            self.gains.append(one.recovered - control)
            self.failed.append(one.failed)
            self.failures += one.failed
            self.recovered += one.recovered
            self.failing += one.failed > 0
        self.control = fsum(controls)
        self.net = fsum(self.gains) / self.failures if self.failures else 0.0

    def linearised(self) -> tuple[float, list[float], list[float]]:
        """The centre of the interval, how far each case moves it (gain - centre * failures, by all failures), and the
        same of the made-up cases where there are any."""
        gained = sum(gain > _NOTHING for gain in self.gains)
        lost = sum(gain < -_NOTHING for gain in self.gains)
        size = 0.0 if min(gained, lost) >= FEW_CASES else self.failures / self.failing
        total = self.failures + 2 * size
        centre = self.net * self.failures / total
        moves = [(gain - centre * failed) / total for gain, failed in zip(self.gains, self.failed, strict=True)]
        return centre, moves, [(gain - centre * size) / total for gain in (size, -size)] if size else []


def _standard_error(moves: Sequence[float]) -> float:
    return sqrt(len(moves) / (len(moves) - 1) * fsum(one * one for one in moves))


def _method(made_up: Sequence[float]) -> RatioMethod:
    return "ratio of clusters, t, two made-up cases" if made_up else "ratio of clusters, t"


def compare_net_recovery(pairs: Sequence[tuple[Tries, Tries]]) -> NetRecoveryDifference:
    """Net recovery of B less that of A, from the tries of each case in both runs, with its 95 % interval.

    d_i = e_i(B)/F_B - e_i(A)/F_A, linearised as for one run; Student's t with the cases that failed in either.
    """
    a, b = net_recovery(one for one, _ in pairs), net_recovery(other for _, other in pairs)
    known = [(one, other) for one, other in pairs if one.control is not None and other.control is not None]
    in_a, in_b = _Gains(one for one, _ in known), _Gains(other for _, other in known)
    both = sum(one.failed > 0 and other.failed > 0 for one, other in known)
    either = sum(one.failed > 0 or other.failed > 0 for one, other in known)
    if not (in_a.failures and in_b.failures):
        return NetRecoveryDifference(a, b, None, None, both, "too-few")
    difference = in_b.net - in_a.net
    quantile = t_quantile(0.975, either - 1)
    if both < LEAST_CASES or quantile is None:
        return NetRecoveryDifference(a, b, difference, None, both, "too-few")
    (centre_a, moves_a, made_up_a), (centre_b, moves_b, made_up_b) = in_a.linearised(), in_b.linearised()
    moves = [own - others for own, others in zip(moves_b, moves_a, strict=True)]
    made_up = made_up_a + made_up_b
    margin = quantile * _standard_error(moves + made_up)
    low, high = around(centre_b - centre_a, margin, -2.0, 2.0)
    low, high = min(low, difference), max(high, difference)
    verdict = "better" if low > 0 else "worse" if high < 0 else "cannot-tell"
    return NetRecoveryDifference(a, b, difference, (low, high), both, verdict, _method(made_up))
