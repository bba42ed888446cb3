"""Two runs compared: known answers, exact enumeration, mirrored runs, planted and absent differences."""

from __future__ import annotations

import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.model.figures import Comparison
from rejoinder.stats.comparison import (
    Trials,
    changes_of,
    compare_groups,
    compare_runs,
    made_up_interval,
    paired_interval,
)
from rejoinder.stats.permutation import sign_flip
from rejoinder.words.figures import comparison_words
from rejoinder.words.numbers import point_range, rate_range
from tests.kit import bounded
from tests.stats.simulated import Draw

Pairs = list[tuple[Trials, Trials]]
THIRDS = (-3, -1, 0, -2, 1, -1, -2, 0, -3, 1)


def near(value: float) -> object:
    return pytest.approx(value, abs=5.1e-5)


def once(wins: int, losses: int, cases: int) -> Pairs:
    """One trial a case."""
    passed, failed = Trials(1, 1), Trials(0, 1)
    return [(failed, passed)] * wins + [(passed, failed)] * losses + [(passed, passed)] * (cases - wins - losses)


def thirds() -> Pairs:
    return [(Trials(3 if one < 0 else 0, 3), Trials(3 + one if one < 0 else one, 3)) for one in THIRDS]


# Known answers


def test_the_known_answer_of_three_repeats() -> None:
    found = compare_runs(thirds())
    assert sign_flip(THIRDS).exact == near(0.1016)
    assert found.p_value == near(0.0703)
    assert (found.difference, found.standard_error) == (near(-0.3333), near(0.1571))
    assert found.interval == (near(-0.6888), near(0.0221))
    assert found.equivalence == (near(-0.6127), near(0.0572))
    assert found.smallest_effect == near(0.4943)
    assert (found.verdict, found.cases, found.differing) == ("cannot-tell", 10, 8)
    assert (found.cases_needed, found.p_exact) == (22, near(0.1016))
    assert found.means == (near(0.6), near(0.2667))
    assert found.method == "sign-flip mid-p, t interval"


@pytest.mark.parametrize(
    ("wins", "losses", "mid", "exact"), [(1, 8, 0.0215, 0.0391), (0, 5, 0.03125, 0.0625), (3, 3, 0.8438, 1.0)]
)
def test_one_repeat_is_mid_p_mcnemar(wins: int, losses: int, mid: float, exact: float) -> None:
    found = sign_flip([1] * wins + [-1] * losses + [0] * 11)
    assert (found.p_value, found.exact) == (near(mid), near(exact))


