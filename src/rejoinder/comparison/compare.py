"""B against A, from the results of both, read one at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from math import fsum
from sqlite3 import DatabaseError
from sys import intern

from msgspec import structs

from rejoinder.comparison.flips import find_flips
from rejoinder.comparison.matching import Match, Matching
from rejoinder.comparison.sides import Side, Tally, read_tags, trials_of
from rejoinder.comparison.table import NoRoom, Spent, Table, Votes
from rejoinder.model.comparisons import (
    ComparedRun,
    Flakiness,
    FlakyCase,
    Noises,
    RunComparison,
    TargetComparison,
)
from rejoinder.model.figures import MARGIN, FlipRate, GroupComparison, Noise
from rejoinder.model.results import CaseName
from rejoinder.stats.comparison import (
    LEAST_OF_GROUP,
    Pair,
    Trials,
    changes_of,
    compare_groups,
    compare_runs,
)
from rejoinder.stats.deltas import delta_of
from rejoinder.stats.recovery import PairOfTries, compare_net_recovery
from rejoinder.stats.repeats import case_repeats, flip_rate, judge_noise

SHOWN = 50
"""Flips of each kind whose replies are kept."""


def compare_sides(a: Side, b: Side, *, margin: float = MARGIN, shown: int = SHOWN) -> RunComparison:
    """`margin`: what counts as no difference. `shown`: of so many cases that broke, and that were fixed, replies are
    kept. Lists of cases are read from the disk when they are walked through. Raises NoRoom where it is full."""
    try:
        return _Comparing(a, b, margin).found(shown)
    except DatabaseError as error:
        raise NoRoom(error) from None


class _Comparing:
    def __init__(self, a: Side, b: Side, margin: float) -> None:
        self._sides = a, b
        self._margin = margin
        self._table = Table()
        self._runs = [_read(self._table, place, side) for place, side in enumerate((a, b))]
        self._matching = Matching(self._table, a, b)
        self._counts = _Counts()
        for matches in _by_case(self._matching.matched(lambda match: match)):
            self._counts.add(matches)
            self._spend(matches)

    def _spend(self, matches: Sequence[Match]) -> None:
        spent = ((one.a.spent, one.b.spent) for one in matches)
        for kind, pairs in enumerate(zip(*(zip(a, b, strict=True) for a, b in spent), strict=True)):
            known = [(before, after) for before, after in pairs if before is not None and after is not None]
            if known:
                before, after = (fsum(pair[side] for pair in known) / len(known) for side in (0, 1))
                self._table.change("INSERT INTO spent VALUES (?, ?, ?)", kind, before, after)

    def found(self, shown: int) -> RunComparison:
        matching, counts = self._matching, self._counts
        cost, seconds, tokens = (delta_of(Spent(self._table, kind)) for kind in range(3))
        several = len(counts.targets) > 1
        return RunComparison(
            a=self._runs[0],
            b=self._runs[1],
            matched=counts.pairs.total(),
            only_in_a=matching.only_in(0),
            only_in_b=matching.only_in(1),
            renamed=matching.renamed(),
            left_out=matching.left_out(),
            edited=counts.edited,
            first_try=compare_runs(counts.rates.first_try, self._margin),
            eventual=compare_runs(counts.rates.eventual, self._margin),
            net_recovery=None if several else compare_net_recovery(counts.rates.tries),
            cost=cost,
            latency_s=seconds,
            tokens=tokens,
            flips=find_flips(self._sides, self._table, changes_of(counts.pairs), shown),
            same_words=counts.same_words,
            flakiness=self._flakiness(),
            noise=Noises(self._noise(0), self._noise(1)),
            by_target=self._by_target() if several else (),
            by_tag=self._groups(counts.tags),
        )

    def _flakiness(self) -> Flakiness:
        flaky = " OR ".join(f"({one}.passed > 0 AND {one}.passed < {one}.trials)" for one in "ab")
        named = self._sides[1].named
        cases = self._matching.matched(lambda one: _flaky(named(one.in_b), one), flaky)
        return Flakiness(self._flip_rate(0), self._flip_rate(1), cases)

    def _flip_rate(self, side: int) -> FlipRate:
        trials = Counter[tuple[int, int]]()
        for pair, cases in self._counts.pairs.items():
            trials[pair[side].passed, pair[side].trials] += cases
        return flip_rate(trials)

    def _noise(self, side: int) -> Noise | None:
        votes = Votes(self._table, side)
        return judge_noise(votes) if votes else None

    def _by_target(self) -> tuple[TargetComparison, ...]:
        targets = self._counts.targets
        return tuple(
            TargetComparison(
                *structs.astuple(group),
                first_try=compare_runs(targets[group.name].first_try, self._margin),
                net_recovery=compare_net_recovery(targets[group.name].tries),
            )
            for group in self._groups({name: one.eventual for name, one in targets.items()}, least=1)
        )

    def _groups(self, groups: dict[str, Counter[Pair]], least: int = LEAST_OF_GROUP) -> tuple[GroupComparison, ...]:
        return compare_groups(dict(sorted(groups.items())), self._margin, least)


def _read(table: Table, place: int, side: Side) -> ComparedRun:
    """Every result of a side into the table, and what the side has as a whole."""
    statuses, targets, variants = Counter[str](), dict[str, None](), dict[str, None]()
    for number, result in enumerate(side.counted()):
        table.add(place, side, result, number)
        statuses[result.status] += 1
        targets[intern(result.target)] = None
        if result.variant is not None:
            variants[intern(result.variant)] = None
    return ComparedRun(
        run=side.run,
        targets=tuple(targets),
        variants=tuple(variants),
        conversations=statuses.total(),
        passed=statuses["passed"],
        errors=statuses["error"],
        skipped=statuses["skipped"],
    )


def _by_case(matches: Iterable[Match]) -> Iterator[list[Match]]:
    """One list for each case: replies of several targets or variants to one question are no cases of their own."""
    return (list(group) for _, group in groupby(matches, key=lambda one: one.in_b[:2]))


class _Rates:
    """The pairs that there are, with the number of cases that have them."""

    def __init__(self) -> None:
        self.eventual, self.first_try = Counter[Pair](), Counter[Pair]()
        self.tries = Counter[PairOfTries]()
        """Of each match."""

    def add(self, matches: Sequence[Match]) -> None:
        self.eventual[_pair(matches, _eventual)] += 1
        self.first_try[_pair(matches, _first_try)] += 1
        for one in matches:
            self.tries[one.a.tries, one.b.tries] += 1


class _Counts:
    """What is counted of all matches."""

    def __init__(self) -> None:
        self.edited = self.same_words = 0
        self.pairs = Counter[Pair]()
        """Of each match."""
        self.rates = _Rates()
        self.targets: dict[str, _Rates] = {}
        self.tags: dict[str, Counter[Pair]] = {}

    def add(self, matches: Sequence[Match]) -> None:
        """The matches of one case."""
        self.rates.add(matches)
        for target, group in _grouped(matches, lambda one: (one.target,)).items():
            self.targets.setdefault(target, _Rates()).add(group)
        for tag, group in _grouped(matches, lambda one: read_tags(one.a.tags) | read_tags(one.b.tags)).items():
            self.tags.setdefault(tag, Counter())[_pair(group, _eventual)] += 1
        for one in matches:
            self.pairs[one.a.eventual, one.b.eventual] += 1
            self.same_words += one.a.said == one.b.said
            self.edited += bool(one.a.question and one.b.question and one.a.question != one.b.question)


def _grouped(matches: Sequence[Match], names: Callable[[Match], Iterable[str]]) -> dict[str, list[Match]]:
    groups: dict[str, list[Match]] = {}
    for one in matches:
        for name in names(one):
            groups.setdefault(name, []).append(one)
    return groups


def _eventual(tally: Tally) -> Trials:
    return tally.eventual


def _first_try(tally: Tally) -> Trials:
    return tally.first_try


def _pair(matches: Sequence[Match], counted: Callable[[Tally], Trials]) -> Pair:
    return _sum([counted(one.a) for one in matches]), _sum([counted(one.b) for one in matches])


def _sum(counts: Sequence[Trials]) -> Trials:
    if len(counts) == 1:
        return counts[0]
    return trials_of(*(sum(getattr(one, name) for one in counts) for name in ("passed", "trials", "errors")))


def _flaky(name: CaseName, match: Match) -> FlakyCase:
    a, b = (case_repeats(one.passed, one.trials) for one in (match.a, match.b))
    return FlakyCase(file=name.file, id=name.id, target=name.target, variant=name.variant or None, a=a, b=b)
