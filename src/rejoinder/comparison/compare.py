"""B against A, from the results of both, read one at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress, groupby
from math import fsum
from sqlite3 import DatabaseError
from sys import intern
from typing import TypeVar, get_args

from msgspec import Struct, structs

from rejoinder.comparison.flips import find_flips
from rejoinder.comparison.matching import Group, Match, Matching
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
from rejoinder.model.figures import MARGIN, Comparison, FlipRate, Noise
from rejoinder.model.plans import Condition
from rejoinder.model.results import CaseName
from rejoinder.stats.comparison import (
    LEAST_OF_GROUP,
    Pair,
    Trials,
    changes_of,
    compare_all,
    group_of,
)
from rejoinder.stats.deltas import delta_of, settled
from rejoinder.stats.recovery import PairOfTries, compare_net_recovery
from rejoinder.stats.repeats import case_repeats, flip_rate, judge_noise

SHOWN = 50
"""Flips of each kind whose replies are kept."""


def compare_pairs(
    pairs: Iterable[tuple[Side, Side]], *, margin: float = MARGIN, shown: int = SHOWN
) -> list[RunComparison]:
    """Several comparisons in one answer. Their verdicts are corrected together (Holm): otherwise one of twenty equal
    runs would be called different. The same holds for their first tries, and for their tags.

    `margin`: differences up to it count as none. `shown`: maximum of broken and of fixed cases whose replies are kept.
    Lists of cases are read from disk during iteration. Raises NoRoom if the disk is full."""
    try:
        every = [_Comparing(a, b) for a, b in pairs]
        parts = {(place, name): part for place, one in enumerate(every) for name, part in one.groups.items()}
        tags = {(place, name): tag for place, one in enumerate(every) for name, tag in one.tags.items()}
        answer = _Answer(
            eventual=compare_all({key: one.eventual for key, one in parts.items()}, margin),
            first_try=compare_all({key: one.first_try for key, one in parts.items()}, margin),
            tags=compare_all(tags, margin, LEAST_OF_GROUP),
        )
        return [one.found(place, answer, shown) for place, one in enumerate(every)]
    except DatabaseError as error:
        raise NoRoom(error) from None


class _Answer(Struct, frozen=True):
    """The comparisons of one answer, by the position of the two runs and the name of a group or tag."""

    eventual: dict[tuple[int, str], Comparison]
    first_try: dict[tuple[int, str], Comparison]
    tags: dict[tuple[int, str], Comparison]


class _Comparing:
    def __init__(self, a: Side, b: Side) -> None:
        self._sides = a, b
        self._table = Table()
        self._runs = [_read(self._table, place, side) for place, side in enumerate((a, b))]
        self._matching = Matching(self._table, a, b)
        self.counts = _Counts()
        for matches in _by_case(self._matching.matched(lambda match: match)):
            self.counts.add(matches)
            self._spend(matches)
        for matches in _by_case(self._matching.unmeasured()):
            self.counts.add_rates(matches)

        self._names = _names_of(self.counts.groups)

    @property
    def groups(self) -> dict[str, _Rates]:
        """The groups with their own rate: targets and conditions if there are several, else the whole without
        a name."""
        known = {name: self.counts.groups[group] for group, name in self._names.items()}
        return known if len(known) > 1 else {"": self.counts.whole}

    @property
    def tags(self) -> dict[str, Counter[Pair]]:
        """By tag, and by group if there are several."""
        known = sorted(self.counts.tags.items())
        return {", ".join(filter(None, (tag, self._names[group]))): pairs for (tag, group), pairs in known}

    def _spend(self, matches: Sequence[Match]) -> None:
        spent = ((one.a.spent, one.b.spent) for one in matches)
        for kind, pairs in enumerate(zip(*(zip(a, b, strict=True) for a, b in spent), strict=True)):
            known = [(before, after) for before, after in pairs if before is not None and after is not None]
            if known:
                before, after = (fsum(pair[side] for pair in known) / len(known) for side in (0, 1))
                self._table.change("INSERT INTO spent VALUES (?, ?, ?)", kind, before, settled(before, after))

    def found(self, place: int, answer: _Answer, shown: int) -> RunComparison:
        matching, counts, groups = self._matching, self.counts, self._compared(place, answer)
        by_condition = len({condition for _, condition in counts.groups}) > 1
        cost, seconds, tokens = (delta_of(Spent(self._table, kind)) for kind in range(3))
        whole = (place, "")
        return RunComparison(
            a=self._runs[0],
            b=self._runs[1],
            matched=counts.pairs.total(),
            only_in_a=matching.only_in(0),
            only_in_b=matching.only_in(1),
            renamed=matching.renamed(),
            left_out=matching.left_out(),
            edited=counts.edited,
            first_try=None if groups else answer.first_try[whole],
            eventual=None if groups else answer.eventual[whole],
            net_recovery=None if groups else compare_net_recovery(counts.whole.tries),
            cost=cost,
            latency_s=seconds,
            tokens=tokens,
            flips=find_flips(self._sides, self._table, changes_of(counts.pairs), shown),
            same_words=counts.same_words,
            flakiness=self._flakiness(),
            noise=Noises(self._noise(0), self._noise(1)),
            by_target=() if by_condition else groups,
            by_condition=groups if by_condition else (),
            by_tag=tuple(group_of(name, one) for (where, name), one in answer.tags.items() if where == place),
        )

    def _compared(self, place: int, answer: _Answer) -> tuple[TargetComparison, ...]:
        """Each of several groups."""
        return tuple(
            TargetComparison(
                *structs.astuple(group_of(name, answer.eventual[place, name], least=1)),
                first_try=answer.first_try[place, name],
                net_recovery=compare_net_recovery(one.tries),
            )
            for name, one in self.groups.items()
            if name
        )

    def _flakiness(self) -> Flakiness:
        flaky = " OR ".join(f"({one}.passed > 0 AND {one}.passed < {one}.trials)" for one in "ab")
        named = self._sides[1].named
        cases = self._matching.matched(lambda one: _flaky(named(one.in_b), one), flaky)
        return Flakiness(self._flip_rate(0), self._flip_rate(1), cases)

    def _flip_rate(self, side: int) -> FlipRate:
        trials = Counter[tuple[int, int]]()
        for pair, cases in self.counts.pairs.items():
            trials[pair[side].passed, pair[side].trials] += cases
        return flip_rate(trials)

    def _noise(self, side: int) -> Noise | None:
        votes = Votes(self._table, side)
        return judge_noise(votes) if votes else None


def _read(table: Table, place: int, side: Side) -> ComparedRun:
    """Read every result of a side into the table; return the side's overall data."""
    statuses, targets, variants = Counter[str](), dict[str, None](), dict[str, None]()
    for number, result in enumerate(side.counted()):
        table.add(place, side, result, number)
        statuses[result.status] += not result.is_spoilt
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
    """One list per case: replies of several targets or variants to one question are not separate cases, nor are the
    conditions of a task."""
    return (list(group) for _, group in groupby(matches, key=lambda one: one.task))


