"""A judge against human labels, against itself and against the order of answers: the numbers of the judge report."""

from __future__ import annotations

import random
from math import comb, isclose, pi, sqrt, tan
from statistics import NormalDist, mean, variance

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rejoinder.stats.agreement import (
    Confusion,
    kappa,
    kappa_interval,
    krippendorff_alpha,
    position_bias,
    self_consistency,
)
from rejoinder.stats.clustered import clustered_rate
from rejoinder.stats.corrected import rogan_gladen, rogan_gladen_interval
from rejoinder.stats.distributions import exact_binomial, t_quantile
from rejoinder.stats.intervals import wilson
from tests.kit import bounded

Z = NormalDist().inv_cdf(0.975)

# The same examples in every run.


def near(value: float, places: int = 3) -> object:
    return pytest.approx(value, abs=0.5 * 10**-places)


def holds(interval: tuple[float, float] | None, estimate: float | None, least: float = 0.0) -> bool:
    """Whether an interval has its estimate and stays in range; both are there, or neither."""
    if interval is None or estimate is None:
        return interval is None and estimate is None
    low, high = interval
    return least <= low <= estimate <= high <= 1


cells = st.one_of(st.integers(0, 3), st.integers(0, 400))
tables = st.builds(Confusion, cells, cells, cells, cells)
rows = st.lists(st.lists(st.booleans(), max_size=5), max_size=12)


def counts_of(table: Confusion) -> tuple[int, int, int, int]:
    return table.both_pass, table.judge_only, table.human_only, table.both_fail


def turned(table: Confusion) -> Confusion:
    """Pass and fail exchanged."""
    return Confusion(table.both_fail, table.human_only, table.judge_only, table.both_pass)


def exchanged(table: Confusion) -> Confusion:
    """Judge and human exchanged."""
    return Confusion(table.both_pass, table.human_only, table.judge_only, table.both_fail)


# Confusion


def test_a_confusion_is_counted_from_pairs_of_human_and_judge() -> None:
    pairs = [(True, True)] * 6 + [(False, True)] * 3 + [(True, False)] * 2 + [(False, False)] * 5
    table = Confusion.of(pairs)
    assert counts_of(table) == (6, 3, 2, 5)
    assert table.n == 16
    assert table.agreement == 11 / 16
    assert table.base_rate == 8 / 16
    assert table.sensitivity == 6 / 8
    assert table.specificity == 5 / 8
    assert table.sensitivity_counts == (6, 8)
    assert table.specificity_counts == (5, 8)


def test_a_rate_without_a_denominator_is_none() -> None:
    nothing = Confusion.of([])
    rates = [nothing.agreement, nothing.base_rate, nothing.sensitivity, nothing.specificity]
    assert nothing.n == 0
    assert rates == [None] * 4
    assert kappa(nothing) is None
    assert kappa_interval(nothing) is None
    assert Confusion(both_pass=3).specificity is None
    assert Confusion(both_fail=3).sensitivity is None


# Kappa


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ((85, 5, 5, 5), 0.444),
        ((45, 5, 5, 45), 0.800),
        ((20, 5, 10, 15), 0.400),
        ((45, 15, 25, 15), 0.130),
        ((10, 0, 0, 10), 1.0),
        ((0, 10, 10, 0), -1.0),
        ((8, 2, 0, 0), 0.0),
    ],
    ids=str,
)
def test_kappa_of_known_tables(table: tuple[int, int, int, int], expected: float) -> None:
    assert kappa(Confusion(*table)) == near(expected)


def test_kappa_is_undefined_when_one_verdict_was_ever_given() -> None:
    for table in (Confusion(both_pass=9), Confusion(both_fail=9)):
        assert kappa(table) is None
        assert kappa_interval(table) is None
    assert kappa(Confusion(judge_only=9)) == 0, "expected agreement is 0 here, not 1"


def cohen(shares: list[float]) -> float:
    """Kappa from its definition, for the shares of the four cells."""
    a, b, c, d = shares
    expected = (a + b) * (a + c) + (c + d) * (b + d)
    return (a + d - expected) / (1 - expected)


