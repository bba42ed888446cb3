"""Runs with unequal numbers of trials: one model asked once and asked ten times is one model."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.stats.comparison import Trials, compare_runs, paired_interval
from rejoinder.stats.permutation import deal_out, sign_flip
from rejoinder.words.figures import comparison_words
from tests.kit import bounded
from tests.stats.simulated import Draw

Pairs = list[tuple[Trials, Trials]]


class Cell(NamedTuple):
    """Suites of one kind: cases, trials in A and in B, the true rate, how alike the trials of a case are, and by how
    much B passes less."""

    cases: int
    a: int
    b: int
    rate: float
    likeness: float
    drop: float = 0.0


def drawn(draw: Draw, cell: Cell) -> Pairs:
    return [
        (Trials(draw.passes(rate, cell.a), cell.a), Trials(draw.passes(max(0.0, rate - cell.drop), cell.b), cell.b))
        for rate in draw.rates(cell.cases, cell.rate, cell.likeness)
    ]


def called(seed: int, rounds: int, cell: Cell) -> dict[str, float]:
    """How often each verdict is given."""
    draw = Draw(seed)
    found = Counter(compare_runs(drawn(draw, cell)).verdict for _ in range(rounds))
    return {verdict: found[verdict] / rounds for verdict in ("better", "worse")}


def called_before(seed: int, rounds: int, cell: Cell) -> dict[str, float]:
    """The same by the sign-flip test and the interval alone, which was the rule."""
    draw, found = Draw(seed), Counter[str]()
    for _ in range(rounds):
        pairs = drawn(draw, cell)
        whole = [b.passed * cell.a - a.passed * cell.b for a, b in pairs]
        low, high = paired_interval([one / cell.a / cell.b for one in whole])[0]
        if sign_flip(whole).p_value < 0.05 and not low <= 0 <= high:
            found["better" if low > 0 else "worse"] += 1
    return {verdict: found[verdict] / rounds for verdict in ("better", "worse")}


SAME_MODEL = [
    Cell(20, 1, 10, 0.95, 0.0),
    Cell(20, 10, 1, 0.95, 0.0),
    Cell(20, 1, 5, 0.95, 0.0),
    Cell(20, 1, 3, 0.90, 0.0),
    Cell(30, 1, 10, 0.97, 0.1),
    Cell(50, 1, 10, 0.97, 0.1),
    Cell(50, 1, 5, 0.97, 0.1),
    Cell(100, 1, 10, 0.97, 0.1),
    Cell(20, 10, 2, 0.95, 0.0),
]


@pytest.mark.parametrize("cell", SAME_MODEL[:4] + SAME_MODEL[6:7])
def test_one_model_with_unequal_repeats_raises_few_alarms(cell: Cell) -> None:
    assert sum(called(71, 200, cell).values()) <= 0.05


def test_the_rule_before_raised_many() -> None:
    """So the cells above can tell."""
    assert called_before(71, 200, SAME_MODEL[0])["worse"] > 0.2


WITH_A_DROP = [Cell(30, 10, 1, 0.8, 0.3, 0.2), Cell(50, 10, 3, 0.8, 0.3, 0.1), Cell(50, 5, 1, 0.8, 0.3, 0.2)]


@pytest.mark.parametrize("cell", WITH_A_DROP)
def test_a_drop_is_found_as_often_as_before(cell: Cell) -> None:
    assert called(72, 150, cell)["worse"] >= called_before(72, 150, cell)["worse"] - 0.03


@pytest.mark.long
@pytest.mark.parametrize("likeness", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("rate", [0.5, 0.8, 0.9, 0.95, 0.97])
@pytest.mark.parametrize("repeats", [(1, 3), (1, 5), (1, 10), (3, 10), (10, 2), (10, 1)])
@pytest.mark.parametrize("cases", [20, 50, 100])
def test_one_model_raises_few_alarms_in_every_cell(
    cases: int, repeats: tuple[int, int], rate: float, likeness: float
) -> None:
    """Loose, by three standard errors: `test_unequal_grid.py` has more suites."""
    assert sum(called(73, 600, Cell(cases, *repeats, rate, likeness)).values()) <= 0.075


@pytest.mark.long
@pytest.mark.parametrize(
    ("cell", "less"),
    [
        *((cell, 0.03) for cell in WITH_A_DROP),
        (Cell(50, 3, 5, 0.8, 0.5, 0.15), 0.03),
        (Cell(100, 1, 3, 0.8, 0.5, 0.15), 0.03),
        (Cell(100, 1, 3, 0.8, 0.5, 0.1), 0.04),  # 3.2 points in 20,000 suites
    ],
)
def test_a_drop_is_found_nearly_as_often_as_before_in_many_runs(cell: Cell, less: float) -> None:
    assert called(74, 1000, cell)["worse"] >= called_before(74, 1000, cell)["worse"] - less


def test_dealing_out_alone_takes_changes_of_cases_for_a_change_of_the_model() -> None:
    """Half of the cases get better, half get worse, by chance; so the sign-flip test is asked, too."""
    draw, dealt, given = Draw(76), 0, 0
    for _ in range(400):
        rates = [0.2 + 0.6 * one for one in draw.rates(30, 0.95, 0.5)]
        changes = [0.2 if draw.passes(0.5, 1) else -0.2 for _ in rates]
        pairs = [
            (Trials(draw.passes(rate, 3), 3), Trials(draw.passes(rate + change, 10), 10))
            for rate, change in zip(rates, changes, strict=True)
        ]
        deal = deal_out(Counter(((a.passed, 3), (b.passed, 10)) for a, b in pairs))
        dealt += min(2 * deal.below + deal.equal, deal.p_value) < 0.05
        given += compare_runs(pairs).verdict in ("better", "worse")
    assert dealt / 400 > 0.09
    assert given / 400 <= 0.06


# The test itself


def every_deal(passes: int, a: int, b: int) -> list[int]:
    """B's passes, for each way to deal them out."""
    return [sum(place < b for place in chosen) for chosen in combinations(range(a + b), passes)]


