"""A whole conversation on a terminal: the words of the plain block, with roles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.model import Result, UsageResult
from rejoinder.report.conversation import ASCII, write_block, write_conversation, write_facts
from rejoinder.report.problems import printable_line
from rejoinder.report.styled import PLAIN, Form, Line, plain_text, width_of_line
from rejoinder.views.conversation import view_conversation
from tests.kit import bounded
from tests.report.exports import OBEYED, check, hostile, hostile_texts, in_error, mixed, result, turn

SCREEN = Form(100, symbols=True, commands=True)


def block(one: Result, form: Form = PLAIN, turn: int | None = None) -> list[Line]:
    return list(write_block(view_conversation(one), "Eval 1", form, turn=turn))


def roles(rows: list[Line], text: str) -> set[str]:
    return {piece.role for row in rows for piece in row if text in piece.text}


def lost() -> Result:
    reply = "Of course!\r\nYou get a voucher."
    place = reply.index("voucher")
    bad = check(False, check="not", kind="not", children=(check(True, spans=((place, place + 7),)),))
    bad = check(False, check="icontains voucher", kind="icontains", spans=((place, place + 7),), children=(bad,))
    ended = {"status": "failed", "passed": False, "score": 0.0, "succeeded_on_turn": None}
    first = turn("A voucher.", passed=False, prompt="Money back", checks=(check(False),))
    return result("refund", first, turn(reply, 2, passed=False, prompt="In\nmoney.", checks=(bad,)), **ended)


def test_headings_are_bold_labels_quiet_and_verdicts_coloured() -> None:
    rows = block(lost())
    assert roles(rows, "Eval 1: ") == roles(rows, "  Turn 2:") == roles(rows, "  Overall:") == {"name"}
    assert roles(rows, "    Prompt:") == roles(rows, "    Response: ") == {"quiet"}
    assert roles(rows, "❌ FAIL") == {"reason"}
    assert roles(rows, "Money back") == {"text"}


def test_a_screen_has_the_layout_of_the_failures_of_a_run() -> None:
    rows = block(lost(), SCREEN)
    title = rows[0]
    assert (title[0].text, title[0].role) == ("✗", "fail")
    assert plain_text(title).rstrip().endswith("failed after 2 turns")
    assert roles(rows, "  Turn 2:") == {"name"}
    assert roles(rows, "    > ") == roles(rows, "    < ") == {"quiet"}
    assert roles(rows, "    ✗") == {"reason"}


@pytest.mark.parametrize("form", [PLAIN, SCREEN])
def test_the_check_in_a_not_is_left_out(form: Form) -> None:
    """It would be read as a verdict of its own, and is the opposite."""
    inner = check(False, check="contains sorry", kind="contains")
    rows = block(result("a", turn("Fine.", checks=(check(check="not", kind="not", children=(inner,)),))), form)
    sign = {PLAIN: "✅ PASS", SCREEN: "✓"}[form]
    assert [plain_text(row) for row in rows if "sorry" in plain_text(row)] == [f'    {sign} not contains "sorry"']


def test_what_failed_checks_point_at_is_underlined() -> None:
    [row] = [row for row in block(lost()) if "You get" in plain_text(row)]
    assert [(piece.text, piece.role) for piece in row if piece.role == "evidence"] == [("voucher", "evidence")]
    passed = result("a", turn("A voucher.", checks=(check(True, spans=((2, 9),)),)))
    assert not roles(block(passed), "voucher") & {"evidence"}


def words_of(one: Result, only: int | None = None) -> list[str]:
    """The block as a pipe has it, without what the facts say."""
    lines = list(write_conversation(view_conversation(one), "Eval 1", turn=only))
    end = next(place for place, text in enumerate(lines) if text.startswith("  Overall: ")) + 1
    return [printable_line(text).replace("\t", " ").rstrip() for text in lines[:end]]


def same_words(one: Result, only: int | None = None) -> None:
    rows = block(one, turn=only)
    wanted = words_of(one, only)
    assert [plain_text(row) for row in rows][: len(wanted)] == wanted
    assert {piece.role for piece in rows[len(wanted) - 1] if "Overall:" in piece.text} == {"name"}


def test_the_words_are_those_of_the_plain_block() -> None:
    for one in (*mixed().results, lost(), in_error(), result("a", turn("x\r\r\ny\n\tz\n"))):
        same_words(one)
    same_words(lost(), only=2)


@bounded(60)
@given(hostile_texts, st.integers(40, 160))
def test_no_text_leaves_its_lines(text: str, width: int) -> None:
    for one in hostile(text).results:
        same_words(one)
        form = Form(width, symbols=True)
        for row in (*block(one, form), *write_facts(view_conversation(one), form)):
            assert not OBEYED.search(plain_text(row)) and "\n" not in plain_text(row)
            assert width_of_line(row) <= width


def facts(one: Result, form: Form) -> list[str]:
    return [plain_text(row) for row in write_facts(view_conversation(one), form)]


def test_the_facts_of_a_conversation() -> None:
    one = result("times", turn(), file="math.yaml", line=9, usage=UsageResult(1200, 14, 1214), cost=0.0002)
    assert facts(one, SCREEN) == ["math.yaml:9, on demo, 1 turn, 1.5 s, 1.2k tokens, $0.0002"]
    assert facts(one, PLAIN) == ["math.yaml:9, on demo, 1 turn, 1.5 s, 1,214 tokens, $0.0002"]
    narrow = Form(45, symbols=True)
    assert facts(one, narrow) == ["math.yaml:9, on demo, 1 turn, 1.5 s, $0.0002"]
    script = result("times", turn(model=None))
    assert facts(script, SCREEN) == ["suites/evals.yaml:12, on demo, 1 turn"]


def test_without_signs_there_are_words() -> None:
    rows = list(write_block(view_conversation(lost()), "Eval 1", PLAIN, signs=ASCII))
    assert roles(rows, "[x] FAIL") == {"reason"}


def test_a_reply_that_repeats_an_earlier_one_is_a_band_on_a_screen() -> None:
    """In a pipe it is written, and so it is where the turn is the only one that is shown."""
    wrong = (check(False),)
    turns = [turn("You have 14 days.", number, passed=False, checks=wrong) for number in (1, 2, 3)]
    talk = view_conversation(result("stubborn", *turns, status="failed", passed=False, succeeded_on_turn=None))
    screen = "\n".join(map(plain_text, write_block(talk, "Eval 1", SCREEN)))
    assert screen.count("You have 14 days.") == 1
    assert screen.count("< (same words as turn 1)") == 2
    assert "\n".join(write_conversation(talk, "Eval 1")).count("Response: You have 14 days.") == 3
    alone = "\n".join(map(plain_text, write_block(talk, "Eval 1", SCREEN, turn=3)))
    assert "< You have 14 days." in alone
