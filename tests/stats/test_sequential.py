"""Repeats that stop when they tell: bounds, evidence, and how often they are wrong."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import sqrt

import pytest

from rejoinder.model.figures import Comparison, Look
from rejoinder.stats.comparison import Trials, compare_runs
from rejoinder.stats.sequential import Differing, bounds_of, count_pairs, look, spent_by
from rejoinder.words.figures import look_words
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


def compared(pairs: Sequence[tuple[int, int]], trials: int = 10) -> Comparison:
    """Passes of each case before and now, of so many trials."""
    return compare_runs([(Trials(before, trials), Trials(now, trials)) for before, now in pairs])


OPEN = compared([(10, 9)] * 5)
"""A comparison of too few cases to tell."""
SAME = compared([(10, 10)] * 50)


def differing(lost: int, won: int, cases: int = 50) -> Differing:
    """No case has more than one of these pairs."""
    return Differing(lost, won, lost + won, cases, changed=1)


def seen(lost: int, won: int, done: int, rounds: int = 10, *, in_plan: bool = True, same: bool = False) -> Look:
    return look(differing(lost, won), done, rounds, compared=SAME if same else OPEN, in_plan=in_plan)


@pytest.mark.parametrize(
    ("lost", "won", "evidence"), [(12, 4, 6.2359), (14, 3, 16.6291), (3, 8, 0.0925), (5, 12, 0.0325)]
)
def test_the_known_evidence(lost: int, won: int, evidence: float) -> None:
    assert seen(lost, won, 3).evidence == pytest.approx(evidence, abs=5e-5)


def test_the_answers_of_a_look() -> None:
    assert seen(0, 0, 1).verdict == "go-on"
    assert seen(20, 0, 1).verdict == "go-on", "the first of ten rounds is not looked at"
    assert seen(20, 0, 2).verdict == "regression"
    assert seen(5, 4, 9).verdict == "go-on"
    assert seen(5, 4, 10).verdict == "cannot-tell"
    assert seen(0, 0, 0).verdict == "go-on"
    assert seen(0, 0, 0, rounds=0).verdict == "cannot-tell"
    assert seen(100_000, 0, 2).verdict == "regression"


def test_no_regression_is_said_only_where_a_drop_beyond_the_margin_is_excluded_twice() -> None:
    assert seen(0, 0, 2, same=True).verdict == "no-regression"
    assert seen(0, 0, 1, same=True).verdict == "go-on", "the first of ten rounds is not looked at"
    assert seen(0, 0, 2).verdict == "go-on", "the comparison of the same runs cannot tell"
    # 6 + 4.229 * sqrt(6) is more than a tenth of 100 pairs.
    assert seen(6, 0, 2, same=True).verdict == "go-on"
    assert seen(4, 0, 4, same=True).verdict == "no-regression"


def test_a_broken_plan_needs_more_evidence() -> None:
    assert seen(14, 3, 10).verdict == "regression"
    broken = seen(14, 3, 10, in_plan=False)
    assert (broken.verdict, broken.method, broken.bound) == ("cannot-tell", "likelihood ratio", None)
    assert seen(15, 3, 10, in_plan=False).verdict == "regression"
    assert seen(3, 8, 1, in_plan=False).verdict == "cannot-tell"
    assert seen(3, 8, 1, in_plan=False, same=True).verdict == "no-regression"


def test_trials_are_paired_by_their_number() -> None:
    found = count_pairs([([True, True, False], [False, True, True]), ([True, True], [False])])
    assert found == Differing(lost=2, won=1, squares=1, cases=2, changed=1)


def test_where_trials_of_a_case_go_together_cases_count() -> None:
    """Three of fifty cases are lost in all of their ten trials, and none ever changed within a run."""
    lost, kept = ([True] * 10, [False] * 10), ([True] * 10, [True] * 10)
    found = look(count_pairs([lost] * 3 + [kept] * 47), 10, compared=OPEN)
    assert (found.lost, found.design, found.statistic) == (30, 10, pytest.approx(sqrt(3)))
    assert found.verdict == "cannot-tell"
    assert look_words(found).endswith(
        "after 10 of 10 rounds; no case changed within a run, so cases count and not trials"
    )
    assert look(count_pairs([lost] * 4 + [kept] * 46), 10, compared=OPEN).verdict == "regression"
    flaky = [True, False] * 5
    mixed = look(count_pairs([lost] * 3 + [(flaky, flaky)] * 47), 10, compared=OPEN)
    assert look_words(mixed).endswith("; cases differ more between the runs than within them, so cases count")


def test_a_look_in_words() -> None:
    assert look_words(seen(14, 1, 4)) == "regression on these cases: 14 lost, 1 won after 4 of 10 rounds"
    assert look_words(seen(5, 4, 9)) == "cannot tell yet: 5 lost, 4 won after 9 of 10 rounds"
    told = "no drop beyond 10 points on these cases: 1 lost, 0 won after 4 of 10 rounds"
    assert look_words(seen(1, 0, 4, same=True)) == told


# Runs of known truth


def trials(draw: Draw, rates: Sequence[float], rounds: int, states: int = 0) -> list[list[bool]]:
    """The verdicts of each case. The first `states` cases have one for the whole run."""
    return [
        [bool(draw.passes(rate, 1))] * rounds if place < states else [bool(draw.passes(rate, 1)) for _ in range(rounds)]
        for place, rate in enumerate(rates)
    ]


def played(draw: Draw, rates: Sequence[float], drop: float, states: int = 0, rounds: int = 10) -> tuple[str, int]:
    """The verdict and the rounds it took."""
    before = trials(draw, rates, rounds, states)
    now = trials(draw, [max(0.0, rate - drop) for rate in rates], rounds, states)
    for done in range(1, rounds + 1):
        pairs = [(a[:done], b[:done]) for a, b in zip(before, now, strict=True)]
        both = [(Trials(sum(a), rounds), Trials(sum(b[:done]), done)) for a, b in zip(before, now, strict=True)]
        found = look(count_pairs(pairs), done, rounds, compared=SAME)
        if found.verdict == "no-regression":  # else the comparison does not decide
            found = look(count_pairs(pairs), done, rounds, compared=compare_runs(both))
        if found.verdict != "go-on":
            return found.verdict, done
    raise AssertionError("the last look always tells")


def share(found: Sequence[tuple[str, int]], verdict: str) -> float:
    return sum(one == verdict for one, _ in found) / len(found)


@pytest.mark.slow
def test_no_change_raises_few_alarms_and_saves_rounds() -> None:
    draw = Draw(72)
    found = [played(draw, draw.rates(50, 0.8, 0.5), 0.0) for _ in range(100)]
    assert share(found, "regression") <= 0.06
    assert share(found, "no-regression") >= 0.9
    assert sum(rounds for _, rounds in found) / 1000 <= 0.5


@pytest.mark.slow
def test_a_planted_drop_of_ten_points_is_found_early() -> None:
    draw = Draw(73)
    found = [played(draw, draw.rates(50, 0.8, 0.5), 0.1) for _ in range(80)]
    assert share(found, "regression") >= 0.9
    assert sum(rounds for _, rounds in found) / 800 <= 0.6


@pytest.mark.slow
def test_a_drop_of_eight_points_of_flaky_cases_seldom_passes() -> None:
    draw = Draw(75)
    assert share([played(draw, [0.5] * 50, 0.08) for _ in range(100)], "no-regression") <= 0.2


@pytest.mark.slow
@pytest.mark.parametrize("states", [15, 50])
def test_cases_with_one_state_a_run_raise_few_alarms(states: int) -> None:
    draw = Draw(76)
    found = [played(draw, draw.rates(50, 0.8, 0.3), 0.0, states) for _ in range(100)]
    assert share(found, "regression") <= 0.08


@pytest.mark.long
@pytest.mark.parametrize("rounds", [3, 10])
@pytest.mark.parametrize("cases", [10, 20, 50])
@pytest.mark.parametrize(("mean", "likeness"), [(0.8, 0.5), (0.5, 0.0), (0.95, 0.3)])
def test_no_change_raises_alarms_in_at_most_five_percent(mean: float, likeness: float, cases: int, rounds: int) -> None:
    draw = Draw(74)
    found = [played(draw, draw.rates(cases, mean, likeness), 0.0, rounds=rounds) for _ in range(1500)]
    assert share(found, "regression") <= 0.06


@pytest.mark.long
@pytest.mark.parametrize(("cases", "states"), [(50, 5), (50, 15), (50, 50), (20, 2), (20, 6), (20, 20)])
@pytest.mark.parametrize(("mean", "likeness"), [(0.8, 0.3), (0.5, 0.0), (0.9, 0.0)])
def test_cases_with_one_state_a_run_raise_alarms_in_at_most_five_percent(
    mean: float, likeness: float, cases: int, states: int
) -> None:
    draw = Draw(77)
    found = [played(draw, draw.rates(cases, mean, likeness), 0.0, states) for _ in range(1500)]
    assert share(found, "regression") <= 0.06


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate", "drop", "most"), [(0.5, 0.08, 0.12), (0.7, 0.08, 0.14), (0.5, 0.1, 0.05), (0.7, 0.1, 0.05)]
)
def test_drops_of_flaky_cases_pass_seldom(rate: float, drop: float, most: float) -> None:
    draw = Draw(78)
    assert share([played(draw, [rate] * 50, drop) for _ in range(1000)], "no-regression") <= most
