"""B against A, from the results of both, read one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from math import fsum

from msgspec import structs

from rejoinder.comparison.counts import Counts, Names, Side, Spending, trials_of
from rejoinder.comparison.flips import find_flips, named
from rejoinder.comparison.matching import Match, match_cases
from rejoinder.model.comparisons import (
    CaseName,
    ComparedRun,
    Flakiness,
    FlakyCase,
    Noises,
    Renamed,
    RunComparison,
    TargetComparison,
)
from rejoinder.model.figures import CaseChange, Delta, GroupComparison, NetRecoveryDifference
from rejoinder.stats.comparison import (
    LEAST_OF_GROUP,
    MARGIN,
    Pair,
    Trials,
    compare_cases,
    compare_groups,
    compare_runs,
)
from rejoinder.stats.deltas import paired_delta
from rejoinder.stats.recovery import compare_net_recovery
from rejoinder.stats.repeats import case_repeats, flip_rate, judge_noise

SHOWN = 50
"""Flips of each kind whose replies are kept."""


def compare_sides(a: Side, b: Side, *, margin: float = MARGIN, shown: int = SHOWN) -> RunComparison:
    """`margin`: what counts as no difference. `shown`: of so many cases that broke, and that were fixed, replies are
    kept."""
    return _Comparing(a, b, margin).found(shown)


class _Comparing:
    def __init__(self, a: Side, b: Side, margin: float) -> None:
        self._sides = a, b
        self._margin = margin
        self._names, self._tags = Names(), dict[str, set[int]]()
        self._a, self._b = (Counts(side, self._names, self._tags) for side in (a, b))
        for counts in (self._a, self._b):
            counts.pad(len(self._names))
        self._matching = match_cases(self._names, self._a, self._b)
        self._matches = self._matching.matched
        self._targets: dict[str, list[Match]] = {}
        """The matches of each target; a variant of a prompt counts as another target."""
        for one in self._matches:
            name = self._names.names[one.b]
            self._targets.setdefault(", ".join(filter(None, (name.target, name.variant))), []).append(one)

    def found(self, shown: int) -> RunComparison:
        matching, names = self._matching, self._names.names
        a, b = self._sides
        return RunComparison(
            a=_run(a, self._a),
            b=_run(b, self._b),
            matched=len(self._matches),
            only_in_a=tuple(named(names[number], a) for number in matching.only_in_a),
            only_in_b=tuple(named(names[number], b) for number in matching.only_in_b),
            renamed=tuple(Renamed(named(names[one.a], a), named(names[one.b], b)) for one in matching.renamed),
            left_out=tuple(named(names[number], a) for number in matching.left_out),
            edited=self._edited(),
            first_try=compare_runs(self._by_case(self._matches, self._first_try), self._margin),
            eventual=compare_runs(self._by_case(self._matches, self._eventual), self._margin),
            net_recovery=None if len(self._targets) > 1 else self._net(self._matches),
            cost=self._delta(Spending.mean_cost),
            latency_s=self._delta(Spending.mean_seconds),
            tokens=self._delta(Spending.mean_tokens),
            flips=find_flips(self._sides, (self._a, self._b), self._names, self._changes(), shown),
            same_words=sum(self._a.sketches.said[one.a] == self._b.sketches.said[one.b] for one in self._matches),
            flakiness=self._flakiness(),
            noise=Noises(*(judge_noise(one.votes.by_case()) if one.votes else None for one in (self._a, self._b))),
            by_target=self._by_target(),
            by_tag=self._by_tag(),
        )

    def _eventual(self, one: Match) -> Pair:
        return self._a.verdicts.eventual(one.a), self._b.verdicts.eventual(one.b)

    def _first_try(self, one: Match) -> Pair:
        return self._a.verdicts.first_try(one.a), self._b.verdicts.first_try(one.b)

    def _by_case(self, matches: Iterable[Match], counted: Callable[[Match], Pair]) -> list[Pair]:
        """One pair for each case: replies of several targets or variants to one question are no cases of their own."""
        return [_added(list(map(counted, group))) for group in self._cases(matches)]

    def _cases(self, matches: Iterable[Match]) -> Iterator[Iterable[Match]]:
        def case(one: Match) -> tuple[str, str]:
            return self._names.names[one.b][:2]

        return (group for _, group in groupby(matches, key=case))

    def _changes(self) -> list[tuple[Match, CaseChange]]:
        pairs = [self._eventual(one) for one in self._matches]
        return [(self._matches[change.place], change) for change in compare_cases(pairs)]

    def _net(self, matches: Iterable[Match]) -> NetRecoveryDifference:
        return compare_net_recovery([(self._a.verdicts.tries(one.a), self._b.verdicts.tries(one.b)) for one in matches])

    def _delta(self, mean: Callable[[Spending, int], float | None]) -> Delta:
        values: list[tuple[float, float]] = []
        for group in self._cases(self._matches):
            pairs = [(mean(self._a.spending, one.a), mean(self._b.spending, one.b)) for one in group]
            known = [(before, after) for before, after in pairs if before is not None and after is not None]
            if known:
                values.append((fsum(one for one, _ in known) / len(known), fsum(one for _, one in known) / len(known)))
        return paired_delta(values)

    def _edited(self) -> int:
        pairs = (
            (self._a.sketches.known_question(one.a), self._b.sketches.known_question(one.b)) for one in self._matches
        )
        return sum(before is not None and after is not None and before != after for before, after in pairs)

    def _flakiness(self) -> Flakiness:
        pairs = [self._eventual(one) for one in self._matches]
        flaky = tuple(
            _flaky(named(self._names.names[match.b], self._sides[1]), pair)
            for match, pair in zip(self._matches, pairs, strict=True)
            if any(0 < one.passed < one.trials for one in pair)
        )
        rates = [flip_rate((pair[place].passed, pair[place].trials) for pair in pairs) for place in (0, 1)]
        return Flakiness(rates[0], rates[1], flaky)

    def _by_target(self) -> tuple[TargetComparison, ...]:
        if len(self._targets) < 2:
            return ()
        return tuple(
            TargetComparison(
                *structs.astuple(group),
                first_try=compare_runs(self._by_case(self._targets[group.name], self._first_try), self._margin),
                net_recovery=self._net(self._targets[group.name]),
            )
            for group in self._groups(self._targets, least=1)
        )

    def _by_tag(self) -> tuple[GroupComparison, ...]:
        in_a, in_b = ({one[side]: place for place, one in enumerate(self._matches)} for side in (0, 1))
        groups: dict[str, list[Match]] = {}
        for tag, numbers in self._tags.items():
            places = {places[number] for number in numbers for places in (in_a, in_b) if number in places}
            if places:
                groups[tag] = [self._matches[place] for place in sorted(places)]
        return self._groups(groups)

    def _groups(self, groups: dict[str, list[Match]], least: int = LEAST_OF_GROUP) -> tuple[GroupComparison, ...]:
        pairs = {name: self._by_case(matches, self._eventual) for name, matches in sorted(groups.items())}
        return compare_groups(pairs, self._margin, least)


def _added(pairs: Sequence[Pair]) -> Pair:
    return pairs[0] if len(pairs) == 1 else (_sum(one for one, _ in pairs), _sum(other for _, other in pairs))


def _sum(counts: Iterable[Trials]) -> Trials:
    every = list(counts)
    return trials_of(
        sum(one.passed for one in every), sum(one.trials for one in every), sum(one.errors for one in every)
    )


def _flaky(name: CaseName, pair: Pair) -> FlakyCase:
    a, b = (case_repeats(one.passed, one.trials) for one in pair)
    return FlakyCase(file=name.file, id=name.id, target=name.target, variant=name.variant or None, a=a, b=b)


def _run(side: Side, counts: Counts) -> ComparedRun:
    return ComparedRun(
        run=side.run,
        targets=tuple(counts.targets),
        variants=tuple(counts.variants),
        conversations=counts.statuses.total(),
        passed=counts.statuses["passed"],
        errors=counts.statuses["error"],
        skipped=counts.statuses["skipped"],
    )
