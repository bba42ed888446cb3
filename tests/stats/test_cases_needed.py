"""About N more cases would tell: in four of five tries, if they go as these do."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from rejoinder.stats.comparison import Trials, compare_runs
from rejoinder.stats.needed import rounded_up
from tests.stats.simulated import Draw

Pairs = list[tuple[Trials, Trials]]


class Kind(NamedTuple):
    """Suites: cases, trials in A and in B, the true rate, how alike trials of a case are, and by how much B drops."""

    cases: int
    a: int
    b: int
    rate: float
    likeness: float
    drop: float


KINDS = [
    Kind(20, 1, 1, 0.8, 0.5, 0.1),
    Kind(50, 1, 1, 0.8, 0.5, 0.1),
    Kind(20, 3, 3, 0.8, 0.5, 0.1),
    Kind(50, 1, 1, 0.8, 0.5, 0.0),
    Kind(30, 1, 5, 0.9, 0.1, 0.1),
]


def pilots(kind: Kind, number: int) -> list[tuple[Pairs, int]]:
    """Runs that cannot tell, with the number of cases that would."""
    draw, found = Draw(91), list[tuple[Pairs, int]]()
    while len(found) < number:
        rates = draw.rates(kind.cases, kind.rate, kind.likeness)
        pairs = [
            (Trials(draw.passes(one, kind.a), kind.a), Trials(draw.passes(max(0, one - kind.drop), kind.b), kind.b))
            for one in rates
        ]
        needed = compare_runs(pairs).cases_needed
        if needed is not None and needed <= 1000:
            found.append((pairs, needed))
    return found


def told(kind: Kind, number: int, tries: int) -> float:
    """How often so many cases tell that go as those of a pilot."""
    chance, told = random.Random(92), 0
    for pairs, needed in pilots(kind, number):
        told += sum(compare_runs(chance.choices(pairs, k=needed)).verdict != "cannot-tell" for _ in range(tries))
    return told / number / tries


@pytest.mark.parametrize("kind", KINDS)
def test_as_many_cases_tell_in_four_of_five_tries(kind: Kind) -> None:
    assert 0.75 <= told(kind, 12, 25) <= 0.9


@pytest.mark.long
@pytest.mark.parametrize("kind", [*KINDS, Kind(20, 1, 10, 0.9, 0.1, 0.1), Kind(50, 5, 5, 0.6, 0.3, 0.05)])
def test_as_many_cases_tell_in_four_of_five_of_many_tries(kind: Kind) -> None:
    assert 0.75 <= told(kind, 60, 60) <= 0.9


@pytest.mark.parametrize(
    ("number", "rounded"), [(1, 1), (7, 7), (10, 10), (99, 99), (101, 110), (139, 140), (1201, 1300), (150, 150)]
)
def test_further_cases_are_rounded_up_to_two_digits(number: int, rounded: int) -> None:
    assert rounded_up(number) == rounded


def test_the_number_of_further_cases_is_a_round_one() -> None:
    passed, failed = Trials(1, 1), Trials(0, 1)
    found = compare_runs([(passed, failed)] * 3 + [(failed, passed)] * 2 + [(passed, passed)] * 45)
    assert found.more_cases is not None and found.more_cases == rounded_up(found.more_cases)


def test_unequal_trials_need_more_cases() -> None:
    """As many as dealing the trials out needs: the interval alone would be content with those that there are."""
    pairs = [(Trials(1, 1), Trials(9, 10))] * 8 + [(Trials(1, 1), Trials(10, 10))] * 12
    found = compare_runs(pairs)
    assert found.undecided == "trials"
    assert found.more_cases is not None and found.more_cases > 20
