"""Counts of conversations by case: what rates, net recovery and scores are computed from.

Trials of one case, and the replies of several targets to it, say less than as many cases, so every figure knows the
cases behind it. The results of a case stand side by side in a run. Some cases later it is closed: equal cases are
counted from then on, and memory does not grow with them but for a number of each score, time and judge's cost.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest, nsmallest

from msgspec.structs import replace

from rejoinder.model import Condition, Result, TurnResult
from rejoinder.model.figures import Mean, NetRecovery, PassK, Rate
from rejoinder.model.results import answered_back, is_in_error
from rejoinder.model.runs import CaseShare, OfK, Rates, Recovery, Repeats, ScoredCase, Scores
from rejoinder.model.trials import TrialCounts
from rejoinder.stats.rates import rate_of
from rejoinder.stats.sums import ExactSum

BINS = 5
MOST_RANKED = 3
MOST_OPEN = 100
"""Cases that are closed together."""
MOST_NAMED = 20
"""Cases that are named if they have too few trials, as in `stats.repeats`."""
MOST_K = 100
"""pass^k is told up to this k."""


class OutOfOrder(Exception):
    """A case came before one that was closed, and may have been closed itself."""


class OpenCases:
    """Cases by number, in the order of their first result, until they are closed. A case is known by its file
    (`case_file`) and id; the conditions of a sharded task are one case, because they pass and fail together."""

    def __init__(self, *, stay: bool) -> None:
        """`stay`: is no case closed before the end? Then results may come in any order."""
        self._stay = stay
        self._numbers: dict[tuple[str, str], int] = {}
        self._given = 0
        self._last: dict[str, int] = {}
        """The place of the last case of each file."""
        self.places: dict[int, tuple[str, str]] = {}
        """The file and the id of each; of a sharded task, that of the condition that came first."""

    def ends_with(self, result: Result) -> bool:
        """Are the open cases to be closed before this result?"""
        return len(self._numbers) >= MOST_OPEN and not self._stay and _place(result) not in self._numbers

    def number(self, result: Result) -> int:
        place = _place(result)
        if place not in self._numbers:
            if not self._stay:
                if result.number <= self._last.get(place[0], -1):
                    raise OutOfOrder
                self._last[place[0]] = result.number
            self._numbers[place] = self._given
            self.places[self._given] = place[0], result.id
            self._given += 1
        return self._numbers[place]

    def close(self) -> None:
        self._numbers.clear()
        self.places.clear()


def _place(result: Result) -> tuple[str, str]:
    return result.case_file or result.suite, result.task


class Share:
    """A rate over things that belong to cases."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[int, int]] = {}
        self._closed: Counter[tuple[int, int]] = Counter()

    def add(self, case: int, passed: bool) -> None:
        before, counted = self._open.get(case, (0, 0))
        self._open[case] = before + passed, counted + 1

    def close(self) -> None:
        self._closed.update(self._open.values())
        self._open.clear()

    def rate(self, errors: int = 0) -> Rate:
        return rate_of(self._closed, errors)


CaseKey = tuple[int, Condition | None]
"""The number of a case, and the condition in which a sharded task was put."""


