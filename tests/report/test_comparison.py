"""A comparison as text: within its width, inert, and with the verdict first and last."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.report.comparison import PLAIN, SIGNS, Marks, write_comparison
from rejoinder.report.problems import columns_of
from tests.comparison.sides import compared, results
from tests.comparison.test_comparing import conversation
from tests.kit import bounded
from tests.report.exports import OBEYED, check, hostile_texts, result, turn


@given(hostile_texts, st.integers(40, 200), st.sampled_from([PLAIN, SIGNS]))
@bounded(100)
def test_texts_of_others_stay_in_their_lines(text: str, width: int, marks: Marks) -> None:
    lost = {"status": "failed", "passed": False, "succeeded_on_turn": None}
    ended = turn(text + text[::-1] * 30, prompt=text, passed=False, checks=(check(False, check=text, name=text),))
    known = {"title": text, "tags": (text,), "suite": text, "file": text, "target": text, "variant": text}
    a, b = [result(text, turn("yes"), **known)], [result(text, ended, **known, **lost), result("new", **known)]
    for every in (False, True):
        lines = list(write_comparison(compared(a, b), width=width, marks=marks, every=every))
        assert not any("\n" in line or OBEYED.search(line) for line in lines)
        assert len(lines) < 40


@pytest.mark.parametrize("width", [40, 60, 80, 100, 110, 160])
def test_replies_keep_to_the_width_and_to_five_rows(width: int) -> None:
    replies = ("漢字 " * 300, "one word\n" * 200 + "x" * 500)
    a, b = (
        conversation("a", ("q", reply, good), passed=good) for reply, good in zip(replies, (True, False), strict=True)
    )
    lines = list(write_comparison(compared([a], [b]), width=width))
    start = next(place for place, line in enumerate(lines) if line.startswith("  A < "))
    end = lines.index("", start)
    assert all(columns_of(line) <= width for line in lines[start:end])
    assert end - start == (5 if width >= 110 else 10)
    assert any("more lines" in line for line in lines[start:end])


def test_wide_screens_have_both_replies_side_by_side() -> None:
    a, b = conversation("a", ("q", "yes", True), passed=True), conversation("a", ("q", "no", False), passed=False)
    lines = list(write_comparison(compared([a], [b]), width=120))
    assert any(line.startswith("  A < yes ") and line.endswith("B < no") for line in lines)


def test_the_table_of_a_narrow_screen_leaves_columns_out() -> None:
    found = compared(results({f"c{n}": "p" for n in range(30)}), results({f"c{n}": "pf"[n % 2] for n in range(30)}))
    for width in (60, 80, 120):
        lines = list(write_comparison(found, width=width))
        rows = [line for line in lines if line.startswith(("  in the end", "  first try"))]
        assert len(rows) == 2 and all(len(line) <= width for line in rows)
        assert all(line.endswith("worse") and "-50" in line for line in rows)


def test_the_verdict_stands_first_and_last() -> None:
    found = compared(results({f"c{n}": "p" for n in range(30)}), results({f"c{n}": "pf"[n % 2] for n in range(30)}))
    lines = list(write_comparison(found, marks=SIGNS))
    assert lines[0] == "✗ Worse. 15 of 30 cases broke, 0 were fixed; in the end 100% → 50%."
    assert lines[-1].startswith("✗ worse: -50 points (") and lines[-1].endswith("15 broke, 0 fixed of 30")


def test_an_empty_reply_and_none_are_told_apart() -> None:
    a, b = conversation("a", ("q", "", False), passed=False), conversation("a", ("q", "yes", True), passed=True)
    none = result("b", turn(None, passed=False, checks=()), status="failed", passed=False, succeeded_on_turn=None)
    lines = list(write_comparison(compared([a, none], [b, result("b")]), every=True))
    assert "  A < (empty reply)" in lines and "  A < (no reply)" in lines
