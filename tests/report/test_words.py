"""Money, time and tokens: one rule each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.report.words import interval, money, money_span, rounded_up, seconds, span, tokens
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


def test_times_and_tokens() -> None:
    assert [seconds(one) for one in (0.34, 0.9999, 4.2, 42, 108, 3840)] == [
        *("340 ms", "1.0 s", "4.2 s", "42 s"),
        *("1 min 48 s", "1 h 04 min"),
    ]
    assert [tokens(one) for one in (1, 812, 21_040, 48_200, 1_200_000)] == [
        *("1 token", "812 tokens", "21k tokens", "48.2k tokens", "1.2M tokens"),
    ]
    assert tokens(48_213, whole=True) == "48,213 tokens"
    assert interval((0.521, 0.834)) == "52 to 83"
