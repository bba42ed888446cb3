"""Figures in words."""

from __future__ import annotations

import pytest

from rejoinder.model.figures import Delta
from rejoinder.words.figures import change_words, typical_words


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [(10.0, 26.4, "+164%"), (499.0, 501.0, "+0.4%"), (1000.0, 996.0, "-0.4%"), (10_000.0, 10_001.0, "0%")],
)
def test_a_small_change_is_not_zero_with_a_sign(a: float, b: float, words: str) -> None:
    found = Delta(a, b, b - a, None, 0.0, None, "cannot-tell", 5, None)
    assert change_words(found) == words
    assert typical_words(found) == "cannot tell, typically 0%"