def delta_error(table: Confusion) -> float:
    """The standard error by the delta method: a numerical gradient and the covariance of a multinomial."""
    n = table.n
    shares = [count / n for count in counts_of(table)]
    step = 1e-6
    gradient: list[float] = []
    for place in range(4):
        up, down = shares.copy(), shares.copy()
        up[place] += step
        down[place] -= step
        # The formula for a table that sums to 1 only moves along with the total; divide it out.
        gradient.append((cohen([x / sum(up) for x in up]) - cohen([x / sum(down) for x in down])) / (2 * step))
    centre = sum(share * slope for share, slope in zip(shares, gradient, strict=True))
    return sqrt(sum(share * (slope - centre) ** 2 for share, slope in zip(shares, gradient, strict=True)) / n)


@bounded(150)
@given(st.builds(Confusion, *[st.integers(1, 300)] * 4))
def test_the_standard_error_of_kappa_is_that_of_the_delta_method(table: Confusion) -> None:
    estimate, interval = kappa(table), kappa_interval(table, z=1e-3)
    assert estimate is not None
    assert interval is not None
    assert (interval[1] - interval[0]) / 2e-3 == pytest.approx(delta_error(table), rel=1e-5)
    assert (interval[1] + interval[0]) / 2 == pytest.approx(estimate, abs=1e-12)


def test_the_standard_error_of_kappa_is_not_the_simplified_one() -> None:
    table = Confusion(85, 5, 5, 5)
    interval = kappa_interval(table)
    assert interval is not None
    chance = 0.9 * 0.9 + 0.1 * 0.1
    simplified = sqrt(0.9 * 0.1 / (100 * (1 - chance) ** 2))
    error = (interval[1] - interval[0]) / (2 * Z)
    assert error == near(delta_error(table), 6)
    assert abs(error - simplified) > 0.01


@pytest.mark.parametrize(
    "table", [(10, 0, 0, 10), (19, 0, 0, 1), (0, 10, 10, 0), (16, 4, 0, 0), (16, 0, 4, 0), (0, 5, 0, 0)], ids=str
)
def test_a_table_that_shows_no_spread_is_not_certain(table: tuple[int, int, int, int]) -> None:
    interval = kappa_interval(Confusion(*table))
    assert interval is not None
    assert holds(interval, kappa(Confusion(*table)), -1)
    assert interval[1] - interval[0] > 0.2


def test_full_agreement_has_the_wilson_interval_of_the_agreement() -> None:
    agreed = wilson(20, 20)
    assert agreed is not None
    # Half of the agreement is expected by chance, so kappa moves twice as far.
    assert kappa_interval(Confusion(10, 0, 0, 10)) == pytest.approx((2 * agreed[0] - 1, 1.0))


@bounded(150)
@given(tables)
def test_kappa_lies_in_its_interval_and_in_range(table: Confusion) -> None:
    assert holds(kappa_interval(table), kappa(table), -1)


@bounded(150)
@given(tables)
def test_kappa_does_not_mind_names(table: Confusion) -> None:
    for other in (turned(table), exchanged(table)):
        assert kappa(other) == kappa(table)
        assert kappa_interval(other) == kappa_interval(table)
    assert turned(table).sensitivity == table.specificity
    assert turned(table).agreement == table.agreement


@pytest.mark.slow
def test_the_kappa_interval_covers() -> None:
    chance = random.Random(20240501)
    shares = [0.62, 0.08, 0.08, 0.22]
    truth = cohen(shares)
    covered, rounds = 0, 3000
    for _ in range(rounds):
        drawn = chance.choices(range(4), shares, k=120)
        interval = kappa_interval(Confusion(*(drawn.count(cell) for cell in range(4))))
        covered += interval is not None and interval[0] <= truth <= interval[1]
    assert 0.92 <= covered / rounds <= 0.98


# Krippendorff


FOUR_OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]


@pytest.mark.parametrize(
    ("observers", "expected"),
    [
        pytest.param(["0100000010", "1110010000"], 0.095, id="binary"),
        pytest.param(["aabbdcccedda", "babbbccceddd"], 0.692, id="nominal"),
        pytest.param(FOUR_OBSERVERS, 0.743, id="with-missing-values"),
    ],
)
def test_alpha_of_the_published_examples(observers: list[list[int | None]], expected: float) -> None:
    assert krippendorff_alpha(list(zip(*observers, strict=True))) == near(expected)


