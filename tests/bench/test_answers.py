"""Answers to MINT's tasks: found in replies, and compared."""

from __future__ import annotations

from typing import Any

import pytest

from rejoinder.bench.answers import answer_of, is_solved


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("So.\nSolution: 6 miles per hour.", "6 miles per hour"),
        ("**Solution:** $\\boxed{36}$\nThat is all.", "36"),
        ("Solution: 5? No.\nsolution : `7`", "7"),
        ("It is 8.\nI think 9", "I think 9"),
        ("", ""),
        ("Solution:", ""),
    ],
)
def test_the_answer_of_a_reply(reply: str, answer: str) -> None:
    assert answer_of(reply) == answer


@pytest.mark.parametrize(
    ("kind", "reference", "right", "wrong"),
    [
        ("number", 1200.0, ["1,200 dollars", "$1.2e3", "1.2 x 10^3", "2400/2", "1210"], ["120", "none", "", "1/0"]),
        ("number", 0.0, ["0", "-0.0"], ["0.1"]),
        ("number", -108.0, ["x = -108"], ["108"]),
        ("whole number", 3, ["3", "about 3.2"], ["4", "9" * 400]),
        ("numbers", [0, 5], ["[0, 5]", "5 and 0"], ["[0, 5, 5]", "0"]),
        ("choice", "c", ["c", "C) 18107", "(c)"], ["cat", "b", "the third"]),
        ("truth", False, ["False", "No, it is not"], ["True", "perhaps", "yes, no"]),
        ("text", "Brooklyn, New York", ["It is brooklyn, new york"], ["New York"]),
    ],
)
def test_an_answer_is_right_or_wrong(kind: str, reference: Any, right: list[str], wrong: list[str]) -> None:
    assert [is_solved(f"Solution: {text}", kind, reference) for text in right] == [True] * len(right)
    assert [is_solved(f"Solution: {text}", kind, reference) for text in wrong] == [False] * len(wrong)
