"""Rates and their intervals: known answers, limits, and how often they hold the truth."""

from __future__ import annotations

import subprocess
import sys
from math import sqrt
from statistics import stdev
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.model.figures import NoRate, NoRateReason
from rejoinder.stats.intervals import median_interval, wilson
from rejoinder.stats.rates import mean_of_cases, rate_of, sample_size, spread_of
from rejoinder.words.figures import no_rate_words, rate_words, sample_words, selection_words
from rejoinder.words.numbers import p_words, percent, point_range, points
from tests.kit import bounded
from tests.stats.simulated import Counts, Draw


def near(value: float) -> object:
    return pytest.approx(value, abs=5e-5)


def interval_of(counts: Counts) -> tuple[float, float]:
    interval = rate_of(counts).interval
    assert interval is not None
    return interval


# Known answers


@pytest.mark.parametrize(("passed", "of", "low", "high"), [(6, 6, 0.6097, 1.0), (9, 10, 0.5958, 0.9821)])
def test_cases_that_count_once_have_the_wilson_interval(passed: int, of: int, low: float, high: float) -> None:
    rate = rate_of([(int(place < passed), 1) for place in range(of)])
    assert (rate.rate, rate.passed, rate.of, rate.cases, rate.method) == (passed / of, passed, of, of, "wilson")
    assert rate.interval == (near(low), near(high))
    assert rate.interval == wilson(passed, of)


@pytest.mark.slow
@bounded(60)
@given(st.integers(0, 60), st.integers(1, 60))
def test_wilson_is_scipys(passed: int, of: int) -> None:
    from scipy import stats as scipy

    passed = min(passed, of)
    wanted = scipy.binomtest(passed, of).proportion_ci(0.95, "wilson")
    assert wilson(passed, of) == pytest.approx((wanted.low, wanted.high), abs=1e-9)


@pytest.mark.parametrize(
    ("counts", "effect", "effective", "low", "high"),
    [
        ([(5, 5)] * 20, 5, 17.5379, 0.8203, 1.0),
        ([(5, 5)] * 19 + [(4, 5)], 3.0051, 29.1807, 0.8667, 0.9993),
        ([(5, 5)] * 19 + [(0, 5)], 5, 17.5379, 0.7464, 0.9919),
        ([(3, 4), (1, 2), (4, 4)], 1.8667, 1.1116, 0.1452, 0.9895),
    ],
    ids=["all", "one-trial-fails", "one-case-fails", "unequal"],
)
def test_known_answers_of_the_effective_wilson_interval(
    counts: Counts, effect: float, effective: float, low: float, high: float
) -> None:
    spread, rate = spread_of(counts), rate_of(counts)
    assert spread is not None
    assert (spread.effect, spread.effective) == (near(effect), near(effective))
    assert rate.interval == (near(low), near(high))
    assert (rate.method, rate.effective) == ("effective wilson", spread.effective)


def test_the_parts_of_known_answers() -> None:
    one = spread_of([(5, 5)] * 19 + [(4, 5)])
    unequal = spread_of([(3, 4), (1, 2), (4, 4)])
    assert one is not None and unequal is not None
    assert (one.standard_error, one.design, one.mixed) == (near(0.01), near(1.0101), 1)
    assert (unequal.standard_error, unequal.mixed) == (near(0.1249), 2)


def test_one_failure_more_does_not_make_it_surer_by_much() -> None:
    """The t interval gave 83.9 for 100 of 100 and 96.9 for 99 of 100."""
    assert interval_of([(5, 5)] * 19 + [(4, 5)])[0] < 0.87


def test_a_case_alone_has_the_wilson_interval_of_its_trials() -> None:
    rate = rate_of([(3, 5), (0, 0)])
    assert (rate.cases, rate.method) == (1, "wilson")
    assert rate.interval == (near(0.2307), near(0.8824))
    assert spread_of([(3, 5)]) is None


def test_without_a_trial_there_is_no_rate() -> None:
    rate = rate_of([(0, 0)])
    assert (rate.rate, rate.of, rate.cases, rate.interval, rate.method) == (None, 0, 0, None, None)
    assert rate_words(rate) == "no rate"


def test_known_size_of_a_plan() -> None:
    assert sample_size(0.80, 0.88) == 326
    assert sample_size(0.5, 0.5) is None


# Properties

counts_of_cases = st.lists(
    st.integers(0, 6).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials))), max_size=15
)


@bounded(100)
@given(counts_of_cases)
def test_the_interval_holds_the_rate_and_is_mirrored(counts: Counts) -> None:
    rate = rate_of(counts)
    turned = rate_of((trials - passed, trials) for passed, trials in counts)
    if rate.interval is None or rate.rate is None:
        assert not any(trials for _, trials in counts)
        return
    low, high = rate.interval
    assert 0 <= low <= rate.rate <= high <= 1
    assert low < high, "never certain"
    assert turned.interval == pytest.approx((1 - high, 1 - low), abs=1e-9)
    assert rate.effective is not None
    assert rate.effective <= rate.of + 1e-9