@pytest.mark.parametrize(
    "ratings",
    [[], [[]], [[None, None]], [[True], [False]], [[True, None], [None, False]], [[1, 1], [1, 1]]],
    ids=["nothing", "no-rater", "no-value", "one-rater", "nobody-twice", "no-variation"],
)
def test_alpha_is_undefined_without_pairs_or_variation(ratings: list[list[int | None]]) -> None:
    assert krippendorff_alpha(ratings) is None


ratings_of_any_shape = st.lists(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=5), max_size=10)


@pytest.mark.slow
@bounded(150)
@given(ratings_of_any_shape, st.randoms(use_true_random=False))
def test_alpha_minds_neither_raters_nor_names(ratings: list[list[str | None]], chance: random.Random) -> None:
    alpha = krippendorff_alpha(ratings)
    names = {"a": 7, "b": 5, "c": 0, None: None}
    other = [
        [names[value] for value in chance.sample(unit, len(unit))] for unit in chance.sample(ratings, len(ratings))
    ]
    assert krippendorff_alpha(other) == alpha
    assert krippendorff_alpha([*ratings, ["a", None], []]) == alpha, "a value without a partner says nothing"
    assert alpha is None or alpha <= 1


@bounded(150)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(2, 5)), min_size=1, max_size=9))
def test_alpha_is_one_exactly_where_all_agree(units: list[tuple[str, int]]) -> None:
    assume(len({value for value, _ in units}) > 1)
    agreed = [[value] * raters for value, raters in units]
    assert krippendorff_alpha(agreed) == 1
    alpha = krippendorff_alpha([*agreed, ["a", "b"]])
    assert alpha is not None
    assert alpha < 1


def test_alpha_approaches_scotts_pi_on_many_units() -> None:
    pairs = [(True, True)] * 8500 + [(False, True)] * 500 + [(True, False)] * 500 + [(False, False)] * 500
    chance = 0.9**2 + 0.1**2
    assert krippendorff_alpha(pairs) == near((0.9 - chance) / (1 - chance))


# Rogan and Gladen


def test_the_known_true_rate() -> None:
    assert rogan_gladen(0.80, 0.90, 0.70) == near(0.833)


def test_a_judge_that_tells_nothing_gives_no_rate() -> None:
    assert rogan_gladen(0.5, 0.6, 0.4) is None
    assert rogan_gladen(0.5, 0.4, 0.4) is None
    # However the sum of the two rates is rounded.
    assert all(rogan_gladen(0.5, part / 49, (49 - part) / 49) is None for part in range(50))
    assert rogan_gladen_interval((5, 10), (3, 5), (2, 5)) is None
    assert rogan_gladen_interval((5, 10), (0, 5), (0, 5)) is None


@pytest.mark.parametrize("empty", range(3))
def test_no_interval_without_trials(empty: int) -> None:
    counts = [(8, 10), (9, 10), (9, 10)]
    counts[empty] = (0, 0)
    assert rogan_gladen_interval(*counts) is None


def test_the_true_rate_is_clipped() -> None:
    assert rogan_gladen(0.05, 0.9, 0.9) == 0
    assert rogan_gladen(0.95, 0.9, 0.9) == 1
    # Impossible by chance alone, but no reason to be certain.
    low, high = rogan_gladen_interval((0, 200), (45, 50), (35, 50)) or (0.0, 0.0)
    assert low == 0
    assert high > 0.05


rates = st.floats(0, 1)


@bounded(150)
@given(rates, rates, rates)
def test_the_true_rate_is_inverted_from_the_mix(truth: float, sensitivity: float, specificity: float) -> None:
    assume(sensitivity + specificity > 1.01)
    mix = truth * sensitivity + (1 - truth) * (1 - specificity)
    assert rogan_gladen(mix, sensitivity, specificity) == pytest.approx(truth, abs=1e-9)


some_counts = st.integers(0, 300).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials)))


def share(counts: tuple[int, int]) -> float:
    return counts[0] / counts[1]


def opposite(counts: tuple[int, int]) -> tuple[int, int]:
    return counts[1] - counts[0], counts[1]


