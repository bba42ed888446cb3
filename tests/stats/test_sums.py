"""Sums in little memory are those of all values, digit for digit."""

from __future__ import annotations

from array import array
from collections import Counter
from math import fsum
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.stats.comparison import Trials, compare_runs
from rejoinder.stats.distributions import holm
from rejoinder.stats.intervals import PIECE, percentile, percentile_of
from rejoinder.stats.repeats import flip_rate, pass_at_k, pass_hat_k
from rejoinder.stats.sums import ExactSum, sum_of
from tests.kit import bounded

numbers = st.floats(-1e12, 1e12, allow_subnormal=False)


@bounded(200)
@given(st.lists(st.tuples(numbers, st.integers(1, 9))))
def test_sums_are_rounded_once(values: list[tuple[float, int]]) -> None:
    listed = [value for value, times in values for _ in range(times)]
    exact, rest = ExactSum(), ExactSum()
    for place, value in enumerate(listed):
        (exact if place % 2 else rest).add(value)
    exact.include(rest)
    assert sum_of(values) == exact.total() == fsum(listed)
    assert bool(exact) == bool(listed)


def test_a_sum_that_is_too_large_is_refused() -> None:
    exact = ExactSum()
    exact.add(1.7e308)
    with pytest.raises(OverflowError):
        exact.add(1.7e308)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("more", [1, 2, PIECE])
def test_a_percentile_of_many_values_is_that_of_all_in_order(share: float, more: int) -> None:
    draw = Random(more)
    values = array("d", [draw.expovariate(1) for _ in range(PIECE + more)])
    assert percentile(values, share) == percentile_of(sorted(values), share)


trials = st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 2)).map(
    lambda one: Trials(one[0], sum(one), one[2])
)


@pytest.mark.slow
@bounded(100)
@given(st.lists(st.tuples(trials, trials), max_size=40))
def test_equal_cases_can_be_counted(pairs: list[tuple[Trials, Trials]]) -> None:
    assert compare_runs(Counter(pairs)) == compare_runs(pairs)
    counts = [(a.passed, a.trials) for a, _ in pairs]
    assert flip_rate(Counter(counts)) == flip_rate(counts)
    for one in (pass_at_k, pass_hat_k):
        short = [str(place) for place, (_, size) in enumerate(counts) if size < 2]
        assert one(Counter(counts), 2, short) == one(counts, 2)


@bounded(100)
@given(st.lists(st.tuples(st.sampled_from([0.001, 0.01, 0.01, 0.04, 0.5]), st.integers(1, 5))))
def test_tests_of_the_same_p_value_can_be_counted(tests: list[tuple[float, int]]) -> None:
    listed = [p for p, times in tests for _ in range(times)]
    found = holm([p for p, _ in tests], [times for _, times in tests])
    every = dict(zip(listed, holm(listed), strict=True))
    assert found == [every[p] for p, _ in tests]