def of_primes(number: int) -> Pairs:
    """Each case has another prime number of trials, so their common denominator has hundreds of digits."""
    multiples = {many for one in range(2, 200) for many in range(one * one, 40_000, one)}
    primes = [one for one in range(2, 40_000) if one not in multiples][:number]
    return [(Trials(one // 2, one), Trials((one + place % 2) // 2, one)) for place, one in enumerate(primes)]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "differing"), [(120, 60), (4100, 2050)])
def test_trials_without_a_common_number_are_compared(number: int, differing: int) -> None:
    pairs = of_primes(number)
    found = compare_runs(pairs)
    rates = [b.passed / b.trials - a.passed / a.trials for a, b in pairs]
    assert found.differing == differing
    assert found.difference == pytest.approx(sum(rates) / number)
    assert found.p_value is not None
    assert 0 < found.p_value < 0.01
    mirrored = compare_runs([(b, a) for a, b in pairs])
    assert (mirrored.p_value, mirrored.difference) == (found.p_value, pytest.approx(-(found.difference or 0)))


@pytest.mark.parametrize("factor", [1, 7, 1 << 60, 10**400], ids=["1", "7", "2^60", "10^400"])
def test_a_factor_of_all_differences_changes_nothing(factor: int) -> None:
    assert sign_flip([one * factor for one in THIRDS]) == sign_flip(THIRDS)
    many = [one % 7 - 2 for one in range(3000)]
    assert sign_flip([one * factor for one in many]) == sign_flip(many)


@pytest.mark.parametrize(
    ("wins", "losses", "centre", "error", "low", "high"),
    [
        (1, 8, -0.35, 0.1313, -0.6248, -0.0752),
        (0, 2, -0.10, 0.0909, -0.2812, 0.0994),
        (0, 0, 0.0, 0.0658, -0.1377, 0.1377),
    ],
)
def test_known_intervals_of_twenty_cases(
    wins: int, losses: int, centre: float, error: float, low: float, high: float
) -> None:
    found = compare_runs(once(wins, losses, 20))
    assert (found.difference, found.standard_error) == (near(centre), near(error))
    assert found.interval == (near(low), near(high))


@pytest.mark.parametrize(("cases", "margin"), [(20, 0.1138), (50, 0.0460)])
def test_known_equivalence_where_none_differ(cases: int, margin: float) -> None:
    found = compare_runs(once(0, 0, cases))
    assert found.equivalence == (near(-margin), near(margin))
    assert found.verdict == ("no-difference" if cases == 50 else "cannot-tell")


# Exact enumeration


@bounded(100)
@given(st.lists(st.integers(-6, 6), max_size=9))
def test_the_sign_flip_test_is_the_enumeration_of_all_signs(differences: list[int]) -> None:
    seen = abs(sum(differences))
    sums = [
        abs(sum(sign * one for sign, one in zip(signs, differences, strict=True)))
        for signs in product((-1, 1), repeat=len(differences))
    ]
    above, equal = sum(one > seen for one in sums), sum(one == seen for one in sums)
    found = sign_flip(differences)
    assert found.p_value == pytest.approx((above + equal / 2) / len(sums) if any(differences) else 1.0)
    assert found.exact == pytest.approx((above + equal) / len(sums))


@pytest.mark.slow
def test_the_sign_flip_test_is_scipys() -> None:
    from scipy import stats as scipy

    values = [0.4, -0.2, 0.6, 0.8, 0.2, -0.4, 1.0, 0.6, 0.2, 0.4]
    wanted = scipy.permutation_test((values,), lambda one: one.sum(), permutation_type="samples", n_resamples=10**6)
    assert sign_flip([round(5 * one) for one in values]).exact == pytest.approx(float(wanted.pvalue))


@pytest.mark.slow
def test_the_paired_interval_is_scipys() -> None:
    from scipy import stats as scipy

    values = [0.4, -0.2, 0.6, 0.8, 0.2, -0.4, 1.0, 0.6, 0.0, 0.0]
    wanted = scipy.ttest_1samp(values, 0).confidence_interval()
    interval, error, method = paired_interval(values)
    assert interval == pytest.approx((wanted.low, wanted.high))
    assert error == pytest.approx(float(scipy.sem(values)))
    assert method == "t interval"


def test_many_cases_have_the_normal_approximation_and_it_says_so() -> None:
    exact = sign_flip([1] * 1040 + [-1] * 960)
    normal = sign_flip([1] * 1040 + [-1] * 961)
    assert (exact.method, normal.method) == ("sign-flip mid-p", "sign-flip, normal approximation")
    assert normal.p_value == pytest.approx(exact.p_value, abs=0.005)


@pytest.mark.slow
def test_unequal_repeats_have_more_sums_than_can_be_added_up_and_are_rounded() -> None:
    from scipy import stats as scipy

    chance = random.Random(4)
    values = [chance.randint(-(10**6), 10**6) for _ in range(400)]
    found = sign_flip(values)
    deviation = sum(one * one for one in values) ** 0.5
    assert found.p_value == pytest.approx(float(2 * scipy.norm.sf(abs(sum(values)) / deviation)), abs=2e-3)
    few = [10**9 + 7, 3 * 10**8, -2 * 10**8 + 1, 5 * 10**8, 4 * 10**8 + 3]
    assert sign_flip(few).p_value == pytest.approx(sign_flip([100, 30, -20, 50, 40]).p_value)


@pytest.mark.slow
def test_two_thousand_cases_of_ten_repeats_are_exact() -> None:
    from scipy import stats as scipy

    chance = random.Random(3)
    values = [chance.randint(-4, 4) for _ in range(2200)]
    while sum(one != 0 for one in values) > 2000:
        values.pop()
    found = sign_flip(values)
    assert found.method == "sign-flip mid-p"
    deviation = sum(one * one for one in values) ** 0.5
    assert found.p_value == pytest.approx(float(2 * scipy.norm.sf(abs(sum(values)) / deviation)), abs=1e-3)


@pytest.mark.slow
def test_a_hundred_thousand_cases_are_compared() -> None:
    pairs = [(Trials(place % 3, 3), Trials((place // 3) % 4, 3)) for place in range(100_000)]
    found = compare_runs(pairs)
    assert (found.verdict, found.cases) == ("better", 100_000)
    assert found.method == "sign-flip, normal approximation, t interval"


# Properties

some_trials = st.builds(
    lambda passed, errors, more: Trials(passed, passed + errors + more, errors),
    st.integers(0, 4),
    st.integers(0, 2),
    st.integers(0, 3),
)
some_pairs = st.lists(st.tuples(some_trials, some_trials), max_size=14)
MIRRORED = {"better": "worse", "worse": "better", "no-difference": "no-difference", "cannot-tell": "cannot-tell"}


@bounded(150)
@given(some_pairs)
def test_swapped_runs_give_the_mirrored_answer(pairs: Pairs) -> None:
    there, back = compare_runs(pairs), compare_runs([(b, a) for a, b in pairs])
    assert back.verdict == MIRRORED[there.verdict]
    assert (back.a, back.b, back.p_value) == (there.b, there.a, there.p_value)
    assert (back.cases_needed, back.smallest_effect) == (there.cases_needed, there.smallest_effect)
    if there.difference is None or there.interval is None:
        assert there.cases == 0
        return
    assert back.difference == -there.difference
    assert back.interval == (-there.interval[1], -there.interval[0])
    assert there.interval[0] < there.interval[1], "never certain"


@pytest.mark.slow
@bounded(100)
@given(some_pairs)
def test_a_verdict_has_its_evidence(pairs: Pairs) -> None:
    found = compare_runs(pairs)
    if found.verdict in ("better", "worse"):
        assert found.p_value is not None and found.p_value < 0.05
        assert found.interval is not None and found.difference is not None
        assert (found.interval[0] > 0) == (found.difference > 0) == (found.verdict == "better")
        assert found.interval[0] * found.interval[1] > 0
    if found.cases_needed is not None:
        assert found.verdict == "cannot-tell"
        assert found.cases_needed > found.cases


@pytest.mark.parametrize(("lost", "cases", "needed"), [(4, 6, 8), (2, 3, 8), (0, 8, 23), (0, 22, 23), (4, 20, 34)])
def test_about_as_many_cases_would_tell_as_do_tell(lost: int, cases: int, needed: int) -> None:
    """Not those that would show a difference as large as the margin, which may be hundreds: those that would do if
    further cases go as these."""
    found = compare_runs(once(0, lost, cases))
    assert (found.verdict, found.cases_needed) == ("cannot-tell", needed)
    assert compare_runs(once(0, round(lost * needed / cases), needed)).verdict != "cannot-tell"


@pytest.mark.slow
@bounded(60)
@given(some_pairs)
def test_as_many_cases_as_needed_tell(pairs: Pairs) -> None:
    needed = compare_runs(pairs).cases_needed
    if needed is not None and needed < 1500:
        more = [(Trials(a.passed, a.trials), Trials(b.passed, b.trials)) for a, b in pairs if a.trials and b.trials]
        times = -(-5 * needed // (4 * len(more)))  # a quarter more: it is an estimate
        assert compare_runs(more * times).verdict != "cannot-tell"


def test_a_difference_that_lies_at_the_margin_needs_more_than_are_worth_naming() -> None:
    pairs = [(Trials(5000, 10_000), Trials(5001, 10_000)), (Trials(5001, 10_000), Trials(5000, 10_000))]
    assert compare_runs(pairs, 1e-9).cases_needed is None


def test_a_difference_needs_both_the_interval_and_the_test() -> None:
    whole, none, third = Trials(3, 3), Trials(0, 3), Trials(1, 3)
    found = compare_runs([(third, none)] * 6 + [(none, third)])
    assert found.interval is not None and found.interval[1] < 0
    assert found.p_value == near(0.0703)
    assert found.verdict == "cannot-tell"
    assert compare_runs([(third, none)] * 8 + [(whole, whole)]).verdict == "worse"


def test_equal_differences_are_not_certain() -> None:
    found = compare_runs(once(0, 8, 8))
    assert found.verdict == "worse"
    low, high = found.interval or (0.0, 0.0)
    assert high - low > 0.3
    assert made_up_interval([0.0], 0.975)[0] == (-1, 1), "one case tells nothing"


# Errors


def test_errors_that_decide_are_said_to() -> None:
    broken = [(Trials(1, 1), Trials(0, 1, 1))] * 9 + [(Trials(1, 1), Trials(1, 1))] * 11
    found = compare_runs(broken)
    assert (found.verdict, found.undecided, found.b.errors) == ("cannot-tell", "errors", 9)
    assert comparison_words(found).startswith("cannot tell: errors decide; -45 points")
    # The same failures without an error are a regression.
    assert compare_runs(once(0, 9, 20)).verdict == "worse"


def test_errors_that_change_nothing_leave_the_verdict() -> None:
    pairs = [*once(0, 12, 30), (Trials(1, 1), Trials(0, 1, 1))]
    found = compare_runs(pairs)
    assert (found.verdict, found.undecided) == ("worse", None)


# Conversations that simulated users spoilt


def spoilt(cases: int, *, in_b: int, lost: int = 0) -> Pairs:
    """One trial a case; all pass in A. In B some fail, and of others the only conversation is spoilt."""
    return [
        *[(Trials(1, 1), Trials(0, 0, spoilt=1))] * in_b,
        *[(Trials(1, 1), Trials(0, 1))] * lost,
        *[(Trials(1, 1), Trials(1, 1))] * (cases - in_b - lost),
    ]


def test_spoilt_conversations_that_decide_are_said_to() -> None:
    """Nothing differs among the forty that were measured; had the ten failed, B would be worse."""
    found = compare_runs(spoilt(50, in_b=10))
    assert (found.verdict, found.undecided, found.cases, found.cases_needed) == ("cannot-tell", "spoilt", 40, None)
    assert found.unmeasured is not None and found.unmeasured[0] is None
    assert found.unmeasured[1] is not None and found.unmeasured[1].bounds == (0.8, 1.0)
    words = comparison_words(found)
    assert words.startswith("cannot tell: invalid conversations decide; 0 points (")
    assert words.endswith("; B 80 to 100% if the 10 invalid conversations failed or passed")


def test_spoilt_conversations_that_change_nothing_leave_the_verdict_and_are_named() -> None:
    found = compare_runs(spoilt(60, in_b=1, lost=20))
    assert (found.verdict, found.undecided) == ("worse", None)
    assert comparison_words(found).endswith("; B 65 to 67% if the 1 invalid conversation failed or passed")
    assert compare_runs(spoilt(50, in_b=0)).unmeasured is None


def test_where_everything_is_spoilt_nothing_can_be_told() -> None:
    found = compare_runs(spoilt(6, in_b=6))
    assert (found.verdict, found.cases) == ("cannot-tell", 0)
    assert comparison_words(found) == (
        "cannot tell: no case is measured in both runs; B 0 to 100% if the 6 invalid conversations failed or passed"
    )


# Groups and single cases


def test_groups_are_corrected_together_and_small_ones_say_so() -> None:
    found = compare_groups({"a": once(1, 8, 30), "b": once(0, 0, 40), "c": once(2, 2, 30), "d": once(0, 9, 10)})
    by_name = {one.name: one for one in found}
    assert [one.verdict for one in found] == ["cannot-tell", "no-difference", "cannot-tell", "too-few"]
    assert compare_runs(once(1, 8, 30)).verdict == "worse", "alone it would be"
    one = by_name["a"].comparison
    assert (one.verdict, one.comparisons) == ("cannot-tell", 3)
    assert by_name["a"].p_value == one.p_holm == pytest.approx(3 * (one.p_value or 0))
    assert by_name["d"].p_value is None
    assert compare_groups({"a": once(0, 12, 30), "b": once(0, 0, 30)})[0].verdict == "worse"


@pytest.mark.slow
def test_single_cases_are_claimed_from_six_repeats_on() -> None:
    from scipy import stats as scipy

    pairs = [(Trials(5, 5), Trials(0, 5)), (Trials(10, 10), Trials(0, 10)), (Trials(10, 10), Trials(10, 10))]
    changes = changes_of(pairs)
    assert list(changes) == pairs[:2]
    few, many = changes.values()
    assert (few.verdict, few.p_value) == ("flipped", None)
    assert many.verdict == "worse"
    assert many.p_value == pytest.approx(2 * scipy.fisher_exact([[0, 10], [10, 0]], "less").pvalue)
    back = changes_of([(b, a) for a, b in pairs])
    assert [one.verdict for one in back.values()] == ["flipped", "better"]


def test_equal_cases_raise_no_alarm() -> None:
    draw, alarms = Draw(21), 0
    for _ in range(200):
        rates = draw.rates(20, 0.8, 0.5)
        pairs = [(Trials(draw.passes(one, 10), 10), Trials(draw.passes(one, 10), 10)) for one in rates]
        alarms += any(one.verdict in ("better", "worse") for one in changes_of(pairs).values())
    assert alarms <= 6


# Suites of known truth


def drawn(draw: Draw, cases: int, trials: int, drop: float) -> Pairs:
    """B passes less often by the share `drop` in every case."""
    rates = draw.rates(cases, 0.8, 0.5)
    return [
        (Trials(draw.passes(one, trials), trials), Trials(draw.passes(one * (1 - drop), trials), trials))
        for one in rates
    ]


def verdicts(seed: int, rounds: int, cases: int, trials: int, drop: float) -> list[Comparison]:
    draw = Draw(seed)
    return [compare_runs(drawn(draw, cases, trials, drop)) for _ in range(rounds)]


@pytest.mark.slow
@pytest.mark.parametrize(("cases", "trials"), [(20, 1), (20, 3), (50, 1), (50, 3)])
def test_null_suites_raise_few_alarms(cases: int, trials: int) -> None:
    found = verdicts(22, 400, cases, trials, 0.0)
    assert sum(one.verdict in ("better", "worse") for one in found) / len(found) <= 0.06


@pytest.mark.parametrize(("cases", "trials", "least"), [(20, 3, 0.25), (50, 3, 0.6), (50, 5, 0.8)])
def test_a_planted_drop_of_ten_points_is_found(cases: int, trials: int, least: float) -> None:
    found = verdicts(23, 200, cases, trials, 0.125)
    assert sum(one.verdict == "worse" for one in found) / len(found) >= least
    assert not any(one.verdict == "better" for one in found)


@pytest.mark.parametrize(("cases", "trials"), [(10, 1), (20, 3), (50, 5)])
@pytest.mark.parametrize("drop", [0.0, 0.125, 0.25])
def test_the_interval_of_a_difference_covers(drop: float, cases: int, trials: int) -> None:
    found = verdicts(24, 300, cases, trials, drop)
    held = sum(one.interval is not None and one.interval[0] <= -0.8 * drop <= one.interval[1] for one in found)
    assert held / len(found) >= 0.92


@pytest.mark.slow
def test_a_drop_of_the_margin_is_seldom_called_none() -> None:
    found = verdicts(25, 300, 50, 5, 0.125)
    assert sum(one.verdict == "no-difference" for one in found) / len(found) <= 0.06
    equal = verdicts(26, 100, 50, 5, 0.0)
    assert sum(one.verdict == "no-difference" for one in equal) / len(equal) >= 0.75


@pytest.mark.slow
def test_null_groups_raise_few_alarms_together() -> None:
    draw, alarms = Draw(27), 0
    for _ in range(150):
        groups = {str(place): drawn(draw, 20, 3, 0.0) for place in range(6)}
        alarms += any(one.verdict in ("better", "worse") for one in compare_groups(groups))
    assert alarms / 150 <= 0.06


@pytest.mark.long
@pytest.mark.parametrize(("cases", "trials"), [(10, 3), (20, 1), (20, 5), (50, 3), (50, 10)])
def test_null_suites_raise_alarms_in_at_most_five_percent(cases: int, trials: int) -> None:
    found = verdicts(28, 4000, cases, trials, 0.0)
    assert sum(one.verdict in ("better", "worse") for one in found) / len(found) <= 0.058


# Words


def test_comparisons_in_words() -> None:
    assert comparison_words(compare_runs(once(1, 8, 20))) == "worse: -35 points (-62 to -8), mid-p 0.021"
    assert comparison_words(compare_runs(once(8, 1, 20))) == "better: +35 points (+8 to +62), mid-p 0.021"
    assert comparison_words(compare_runs(once(0, 0, 50))) == (
        "no difference beyond 4.7 points: 0 points (-4.7 to +4.7 at 90%), mid-p 1"
    )
    assert comparison_words(compare_runs(once(0, 2, 20))) == (
        "cannot tell: -10 points (-28 to +10), mid-p 0.25; needs about 48 more cases like these"
    )
    assert comparison_words(compare_runs([])) == "cannot tell: no case is in both runs"


def test_an_end_of_an_interval_does_not_read_as_what_it_excludes() -> None:
    assert point_range((-0.17505, -0.00495)) == "-18 to -0.5"
    assert point_range((0.0004, 0.09)) == "+0.04 to +9"
    assert point_range((-0.05, 0.0)) == "-5 to 0"
    assert point_range((-0.0997, 0.03), -0.1) == "-9.97 to +3"
    assert rate_range((0.8667, 0.9993)) == "87 to 99.9"
    assert rate_range((0.0, 1.0)) == "0 to 100"


def test_no_difference_names_the_smallest_margin_that_is_excluded() -> None:
    found = compare_runs(once(0, 0, 50), margin=0.2)
    assert (found.beyond, found.margin) == (4.7, 0.2)
    assert compare_runs(once(0, 0, 23)).beyond == 10, "never more than was asked for"
    assert compare_runs(once(1, 8, 20)).beyond is None
    [first, _] = compare_groups({"a": once(0, 0, 50), "b": once(0, 0, 50)})
    assert first.comparison.beyond is not None and first.comparison.beyond > 4.7, "corrected for both"
    assert "at 95%" in comparison_words(first.comparison)
