"""Where words change: digits from 30 cases on, seconds without tenths from ten on, the ends of long texts."""

from __future__ import annotations

import pytest

from rejoinder.comparison.flips import cut
from rejoinder.report.words import seconds
from rejoinder.stats import percent


@pytest.mark.parametrize(("cases", "shown"), [(29, "93%"), (30, "93.4%"), (31, "93.4%")])
def test_a_rate_has_a_digit_from_thirty_cases_on(cases: int, shown: str) -> None:
    assert percent(0.934, cases, (0.9, 0.96)) == shown


@pytest.mark.parametrize(("duration", "shown"), [(9.94, "9.9 s"), (9.96, "10 s"), (9.949, "9.9 s"), (9.95, "10 s")])
def test_seconds_have_tenths_below_ten(duration: float, shown: str) -> None:
    assert seconds(duration) == shown


def test_a_long_text_keeps_three_quarters_of_its_beginning_and_one_of_its_end() -> None:
    text = "a" * 100 + "z" * 100
    assert cut(text, 100) == f"{'a' * 75} [... 100 characters left out ...] {'z' * 25}"
    assert cut(text[:100], 100) == text[:100]
