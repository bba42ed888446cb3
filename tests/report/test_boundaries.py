"""Where words change: digits from 30 cases on, seconds without tenths from ten on, the ends of long texts."""

from __future__ import annotations

import re

import pytest

from rejoinder.words.numbers import both_ends, money, percent, score_words, seconds, thousands


@pytest.mark.parametrize(("cases", "shown"), [(29, "93%"), (30, "93.4%"), (31, "93.4%")])
def test_a_rate_has_a_digit_from_thirty_cases_on(cases: int, shown: str) -> None:
    assert percent(0.934, cases, (0.9, 0.96)) == shown


@pytest.mark.parametrize(("duration", "shown"), [(9.94, "9.9 s"), (9.96, "10 s"), (9.949, "9.9 s"), (9.95, "10 s")])
def test_seconds_have_tenths_below_ten(duration: float, shown: str) -> None:
    assert seconds(duration) == shown


def test_a_long_text_keeps_four_fifths_of_its_beginning_and_one_of_its_end() -> None:
    text = "a" * 100 + "z" * 100
    assert both_ends(text, 100) == f"{'a' * 80} [... 100 characters left out ...] {'z' * 20}"
    assert both_ends(text[:100], 100) == text[:100]


BEYOND = re.compile(r"\b(60 s|60 min|1,?000 ms|1,?000(\.0)?k)\b|-")
"""A number that has reached the next unit, or is below zero."""


def edges(*values: float) -> list[float]:
    """Each value, and the numbers just below and above it."""
    steps = (0.0, 1e-9, 1e-6, 1e-4, 1e-3, 0.0005, 0.004, 0.005, 0.05, 0.4, 0.5, 0.6, 1.0)
    return sorted({max(0.0, value + sign * step) for value in values for step in steps for sign in (-1, 1)})


def test_no_time_reaches_its_next_unit() -> None:
    """`1 min 60 s` is `2 min 00 s`."""
    hours = (part * 3600 + minute * 60 for part in (0, 1, 2, 23, 24, 1000) for minute in (0, 1, 2, 29, 59, 60))
    durations = edges(0.0, 0.9995, 1, 9.95, 10, 59.5, 60, 119.5, 120, 3599.5, 3600, *hours)
    for duration in durations:
        assert not BEYOND.search(seconds(duration)), (duration, seconds(duration))
    assert [seconds(one) for one in (119.5, 119.49, 3599.6, 59.6, 0.99949, 0.9996)] == [
        *("2 min 00 s", "1 min 59 s", "1 h 00 min", "1 min 00 s", "999 ms", "1.0 s"),
    ]


def test_times_grow_with_their_words() -> None:
    """Nothing that is longer reads as shorter."""
    unit = {"ms": 0.001, "s": 1, "min": 60, "h": 3600}
    told = [seconds(duration).replace(",", "") for duration in edges(*(2**power / 8 for power in range(20)))]
    values = [sum(float(n) * unit[u] for n, u in re.findall(r"([\d.]+) (ms|s|min|h)", text)) for text in told]
    assert values == sorted(values)


def test_no_amount_reaches_its_next_unit() -> None:
    for power in range(-9, 7):
        for amount in edges(10.0**power, 9.995 * 10.0**power, 9.95 * 10.0**power):
            text = money(amount)
            assert re.fullmatch(r"\$0|under \$0\.0001|\$\d{1,3}(,\d{3})*\.\d{2,9}", text), (amount, text)
            assert (text == "$0") == (amount == 0)


@pytest.mark.parametrize("number", [999, 1000, 999_949, 999_950, 999_999, 1_000_000])
def test_no_number_of_tokens_reaches_its_next_unit(number: int) -> None:
    assert not BEYOND.search(thousands(number))


def test_a_part_of_a_score_never_reads_as_none_or_all() -> None:
    for value in (0.001, 0.0049, 0.005, 0.5, 0.9949, 0.995, 0.9999):
        assert score_words(value) not in ("0.00", "1.00")
    assert [score_words(value) for value in (0, 0.001, 0.667, 0.9999, 1)] == [
        *("0.00", "under 0.01", "0.67", "over 0.99", "1.00"),
    ]
