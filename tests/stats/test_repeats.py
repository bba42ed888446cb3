"""Repeats of cases: pass@k and pass^k, flips, and the noise of judge and model apart."""

from __future__ import annotations

import random
from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.stats.intervals import wilson
from rejoinder.stats.rates import rate_of
from rejoinder.stats.repeats import aptitude, case_repeats, flip_rate, judge_noise, pass_at_k, pass_hat_k
from rejoinder.words.figures import noise_words, repeats_words
from tests.kit import bounded
from tests.stats.simulated import Draw


def near(value: float) -> object:
    return pytest.approx(value, abs=5e-5)


# pass@k, pass^k


def test_the_known_answer_of_three_of_five() -> None:
    assert pass_hat_k([(3, 5)], 2).rate == near(0.3)
    assert pass_at_k([(3, 5)], 2).rate == near(0.9)
    found = case_repeats(3, 5)
    assert (found.flip, found.interval) == (near(0.6), (near(0.2307), near(0.8824)))


@bounded(60)
@given(st.lists(st.booleans(), min_size=1, max_size=7), st.integers(1, 7))
def test_the_estimators_are_those_of_all_choices(trials: list[bool], k: int) -> None:
    counts = [(sum(trials), len(trials))]
    if k > len(trials):
        assert pass_hat_k(counts, k).rate is None
        return
    choices = list(combinations(trials, k))
    assert pass_hat_k(counts, k).rate == pytest.approx(fmean(all(one) for one in choices))
    assert pass_at_k(counts, k).rate == pytest.approx(fmean(any(one) for one in choices))


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2, 4, 8])
def test_the_estimators_are_unbiased(k: int) -> None:
    from scipy import stats as scipy

    """Their mean over all binomial outcomes of eight trials is p^k, and 1 - (1-p)^k."""
    rate = 0.6
    weights = [float(scipy.binom.pmf(count, 8, rate)) for count in range(9)]
    both = [(pass_hat_k([(count, 8)], k).rate, pass_at_k([(count, 8)], k).rate) for count in range(9)]
    assert sum(weight * (one or 0) for weight, (one, _) in zip(weights, both, strict=True)) == pytest.approx(rate**k)
    mean = sum(weight * (one or 0) for weight, (_, one) in zip(weights, both, strict=True))
    assert mean == pytest.approx(1 - (1 - rate) ** k)
    assert k != 4 or rate**k == near(0.1296)


def test_one_try_is_the_rate() -> None:
    counts = [(3, 5), (5, 5), (1, 5), (0, 5)]
    rate = rate_of(counts)
    for found in (pass_hat_k(counts, 1), pass_at_k(counts, 1)):
        assert found.rate == pytest.approx(rate.rate)
        assert found.interval == pytest.approx(rate.interval)
        assert (found.trials, found.cases, found.method) == (20, 4, "effective wilson")


def test_cases_with_too_few_trials_are_named() -> None:
    found = pass_hat_k([(3, 3), (1, 1), (2, 3), (0, 0)], 3)
    assert (found.left_out, found.short, found.cases, found.rate) == (("1", "3"), 2, 2, 0.5)
    nothing = pass_at_k([(1, 1)], 2)
    assert (nothing.rate, nothing.interval, nothing.left_out) == (None, None, ("0",))


def test_all_passes_are_not_certain() -> None:
    low, high = pass_hat_k([(5, 5)] * 20, 3).interval or (1.0, 1.0)
    assert (low, high) == (near(0.8203), 1.0)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(("cases", "trials", "mean"), [(20, 5, 0.8), (20, 5, 0.95), (50, 5, 0.6)])
def test_the_interval_of_pass_k_covers(cases: int, trials: int, mean: float, k: int) -> None:
    """Rates of cases are Beta: the truth is its moment."""
    draw, rounds, likeness = Draw(31), 400, 0.3
    size = 1 / likeness - 1
    hat = at = 1.0
    for step in range(k):
        hat *= (mean * size + step) / (size + step)
        at *= ((1 - mean) * size + step) / (size + step)
    held_hat = held_at = 0
    for _ in range(rounds):
        counts = draw.suite(cases, trials, mean, likeness)
        low, high = pass_hat_k(counts, k).interval or (1.0, 0.0)
        held_hat += low <= hat <= high
        low, high = pass_at_k(counts, k).interval or (1.0, 0.0)
        held_at += low <= 1 - at <= high
    assert held_hat / rounds >= 0.92
    assert held_at / rounds >= 0.92


# Flips


@pytest.mark.parametrize(("trials", "hidden"), [(3, 0.63), (5, 0.45), (10, 0.26)])
def test_no_failure_leaves_a_rate_of_failures(trials: int, hidden: float) -> None:
    found = case_repeats(trials, trials)
    assert found.hidden == pytest.approx(hidden, abs=0.005)
    # With that rate, 5 % of cases would show no failure.
    assert (1 - (found.hidden or 0)) ** trials == pytest.approx(0.05)
    assert case_repeats(1, trials).hidden is None


def test_the_flip_rate_is_the_share_of_pairs_that_differ() -> None:
    rows = [[True, False, True, True, False], [True] * 5, [False, True, False, False, False]]
    wanted = fmean(fmean(one != other for one, other in combinations(row, 2)) for row in rows)
    found = flip_rate([(sum(row), len(row)) for row in rows] + [(1, 1)])
    assert found.rate == pytest.approx(wanted)
    assert (found.cases, found.repeats, found.method) == (3, 5, "t over cases")