@pytest.mark.slow
@bounded(150)
@given(some_counts, some_counts, some_counts)
def test_the_true_rate_lies_in_its_interval(
    observed: tuple[int, int], sensitivity: tuple[int, int], specificity: tuple[int, int]
) -> None:
    interval = rogan_gladen_interval(observed, sensitivity, specificity)
    known = all(trials for _, trials in (observed, sensitivity, specificity))
    estimate = rogan_gladen(*map(share, (observed, sensitivity, specificity))) if known else None
    assert holds(interval, estimate)
    if interval is None:
        return
    assert interval[0] < interval[1], "never certain"
    # Failures instead of passes: the two qualities of the judge change places.
    mirrored = rogan_gladen_interval(opposite(observed), specificity, sensitivity)
    assert mirrored == pytest.approx((1 - interval[1], 1 - interval[0]), abs=1e-9)


@bounded(150)
@given(st.integers(1, 59), st.integers(45, 60), st.integers(45, 60))
def test_the_interval_is_that_of_the_delta_method(seen: int, right: int, wrong: int) -> None:
    n, z = 60, 1e-4
    assume(60 - wrong < seen < right)
    arguments = [seen / n, right / n, wrong / n]

    def moved(place: int, step: float) -> float:
        changed = [value + step * (place == index) for index, value in enumerate(arguments)]
        observed, sensitivity, specificity = changed
        return (observed + specificity - 1) / (sensitivity + specificity - 1)

    expected = 0.0
    for place, rate in enumerate(arguments):
        adjusted = (rate * n + z * z / 2) / (n + z * z)
        slope = (moved(place, 1e-6) - moved(place, -1e-6)) / 2e-6
        expected += slope**2 * adjusted * (1 - adjusted) / (n + z * z)
    low, high = rogan_gladen_interval((seen, n), (right, n), (wrong, n), z) or (0.0, 0.0)
    assert (high - low) / (2 * z) == pytest.approx(sqrt(expected), rel=1e-4)


def test_a_flawless_judge_on_few_labels_is_not_known_to_be_flawless() -> None:
    few = rogan_gladen_interval((80, 100), (5, 5), (5, 5))
    many = rogan_gladen_interval((80, 100), (500, 500), (500, 500))
    plain = wilson(80, 100)
    assert few is not None
    assert many is not None
    assert plain is not None
    assert few[1] - few[0] > 2 * (plain[1] - plain[0])
    assert many[1] - many[0] == pytest.approx(plain[1] - plain[0], rel=0.05)


@pytest.mark.parametrize(("truth", "sensitivity", "specificity"), [(0.7, 0.9, 0.8), (0.85, 0.97, 0.75)], ids=str)
def test_the_interval_of_the_true_rate_covers(truth: float, sensitivity: float, specificity: float) -> None:
    chance = random.Random(8)
    mix = truth * sensitivity + (1 - truth) * (1 - specificity)

    def drawn(rate: float, trials: int) -> tuple[int, int]:
        return sum(chance.random() < rate for _ in range(trials)), trials

    covered, rounds = 0, 2000
    for _ in range(rounds):
        interval = rogan_gladen_interval(drawn(mix, 100), drawn(sensitivity, 70), drawn(specificity, 40))
        covered += interval is not None and interval[0] <= truth <= interval[1]
    assert 0.92 <= covered / rounds <= 0.99


# Self-consistency


def test_self_consistency_of_a_small_table() -> None:
    found = self_consistency([[True] * 3, [False] * 3, [True, True, False], [True]])
    assert found is not None
    assert (found.replies, found.total) == (3, 4), "one verdict cannot agree with itself, and is still counted"
    assert found.pairwise == pytest.approx((1 + 1 + 1 / 3) / 3)
    assert found.unanimous == pytest.approx(2 / 3)
    assert found.unanimous_interval == wilson(2, 3)
    # Disagreeing pairs: 4 ordered ones of 3 values, weighed by 1/2; expected 2 * 5 * 4 of 9 values.
    assert found.alpha == pytest.approx(1 - 8 * 2 / 40)


@pytest.mark.parametrize("trials", [[], [[]], [[True], [False]]], ids=["nothing", "no-verdict", "no-repeat"])
def test_self_consistency_needs_repeats(trials: list[list[bool]]) -> None:
    assert self_consistency(trials) is None


