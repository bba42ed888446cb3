"""Counts of conversations by case: what rates, net recovery and scores are computed from.

Trials of one case, and the replies of several targets to it, say less than as many cases, so every figure knows the
cases behind it. Memory grows by some numbers for each case, and not by the results.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from heapq import nlargest, nsmallest
from math import fsum

from rejoinder.model import Result
from rejoinder.model.figures import NetRecovery, PassK, Rate
from rejoinder.model.runs import OfK, Rates, Recovery, Repeats, ScoredCase, Scores
from rejoinder.stats import rate_of

BINS = 5
MOST_RANKED = 3
MOST_K = 100
"""pass^k is told up to this k."""


class CaseNumbers:
    """Cases by number, in the order of their first result. A case is known by its file (`case_file`) and id."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[str, int]] = {}
        self.places: list[tuple[str, str]] = []
        """The file and the id of each."""

    def number(self, result: Result) -> int:
        file = result.case_file or result.suite
        numbers = self._numbers.setdefault(file, {})
        if result.id not in numbers:
            numbers[result.id] = len(self.places)
            self.places.append((file, result.id))
        return numbers[result.id]


class Column:
    """A number for each case."""

    def __init__(self) -> None:
        self._values = array("q")

    def add(self, case: int, number: int = 1) -> None:
        if case >= len(self._values):
            self._values.frombytes(bytes(8 * (case + 1 - len(self._values))))
        self._values[case] += number

    def of(self, case: int) -> int:
        return self._values[case] if case < len(self._values) else 0

    def __iter__(self) -> Iterator[int]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Share:
    """A rate over things that belong to cases."""

    def __init__(self) -> None:
        self._passed, self._counted = Column(), Column()

    def add(self, case: int, passed: bool) -> None:
        self._counted.add(case)
        self._passed.add(case, passed)

    def rate(self, errors: int = 0) -> Rate:
        return rate_of(_counted(self._passed, self._counted), errors)


class Trials:
    """How the trials of each case went. Skipped ones do not count."""

    def __init__(self) -> None:
        self._trials, self._first, self._passed = Column(), Column(), Column()
        self._failed, self._recovered = Column(), Column()
        """First tries that failed and got a follow-up, and those of them that passed after the first one."""
        self._controlled, self._against = Column(), Column()
        """The same, where the first turn was also asked afresh."""
        self._afresh = Column()
        """Those of them that passed when asked afresh."""
        self._errors = 0

    def add(self, case: int, result: Result) -> None:
        self._trials.add(case)
        self._first.add(case, result.first_try)
        self._passed.add(case, result.passed)
        self._errors += result.status == "error"
        if not any(turn.depth for turn in result.turns):
            return
        self._failed.add(case)
        self._recovered.add(case, result.recovered_at_once)
        if result.has_control and result.control is not None:
            self._controlled.add(case)
            self._against.add(case, result.recovered_at_once)
            self._afresh.add(case, result.control.passed)

    @property
    def cases(self) -> int:
        return sum(trials > 0 for trials in self._trials)

    def rates(self) -> Rates:
        pairs = zip(self._eventual(), self._first, strict=False)
        gained = ((passed - first, trials) for (passed, trials), first in pairs)
        return Rates(
            rate_of(_counted(self._first, self._trials), self._errors),
            rate_of(self._eventual(), self._errors),
            rate_of(gained),
        )

    def _eventual(self) -> Iterator[tuple[int, int]]:
        return _counted(self._passed, self._trials)

    def net_recovery(self) -> NetRecovery | None:
        """None where no follow-up was sent."""
        if not any(self._failed):
            return None
        from rejoinder.stats import Tries, net_recovery

        def tries() -> Iterator[Tries]:
            for case, (first, trials) in enumerate(_counted(self._first, self._trials)):
                controlled = self._controlled.of(case)
                if controlled:
                    against, afresh = self._against.of(case), self._afresh.of(case)
                    yield Tries(trials, first, controlled, against, afresh, self._failed.of(case) - controlled)
                else:
                    yield Tries(trials, first, self._failed.of(case), self._recovered.of(case))

        return net_recovery(tries())

    def repeats(self, places: list[tuple[str, str]]) -> Repeats | None:
        """None where no case was run more than once. pass^k of the run is that of the fewest trials that a repeated
        case has; cases that were run once are left out, and named."""
        least = min((trials for trials in self._trials if trials > 1), default=None)
        if least is None:
            return None
        from rejoinder.stats import flip_rate, pass_at_k, pass_hat_k

        counts, names = list[tuple[int, int]](), list[str]()
        for (_, name), (passed, trials) in zip(places, self._eventual(), strict=False):
            if trials:
                counts.append((passed, trials))
                names.append(name)
        return Repeats(
            pass_hat_k(counts, least, names),
            pass_at_k(counts, least, names),
            flip_rate(counts),
            tuple(_of_k(counts, k) for k in range(1, min(MOST_K, max(self._trials)) + 1)),
        )


