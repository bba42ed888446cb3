"""Planned, doubted and simulated conversations: what reports say of them, and why they did not pass."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from msgspec import structs

from rejoinder.model import CheckResult, Result, StepResult
from rejoinder.report.conversation import write_conversation
from rejoinder.report.course_rows import write_course
from rejoinder.report.ending import write_ending
from rejoinder.report.failure import write_failure
from rejoinder.report.styled import PLAIN, Form, Line, plain_text
from rejoinder.views.conversation import view_conversation
from rejoinder.views.course import (
    against,
    caved_at,
    doubt_words,
    not_sent,
    recovery_words,
    turn_to_change,
    turn_words,
)
from rejoinder.views.transcript import reasons_of
from rejoinder.words.checks import described
from tests.report.courses import ASK, LOST, caved, failed_as_a_whole, failed_in_step, said, spoilt
from tests.report.exports import check, made_run, result, turn, written

SCREEN = Form(80, symbols=True, commands=True)
NOT_THERE = 'icontains "four": the reply does not contain it'


def texts(rows: Any) -> list[str]:
    return [plain_text(row) for row in rows]


def went_on(**more: Any) -> Result:
    """Step 2 of 3 failed, and the conversation went on."""
    turns = (
        ASK,
        said(2, "Four.", "For two.", "four", passed=False, step=2, name="party"),
        said(3, "Cancel.", "Done.", "done", step=3, name="cancel"),
    )
    ways = (("ask", "passed"), ("party", "failed"), ("cancel", "passed"))
    steps = tuple(StepResult(number, name, way, 1.0) for number, (name, way) in enumerate(ways, 1))  # type: ignore[arg-type]
    return result("goes-on", *turns, steps=steps, **{**LOST, **more})


def test_the_step_that_failed_is_the_reason_even_where_the_last_turn_passed() -> None:
    assert list(reasons_of(went_on())) == [f"step 2 of 3, party: {NOT_THERE}"]
    rows = texts(write_failure(went_on(), SCREEN, ""))
    assert rows[1:] == [
        f"  step 2 of 3, party: {NOT_THERE}",
        "  > Four.",
        "  < For two.",
        "  steps: ✓ ask  ✗ party  ✓ cancel",
    ]
    assert turn_to_change(went_on()) == 2


def test_planned_turns_that_were_never_sent_are_a_reason() -> None:
    steps = (StepResult(1, "ask", "passed", 1.0), StepResult(2, None, "skipped", 0.0))
    cut = result("cut", ASK, steps=steps, **LOST)
    assert list(reasons_of(cut)) == ["step 2 of 2: not sent: the conversation ended before"]
    assert not_sent(cut) == "Step 2 of 2: not sent, because the conversation ended before"
    low = structs.replace(cut, steps=(steps[0],), score=0.25)
    assert list(reasons_of(low)) == ["score 0.25: the steps together fall short"]


def test_a_conversation_check_is_a_reason_with_the_turn_that_decided() -> None:
    [one] = against(failed_as_a_whole())
    assert (one.where, one.what, one.why) == ("conversation", 'never icontains "sorry"', "turn 2 does")
    assert one.turn is not None and one.turn.turn == 2
    evidence = [piece.text for row in write_failure(failed_as_a_whole(), SCREEN, "") for piece in row]
    assert "sorry" in evidence, "underlined in the reply of turn 2, apart from its other words"
    assert turn_to_change(failed_as_a_whole()) == 2


@pytest.mark.parametrize(
    ("kind", "children", "decided"),
    [
        ("always", [("turn 1", True), ("turn 2", False)], 2),
        ("after", [("turn 1", True), ("turn 2", False), ("turn 3", False)], 1),
        ("before", [("turn 1", False), ("turn 1", False), ("turn 2", True)], 2),
        ("always", [("step 1", True), ("step 2", False)], 3),
        ("by_turn", [("turn 1", False)], None),
        ("never", [("turn 9", True)], None),
        ("never", [("of a hostile file", True)], None),
        ("never", [], None),
    ],
)
def test_the_turn_that_decided_a_rule_over_time(
    kind: str, children: list[tuple[str, bool]], decided: int | None
) -> None:
    inner = tuple(check(passed, name=name) for name, passed in children)
    over = check(False, check=kind, kind=kind, children=inner)
    turns = (said(1, "a", "b", "c"), said(2, "a", "b", "c", depth=0), said(3, "a", "b", "c", depth=1))
    [one] = against(result("x", *turns, conversation_checks=(over,), **LOST))
    assert (one.turn.turn if one.turn is not None else None) == decided


def test_rules_over_time_are_called_as_they_are_read() -> None:
    def rule(kind: str, *inner: str) -> CheckResult:
        return check(
            check=kind, kind=kind, children=tuple(check(check=f"contains {one}", kind="contains") for one in inner)
        )

    assert described(rule("never", "a", "a", "a")) == 'never contains "a"'
    assert described(rule("after", "a", "b")) == 'after contains "a", contains "b"'
    assert described(rule("before", "b", "a")) == 'contains "a" before contains "b"'
    assert described(rule("before", "b")) == 'before contains "b"'


def test_a_negated_check_is_called_by_what_it_negates() -> None:
    parts = [check(check=f"contains {one}", kind="contains", reason="contains it") for one in "abcde"]
    no = check(False, check="not", kind="not", reason="contains a: contains it", children=(parts[0],))
    assert described(no) == 'not contains "a"'
    [one] = against(result("x", turn("a", passed=False, checks=(no,)), **LOST))
    assert (one.what, one.why) == ('not contains "a"', "contains it")
    either = check(check="or", kind="or", children=tuple(parts[:2]))
    assert described(structs.replace(no, children=(either,))) == 'not (contains "a" or contains "b")'
    all_of = check(check="and", kind="and", children=tuple(parts))
    many = 'not (contains "a" and contains "b" and contains "c" and 2 more)'
    assert described(structs.replace(no, children=(all_of,))) == many
    assert described(check(False, check="not", kind="not")) == "not"


def test_a_turn_says_what_it_is_and_an_ordinary_one_nothing() -> None:
    planned, simulated = failed_in_step(), spoilt()
    assert [turn_words(turn, planned) for turn in planned.turns] == [
        "step 1 of 4, ask",
        "step 2 of 4, party",
        "follow-up, because icontains failed",
    ]
    assert [turn_words(turn, simulated) for turn in simulated.turns] == ["user, opening", "user", "user"]
    assert not any(turn_words(turn, caved()) for turn in caved().turns)
    headings = [line for line in write_conversation(view_conversation(caved()), "Eval 1") if line.startswith("  Turn")]
    assert headings[:3] == ["  Turn 1:", "  Turn 2:", "  Turn 3:"]


def test_one_turn_of_a_plan_is_shown_alone() -> None:
    assert list(write_conversation(view_conversation(failed_as_a_whole()), "Eval 1", turn=2))[1:7] == [
        "  Turn 2: step 2 of 3, party",
        "    Prompt: Four, at eight.",
        "    Response: I am sorry, four is all we have.",
        '    ✅ PASS icontains "four"',
        '    ❌ FAIL Conversation: never icontains "sorry": turn 2 does',
        "  Overall: ❌ FAIL (after 3 turns)",
    ]


def doubted(*rights: bool) -> Result:
    turns = [
        turn("x", number, passed=right, doubts=number > 1, checks=(check(right),))
        for number, right in enumerate(rights, 1)
    ]
    ended = {} if rights[-1] else LOST
    return result("sure", *turns, **ended)


@pytest.mark.parametrize(
    ("rights", "words"),
    [
        ((True, True, True), "right in all 3 turns: held"),
        ((True, False, False), "right, then wrong at turn 2: caved"),
        ((True, False, True, False), "right, then wrong at turn 4: caved"),
        ((True, False, True), "right, wrong at turn 2, right again at turn 3: wavered"),
        ((False, False, True), "wrong, then right at turn 3: recovered"),
        ((False, True, False), "wrong at first and at last"),
    ],
)
def test_what_came_of_doubts(rights: tuple[bool, ...], words: str) -> None:
    one = doubted(*rights)
    assert doubt_words(one) == words
    assert (caved_at(one) is not None) == words.endswith("caved")
    assert f"doubt: {words}" in texts(write_course(view_conversation(one), PLAIN))


def test_the_step_that_failed_first_is_shown_not_the_one_that_caved_later() -> None:
    turns = (
        said(1, "One?", "x", "four", passed=False, step=1, name="one"),
        said(2, "Two?", "2", "2", step=2, name="two"),
        said(3, "Sure?", "3", "2", passed=False, step=2, name="two", depth=1, doubts=True),
    )
    steps = (StepResult(1, "one", "failed", 0.0), StepResult(2, "two", "failed", 0.0))
    lost = result("both", *turns, steps=steps, name="Both", title="Both", **LOST)
    assert texts(write_failure(lost, SCREEN, ""))[1:] == [
        f"  step 1 of 2, one: {NOT_THERE}",
        '  step 2 of 2, two: icontains "2": the reply does not contain it',
        "  > One?",
        "  < x",
        "  steps: ✗ one  ✗ two",
        "  doubt: right, then wrong at turn 3: caved",
    ]
    caved_there = structs.replace(lost, steps=(StepResult(1, "one", "passed", 1.0), steps[1]))
    assert texts(write_failure(caved_there, SCREEN, ""))[2:6] == ["  > Two?", "  < 2", "    > Sure?", "    < 3"]


def test_a_conversation_that_failed_as_a_whole_has_not_caved() -> None:
    over = check(False, check="never x", kind="never")
    held = structs.replace(doubted(True, True), status="failed", passed=False, conversation_checks=(over,))
    assert caved_at(held) is None


def test_a_recovered_step_is_named_with_its_turn() -> None:
    turns = (
        said(1, "a", "b", "c", passed=False, step=1, name="ask"),
        said(2, "again", "c", "c", step=1, name="ask", depth=1),
        said(3, "next", "c", "c", step=2, name="bill"),
    )
    steps = (StepResult(1, "ask", "recovered", 1.0), StepResult(2, "bill", "passed", 1.0))
    one = result("steps", *turns, steps=steps, succeeded_on_turn=3)
    assert recovery_words(one) == ("turn 2", 'step 1 of 2, ask, after icontains "c" failed')
    assert texts(write_ending(made_run([one]), (), SCREEN))[0].startswith("↻ steps  turn 2  step 1 of 2, ask, after ")


def test_a_spoilt_conversation_is_told_and_is_no_failure() -> None:
    one = structs.replace(spoilt(), status="failed", passed=False)
    rows = texts(write_ending(made_run([one, result("ok")]), (), SCREEN))
    assert rows[0].startswith("! return  invalid, not counted: leaked at turn 3: it gives the answer")
    assert not any(row.startswith("✗") for row in rows)
    assert rows[-1].startswith("! 1 passed of 1, 1 case not measured")


def test_a_user_that_no_one_audited_is_never_clean() -> None:
    user = spoilt().user
    assert user is not None
    ways = {None: "clean", "not audited": "not audited"}
    for found, words in ways.items():
        one = structs.replace(spoilt(), user=structs.replace(user, spoilt=found, stopped_by=None))
        assert texts(write_course(view_conversation(one), PLAIN)) == [
            "user: guest, broken off after 3 turns",
            f"audit: {words}",
        ]


def test_many_steps_are_counted() -> None:
    steps = tuple(
        StepResult(number, f"s{number}", "passed" if number < 20 else "failed", 1.0) for number in range(1, 21)
    )
    [row] = texts(write_course(view_conversation(result("long", steps=steps)), SCREEN))
    assert row == "steps: ✗ s20, 19 passed, 1 failed of 20"


def exported() -> dict[str, str]:
    whole = structs.replace(failed_as_a_whole(), condition="sharded")
    run = made_run([failed_in_step(), whole, spoilt()])
    return {name: written(name, run) for name in ("junit", "ctrf", "markdown", "csv", "toon", "otlp", "inspect")}


def test_every_export_says_why_and_how_far_a_plan_came() -> None:
    found = exported()
    step, whole = "step 2 of 4, party: icontains", "conversation: never icontains"
    for name in ("junit", "ctrf", "markdown", "csv", "inspect"):
        assert step in found[name] and whole in found[name], name
    for name in ("junit", "ctrf", "markdown"):
        assert "Steps 3 to 4 of 4 (cancel, bill): not sent, because step 2 failed" in found[name], name
    for name in found:
        assert "it gives the answer away" in found[name], name
        assert "sharded" in found[name], name
    tests = json.loads(found["ctrf"])["results"]["tests"]
    assert [one["status"] for one in tests] == ["failed", "failed", "skipped"]
    assert [one["status"] for one in tests[0]["steps"]] == ["passed", "failed", "failed", "skipped", "skipped"]
    assert tests[2]["rawStatus"] == "spoilt"
    assert '<skipped message="invalid because its simulated user leaked at turn 3' in found["junit"]
    assert "### Spoilt" in found["markdown"] and "in quarantine" not in found["markdown"]
    rows = list(csv.DictReader(io.StringIO(found["csv"])))
    assert rows[0]["steps"] == "ask passed, party failed, cancel not sent, bill not sent"
    assert [row["stopped_by"] for row in rows] == ["", "", "word"]


def test_checks_of_the_whole_are_in_tables_and_spans_without_a_turn() -> None:
    found = exported()
    assert "2,null,never icontains sorry,failed,0,turn 2 does" in found["toon"]
    scores = json.loads(found["inspect"])["samples"][1]["scores"]["rejoinder"]["metadata"]["checks"]
    assert [one["check"] for one in scores if one["turn"] is None] == ["never icontains sorry", "contains four"]
    spans = json.loads(found["otlp"])["resourceSpans"][0]["scopeSpans"][0]["spans"]
    whole = [span for span in spans if "parentSpanId" not in span]
    assert len(whole[1]["events"]) == 2, "what a rule saw of single replies is no verdict on them"


def test_hostile_names_and_words_stay_in_their_lines() -> None:
    evil = "\x1b[2J\x1b]0;t\x07 ✗ 9 failed\n✗ forged\u202e" + "x" * 500
    party: dict[str, Any] = {"step": 1, "name": evil, "passed": False}
    one = result("evil", said(1, evil, evil, evil, **party), steps=(StepResult(1, evil, "failed", 0.0),), **LOST)
    rows: list[Line] = [*write_failure(one, SCREEN, ""), *write_course(view_conversation(one), SCREEN)]
    for row in texts(rows):
        assert "\x1b" not in row and "\u202e" not in row and len(row) <= 90
        assert not row.startswith("✗ forged")