class _Rates:
    """The pairs of trial counts, each with its number of cases."""

    def __init__(self) -> None:
        self.eventual, self.first_try = Counter[Pair](), Counter[Pair]()
        self.tries = Counter[PairOfTries]()
        """Counted per match."""

    def add(self, matches: Sequence[Match]) -> None:
        self.eventual[_pair(matches, _eventual)] += 1
        self.first_try[_pair(matches, _first_try)] += 1
        for one in matches:
            self.tries[one.a.tries, one.b.tries] += 1


class _Counts:
    """The counts of all matches."""

    def __init__(self) -> None:
        self.edited = self.same_words = 0
        self.pairs = Counter[Pair]()
        """Counted per match."""
        self.whole = _Rates()
        self.groups: dict[Group, _Rates] = {}
        self.tags: dict[tuple[str, Group], Counter[Pair]] = {}

    def add(self, matches: Sequence[Match]) -> None:
        """Count the matches of one case."""
        self.add_rates(matches)
        for one in matches:
            self.pairs[one.a.eventual, one.b.eventual] += 1
            self.same_words += one.a.says_as(one.b)
            self.edited += bool(one.a.question and one.b.question and one.a.question != one.b.question)

    def add_rates(self, matches: Sequence[Match]) -> None:
        self.whole.add(matches)
        for group, own in _grouped(matches, lambda one: (one.group,)).items():
            self.groups.setdefault(group, _Rates()).add(own)
            for tag, tagged in _grouped(own, lambda one: read_tags(one.a.tags) | read_tags(one.b.tags)).items():
                self.tags.setdefault((tag, group), Counter())[_pair(tagged, _eventual)] += 1


def _names_of(groups: Iterable[Group]) -> dict[Group, str]:
    """The distinguishing names of groups, in order; a single group needs no name."""
    known = sorted(groups, key=lambda group: (group[0], _ORDER.index(group[1])))
    told = [len({group[place] for group in known}) > 1 for place in range(2)]
    whole = [(target, condition or "not sharded") for target, condition in known]
    return {group: ", ".join(compress(words, told)) for group, words in zip(known, whole, strict=True)}


_ORDER = (*get_args(Condition), "")
N = TypeVar("N")


def _grouped(matches: Sequence[Match], names: Callable[[Match], Iterable[N]]) -> dict[N, list[Match]]:
    groups: dict[N, list[Match]] = {}
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
    return trials_of(*(sum(getattr(one, name) for one in counts) for name in ("passed", "trials", "errors", "spoilt")))


def _flaky(name: CaseName, match: Match) -> FlakyCase:
    a, b = (case_repeats(one.passed, one.trials) for one in (match.a, match.b))
    return FlakyCase(file=name.file, id=name.id, target=name.target, variant=name.variant or None, a=a, b=b)