class Trials:
    """How the trials of each case went, those of a sharded task in each condition. Skipped ones do not count."""

    def __init__(self) -> None:
        self.open: dict[CaseKey, TrialCounts] = {}
        self._closed: Counter[TrialCounts] = Counter()
        self._named: dict[int, list[tuple[int, str]]] = {}
        """The first cases with so many trials, by number and id."""

    def add(self, case: CaseKey, counted: TrialCounts) -> None:
        before = self.open.get(case)
        self.open[case] = counted if before is None else before.plus(counted)

    def close(self, places: Mapping[int, tuple[str, str]]) -> None:
        for (case, _), counts in sorted(self.open.items(), key=lambda one: one[0][0]):
            self._closed[counts] += 1
            named = self._named.setdefault(counts.trials, [])
            if len(named) < MOST_NAMED:
                named.append((case, places[case][1]))
        self.open.clear()

    @property
    def cases(self) -> int:
        return self._closed.total()

    def rates(self) -> Rates:
        errors = sum(one.errors * cases for one, cases in self._closed.items())
        return Rates(
            rate_of(self._cases_by(lambda one: one.first), errors),
            rate_of(self._cases_by(lambda one: one.passed), errors),
            rate_of(self._cases_by(lambda one: one.gained)),
        )

    def without_errors(self) -> Rate | None:
        """The pass rate of the trials that did not end in an error; None if none did, or if all did."""
        if not any(one.errors for one in self._closed):
            return None
        counts = Counter[tuple[int, int]]()
        for one, cases in self._closed.items():
            if one.trials > one.errors:
                counts[one.passed, one.trials - one.errors] += cases
        return rate_of(counts) if counts else None

    def _cases_by(self, count: Callable[[TrialCounts], int]) -> Counter[tuple[int, int]]:
        """How many cases have so many of some trials, and so many trials."""
        counts = Counter[tuple[int, int]]()
        for one, cases in self._closed.items():
            counts[count(one), one.trials] += cases
        return counts

    def net_recovery(self) -> NetRecovery | None:
        """None where no follow-up was sent."""
        if not any(one.failed for one in self._closed):
            return None
        from rejoinder.stats.recovery import Tries, net_recovery, tries_of

        tries = Counter[Tries]()
        for one, cases in self._closed.items():
            tries[tries_of(one)] += cases
        return net_recovery(tries)

    def repeats(self) -> Repeats | None:
        """None where no case was run more than once. pass^k of the run is that of the fewest trials that a repeated
        case has; cases that were run once are left out, and named."""
        least = min((one.trials for one in self._closed if one.trials > 1), default=None)
        if least is None:
            return None
        from rejoinder.stats.repeats import flip_rate, pass_at_k, pass_hat_k

        counts = self._cases_by(lambda one: one.passed)
        most = max(trials for _, trials in counts)
        short = sorted(one for trials, named in self._named.items() if trials < least for one in named)
        names = [name for _, name in short]
        return Repeats(
            pass_hat_k(counts, least, names),
            pass_at_k(counts, least, names),
            flip_rate(counts),
            tuple(_of_k(counts, k) for k in range(1, min(MOST_K, most) + 1)),
        )


def _of_k(counts: Counter[tuple[int, int]], k: int) -> OfK:
    from rejoinder.stats.repeats import pass_at_k, pass_hat_k

    found = pass_hat_k(counts, k)
    return OfK(k, _share(found), _share(pass_at_k(counts, k)), found.cases, found.short)


def _share(found: PassK) -> CaseShare:
    return CaseShare(found.rate, found.passed, found.of, found.cases, found.interval, found.method)


def was_right_before(turn: TurnResult, turns: Sequence[TurnResult]) -> bool:
    """Whether the reply was right that a follow-up was sent to. Then it doubts, and nothing can recover."""
    return 2 <= turn.turn <= len(turns) and turns[turn.turn - 2].passed


class FollowUps:
    """What became of conversations after their first follow-up, their second, and so on, in the order sent."""

    def __init__(self) -> None:
        self._shares: dict[int, Share] = {}
        self._sent: dict[int, list[int]] = {}
        """How many got it, recovered, and ended in an error."""
        self._answered = Share()
        self._broken = 0
        """Of the replies that were wrong and got a follow-up, those that led to an error."""
        self.tokens = 0
        self.cost = ExactSum()
        self.unpriced = False

    def add(self, case: int, result: Result) -> None:
        if len(result.turns) < 2:
            return
        for turns in answered_back(result.turns):
            if len(turns) > 1 and not turns[0].passed:
                self._answered.add(case, turns[-1].passed)
                self._broken += is_in_error(turns[-1], result)
        number = 0
        for turn in result.turns:
            number = number + 1 if turn.depth else 0
            if not turn.depth or was_right_before(turn, result.turns):
                continue
            share = self._shares.setdefault(number, Share())
            counts = self._sent.setdefault(number, [0, 0, 0])
            share.add(case, turn.passed)
            counts[0] += 1
            counts[1] += turn.passed
            counts[2] += is_in_error(turn, result)
            self.tokens += turn.usage.total_tokens
            if turn.cost is not None:
                self.cost.add(turn.cost)
            elif turn.response is not None:
                self.unpriced = True

    def close(self) -> None:
        self._answered.close()
        for share in self._shares.values():
            share.close()

    def answered_back(self) -> Rate | None:
        """None where no reply was wrong and got a follow-up."""
        rate = self._answered.rate(self._broken)
        return rate if rate.of else None

    @staticmethod
    def cost_of(every: Iterable[FollowUps]) -> float | None:
        """What all of them cost together; None where a part of it is not known."""
        found, total = list(every), ExactSum()
        for one in found:
            total.include(one.cost)
        return total.total() if total and not any(one.unpriced for one in found) else None

    def rows(self) -> Iterator[Recovery]:
        for number, (at_risk, recovered, errors) in sorted(self._sent.items()):
            rate = self._shares[number].rate(errors)
            interval = rate.interval or (0.0, 1.0)
            counted = rate.rate, recovered, at_risk
            yield Recovery(number, at_risk, recovered, interval, errors, rate.cases, rate.method, *counted)