@bounded(100)
@given(counts_of_cases, st.randoms(use_true_random=False))
def test_the_order_of_cases_does_not_matter(counts: Counts, chance: object) -> None:
    assert rate_of(sorted(counts)) == rate_of(counts)


@pytest.mark.slow
@bounded(100)
@given(counts_of_cases.filter(lambda counts: sum(trials > 0 for _, trials in counts) > 1))
def test_the_standard_error_is_that_of_a_ratio_of_clusters(counts: Counts) -> None:
    counts = [one for one in counts if one[1]]
    trials, passed = sum(m for _, m in counts), sum(k for k, _ in counts)
    squares = sum((k - passed / trials * m) ** 2 for k, m in counts)
    spread = spread_of(counts)
    assert spread is not None
    assert spread.standard_error == pytest.approx(sqrt(len(counts) / (len(counts) - 1) * squares) / trials, abs=1e-9)


def test_repeats_that_are_copies_add_nothing() -> None:
    once, tenfold = [(1, 1)] * 13 + [(0, 1)] * 7, [(10, 10)] * 13 + [(0, 10)] * 7
    (low, high), (least, most) = interval_of(once), interval_of(tenfold)
    assert most - least > high - low, "as many cases, and what they vary by had to be estimated"


def test_a_hundred_thousand_cases_are_added_up_in_one_pass() -> None:
    rate = rate_of((place % 4, 3) for place in range(100_000) if place % 4 < 4 and place % 4 <= 3)
    assert rate.cases == 100_000
    low, high = rate.interval or (0.0, 1.0)
    assert 0.49 < low < 0.5 < high < 0.51


# How often the interval holds the truth


@pytest.mark.parametrize("mean", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("likeness", [0.05, 0.3, 0.7])
@pytest.mark.parametrize(("cases", "trials"), [(20, 5), (5, 20)])
def test_the_interval_covers(cases: int, trials: int, likeness: float, mean: float) -> None:
    """Beta-binomial suites, 1,000 of each; where the t interval held the truth in 84 to 96 %."""
    draw, rounds = Draw(1), 1000
    held = sum(
        low <= mean <= high
        for low, high in (interval_of(draw.suite(cases, trials, mean, likeness)) for _ in range(rounds))
    )
    assert held / rounds >= 0.94


@pytest.mark.parametrize(("cases", "trials"), [(12, 4), (20, 5), (30, 6)])
def test_the_interval_covers_where_a_few_cases_are_hard(cases: int, trials: int) -> None:
    draw, rounds = Draw(2), 1000
    for hard in (0.05, 0.15):
        truth = 0.3 * hard + 0.99 * (1 - hard)
        intervals = [interval_of(draw.hard_cases(cases, trials, hard)) for _ in range(rounds)]
        assert sum(low <= truth <= high for low, high in intervals) / rounds >= 0.93


@pytest.mark.long
@pytest.mark.parametrize("mean", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("likeness", [0.05, 0.3, 0.7])
@pytest.mark.parametrize(("cases", "trials"), [(12, 4), (20, 5), (30, 6), (50, 10), (5, 20)])
def test_the_interval_covers_in_every_cell(cases: int, trials: int, likeness: float, mean: float) -> None:
    draw, rounds = Draw(3), 5000
    missed_low = missed_high = 0
    for _ in range(rounds):
        low, high = interval_of(draw.suite(cases, trials, mean, likeness))
        missed_low += low > mean
        missed_high += high < mean
    assert 1 - (missed_low + missed_high) / rounds >= 0.93
    assert missed_low / rounds <= 0.05, "the side that flatters"


# Scores


def test_a_mean_of_scores_is_the_mean_over_cases() -> None:
    found = mean_of_cases([0.75, 0.25], 5)
    assert (found.mean, found.cases, found.n) == (0.5, 2, 5)
    assert found.stdev == pytest.approx(stdev([0.75, 0.25]))
    assert found.standard_error == pytest.approx(0.25)


def test_the_interval_of_scores_stays_inside_their_scale_and_needs_five_cases() -> None:
    assert mean_of_cases([0.0, 1.0], 2).interval is None
    assert mean_of_cases([0.9, 1.0, 1.0, 0.8], 4).method is None
    found = mean_of_cases([1.0, 1.0, 1.0, 1.0, 0.1], 5)
    assert found.interval is not None
    assert (found.interval[1], found.method) == (1.0, "t over cases")
    assert found.interval[0] > 0


@pytest.mark.slow
def test_the_interval_of_a_mean_is_scipys() -> None:
    from scipy import stats as scipy

    values = [0.1, 0.4, 0.35, 0.8, 0.9, 0.5]
    found = mean_of_cases(values, len(values))
    wanted = scipy.ttest_1samp(values, 0).confidence_interval()
    assert found.interval == pytest.approx((wanted.low, wanted.high))


def test_the_spread_of_one_case_is_not_known() -> None:
    found = mean_of_cases([0.6], 2)
    assert (found.mean, found.stdev, found.standard_error) == (0.6, None, None)
    assert mean_of_cases([], 0).mean is None
    equal = mean_of_cases([0.7] * 9, 9)
    assert (equal.stdev, equal.method) == (0.0, "wilson")
    assert equal.interval == pytest.approx(wilson(6.3, 9)), "equal scores show no spread, and are not certain"


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 5, 6, 20, 75, 1000])
def test_the_interval_of_a_median_is_the_sign_tests(n: int) -> None:
    from scipy import stats as scipy

    found = median_interval([float(place) for place in range(1, n + 1)])
    rank = int(scipy.binom.ppf(0.025, n, 0.5))
    rank -= scipy.binom.cdf(rank - 1, n, 0.5) > 0.025
    assert found == ((rank, n + 1 - rank) if rank > 0 else None)


