"""Which case of A is which case of B."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from msgspec import Struct

from rejoinder.comparison.counts import Counts, Names


class Match(NamedTuple):
    """The number of a case in A and in B: they differ where it was renamed."""

    a: int
    b: int


class Matching(Struct, frozen=True):
    matched: list[Match]
    """In the order of files and documents, which is the same from both sides."""
    renamed: list[Match]
    """Those of `matched` that have another name in B."""
    only_in_a: list[int]
    only_in_b: list[int]
    left_out: list[int]


def match_cases(names: Names, a: Counts, b: Counts) -> Matching:
    """Cases match by file, id, target and variant. Of those that only one run has, a pair with the same question and
    the same checks is one case under two names, unless several could be meant."""
    in_a, in_b = ([_is_in(side, number) for number in range(len(names))] for side in (a, b))
    gone = [number for number in range(len(names)) if in_a[number] and not in_b[number]]
    new = [number for number in range(len(names)) if in_b[number] and not in_a[number]]
    renamed = _find_renamed(names, a, b, gone, new)
    old, now = {one.a for one in renamed}, {one.b for one in renamed}
    both = [Match(number, number) for number in range(len(names)) if in_a[number] and in_b[number]] + renamed
    ran = [one for one in both if a.verdicts.trials[one.a] and b.verdicts.trials[one.b]]
    known = set(ran)

    def place(one: Match) -> tuple[Hashable, ...]:
        before, after = sorted((names.names[one.a], names.names[one.b]))
        return before.file, min(a.sketches.place[one.a], b.sketches.place[one.b]), before.id, before, after

    return Matching(
        matched=sorted(ran, key=place),
        renamed=sorted((one for one in renamed if one in known), key=place),
        only_in_a=sorted((number for number in gone if number not in old), key=_order(names, a)),
        only_in_b=sorted((number for number in new if number not in now), key=_order(names, b)),
        left_out=sorted((one.a for one in both if one not in known), key=names.names.__getitem__),
    )


def _is_in(side: Counts, number: int) -> bool:
    return bool(side.verdicts.trials[number] or side.verdicts.skipped[number])


def _order(names: Names, side: Counts) -> Callable[[int], tuple[Hashable, ...]]:
    return lambda number: (names.names[number].file, side.sketches.place[number], names.names[number])


def _find_renamed(names: Names, a: Counts, b: Counts, gone: list[int], new: list[int]) -> list[Match]:
    """First those that kept their id and moved to another file, then those of the same question alone."""
    renamed: list[Match] = []
    for keeps_id in (True, False):
        old, now = ({one[place] for one in renamed} for place in (0, 1))
        before = _by_question(names, a, (number for number in gone if number not in old), keeps_id)
        after = _by_question(names, b, (number for number in new if number not in now), keeps_id)
        renamed += [
            Match(numbers[0], after[question][0])
            for question, numbers in before.items()
            if len(numbers) == 1 and len(after.get(question, ())) == 1
        ]
    return renamed


def _by_question(names: Names, side: Counts, numbers: Iterable[int], keeps_id: bool) -> dict[Hashable, list[int]]:
    found: dict[Hashable, list[int]] = {}
    for number in numbers:
        question = side.sketches.known_question(number)
        if question is not None:
            _, case, target, variant = names.names[number]
            found.setdefault((question, target, variant, case if keeps_id else None), []).append(number)
    return found
