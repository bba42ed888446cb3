"""Money, time and tokens: one rule each."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.words.numbers import (
    age,
    ago,
    cost_words,
    in_seconds,
    money,
    money_against,
    money_alike,
    money_in_markdown,
    money_span,
    price,
    rate_range,
    rounded_up,
    seconds,
    seconds_alike,
    span,
    tokens,
    when,
)
from tests.kit import bounded


@pytest.mark.parametrize(
    ("amount", "told"),
    [
        (None, "no price"),
        (0, "$0"),
        (0.00002, "under $0.0001"),
        (0.0006, "$0.0006"),
        (0.00123, "$0.0012"),
        (0.0312, "$0.031"),
        (0.2, "$0.20"),
        (0.214, "$0.21"),
        (0.9996, "$1.00"),
        (12.5, "$12.50"),
        (1234.5, "$1,234.50"),
    ],
)
def test_money(amount: float | None, told: str) -> None:
    assert money(amount) == told


@pytest.mark.parametrize(
    ("amounts", "told"),
    [
        ((0.0123, 0.012), ["$0.0123", "$0.0120"]),
        ((0.01, 0.01), ["$0.01", "$0.01"]),
        ((12.5, 0.0006), ["$12.5000", "$0.0006"]),
        ((0.00003, 0), ["$0.00003", "$0"]),
        ((1e-12, 3), ["under $0.000000001", "$3.000000000"]),
    ],
)
def test_money_beside_money(amounts: tuple[float, ...], told: list[str]) -> None:
    assert money_alike(*amounts) == told


def test_money_against_its_bound_and_beside_its_parts() -> None:
    assert money_against(0.1234, 1.5) == ("$0.12", "$1.50")
    assert money_against(0.1204, 0.12) == ("$0.1204", "$0.1200")
    assert money_against(0.12, 0.12) == ("$0.12", "$0.12")
    assert (
        cost_words(0.00195, [(0.00045, "input"), (0.0015, "by judges")])
        == "$0.00195 ($0.00045 input, $0.00150 by judges)"
    )
    assert cost_words(0.2, []) == "$0.20"
    assert money_in_markdown("$0.031") == "0.031 USD"
    assert [price(one) for one in (None, 3, 0.15, 0.075)] == ["-", "3.00", "0.15", "0.075"]


AMOUNTS = st.floats(1e-7, 1e7)


def amount_of(words: str) -> float:
    return float(words.removeprefix("under ").removeprefix("$").replace(",", ""))


@bounded(500)
@given(AMOUNTS, AMOUNTS)
def test_money_keeps_its_order_of_magnitude_and_its_order(a: float, b: float) -> None:
    told = amount_of(money(a))
    assert told == pytest.approx(a, rel=0.051) if a >= 0.0001 else told == 0.0001
    if a <= b:
        assert told <= amount_of(money(b))
        low, high = map(amount_of, money_alike(a, b))
        assert low < high or b - a < 1e-8 * b + 1e-9
        low, high = map(amount_of, money_against(a, b))
        assert low <= high


def test_least_and_most() -> None:
    assert money_span(0.18, 0.64) == "$0.18 to $0.64"
    assert money_span(0.18, None) == "$0.18 or more"
    assert money_span(0, 0) == "$0"
    assert money_span(None, 1) == "no price"
    assert (span("30", "74"), span("30", "30")) == ("30 to 74", "30")


@bounded(200)
@given(st.floats(1e-6, 1e6))
def test_a_budget_is_never_below_what_it_is_for(amount: float) -> None:
    assert float(rounded_up(amount)) >= amount * (1 - 1e-6)
    assert "e" not in rounded_up(amount)


def test_a_budget_is_short() -> None:
    assert [rounded_up(one) for one in (0.643, 0.64, 12.01, 1234, 0.00041)] == ["0.65", "0.64", "13", "1300", "0.00041"]


@bounded(500)
@given(st.floats(0.0005, 1e7), st.floats(0.0005, 1e7))
def test_a_time_keeps_its_order_of_magnitude_and_its_order(a: float, b: float) -> None:
    assert length_of(seconds(a)) == pytest.approx(a, rel=0.06, abs=0.0006)
    assert (a <= b) == (length_of(seconds(a)) <= length_of(seconds(b))) or seconds(a) == seconds(b)
    assert re.fullmatch(
        r"[0-9]{1,3} ms|[0-9](\.[0-9])? s|[1-5][0-9] s|[0-9]+ min [0-5][0-9] s|[0-9,]+ h [0-5][0-9] min", seconds(a)
    )


def length_of(words: str) -> float:
    parts = words.replace(",", "").split()
    units = {"ms": 0.001, "s": 1, "min": 60, "h": 3600}
    return sum(float(number) * units[unit] for number, unit in zip(parts[::2], parts[1::2], strict=True))


def test_times_beside_each_other_limits_and_ages() -> None:
    assert seconds_alike(1.2, 1.3) == ["1.2 s", "1.3 s"]
    assert seconds_alike(1.21, 1.24) == ["1.21 s", "1.24 s"]
    assert seconds_alike(119.8, 120.1) == ["120 s", "120 s"]
    assert seconds_alike(2, 2) == ["2.0 s", "2.0 s"]
    assert [in_seconds(one) for one in (0.5, 90, 300.0)] == ["0.5 s", "90 s", "300 s"]
    assert [age(one) for one in (-5, 59, 60, 3599, 3600, 86399, 86400, 400_000)] == [
        *("now", "now", "1 min", "59 min", "1 h", "23 h", "1 day", "4 days"),
    ]
    assert [ago(one) for one in (3, 300)] == ["just now", "5 min ago"]
    assert when("2026-11-15T16:47:12Z") == "2026-11-15 16:47 UTC"


def test_times_and_tokens() -> None:
    assert [seconds(one) for one in (0.34, 0.9999, 4.2, 42, 108, 3840)] == [
        *("340 ms", "1.0 s", "4.2 s", "42 s"),
        *("1 min 48 s", "1 h 04 min"),
    ]
    assert [tokens(one) for one in (1, 812, 21_040, 48_200, 1_200_000)] == [
        *("1 token", "812 tokens", "21k tokens", "48.2k tokens", "1.2M tokens"),
    ]
    assert tokens(48_213, whole=True) == "48,213 tokens"
    assert rate_range((0.521, 0.834)) == "52 to 83"