@bounded(150)
@given(rows)
def test_self_consistency_stays_in_range(trials: list[list[bool]]) -> None:
    found = self_consistency(trials)
    if found is None:
        assert all(len(row) < 2 for row in trials)
        return
    low, high = found.unanimous_interval
    assert 0 <= low <= found.unanimous + 1e-12
    assert found.unanimous - 1e-12 <= high <= 1
    assert found.unanimous <= found.pairwise + 1e-12
    assert found.pairwise <= 1
    assert (found.unanimous == 1) == isclose(found.pairwise, 1)
    reversed_verdicts = [[not verdict for verdict in row] for row in trials]
    assert self_consistency(reversed_verdicts) == found


# Position bias


def test_position_bias_of_a_small_table() -> None:
    # Twice the better answer wins, three times the first, once the second; a tie; a first that wins or ties.
    found = position_bias([(1, 1), (0, 0), (1, 0), (1, 0), (1, 0), (0, 1), (0.5, 0.5), (1, 0.5)])
    assert found is not None
    assert found.pairs == 8
    assert found.consistent == 3 / 8
    assert found.consistent_interval == wilson(3, 8)
    assert found.flips == 5 / 8
    assert (found.to_first, found.to_second) == (4, 1)
    assert found.p_value == exact_binomial(4, 5) == 0.375
    assert found.first == clustered_rate([[True, False]] * 2 + [[True, True]] * 3 + [[False, False], [True]])
    assert found.first is not None
    assert (found.first.rate, found.first.n, found.first.clusters) == (9 / 13, 13, 7)


def test_a_judge_without_bias_lets_both_positions_win() -> None:
    found = position_bias([(1, 1)] * 30 + [(0, 0)] * 10)
    assert found is not None
    assert (found.consistent, found.flips, found.p_value) == (1, 0, None)
    assert found.first is not None
    assert found.first.rate == 0.5
    assert found.first.interval == wilson(40, 80)


def test_a_small_bias_shows_in_a_judge_that_is_mostly_consistent() -> None:
    found = position_bias([(1, 1)] * 60 + [(0, 0)] * 31 + [(1, 0)] * 9)
    assert found is not None
    assert found.p_value == pytest.approx(2 / 2**9)
    over_orders = exact_binomial(91 + 18, 200)
    assert over_orders is not None
    assert over_orders > 0.2, "the orders of a pair taken as independent would hide it"
    assert found.first is not None
    assert found.first.interval is not None
    assert found.first.interval[0] > 0.5


def test_position_bias_without_pairs_or_without_winners() -> None:
    assert position_bias([]) is None
    ties = position_bias([(0.5, 0.5)] * 3)
    assert ties is not None
    assert (ties.consistent, ties.first, ties.p_value) == (1, None, None)


verdict = st.sampled_from([0.0, 0.5, 1.0])


@bounded(150)
@given(st.lists(st.tuples(verdict, verdict), min_size=1, max_size=25))
def test_position_bias_speaks_of_positions_and_not_of_answers(pairs: list[tuple[float, float]]) -> None:
    found = position_bias(pairs)
    assert found is not None
    # Told of the other answer of each pair, the same verdicts are the same bias.
    assert position_bias([(1 - second, 1 - first) for first, second in pairs]) == found
    mirrored = position_bias([(1 - first, 1 - second) for first, second in pairs])
    assert mirrored is not None
    assert (mirrored.to_first, mirrored.to_second) == (found.to_second, found.to_first)
    assert (mirrored.p_value, mirrored.consistent) == (found.p_value, found.consistent)
    assert found.consistent + found.flips == pytest.approx(1)
    if found.first is not None and mirrored.first is not None:
        assert found.first.rate + mirrored.first.rate == pytest.approx(1)


# Clusters


