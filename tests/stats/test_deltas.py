"""Cost, time and tokens of two runs."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.model.figures import Delta
from rejoinder.stats.deltas import delta_of, settled
from rejoinder.words.numbers import number_words
from tests.kit import bounded

values = st.floats(0, 1000)


class Paired(list[tuple[float, float]]):
    """A value of each case in both runs, in memory."""

    def differences(self) -> list[float]:
        return sorted(after - before for before, after in self)

    def changes(self) -> list[float]:
        return sorted(after / before - 1 for before, after in self)


def paired_delta(pairs: Iterable[tuple[float, float]]) -> Delta:
    return delta_of(Paired((before, settled(before, after)) for before, after in pairs))


def test_a_delta_is_the_median_of_pairs() -> None:
    found = paired_delta([(1.0, 1.5), (2.0, 2.4), (1.0, 1.1), (4.0, 5.0), (2.0, 2.2), (1.0, 90.0), (1.0, 1.3)])
    assert found.difference == pytest.approx(0.4)
    assert found.interval == (pytest.approx(0.1), pytest.approx(89.0))
    assert found.change == pytest.approx(0.25)
    assert (found.a, found.b) == (pytest.approx(12 / 7), pytest.approx(103.5 / 7))
    assert (found.verdict, found.cases, found.method) == ("more", 7, "median of pairs, sign test")


@bounded(100)
@given(st.lists(st.tuples(values, values), max_size=20))
def test_swapped_runs_are_mirrored(pairs: list[tuple[float, float]]) -> None:
    there, back = paired_delta(pairs), paired_delta([(b, a) for a, b in pairs])
    mirrored = {"more": "less", "less": "more", "same": "same", "cannot-tell": "cannot-tell"}
    assert back.verdict == mirrored[there.verdict]
    if there.difference is not None and back.difference is not None:
        assert back.difference == pytest.approx(-there.difference)
    if there.interval is not None:
        assert back.interval == (-there.interval[1], -there.interval[0])
    assert (there.interval is None) == (len(pairs) < 6)


def test_what_cannot_be_told_is_said() -> None:
    assert paired_delta([]).verdict == "cannot-tell"
    assert paired_delta([(3.0, 3.0)] * 4).verdict == "same"
    few = paired_delta([(0.0, 1.0)] * 5)
    assert (few.verdict, few.interval, few.change) == ("cannot-tell", None, None)


def test_one_slow_reply_decides_nothing_and_a_planted_change_is_found() -> None:
    chance, alarms, found, rounds = random.Random(61), 0, 0, 400
    for _ in range(rounds):
        pairs = [(chance.lognormvariate(0, 1), chance.lognormvariate(0, 1)) for _ in range(30)]
        alarms += paired_delta([*pairs, (1.0, 1000.0)]).verdict != "cannot-tell"
        found += paired_delta([(a, a * chance.lognormvariate(0.3, 0.3)) for a, _ in pairs]).verdict == "more"
    assert alarms / rounds <= 0.06
    assert found / rounds >= 0.9


def test_numbers_in_words() -> None:
    assert [number_words(one) for one in (1.5, 0.01234, 1239.6, 0)] == ["1.5", "0.0123", "1,240", "0"]
    assert number_words(812, "tokens") == "812 tokens"
