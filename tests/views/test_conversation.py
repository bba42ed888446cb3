"""Any result has a view, and every layout shows the same facts of it."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from msgspec import structs

from rejoinder.model import Result
from rejoinder.model.clusters import repeated_turns
from rejoinder.report.conversation import UNICODE, write_block, write_conversation, write_facts
from rejoinder.report.styled import PLAIN, Form, plain_text
from rejoinder.server.pages.run_page import plain_conversation
from rejoinder.views.conversation import ConversationView, view_conversation
from rejoinder.views.course import broken_at, places_of
from rejoinder.views.transcript import write_deciding_turn, write_transcript
from rejoinder.views.turns import CheckView
from rejoinder.words.inert import to_bytes
from tests.kit import bounded
from tests.report.any_results import any_results, some_checks
from tests.report.exports import OBEYED, check, failed, result, turn
from tests.report.html_files import HtmlFile

SCREEN = Form(100, symbols=True, commands=True)


def checks_in(talk: ConversationView) -> list[CheckView]:
    """All of them, with those inside."""
    found, waiting = list[CheckView](), [*talk.checks, *(one for turn in talk.turns for one in turn.checks)]
    while waiting:
        found.append(waiting.pop())
        waiting += found[-1].children
    return found


def said_by_page(talk: ConversationView) -> HtmlFile:
    return HtmlFile(f"<div>{plain_conversation(talk)}</div>")


@bounded(150)
@given(any_results())
def test_any_result_has_a_view_that_every_layout_shows(one: Result) -> None:
    talk = view_conversation(one)
    assert [view.turn for view in talk.turns] == [turn.turn for turn in one.turns]
    assert talk.status == one.status
    rows = [*write_block(talk, "Eval 1", SCREEN), *write_facts(talk, SCREEN), *write_facts(talk, PLAIN)]
    assert not any(OBEYED.search(plain_text(row)) or "\n" in plain_text(row) for row in rows)
    assert not any(OBEYED.search(row) for row in write_transcript(talk))
    assert json.loads(to_bytes(talk))["row"]["word"] == talk.row.word
    said_by_page(talk)  # no text ends an element


@bounded(100)
@given(any_results())
def test_texts_are_raw_in_a_view(one: Result) -> None:
    """Layouts make them inert; a view that did would do it twice, or differently."""
    talk = view_conversation(one)
    assert [(view.prompt, view.response) for view in talk.turns] == [(turn.prompt, turn.response) for turn in one.turns]
    assert (talk.row.title, talk.row.case) == (one.title, one.id)
    assert [view.label for turn in talk.turns for view in turn.checks] == [
        check.check for turn in one.turns for check in turn.checks
    ]


@bounded(100)
@given(any_results())
def test_facts_of_turns_are_those_of_the_model(one: Result) -> None:
    talk, same, broken = view_conversation(one), repeated_turns(one.turns), broken_at(one)
    assert {view.turn: view.same_as for view in talk.turns if view.same_as is not None} == same
    assert talk.row.same_as == next(iter(same.values()), None)
    assert {view.turn for view in talk.turns if view.broke} == set(broken)


@bounded(150)
@given(any_results())
def test_a_score_is_text_only_where_it_says_more_than_the_verdict(one: Result) -> None:
    talk = view_conversation(one)
    for view in checks_in(talk):
        assert view.score == "" or re.fullmatch(r"(0\.\d\d|(under|over) 0\.\d\d)( of .+)?", view.score), view.score
        assert not view.score.startswith(("0.00", "1.00"))
    assert bool(talk.row.score) <= (one.score is not None)


@bounded(60)
@given(some_checks())
def test_a_score_of_a_check_is_told_if_it_is_a_part(one: object) -> None:
    talk = view_conversation(result("a", turn(checks=(one,))))  # type: ignore[arg-type]
    score = one.score  # type: ignore[attr-defined]
    assert bool(talk.turns[0].checks[0].score) == (score is not None and 0 < score < 1)


@bounded(120)
@given(any_results())
def test_terminal_text_and_page_tell_the_same(one: Result) -> None:
    """The status, the reasons, the turns with their labels, and the scores."""
    talk = view_conversation(one)
    plain = list(write_conversation(talk, "Eval 1"))
    screen = [plain_text(row) for row in write_block(talk, "Eval 1", PLAIN)]
    page = said_by_page(talk)
    for rows in (plain, screen):
        [overall] = [row for row in rows if row.startswith("  Overall: ")]
        assert overall.startswith(f"  Overall: {UNICODE[one.status]}")
        assert len([row for row in rows if re.match(r" {2,4}Turn \d+:", row)]) >= len(one.turns)
    assert page.of("p")[0] == talk.row.word
    assert len(page.of("h2")) == len(one.turns) + bool(talk.checks)
    facts = "\n".join(plain_text(row) for row in write_facts(talk, PLAIN))
    assert facts.count("why: ") >= len(talk.reasons) * (one.status == "failed")
    shown = page.of("li")
    for view in (view for each in talk.turns for view in each.checks if view.score):
        assert any(f"(score {view.score})" in item for item in shown)


def test_each_status_has_its_word_everywhere() -> None:
    for one, word, sign in (
        (result(), "Passed on the first try", "PASS"),
        (failed(), "Failed after 1 turn", "FAIL"),
        (result(status="skipped", passed=False, turns=()), "Skipped", "SKIPPED"),
    ):
        talk = view_conversation(one)
        assert said_by_page(talk).of("p")[0] == talk.row.word == word
        assert any(sign in row for row in write_conversation(talk, "Eval 1") if "Overall" in row)


# The part of a reply that a reason is about


@pytest.mark.parametrize(
    ("kind", "label", "reply", "near"),
    [
        ("contains", "contains 30 days", "You have 14 days.", "days"),
        ("icontains", "icontains REFUND now", "No refund is due.", "refund"),
        ("contains", "contains 30 days", "Nothing of it.", None),
        ("llm_judge", "llm_judge is polite", "is it polite?", None),
        ("regex", "regex days", "14 days", None),
    ],
)
def test_the_nearest_miss_is_a_word_that_was_looked_for(kind: str, label: str, reply: str, near: str | None) -> None:
    found = places_of(check(False, check=label, kind=kind), reply)
    assert [reply[low:high] for low, high in found] == ([] if near is None else [near])
    inside = check(False, check="or", kind="or", children=(check(False, check=label, kind=kind),))
    assert places_of(inside, reply) == found


def test_only_an_unusual_stop_is_told() -> None:
    notes = [
        view_conversation(result("a", turn("Yes.", stop_reason=stop))).turns[0].notes
        for stop in ("end_turn", "max_turns")
    ]
    assert notes == [(), ("the agent stopped: max_turns",)]


def test_a_reason_quotes_what_was_said() -> None:
    reply = "You have 14 days to send it back."
    lost = structs.replace(
        failed(), turns=(turn(reply, passed=False, checks=(check(False, check="contains 30 days", kind="contains"),)),)
    )
    [reason] = view_conversation(lost).reasons
    assert (reason.said, reason.span) == (reply, (12, 16))
    assert reply in said_by_page(view_conversation(lost)).of("q")


@pytest.mark.parametrize(("reply", "same"), [("I am \n sorry.", 1), ("I am glad.", None), ("", None)])
def test_a_control_that_repeats_the_first_reply_says_so(reply: str, same: int | None) -> None:
    first = turn("I am sorry.", passed=False)
    control = view_conversation(result("c", first, turn(number=2), control=turn(reply))).control
    assert control is not None
    assert control.same_as == same


def test_of_a_repeated_reply_that_decided_three_lines_are_quoted() -> None:
    reply = "\n".join(f"line {number}" for number in range(20))
    turns = [turn(reply, number, passed=False, checks=(check(False),)) for number in (1, 2)]
    lost = result("c", *turns, status="failed", passed=False, score=0.0, succeeded_on_turn=None)
    shown = "\n".join(write_deciding_turn(view_conversation(lost), 2_000))
    assert "same words as turn 1" in shown
    assert "line 2\n  | …" in shown and "line 3" not in shown