@pytest.mark.slow
def test_the_ranks_of_many_values_are_near_the_exact_ones() -> None:
    from scipy import stats as scipy

    n = 4001
    low, high = median_interval([float(place) for place in range(1, n + 1)]) or (0.0, 0.0)
    assert abs(low - scipy.binom.ppf(0.025, n, 0.5)) <= 1
    assert low + high == n + 1


# Words


@pytest.mark.parametrize(
    ("counts", "errors", "words", "sample"),
    [
        ([(1, 1)] * 21 + [(0, 1)] * 9, 0, "70% (52 to 83)", "21 of 30 passed"),
        ([(1, 1)] * 1868 + [(0, 1)] * 132, 0, "93.4% (92.2 to 94.4)", "1,868 of 2,000 passed"),
        ([(5, 5)] * 19 + [(4, 5)], 0, "99% (87 to 99.9)", "99 of 100 passed, 20 cases clustered"),
        ([(3, 5)], 0, "60% (23 to 88)", "3 of 5 passed, of only 1 case"),
        ([(1, 1)] * 6 + [(0, 1)] * 4, 2, "60% (31 to 83)", "6 of 10 passed; 75% of the 8 without an error"),
        ([(0, 1)] * 2, 2, "0% (0 to 66)", "0 of 2 passed; all ended in an error"),
        ([(200, 200)] * 4 + [(199, 200)], 0, "99.9% (56 to 100)", "999 of 1,000 passed, 5 cases clustered"),
    ],
    ids=["plain", "many", "repeats", "one-case", "errors", "all-errors", "not-all"],
)
def test_rates_in_words(counts: Counts, errors: int, words: str, sample: str) -> None:
    rate = rate_of(counts, errors)
    assert (rate_words(rate), sample_words(rate)) == (words, sample)


def test_numbers_in_words() -> None:
    assert [points(one) for one in (-0.2, 0.011, 0.0, -0.001)] == ["-20 points", "+1 point", "0 points", "0 points"]
    assert point_range((-0.35, -0.05)) == "-35 to -5"
    assert percent(0.9999, 2000, (0.99, 1.0)) == "99.9%"
    assert percent(0.00001, 5) == "0.1%"
    assert [p_words(p) for p in (0.0215, 0.8438, 0.0004)] == ["p 0.021", "p 0.84", "p < 0.001"]


def test_a_selection_says_so() -> None:
    assert selection_words(24) == ""
    assert selection_words(9, only_failed=True) == "of the 9 that did not pass before"
    both = selection_words(9, only_failed=True, retried=3)
    assert both == "of the 9 that did not pass before; 3 asked again after an error"


@pytest.mark.parametrize("because", get_args(NoRateReason))
def test_every_reason_for_no_rate_has_words(because: NoRateReason) -> None:
    assert "rate" in no_rate_words(NoRate(because, 5, 3))


def test_what_has_not_ended_has_no_rate_yet() -> None:
    found = NoRate("interrupted", 12, 0)
    assert (no_rate_words(found), no_rate_words(found, 24)) == ("no rate yet", "12 of 24: no rate yet")
    assert no_rate_words(NoRate("errors", 1200, 1100), 2000) == "no rate: 1,100 of 1,200 had an error"


@pytest.mark.parametrize(
    ("passed", "errors", "because"),
    [(0, 0, "nothing"), (0, 4, "untested"), (1, 3, "errors"), (2, 2, None), (4, 0, None)],
)
def test_more_errors_than_half_hide_a_rate(passed: int, errors: int, because: str | None) -> None:
    rate = rate_of([(1, 1)] * passed + [(0, 1)] * errors, errors)
    found = rate.if_tested
    assert (found.because if isinstance(found, NoRate) else None) == because
    assert found is rate or because is not None


def test_the_package_is_light_to_import() -> None:
    """What only some figures need is imported with them."""
    code = (
        "import sys, rejoinder.stats; before = set(sys.modules)\n"
        "from rejoinder.stats.rates import rate_of; rate_of([(3, 5), (1, 2)])\n"
        "heavy = {'statistics', 'random', 'fractions', 'numpy', 'scipy', 'rejoinder.stats.comparison'}\n"
        "print(sorted(heavy & set(sys.modules)), sorted(name for name in before if name.startswith('rejoinder.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] ['rejoinder._version', 'rejoinder.stats']"
