"""Repeats that stop when they tell: bounds, evidence, and how often they are wrong."""

from __future__ import annotations

import random
from math import sqrt

import pytest

from rejoinder.stats import bounds_of, count_pairs, look, look_words, spent_by
from tests.stats.simulated import Draw

TEN = (None, 4.229, 3.396, 2.906, 2.579, 2.342, 2.160, 2.015, 1.895, 1.795)
FIVE = (4.229, 2.888, 2.298, 1.962, 1.740)


@pytest.mark.parametrize("known", [TEN, FIVE], ids=["ten", "five"])
def test_the_known_bounds(known: tuple[float | None, ...]) -> None:
    for found, wanted in zip(bounds_of(len(known)), known, strict=True):
        assert found == (None if wanted is None else pytest.approx(wanted, abs=6e-4))


def test_all_of_the_five_percent_are_spent_at_the_end() -> None:
    assert spent_by(1.0) == pytest.approx(0.05)
    assert bounds_of(1)[0] == pytest.approx(1.6449, abs=5e-5)


@pytest.mark.slow
def test_many_rounds_have_bounds_as_exact() -> None:
    """Looked at all the time, the sum is held against one level, 1.96 (the reflection of Brownian motion). The last
    bound comes nearer to it, the more looks there are, as one over the root of their number."""
    gaps = [1.95996 - (bounds_of(rounds)[-1] or 0) for rounds in (10, 20, 50, 100)]
    assert gaps == sorted(gaps, reverse=True)
    assert [gap * sqrt(rounds) for gap, rounds in zip(gaps, (10, 20, 50, 100), strict=True)] == [
        pytest.approx(0.55, abs=0.03)
    ] * 4


def test_paths_of_chance_cross_the_bounds_in_five_percent() -> None:
    chance, crossed, rounds = random.Random(71), 0, 8000
    bounds = bounds_of(10)
    for _ in range(rounds):
        total = 0.0
        for done, bound in enumerate(bounds, 1):
            total += chance.gauss(0, 1)
            if bound is not None and total / sqrt(done) > bound:
                crossed += 1
                break
    assert crossed / rounds == pytest.approx(0.05, abs=0.007)


@pytest.mark.parametrize(
    ("lost", "won", "evidence"), [(12, 4, 6.2359), (14, 3, 16.6291), (3, 8, 0.0925), (5, 12, 0.0325)]
)
def test_the_known_evidence(lost: int, won: int, evidence: float) -> None:
    assert look(lost, won, 3).evidence == pytest.approx(evidence, abs=5e-5)


def test_the_answers_of_a_look() -> None:
    assert look(0, 0, 1).verdict == "go-on"
    assert look(20, 0, 1).verdict == "go-on", "the first of ten rounds is not looked at"
    assert look(20, 0, 2).verdict == "regression"
    assert look(3, 8, 2).verdict == "no-regression"
    assert look(3, 7, 2).verdict == "go-on", "a ratio of 0.14 is not yet 1/10"
    assert look(5, 4, 9).verdict == "go-on"
    assert look(5, 4, 10).verdict == "cannot-tell"
    assert look(0, 0, 0).verdict == "go-on"
    assert look(0, 0, 0, rounds=0).verdict == "cannot-tell"
    assert look(100_000, 0, 2).verdict == "regression"


def test_a_broken_plan_needs_more_evidence() -> None:
    assert look(14, 3, 10).verdict == "regression"
    broken = look(14, 3, 10, in_plan=False)
    assert (broken.verdict, broken.method, broken.bound) == ("cannot-tell", "likelihood ratio", None)
    assert look(15, 3, 10, in_plan=False).verdict == "regression"
    assert look(3, 8, 1, in_plan=False).verdict == "no-regression"


def test_trials_are_paired_by_their_number() -> None:
    assert count_pairs([([True, True, False], [False, True, True]), ([True, True], [False])]) == (2, 1)


def test_a_look_in_words() -> None:
    assert look_words(look(14, 1, 4)) == "regression on these cases: 14 lost, 1 won after 4 of 10 rounds"
    assert look_words(look(5, 4, 9)) == "cannot tell yet: 5 lost, 4 won after 9 of 10 rounds"


def played(draw: Draw, cases: int, drop: float) -> tuple[str, int]:
    """The verdict and the rounds it took."""
    rates = draw.rates(cases, 0.8, 0.5)
    lost = won = 0
    for done in range(1, 11):
        for rate in rates:
            before, after = draw.passes(rate, 1), draw.passes(rate * (1 - drop), 1)
            lost += before > after
            won += after > before
        found = look(lost, won, done)
        if found.verdict != "go-on":
            return found.verdict, done
    raise AssertionError("the last look always tells")


@pytest.mark.slow
def test_no_change_raises_few_alarms_and_saves_rounds() -> None:
    draw = Draw(72)
    found = [played(draw, 50, 0.0) for _ in range(300)]
    assert sum(verdict == "regression" for verdict, _ in found) / 300 <= 0.07
    assert sum(rounds for _, rounds in found) / 3000 <= 0.65


@pytest.mark.slow
def test_a_planted_drop_of_ten_points_is_found_early() -> None:
    draw = Draw(73)
    found = [played(draw, 50, 0.125) for _ in range(200)]
    assert sum(verdict == "regression" for verdict, _ in found) / 200 >= 0.94
    assert sum(rounds for _, rounds in found) / 2000 <= 0.6


@pytest.mark.long
@pytest.mark.parametrize("cases", [20, 50])
def test_no_change_raises_alarms_in_at_most_five_percent(cases: int) -> None:
    draw = Draw(74)
    found = [played(draw, cases, 0.0) for _ in range(3000)]
    assert sum(verdict == "regression" for verdict, _ in found) / 3000 <= 0.06