def test_a_flip_rate_of_few_repeats_has_no_interval() -> None:
    assert flip_rate([(1, 3), (3, 3), (2, 3)]).interval is None
    assert flip_rate([(1, 1)]).rate is None
    assert flip_rate([(5, 5)] * 9).interval is None, "no flip at all shows no spread"


def test_the_flip_rate_of_planted_flips() -> None:
    draw = Draw(32)
    found = flip_rate([(draw.passes(0.9, 5), 5) for _ in range(4000)])
    assert found.rate == pytest.approx(2 * 0.9 * 0.1, abs=0.01)
    assert found.interval is not None
    assert found.interval[0] < 0.18 < found.interval[1]


def test_repeats_in_words() -> None:
    assert repeats_words(case_repeats(3, 5)) == "3 of 5 passed (23 to 88%)"
    assert repeats_words(case_repeats(5, 5)) == "5 of 5 passed; up to 45% could still fail"
    assert repeats_words(case_repeats(0, 3)) == "0 of 3 passed; up to 63% could still pass"
    assert repeats_words(case_repeats(0, 0)) == "0 of 0 passed"
    assert case_repeats(0, 0).interval == wilson(0, 0)


@pytest.mark.slow
def test_aptitude_is_given_from_ten_repeats_on() -> None:
    import numpy

    chance = random.Random(33)
    rows = [[chance.random() for _ in range(12)] for _ in range(7)]
    found = aptitude(rows)
    assert found is not None
    best, worst = numpy.percentile(rows, 90, axis=1).mean(), numpy.percentile(rows, 10, axis=1).mean()
    assert (found.aptitude, found.unreliability) == (pytest.approx(best), pytest.approx(best - worst))
    assert (found.repeats, found.cases) == (12, 7)
    assert aptitude([row[:9] for row in rows]) is None
    assert aptitude([]) is None


# Noise


def test_the_known_answer_of_votes() -> None:
    found = judge_noise([[[0.8, 0.9], [0.6, 0.7]], [[0.2, 0.4], [0.5, 0.1]]])
    assert found.mean_squares == (near(0.0275), near(0.02), near(0.405))
    assert (found.judge, found.model, found.case) == (near(0.0275), 0.0, near(0.09625))
    assert found.variance == pytest.approx(0.09625 / 2 + 0.0275 / 8)
    assert found.advice == "more cases"
    assert noise_words(found) == "judge 7%, model 0%, cases 93% of the noise: more cases"


def planted(
    chance: random.Random, shape: tuple[int, int, int], noise: tuple[float, float, float]
) -> list[list[list[float]]]:
    cases, repeats, votes = shape
    judge, model, case = noise
    rows: list[list[list[float]]] = []
    for _ in range(cases):
        at_case = chance.gauss(0.5, case)
        centres = [chance.gauss(at_case, model) for _ in range(repeats)]
        rows.append([[chance.gauss(centre, judge) for _ in range(votes)] for centre in centres])
    return rows


@pytest.mark.slow
def test_planted_noise_is_found() -> None:
    chance = random.Random(34)
    found = [judge_noise(planted(chance, (20, 3, 3), (0.15, 0.2, 0.3))) for _ in range(200)]
    assert fmean(one.judge or 0 for one in found) == pytest.approx(0.0225, abs=0.001)
    assert fmean(one.model or 0 for one in found) == pytest.approx(0.04, abs=0.003)
    assert fmean(one.case or 0 for one in found) == pytest.approx(0.09, abs=0.008)


def test_unequal_votes_and_repeats_are_unbiased() -> None:
    chance = random.Random(35)
    found = []
    for _ in range(300):
        rows = planted(chance, (12, 4, 3), (0.15, 0.2, 0.3))
        found.append(
            judge_noise(
                [
                    [repeat[: 1 + (at + place) % 3] for at, repeat in enumerate(row[: 2 + place % 3])]
                    for place, row in enumerate(rows)
                ]
            )
        )
    assert fmean(one.judge or 0 for one in found) == pytest.approx(0.0225, abs=0.0015)
    assert fmean(one.model or 0 for one in found) == pytest.approx(0.04, abs=0.004)
    assert fmean(one.case or 0 for one in found) == pytest.approx(0.09, abs=0.009)


@pytest.mark.parametrize(
    ("noise", "advice"),
    [((0.02, 0.02, 0.3), "more cases"), ((0.02, 0.9, 0.02), "more repeats"), ((0.9, 0.02, 0.02), "more votes")],
)
def test_the_advice_follows_the_noise(noise: tuple[float, float, float], advice: str) -> None:
    assert judge_noise(planted(random.Random(36), (30, 3, 3), noise)).advice == advice


def test_what_cannot_be_told_is_not_known() -> None:
    alone = judge_noise([[[0.4], [0.6]], [[0.1], [0.9]]])
    assert (alone.judge, alone.model is None) == (None, False), "one vote: the judge's noise is in the model's"
    once = judge_noise([[[0.4, 0.5]], [[0.1, 0.3]]])
    assert (once.model, once.judge is None) == (None, False)
    one_case = judge_noise([[[0.4, 0.5], [0.2, 0.1]]])
    assert (one_case.case, one_case.variance) == (None, None)
    assert noise_words(judge_noise([])) == "not known"
    assert judge_noise([[[0.5, 0.5]], [[0.5, 0.5]]]).advice is None
