"""What is kept of each case of a run: numbers, in columns, and no reply."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from sys import intern
from typing import cast

import msgspec
from msgspec import Struct

from rejoinder.model.comparisons import CaseName, CaseState
from rejoinder.model.results import CheckResult, Result
from rejoinder.stats.comparison import Trials
from rejoinder.stats.recovery import Tries


class Side(Struct, frozen=True):
    """A run in a comparison."""

    run: str
    results: Iterable[Result]
    """They are read twice, one at a time."""
    target: str | None = None
    """Only its results count, and cases match those of another target."""
    variant: str | None = None
    """The same for a variant; empty for results that have none."""

    def counted(self) -> Iterator[Result]:
        return filter(self._counts, self.results)

    def _counts(self, result: Result) -> bool:
        is_of_target = self.target is None or result.target == self.target
        return is_of_target and (self.variant is None or (result.variant or "") == self.variant)


class Names:
    """The cases of both runs, by number."""

    def __init__(self) -> None:
        self._numbers: dict[CaseName, int] = {}
        self.names: list[CaseName] = []

    def number(self, result: Result, side: Side) -> int:
        target = "" if side.target is not None else intern(result.target)
        variant = "" if side.variant is not None else intern(result.variant or "")
        name = CaseName(intern(result.case_file), result.id, target, variant)
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.names)
            self.names.append(name)
        return number

    def __len__(self) -> int:
        return len(self.names)


class Columns:
    """Numbers of cases, in arrays of the same length."""

    def pad(self, cases: int) -> None:
        """Zeros up to this number of cases."""
        for column in cast("list[array[int]]", [one for one in vars(self).values() if isinstance(one, array)]):
            missing = cases - len(column)
            if missing > 0:
                column.frombytes(bytes(column.itemsize * missing))


class Verdicts(Columns):
    """How the trials of each case ended."""

    def __init__(self) -> None:
        self.trials, self.passed, self.first, self.errors = (array("q") for _ in range(4))
        self.failed, self.recovered, self.skipped = (array("q") for _ in range(3))
        self.controlled, self.against, self.afresh = (array("q") for _ in range(3))
        """Failures that have a control, those that recovered, and those that passed when asked afresh."""

    def add(self, number: int, result: Result) -> None:
        if result.status == "skipped":
            self.skipped[number] += 1
            return
        self.trials[number] += 1
        self.passed[number] += result.passed
        self.errors[number] += result.status == "error"
        first_try = result.first_try
        self.first[number] += first_try
        self.failed[number] += not first_try and any(turn.depth for turn in result.turns)
        self.recovered[number] += result.recovered_at_once
        if result.has_control and result.control is not None:
            self.controlled[number] += 1
            self.against[number] += result.recovered_at_once
            self.afresh[number] += result.control.passed

    def eventual(self, number: int) -> Trials:
        return trials_of(self.passed[number], self.trials[number], self.errors[number])

    def first_try(self, number: int) -> Trials:
        return trials_of(self.first[number], self.trials[number], self.errors[number])

    def tries(self, number: int) -> Tries:
        trials, first, controlled = self.trials[number], self.first[number], self.controlled[number]
        if controlled:
            apart = self.failed[number] - controlled
            return _tries_of(trials, first, controlled, self.against[number], self.afresh[number], apart)
        return _tries_of(trials, first, self.failed[number], self.recovered[number])

    def state(self, number: int) -> CaseState:
        passed, trials = self.passed[number], self.trials[number]
        if 0 < passed < trials:
            return "flaky"
        return "passed" if passed else "error" if self.errors[number] == trials else "failed"


@lru_cache(maxsize=1 << 12)
def trials_of(passed: int, trials: int, errors: int) -> Trials:
    """Cases are many and their counts few: equal ones are one value."""
    return Trials(passed, trials, errors)


@lru_cache(maxsize=1 << 12)
def _tries_of(
    trials: int, first: int, failed: int, recovered: int, afresh: int | None = None, uncontrolled: int = 0
) -> Tries:
    return Tries(trials, first, failed, recovered, afresh, uncontrolled)


class Spending(Columns):
    """Costs, times and tokens of each case, as sums and how many there were."""

    def __init__(self) -> None:
        self.cost, self.seconds = array("d"), array("d")
        self.costs, self.replies, self.tokens, self.conversations = (array("q") for _ in range(4))

    def add(self, number: int, result: Result) -> None:
        if result.cost is not None:
            self.cost[number] += result.cost
            self.costs[number] += 1
        timed = result.reply_times
        self.seconds[number] += sum(timed)
        self.replies[number] += len(timed)
        if any(turn.response is not None for turn in result.turns):
            self.tokens[number] += result.usage.total_tokens
            self.conversations[number] += 1

    def mean_cost(self, number: int) -> float | None:
        return self.cost[number] / self.costs[number] if self.costs[number] else None

    def mean_seconds(self, number: int) -> float | None:
        return self.seconds[number] / self.replies[number] if self.replies[number] else None

    def mean_tokens(self, number: int) -> float | None:
        return self.tokens[number] / self.conversations[number] if self.conversations[number] else None


_KEPT = (1 << 63) - 1


class Sketches(Columns):
    """What tells whether two cases are the same, and whether the same was said."""

    def __init__(self) -> None:
        self.place, self.question, self.said = (array("q") for _ in range(3))
        self._encode = msgspec.json.Encoder().encode

    def add(self, number: int, result: Result) -> None:
        self.place[number] = result.number
        checks = tuple(check.check for check in result.turns[0].checks) if result.turns else ()
        if checks and not self.question[number]:
            self.question[number] = hash((self._encode(result.raw_request), checks)) & _KEPT
        replies = tuple(turn.response for turn in result.turns)
        self.said[number] = (self.said[number] + hash((result.trial, replies))) & _KEPT

    def known_question(self, number: int) -> int | None:
        """The same number for the same question and checks; None where nothing was checked."""
        return self.question[number] or None


class Votes:
    """The votes of judges on first replies, by case and check; one list for each trial."""

    def __init__(self) -> None:
        self._given: dict[tuple[int, str], list[tuple[float, ...]]] = {}

    def add(self, number: int, result: Result) -> None:
        if result.turns:
            self._add(number, result.turns[0].checks)

    def _add(self, number: int, checks: Iterable[CheckResult]) -> None:
        for check in checks:
            if check.judge is not None and len(check.votes) > 1:
                self._given.setdefault((number, check.check), []).append(tuple(map(float, check.votes)))
            self._add(number, check.children)

    def __bool__(self) -> bool:
        return bool(self._given)

    def by_case(self) -> list[list[tuple[float, ...]]]:
        return list(self._given.values())


class Counts:
    """All that is kept of one run."""

    def __init__(self, side: Side, names: Names, tags: dict[str, set[int]]) -> None:
        self.verdicts, self.spending, self.sketches, self.votes = Verdicts(), Spending(), Sketches(), Votes()
        self.statuses: Counter[str] = Counter()
        self.targets: dict[str, None] = {}
        self.variants: dict[str, None] = {}
        for result in side.counted():
            number = names.number(result, side)
            if number >= len(self.verdicts.trials):
                self.pad(2 * number + 1)
            self.statuses[result.status] += 1
            self.targets[intern(result.target)] = None
            if result.variant is not None:
                self.variants[intern(result.variant)] = None
            self.verdicts.add(number, result)
            for tag in result.tags:
                tags.setdefault(tag, set()).add(number)
            if result.status == "skipped":
                continue
            self.spending.add(number, result)
            self.sketches.add(number, result)
            self.votes.add(number, result)

    def pad(self, cases: int) -> None:
        """Zeros for cases that have no result yet, or only in the other run."""
        for columns in (self.verdicts, self.spending, self.sketches):
            columns.pad(cases)
