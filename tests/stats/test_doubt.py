"""Doubted replies: wrong to right, right to wrong, and where it would lead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.stats.doubt import Doubted, number_of_flips, stationary_accuracy, transitions, turn_of_flip
from rejoinder.stats.intervals import wilson
from rejoinder.words.figures import transitions_words
from tests.kit import bounded
from tests.stats.simulated import Draw


def near(value: float) -> object:
    return pytest.approx(value, abs=5e-5)


def test_the_known_answer_of_the_balance() -> None:
    found = stationary_accuracy([(1, 1)] * 8 + [(0, 1)] * 12, [(1, 1)] * 3 + [(0, 1)] * 27)
    assert found == (near(0.7819), (near(0.5404), near(0.9162)))


def test_nothing_that_changed_has_no_balance() -> None:
    assert stationary_accuracy([(0, 10)], [(0, 30)]) is None
    found = transitions([Doubted(1, 0, 2, 0)] * 3)
    assert (found.stationary, found.stationary_interval, found.method) == (None, None, None)
    assert transitions([]).before.rate is None


def test_the_rates_of_doubted_replies() -> None:
    found = transitions(
        [Doubted(1, 1, 0, 0)] * 8 + [Doubted(1, 0, 0, 0)] * 12 + [Doubted(0, 0, 1, 1)] * 3 + [Doubted(0, 0, 1, 0)] * 27
    )
    assert (found.wrong_right.passed, found.wrong_right.of, found.wrong_right.interval) == (8, 20, wilson(8, 20))
    assert (found.right_wrong.passed, found.right_wrong.of) == (3, 30)
    assert (found.before.passed, found.after.passed, found.flips.passed) == (30, 35, 11)
    assert found.stationary == near(0.7819)
    assert transitions_words(found) == "wrong to right 40% (22 to 61), right to wrong 10% (3 to 26)"


some_doubted = st.builds(
    lambda wrong, turned, right, lost: Doubted(wrong, min(turned, wrong), right, min(lost, right)),
    *[st.integers(0, 5)] * 4,
)


@bounded(100)
@given(st.lists(some_doubted, max_size=12))
def test_the_books_close(cases: list[Doubted]) -> None:
    found = transitions(cases)
    assert found.after.passed == found.before.passed - found.right_wrong.passed + found.wrong_right.passed
    assert found.wrong_right.of + found.right_wrong.of == found.before.of
    assert found.flips.passed == found.right_wrong.passed + found.wrong_right.passed
    if found.stationary is not None and found.stationary_interval is not None:
        assert 0 < found.stationary_interval[0] < found.stationary < found.stationary_interval[1] < 1


@pytest.mark.parametrize(("up", "down"), [(0.4, 0.1), (0.2, 0.2), (0.1, 0.05)])
def test_the_interval_of_the_balance_covers(up: float, down: float) -> None:
    draw, rounds, held = Draw(51), 500, 0
    for _ in range(rounds):
        found = stationary_accuracy([(draw.passes(up, 1), 1) for _ in range(25)], [(draw.passes(down, 40), 40)])
        held += found is None or found[1][0] <= up / (up + down) <= found[1][1]
    assert held / rounds >= 0.91


def test_repeats_that_are_copies_widen_the_balance() -> None:
    apart = stationary_accuracy([(1, 1)] * 20 + [(0, 1)] * 30, [(1, 1)] * 10 + [(0, 1)] * 40)
    copies = stationary_accuracy([(5, 5)] * 4 + [(0, 5)] * 6, [(5, 5)] * 2 + [(0, 5)] * 8)
    assert apart is not None and copies is not None
    assert apart[0] == pytest.approx(copies[0])
    assert copies[1][0] < apart[1][0] < apart[1][1] < copies[1][1]


def test_copies_on_one_side_alone_widen_the_balance() -> None:
    many = [(1, 1)] * 10 + [(0, 1)] * 40
    apart, copies = ([(1, 1)] * 20 + [(0, 1)] * 30), [(5, 5)] * 4 + [(0, 5)] * 6
    for plain, wide in (
        (stationary_accuracy(apart, many), stationary_accuracy(copies, many)),
        (stationary_accuracy(many, apart), stationary_accuracy(many, copies)),
    ):
        assert plain is not None and wide is not None
        assert wide[1][0] < plain[1][0] - 0.01


@pytest.mark.parametrize(
    ("verdicts", "turn", "flips"),
    [([True, True, False, True], 3, 2), ([True], None, 0), ([False, True], 2, 1), ([], None, 0)],
)
def test_flips_of_a_conversation(verdicts: list[bool], turn: int | None, flips: int) -> None:
    assert (turn_of_flip(verdicts), number_of_flips(verdicts)) == (turn, flips)