def _of_k(counts: list[tuple[int, int]], k: int) -> OfK:
    from rejoinder.stats import pass_at_k, pass_hat_k

    found = pass_hat_k(counts, k)
    return OfK(k, _as_rate(found), _as_rate(pass_at_k(counts, k)), found.cases, found.short)


def _as_rate(found: PassK) -> Rate:
    return Rate(found.rate, found.passed, found.of, found.cases, found.interval, found.method)


def _counted(passed: Column, counted: Column) -> Iterator[tuple[int, int]]:
    return ((passed.of(case), trials) for case, trials in enumerate(counted))


class FollowUps:
    """What became of conversations after their first follow-up, their second, and so on, in the order sent."""

    def __init__(self) -> None:
        self._shares: dict[int, Share] = {}
        self._sent: dict[int, list[int]] = {}
        """How many got it, recovered, and ended in an error."""
        self.tokens = 0
        self._costs = array("d")
        self._unpriced = False

    def add(self, case: int, result: Result) -> None:
        sent = [turn for turn in result.turns if turn.depth]
        for number, turn in enumerate(sent, 1):
            is_last = turn is result.turns[-1]
            share = self._shares.setdefault(number, Share())
            counts = self._sent.setdefault(number, [0, 0, 0])
            recovered = is_last and result.passed
            share.add(case, recovered)
            counts[0] += 1
            counts[1] += recovered
            counts[2] += is_last and result.status == "error"
            self.tokens += turn.usage.total_tokens
            if turn.cost is not None:
                self._costs.append(turn.cost)
            elif turn.response is not None:
                self._unpriced = True

    @staticmethod
    def cost_of(every: Iterable[FollowUps]) -> float | None:
        """What all of them cost together; None where a part of it is not known."""
        found = list(every)
        costs = [cost for one in found for cost in one._costs]
        return fsum(costs) if costs and not any(one._unpriced for one in found) else None

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
        self._sums = array("d")
        self._scored, self._errors = Column(), Column()

    def add(self, case: int, result: Result) -> None:
        if result.status == "error":
            self._errors.add(case)
        if result.score is None:
            return
        while len(self._sums) <= case:
            self._sums.append(0.0)
        self._sums[case] += float(result.score)
        self._scored.add(case)

    def scores(self, places: list[tuple[str, str]]) -> Scores:
        from rejoinder.stats import mean_of, percentile

        values = [self._sums[case] / count for case, count in enumerate(self._scored) if count]
        if not values:
            return NO_SCORES
        found = mean_of([value] for value in values)
        least, most = min(values), max(values)
        bins = [0] * BINS
        for value in values:
            bins[min(BINS - 1, max(0, int(value * BINS)))] += 1
        ranked = min(MOST_RANKED, max(1, len(values) // 2))
        return Scores(
            found.mean,
            percentile(values, 0.5),
            least,
            most,
            found.stdev,
            tuple(bins),
            tuple(nlargest(ranked, self._ranked(places), key=_score)),
            tuple(nsmallest(ranked, (case for case in self._ranked(places) if case.score < 1), key=_score)),
            found.standard_error,
            found.interval,
            found.cases,
            sum(self._scored),
            found.method,
        )

    def _ranked(self, places: list[tuple[str, str]]) -> Iterator[ScoredCase]:
        for case, scored in enumerate(self._scored):
            if scored:
                file, name = places[case]
                yield ScoredCase(name, self._sums[case] / (scored + self._errors.of(case)), file)


def _score(case: ScoredCase) -> float:
    return case.score