def test_rogan_gladen_over_clusters() -> None:
    """Known by heart: 0.80 observed, sensitivity 0.90, specificity 0.70 give 0.833, whatever the interval is of."""
    sure, unsure = [[True] * 10] * 8 + [[False] * 10] * 2, [[value] for value in [True] * 80 + [False] * 20]
    for values in (sure, unsure):
        observed = clustered_rate(values)
        assert observed is not None
        assert rogan_gladen(observed.rate, 0.9, 0.7) == near(0.833)
    few, many = (rogan_gladen_interval(clustered_rate(rows) or (0, 0), (90, 100), (70, 100)) for rows in (sure, unsure))
    plain = rogan_gladen_interval((80, 100), (90, 100), (70, 100))
    assert few is not None and many is not None and plain is not None
    assert few[0] < many[0] - 0.1
    assert many[0] == pytest.approx(plain[0], abs=0.01)


def test_rogan_gladen_over_clusters_without_spread() -> None:
    alike = clustered_rate([[True] * 20] * 6)
    assert alike is not None
    assert rogan_gladen_interval(alike, (9, 10), (9, 10)) == rogan_gladen_interval((6, 6), (9, 10), (9, 10))
    alone = clustered_rate([[True, False, True]])
    assert alone is not None
    assert rogan_gladen_interval(alone, (9, 10), (9, 10)) is None
    mixed = clustered_rate([[True, False]] * 9)
    assert mixed is not None
    assert rogan_gladen_interval(mixed, (9, 10), (9, 10)) == rogan_gladen_interval((9, 18), (9, 10), (9, 10))


def test_the_clustered_error_by_hand() -> None:
    # Deviations from 4/6 by row: 2 - 4/3, 1 - 4/3, 1 - 4/3.
    found = clustered_rate([[True, True], [True, False], [False, True]])
    assert found is not None
    error = sqrt((4 / 9 + 1 / 9 + 1 / 9) * 3 / 2) / 6
    assert (found.rate, found.n, found.clusters, found.method) == (4 / 6, 6, 3, "clustered t")
    assert found.standard_error == pytest.approx(error)
    # 4.3027 is the table's value for two degrees of freedom.
    assert found.interval == (pytest.approx(max(0, 4 / 6 - 4.3027 * error), abs=1e-4), pytest.approx(1))


def test_clusters_of_one_have_the_plain_error() -> None:
    values = [True] * 13 + [False] * 7
    found = clustered_rate([[value] for value in values])
    assert found is not None
    assert found.standard_error == pytest.approx(sqrt(variance(map(float, values)) / 20))


def test_repeats_that_say_the_same_add_nothing() -> None:
    once = clustered_rate([[value] for value in [True] * 13 + [False] * 7])
    tenfold = clustered_rate([[value] * 10 for value in [True] * 13 + [False] * 7])
    assert once is not None
    assert tenfold is not None
    assert tenfold.interval == pytest.approx(once.interval)
    assert tenfold.n == 10 * once.n


def test_clusters_without_spread_have_the_wilson_interval() -> None:
    sure = clustered_rate([[True] * 4] * 9)
    assert sure is not None
    assert (sure.rate, sure.standard_error, sure.method) == (1, 0, "wilson")
    assert sure.interval == wilson(9, 9)
    mixed = clustered_rate([[True, False]] * 9)
    assert mixed is not None
    assert mixed.interval == wilson(9, 18)


def test_one_cluster_has_no_interval_and_no_value_no_rate() -> None:
    alone = clustered_rate([[True, False, True], []])
    assert alone is not None
    assert (alone.rate, alone.clusters) == (2 / 3, 1)
    assert (alone.standard_error, alone.interval, alone.method) == (None, None, None)
    endless = clustered_rate([[True], [False]], z=40)
    assert endless is not None
    assert endless.interval == (0, 1), "no quantile reaches so far"
    assert clustered_rate([]) is None
    assert clustered_rate([[], []]) is None


@bounded(150)
@given(rows)
def test_a_clustered_rate_lies_in_its_interval(values: list[list[bool]]) -> None:
    found = clustered_rate(values)
    flat = [value for row in values for value in row]
    if found is None:
        assert not flat
        return
    assert found.rate == mean(map(float, flat))
    mirrored = clustered_rate([[not value for value in row] for row in values])
    assert mirrored is not None
    assert mirrored.standard_error == found.standard_error
    if found.interval is None:
        assert found.clusters == 1
        return
    low, high = found.interval
    assert 0 <= low <= found.rate + 1e-12
    assert found.rate - 1e-12 <= high <= 1
    assert low < high
    assert mirrored.interval == pytest.approx((1 - high, 1 - low), abs=1e-9)