few_trials = st.integers(1, 4).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials)))


@bounded(60)
@given(st.lists(st.tuples(few_trials, few_trials), min_size=1, max_size=3))
def test_dealing_out_is_the_enumeration_of_all_deals(counts: list[tuple[tuple[int, int], tuple[int, int]]]) -> None:
    sums = [sum(deal) for deal in product(*(every_deal(x + y, m, n) for (x, m), (y, n) in counts))]
    seen = sum(after for _, (after, _) in counts)
    found = deal_out(Counter(counts))
    assert found.below == pytest.approx(sum(one < seen for one in sums) / len(sums))
    assert found.equal == pytest.approx(sum(one == seen for one in sums) / len(sums))
    assert found.above == pytest.approx(sum(one > seen for one in sums) / len(sums))


def test_many_trials_have_the_normal_approximation_and_it_says_so() -> None:
    few, many = (Counter({((2, 3), (13, 20)): cases, ((2, 3), (11, 20)): cases}) for cases in (200, 20_000))
    exact, normal = deal_out(few), deal_out(many)
    assert exact.method == "dealt out within cases, mid-p"
    assert normal.method == "dealt out within cases, normal approximation"
    assert normal.score == pytest.approx(10 * exact.score)
    assert exact.below + exact.equal / 2 == pytest.approx(1 - exact.above - exact.equal / 2)
    assert deal_out(Counter({((1, 10**9), (1, 10**12)): 1})).below >= 0, "trials without end take no time"


@pytest.mark.slow
def test_dealing_out_one_case_is_scipys_fisher() -> None:
    from scipy import stats as scipy

    found = deal_out(Counter({((9, 10), (3, 10)): 1}))
    wanted = scipy.fisher_exact([[3, 7], [9, 1]], "less").pvalue
    assert found.below + found.equal == pytest.approx(float(wanted))


def test_five_thousand_cases_are_compared_at_once() -> None:
    draw = Draw(75)
    pairs = drawn(draw, Cell(5000, 1, 10, 0.8, 0.5))
    found = compare_runs(pairs)
    assert found.cases == 5000
    assert "dealt out within cases" in (found.method or "")


# Words


def test_a_difference_that_unequal_trials_can_make_is_not_called() -> None:
    """A model that is right 95 times of 100, asked once and then ten times."""
    pairs = [(Trials(1, 1), Trials(9, 10))] * 8 + [(Trials(1, 1), Trials(10, 10))] * 12
    found = compare_runs(pairs)
    assert found.interval is not None and found.interval[1] < 0
    assert (found.verdict, found.undecided) == ("cannot-tell", "trials")
    assert found.p_value is not None and found.p_value > 0.2
    assert comparison_words(found).startswith(
        "cannot tell: the runs have unequal trials, which can make such a difference; -4 points"
    )
    equal = compare_runs([(Trials(10, 10), b) for _, b in pairs])
    assert (equal.verdict, equal.undecided) == ("worse", None)


def test_a_large_difference_is_called_whatever_the_trials() -> None:
    found = compare_runs([(Trials(1, 1), Trials(4, 10))] * 20)
    assert (found.verdict, found.undecided) == ("worse", None)
    assert compare_runs([(b, a) for a, b in [(Trials(1, 1), Trials(4, 10))] * 20]).verdict == "better"
