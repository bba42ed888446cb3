"""A comparison as lines: within its width, inert, and with the verdict first and last."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.model.comparisons import RunComparison
from rejoinder.report.comparison import sum_up, write_comparison, write_verdict
from rejoinder.report.problems import columns_of
from rejoinder.report.styled import PLAIN, Form, plain_text, width_of_line
from tests.comparison.sides import compared, conversation, results
from tests.kit import bounded
from tests.report.exports import OBEYED, check, hostile_texts, result, turn


def screen(width: int | None) -> Form:
    return Form(width, symbols=True, commands=True)


def shown(found: RunComparison, form: Form = PLAIN, *, every: bool = False) -> list[str]:
    return [plain_text(row) for row in write_comparison(found, form, every=every)]


def halved() -> RunComparison:
    return compared(results({f"c{n}": "p" for n in range(30)}), results({f"c{n}": "pf"[n % 2] for n in range(30)}))


@pytest.mark.slow
@given(hostile_texts, st.integers(40, 200), st.booleans())
@bounded(60)
def test_texts_of_others_stay_in_their_lines(text: str, width: int, symbols: bool) -> None:
    lost = {"status": "failed", "passed": False, "succeeded_on_turn": None}
    ended = turn(text + text[::-1] * 30, prompt=text, passed=False, checks=(check(False, check=text, name=text),))
    known = {"title": text, "tags": (text,), "suite": text, "file": text, "target": text, "variant": text}
    a, b = [result(text, turn("yes"), **known)], [result(text, ended, **known, **lost), result("new", **known)]
    found = compared(a, b)
    for form in (Form(width, symbols=symbols, commands=True), PLAIN):
        for every in (False, True):
            rows = list(write_comparison(found, form, every=every))
            lines = [plain_text(row) for row in rows]
            assert not any("\n" in line or OBEYED.search(line) for line in lines)
            assert form.width is None or all(width_of_line(row) <= width for row in rows)
            assert len(lines) < 70


@pytest.mark.parametrize("width", [40, 60, 80, 100, 110, 160])
def test_replies_keep_to_the_width_and_to_five_rows(width: int) -> None:
    replies = ("漢字 " * 300, "one word\n" * 200 + "x" * 500)
    a, b = (
        conversation("a", ("q", reply, good), passed=good) for reply, good in zip(replies, (True, False), strict=True)
    )
    lines = shown(compared([a], [b]), screen(width))
    start = next(place for place, line in enumerate(lines) if line.startswith("  A < "))
    end = lines.index("", start)
    assert all(columns_of(line) <= width for line in lines[start:end])
    assert end - start == (5 if width >= 110 else 10)
    assert any("more lines" in line for line in lines[start:end])


def test_wide_screens_have_both_replies_side_by_side() -> None:
    a, b = conversation("a", ("q", "yes", True), passed=True), conversation("a", ("q", "no", False), passed=False)
    found = compared([a], [b])
    assert any(line.startswith("  A < yes ") and line.endswith("B < no") for line in shown(found, screen(120)))
    assert "  A < yes" in shown(found, Form(120, commands=True)), "words are read one line after the other"


def test_the_table_of_a_narrow_screen_leaves_columns_out() -> None:
    for width in (60, 80, 120):
        rows = [
            line for line in shown(halved(), screen(width)) if line.startswith(("  final pass rate", "  first try"))
        ]
        assert len(rows) == 2 and all(len(line) <= width for line in rows)
        assert all(line.endswith("worse") and "-50" in line for line in rows)


@pytest.mark.slow
def test_the_counts_of_both_runs_leave_together() -> None:
    found = halved()
    for width in range(60, 120):
        [row] = [line for line in shown(found, screen(width)) if line.startswith("  final pass rate")]
        assert ("30 of 30" in row) == ("15 of 30" in row), row


def test_the_verdict_stands_first_and_last() -> None:
    lines = shown(halved(), Form(symbols=True))
    assert lines[0] == "✗ Worse. 15 of 30 cases broke, 0 were fixed; final pass rate 100% → 50%."
    assert lines[-1].startswith("✗ worse: -50 points (") and lines[-1].endswith("15 broke, 0 fixed of 30")
    assert [plain_text(row) for row in write_verdict(halved(), PLAIN)] == [lines[-1].removeprefix("✗ ")]


def test_how_cases_flipped_is_said_beside_the_sign() -> None:
    found = compared({"a": "f", "b": "f", "c": "p"}, {"a": "p", "b": "p", "c": "p"})
    assert "✓ fixed: a  b" in shown(found, screen(100))
    assert "fixed: a  b" in shown(found)


def test_the_line_of_two_variants_has_the_signs_of_its_form() -> None:
    assert sum_up(halved()).endswith("final pass rate 100% -> 50%.")
    assert sum_up(halved(), screen(100)).endswith("final pass rate 100% → 50%.")


def test_an_empty_reply_and_none_are_told_apart() -> None:
    a, b = conversation("a", ("q", "", False), passed=False), conversation("a", ("q", "yes", True), passed=True)
    none = result("b", turn(None, passed=False, checks=()), status="failed", passed=False, succeeded_on_turn=None)
    lines = shown(compared([a, none], [b, result("b")]), every=True)
    assert "  A < (empty reply)" in lines and "  A < (no reply)" in lines
