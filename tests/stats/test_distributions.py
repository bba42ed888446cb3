"""Quantiles and exact tests, against scipy."""

from __future__ import annotations

import time
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.stats.distributions import (
    exact_binomial,
    fisher_one_sided,
    holm,
    normal_above,
    normal_quantile,
    t_quantile,
)
from tests.kit import bounded


@pytest.mark.slow
@pytest.mark.parametrize("probability", [1e-12, 0.001, 0.025, 0.05, 0.2, 0.5, 0.8, 0.95, 0.975, 0.999, 1 - 1e-9])
def test_the_normal_quantile_is_that_of_the_library(probability: float) -> None:
    from scipy import stats as scipy

    assert normal_quantile(probability) == pytest.approx(NormalDist().inv_cdf(probability), abs=1e-9)
    assert normal_above(1.5) == pytest.approx(float(scipy.norm.sf(1.5)), rel=1e-13)


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.1, 1.1])
def test_an_infinite_quantile_is_none(probability: float) -> None:
    assert normal_quantile(probability) is None


@pytest.mark.slow
@pytest.mark.parametrize("degrees", [1, 2, 3, 7, 19, 49, 299, 300, 301, 302, 5000, 99_999])
@pytest.mark.parametrize("probability", [0.025, 0.6, 0.8, 0.95, 0.975, 0.9995])
def test_the_t_quantile_is_scipys(probability: float, degrees: int) -> None:
    from scipy import stats as scipy

    assert t_quantile(probability, degrees) == pytest.approx(float(scipy.t.ppf(probability, degrees)), rel=1e-9)


@pytest.mark.slow
@bounded(100)
@given(st.integers(0, 12), st.integers(0, 12), st.integers(1, 12), st.integers(1, 12))
def test_fisher_is_scipys(a: int, b: int, m: int, n: int) -> None:
    from scipy import stats as scipy

    a, b = min(a, m), min(b, n)
    table = [[b, n - b], [a, m - a]]
    assert fisher_one_sided((a, m), (b, n)) == pytest.approx(float(scipy.fisher_exact(table, "less").pvalue))


@pytest.mark.parametrize(
    ("before", "after", "expected"), [((5, 5), (0, 5), 0.0040), ((3, 3), (0, 3), 0.05), ((10, 10), (5, 10), 0.0163)]
)
def test_known_answers_of_fisher(before: tuple[int, int], after: tuple[int, int], expected: float) -> None:
    assert fisher_one_sided(before, after) == pytest.approx(expected, abs=5e-5)


@pytest.mark.slow
@bounded(100)
@given(st.integers(1, 100_000), st.integers(1, 100_000), st.floats(0, 1), st.floats(0, 1))
def test_fisher_of_many_trials_is_scipys(m: int, n: int, before: float, after: float) -> None:
    from scipy import stats as scipy

    a, b = int(before * m), int(after * n)
    wanted = float(scipy.hypergeom.cdf(b, m + n, a + b, n))
    assert fisher_one_sided((a, m), (b, n)) == pytest.approx(wanted, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(("a", "b"), [(500_000, 499_000), (1_000_000, 0), (0, 1_000_000), (3, 2), (999_999, 1_000_000)])
def test_fisher_of_a_million_trials_takes_a_moment(a: int, b: int) -> None:
    begun = time.process_time()
    assert 0 <= fisher_one_sided((a, 1_000_000), (b, 1_000_000)) <= 1
    assert time.process_time() - begun < 2


@bounded(100)
@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_is_its_definition(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    n = len(p_values)
    for place, p_value in enumerate(p_values):
        # The largest of p_(j) (n - j + 1) over all that are at most as large.
        smaller = sorted(p_values)[: sorted(p_values).index(p_value) + 1]
        wanted = max(min(1.0, one * (n - rank)) for rank, one in enumerate(smaller))
        assert adjusted[place] == pytest.approx(wanted)
        assert p_value <= adjusted[place] <= 1


@pytest.mark.slow
@pytest.mark.parametrize(("successes", "trials"), [(0, 1), (1, 9), (8, 9), (3, 6), (400, 1100)])
def test_the_sign_test_is_scipys(successes: int, trials: int) -> None:
    from scipy import stats as scipy

    assert exact_binomial(successes, trials) == pytest.approx(float(scipy.binomtest(successes, trials).pvalue))