@pytest.mark.slow
def test_the_clustered_interval_covers_where_the_naive_one_does_not() -> None:
    chance = random.Random(71)
    covered, naive, rounds = 0, 0, 1500
    for _ in range(rounds):
        values: list[list[bool]] = []
        for _ in range(30):
            usual = chance.random() < 0.6
            # The repeats of a reply copy each other four times in five.
            values.append([usual if chance.random() < 0.8 else chance.random() < 0.6 for _ in range(5)])
        found = clustered_rate(values)
        assert found is not None
        assert found.interval is not None
        plain = wilson(sum(map(sum, values)), 150)
        assert plain is not None
        covered += found.interval[0] <= 0.6 <= found.interval[1]
        naive += plain[0] <= 0.6 <= plain[1]
    assert 0.92 <= covered / rounds <= 0.98
    assert naive / rounds < 0.8


# Student and the binomial


@pytest.mark.parametrize(
    ("probability", "degrees", "expected"),
    [
        (0.975, 1, 12.7062047364),
        (0.975, 2, 4.3026527297),
        (0.975, 3, 3.1824463053),
        (0.975, 4, 2.7764451052),
        (0.975, 9, 2.2621571628),
        (0.975, 10, 2.2281388520),
        (0.975, 29, 2.0452296421),
        (0.975, 30, 2.0422724563),
        (0.975, 120, 1.9799304051),
        (0.95, 5, 2.0150483727),
        (0.9, 7, 1.4149239277),
        (0.995, 12, 3.0545395894),
        (0.9995, 6, 5.9588161788),
    ],
    ids=str,
)
def test_quantiles_of_the_table(probability: float, degrees: int, expected: float) -> None:
    assert t_quantile(probability, degrees) == pytest.approx(expected, abs=1e-9)
    assert t_quantile(1 - probability, degrees) == pytest.approx(-expected, abs=1e-9)


@pytest.mark.parametrize("probability", [0.5, 0.501, 0.75, 0.9, 0.99, 0.99999])
def test_quantiles_with_a_closed_form(probability: float) -> None:
    assert t_quantile(probability, 1) == pytest.approx(tan(pi * (probability - 0.5)), rel=1e-9)
    spread = 2 * probability - 1
    two = spread * sqrt(2 / (1 - spread**2))
    assert t_quantile(probability, 2) == pytest.approx(two, rel=1e-9)


def test_many_degrees_are_the_normal_distribution() -> None:
    # The expansion in 1/degrees, to its second term.
    expected = Z + (Z**3 + Z) / 4 / 5000 + (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96 / 5000**2
    assert t_quantile(0.975, 5000) == pytest.approx(expected, abs=1e-10)


def test_a_quantile_that_is_not_there() -> None:
    for probability, degrees in ((0.975, 0), (0.975, -3), (0, 5), (1, 5), (1.2, 5)):
        assert t_quantile(probability, degrees) is None


@pytest.mark.parametrize(
    ("successes", "trials", "expected"),
    [(1, 9, 0.0391), (8, 9, 0.0391), (0, 5, 0.0625), (5, 10, 1.0), (0, 1, 1.0)],
    ids=str,
)
def test_known_exact_p_values(successes: int, trials: int, expected: float) -> None:
    assert exact_binomial(successes, trials) == near(expected, 4)


@pytest.mark.slow
@bounded(150)
@given(st.integers(1, 40).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials))))
def test_the_p_value_sums_what_is_no_more_likely(counts: tuple[int, int]) -> None:
    successes, trials = counts
    ways = [comb(trials, count) for count in range(trials + 1)]
    expected = sum(way for way in ways if way <= ways[successes]) / 2**trials
    assert exact_binomial(successes, trials) == pytest.approx(expected)


def test_the_p_value_of_many_trials_and_of_none() -> None:
    assert exact_binomial(0, 0) is None
    value = exact_binomial(2400, 5000)
    assert value is not None
    # The normal approximation with its continuity correction.
    assert value == pytest.approx(2 * NormalDist().cdf(-99.5 / sqrt(1250)), rel=0.02)