NO_SCORES = Scores(None, None, None, None, None)


class CaseScores:
    """Scores of cases: the mean of each case's conversations."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[float, int, int]] = {}
        """The sum of the scores, how many there are, and how many errors."""
        self._verdicts: Counter[tuple[int, int]] | None = Counter()
        """How many cases have so many scores of 1, of so many; None if there is a score between 0 and 1."""
        self._values = array("d")
        """The mean of each case that is closed."""
        self._scored = 0
        self._best: list[ScoredCase] = []
        self._worst: list[ScoredCase] = []

    def add(self, case: int, result: Result) -> None:
        total, scored, errors = self._open.get(case, (0.0, 0, 0))
        if result.score is not None:
            total, scored = total + float(result.score), scored + 1
            if result.score not in (0, 1):
                self._verdicts = None
        self._open[case] = total, scored, errors + (result.status == "error")

    def close(self, places: Mapping[int, tuple[str, str]]) -> None:
        ended = [(places[case], *counts) for case, counts in sorted(self._open.items()) if counts[1]]
        self._open.clear()
        self._values.extend(total / scored for _, total, scored, _ in ended)
        if self._verdicts is not None:
            self._verdicts.update((round(total), scored) for _, total, scored, _ in ended)
        self._scored += sum(scored for _, _, scored, _ in ended)
        ranked = [ScoredCase(name, total / (scored + errors), file) for (file, name), total, scored, errors in ended]
        if len(self._best) == MOST_RANKED:  # of equal ones the first stay
            won = [case for case in ranked if case.score > self._best[-1].score]
        else:
            won = ranked
        self._best = nlargest(MOST_RANKED, [*self._best, *won], key=_score) if won else self._best
        lost = [case for case in ranked if case.score < 1]
        self._worst = nsmallest(MOST_RANKED, [*self._worst, *lost], key=_score) if lost else self._worst

    def _as_rate(self, found: Mean) -> Mean:
        """Scores of 0 and 1 are verdicts, so their mean has the interval that their rate has: two figures of the same
        checks do not contradict each other."""
        sizes = {scored for _, scored in self._verdicts or ()}
        if found.interval is None or self._verdicts is None or len(sizes) != 1:
            return found
        rate = rate_of(self._verdicts)
        return replace(found, interval=rate.interval, method=rate.method)

    def scores(self) -> Scores:
        from rejoinder.stats.intervals import percentile
        from rejoinder.stats.rates import mean_of_cases

        values = self._values
        if not values:
            return NO_SCORES
        found = self._as_rate(mean_of_cases(values, len(values)))
        bins = [0] * BINS
        for value in values:
            bins[min(BINS - 1, max(0, int(value * BINS)))] += 1
        ranked = min(MOST_RANKED, max(1, len(values) // 2))
        return Scores(
            found.mean,
            percentile(values, 0.5),
            min(values),
            max(values),
            found.stdev,
            tuple(bins),
            tuple(self._best[:ranked]),
            tuple(self._worst[:ranked]),
            found.standard_error,
            found.interval,
            found.cases,
            self._scored,
            found.method,
        )


def _score(case: ScoredCase) -> float:
    return case.score
