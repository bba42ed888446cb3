"""What the script of a page is told of a conversation: its row, its words, and which check asked for each follow-up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

import rejoinder
from rejoinder.model import ChatMessage, CheckResult, Quarantine, Result, ToolCall
from rejoinder.model.results import CutOffResult, ForkedFrom, UsageResult, check_at
from rejoinder.model.runs import SuiteOfRun
from rejoinder.report.page.columns import Index
from rejoinder.views.conversation import ConversationView, Note, view_conversation
from rejoinder.views.rows import OUTCOMES, Frame, frame_of, row_of
from rejoinder.views.turns import CheckView, TurnView
from rejoinder.words.inert import to_bytes
from rejoinder.words.numbers import money, seconds
from tests.kit import Project, Raw, case, follow, scripted
from tests.report.courses import caved, failed_as_a_whole, failed_in_step, spoilt
from tests.report.exports import check, failed, in_error, mixed, receipt, result, turn


def told(one: Result, frame: Frame | None = None) -> ConversationView:
    return view_conversation(one, row_of(one, 0, frame or Frame()))


def as_json(value: object) -> Any:
    return json.loads(to_bytes(value))


RECOVERED = result(
    "recovers",
    turn("100", passed=False, checks=(check(False, reason="not in the reply"),)),
    turn("105", 2, prompt="Again."),
    succeeded_on_turn=2,
)


# Rows


@pytest.mark.parametrize(
    ("taken_s", "words"),
    [(0.42, "420 ms"), (59.97, "1 min 00 s"), (119.7, "2 min 00 s"), (3725.0, "1 h 02 min")],
)
def test_a_row_has_its_time_and_cost_in_the_words_of_all_surfaces(taken_s: float, words: str) -> None:
    """Scripts of pages show these texts, and make none of their own."""
    row = row_of(structs.replace(result("a", structs.replace(turn(), duration_s=taken_s)), cost=0.1234), 0)
    assert (row.time, row.cost) == (seconds(taken_s), money(0.1234)) == (words, "$0.12")


def test_a_row_says_how_a_conversation_ended_and_why() -> None:
    rows = [row_of(one, at) for at, one in enumerate((result(), RECOVERED, failed(), in_error(message="HTTP\n500")))]
    assert [(row.at, row.outcome, row.why) for row in rows] == [
        (0, "first", ""),
        (1, "recovered", 'match "*105*": not in the reply'),
        (2, "failed", 'match "*105*": *105* is not in it'),
        (3, "error", "HTTP 500"),
    ]
    assert [row.turns for row in rows] == [1, 2, 1, 1]
    assert (rows[0].ms, rows[0].tokens, rows[0].dollars) == (1500, 25, 0.001)
    assert (rows[0].time, rows[0].used, rows[0].cost) == ("1.5 s", "25 tokens (20 in, 5 out)", "$0.001")
    assert [row.length for row in rows] == ["1 turn", "2 turns", "1 turn", "1 turn"]


def test_a_score_is_told_where_some_score_is_a_part() -> None:
    parts = turn(checks=(check(score=1.0, children=(check(score=0.6667),)),))
    assert [row_of(one, 0).score for one in (result(), failed(), in_error())] == ["", "", ""]
    assert [row_of(one, 0).score for one in (result("a", score=0.6667), result("b", parts))] == ["0.67", "1.00"]


def test_a_row_quotes_the_reply_around_the_evidence_or_the_nearest_miss() -> None:
    reply = f"{'Dear customer. ' * 30}You have 14 days to send it back. {'Kind regards. ' * 30}"
    found = reply.index("14")
    miss = check(False, check="contains 30 days", kind="contains")
    places = check(False, check="contains 30 days", kind="contains", spans=((found, found + 2),))
    for one, evidence in ((miss, "days"), (places, "14")):
        row = row_of(failed(turns=(turn(reply, passed=False, checks=(one,)),)), 0)
        assert row.span is not None
        assert row.said[slice(*row.span)] == evidence
        assert "You have 14 days" in row.said
        assert (row.said[:2], row.said[-2:]) == ("… ", " …")
        assert len(row.said) <= 164
    assert row_of(result(), 0).said == ""


def test_the_reply_to_a_follow_up_may_say_the_same_again() -> None:
    again = result("a", turn("no", passed=False), turn(" no\n", 2), turn("yes", 3), turn("no", 4))
    assert row_of(again, 0).same_as == 1
    assert [one.same_as for one in told(again).turns] == [None, 1, None, 1]
    assert row_of(RECOVERED, 0).same_as is None


def test_the_step_that_failed_is_named_before_its_check() -> None:
    assert row_of(failed_in_step(), 0).why.startswith("step 2 of 4, party: icontains")
    assert row_of(failed_as_a_whole(), 0).why == 'conversation: never icontains "sorry": turn 2 does'


def test_what_decides_nothing_says_why() -> None:
    apart = Quarantine("2026-12-31", "flaky since the new tokenizer")
    assert row_of(failed(quarantine=apart), 0, Frame("2026-11-16")).aside == (
        "in quarantine until 2026-12-31: flaky since the new tokenizer"
    )
    assert row_of(failed(quarantine=apart), 0, Frame("2026-12-31")).aside is None
    assert "invalid because its simulated user leaked at turn 3" in str(row_of(spoilt(), 0).aside)
    assert row_of(failed(), 0).aside is None


def test_suites_of_one_name_are_told_apart_by_their_files() -> None:
    same = receipt(
        suites=(SuiteOfRun("a/x.yaml", "desk"), SuiteOfRun("b/x.yaml", "desk"), SuiteOfRun("c.yaml", "other"))
    )
    frame = frame_of(same)
    assert row_of(result(suite="desk", file="a/x.yaml"), 0, frame).suite == "desk (a/x.yaml)"
    assert row_of(result(suite="desk", file="rows.csv", suite_file="b/x.yaml"), 0, frame).suite == "desk (b/x.yaml)"
    assert row_of(result(suite="other", file="c.yaml"), 0, frame).suite == "other"


def test_the_index_has_a_column_for_each_field_and_names_once() -> None:
    index = Index()
    rows = [row_of(one, at) for at, one in enumerate(mixed().results)]
    for place, row in enumerate(rows):
        index.add(row, place)
    columns = as_json(index.columns)
    assert {len(column) for column in columns.values()} == {len(rows)}
    for place, row in enumerate(rows):
        suite, name, title, tags = as_json(index.cases)[columns["case"][place]]
        assert (suite, name, title, tuple(tags)) == (row.suite, row.case, row.title, row.tags)
        assert index.targets[columns["target"][place]] == row.target
        assert OUTCOMES[columns["outcome"][place]] == row.outcome
        assert columns["variant"][place] == -1
        for name in ("word", "length", "time", "why"):
            assert index.texts[columns[name][place]] == getattr(row, name)
    assert len(index.texts) == len(set(index.texts))
    assert len(index.cases) == len({(row.suite, row.case) for row in rows})


# Conversations


def test_a_conversation_is_told_in_words() -> None:
    assert told(result()).row.word == "Passed on the first try"
    assert told(RECOVERED).row.word == "Recovered on turn 2"
    assert told(failed()).row.word == "Failed after 1 turn"
    assert told(in_error()).row.word == "Error on turn 1"
    assert told(result(status="skipped", passed=False)).row.word == "Skipped"


def test_the_reason_is_the_check_that_decided_and_the_turn_to_look_at() -> None:
    assert as_json(told(failed()).reasons[0]) == {
        "what": 'match "*105*"',
        "text": "*105* is not in it",
        "turn": 1,
        "said": "no",
    }
    assert as_json(told(RECOVERED).reasons[0]) == {
        "what": 'match "*105*"',
        "text": "not in the reply",
        "turn": 1,
        "said": "100",
    }
    two = failed()
    two = structs.replace(two, turns=(structs.replace(two.turns[0], checks=(check(False), check(), check(False))),))
    assert len(told(two).reasons) == 2
    assert told(in_error()).reasons[0].what == "server"
    assert told(result()).reasons == ()


def test_fields_without_anything_to_say_are_left_out() -> None:
    shown = as_json(told(result()))
    assert shown.keys() == {"row", "has_id", "file", "line", "succeeded_on", "turns", "paid"}
    assert shown["turns"][0].keys() == {
        *("turn", "depth", "prompt", "response", "outcome", "checks", "model"),
        *("tokens", "used", "cost", "time"),
    }
    assert "response" not in as_json(told(in_error()))["turns"][0]


def test_notes_say_what_turns_do_not() -> None:
    course = told(spoilt()).course
    assert "It decides nothing: invalid because its simulated user" in " ".join(told(spoilt()).notes)
    assert Note("user", "guest, stopped by its own word after 3 turns") in course
    assert [(note.label, note.warns) for note in course] == [("user", False), ("audit", True)]
    assert told(caved()).course == (Note("doubt", "right, then wrong at turn 2: caved", True),)
    assert any(note.startswith("Steps 3 to 4 of 4") for note in told(failed_in_step()).notes)
    lost = CutOffResult(2, UsageResult(1, 1, 2), None)
    assert told(result(cut_off=(lost,))).course == (Note("session", "started again after it was cut off in turn 2"),)
    forked = told(result(fork=ForkedFrom("20261115-1", 2)))
    assert forked.notes == ("Forked from run 20261115-1; 2 turns taken over.",)
    assert as_json(forked.fork) == {"run": "20261115-1", "turns": 2}


def test_turns_of_plans_and_users_have_labels() -> None:
    assert [one.label for one in told(failed_in_step()).turns] == [
        "step 1 of 4, ask",
        "step 2 of 4, party",
        "follow-up, because icontains failed",
    ]
    assert [one.label for one in told(spoilt()).turns] == ["user, opening", "user", "user"]
    assert [step.status for step in told(failed_in_step()).steps] == ["passed", "failed", "skipped", "skipped"]


def test_a_request_is_what_was_kept_of_the_one_before_and_what_came_to_it() -> None:
    first = (ChatMessage("system", "Be brief."), ChatMessage("user", "Hello"))
    called = ChatMessage("assistant", "", (ToolCall("look", '{"a":1}'),))
    second = (*first, called, ChatMessage("user", "Again."))
    other = (ChatMessage("system", "Be long."), ChatMessage("user", "Hello"))
    turns = (turn("a", messages=first), turn("b", 2, messages=second), turn("c", 3, messages=other))
    sent = [as_json(one.sent) for one in told(result("x", *turns)).turns]
    assert [(one["kept"], [said["content"] for said in one["added"]]) for one in sent] == [
        (0, ["Be brief.", "Hello"]),
        (2, ['look({"a":1})', "Again."]),
        (0, ["Be long.", "Hello"]),
    ]


def test_a_run_that_did_not_keep_requests_has_none() -> None:
    assert all(one.sent is None for one in told(RECOVERED).turns)


def test_what_happened_to_a_call_stands_with_its_turn() -> None:
    one = turn(retries=2, waited_s=3.14, cached=True, refusal=True, finish_reason="length", unpriced="x/y")
    denied = turn(tool_calls=(ToolCall("write", status="denied"),), stop_reason="end_turn", continued=True)
    assert told(result("x", one)).turns[0].notes == (
        "from the cache: an earlier run used these tokens and this cost",
        "asked 3 times, because calls failed",
        "waited 3.1 s before it was sent",
        "the model refused",
        "cut off: it reached max_tokens",
        "no price is known for x/y",
    )
    shown = told(result("x", denied)).turns[0]
    assert shown.notes[0].startswith("not allowed: write")
    assert as_json(shown.tools) == [{"name": "write", "arguments": "{}", "status": "denied", "note": "not allowed"}]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (check(kind="match", spans=((0, 3),)), False),
        (check(False, kind="not_match", check="not_match x", spans=((0, 3),)), True),
        (check(False, kind="not", check="not", spans=((0, 3),), children=(check(spans=((0, 3),)),)), True),
        (check(False, kind="is_json", check="is_json false", value=False, spans=((0, 3),)), True),
        (check(kind="not_match", check="not_match x"), False),
    ],
)
def test_evidence_that_was_not_to_be_there_is_marked(one: CheckResult, expected: bool) -> None:
    [shown] = told(result("x", turn(checks=(one,)))).turns[0].checks
    assert shown.forbidden is expected
    assert all(child.forbidden is expected for child in shown.children)


def test_not_turns_what_its_inner_checks_forbid() -> None:
    inner = check(kind="not_match", check="not_match x", spans=((0, 1),))
    outer = check(False, kind="not", check="not", children=(inner,))
    [shown] = told(result("x", turn(checks=(outer,)))).turns[0].checks
    assert [child.forbidden for child in shown.children] == [False]


def test_checks_inside_checks_are_shown_to_a_bound() -> None:
    one = check()
    for _ in range(200):
        one = check(children=(one,), kind="and", check="and")
    [shown] = told(result("x", turn(checks=(one,)))).turns[0].checks
    depth = 0
    while shown.children:
        [shown], depth = shown.children, depth + 1
    assert depth == 50


def test_halves_of_characters_and_nul_are_written() -> None:
    shown = as_json(told(result("x\ud800", turn("a\0b\udfff"))))
    assert shown["row"]["case"] == "x\ufffd"
    assert shown["turns"][0]["response"] == "a\0b\ufffd"


# Who asked


NESTED: Raw = {
    "targets": [scripted("demo", "zero", "one", "two", "three", "four", "five")],
    "target": "demo",
    "evals": [
        case(
            "nested",
            {"contains": "o", "every_turn": True},
            {"icontains": "one", **follow("First.", {"icontains": "two"}, follow("Second.", {"icontains": "three"}))},
        ),
        case("any", {"match": "never"}, {"match": "nor this"}, follow("Any of them.", {"match": "*"})),
        case(
            "grouped",
            {"or": [{"match": "never"}, {"match": "not"}], **follow("Neither.", {"match": "*"})},
            {"match": "*zero*"},
        ),
        case(
            "inner",
            {"and": [{"match": "*"}, {"match": "never", **follow("The second.", {"match": "*"})}]},
        ),
        {
            "id": "planned",
            "turns": [
                {"prompt": "A", "checks": [{"match": "never"}, follow("Back.", {"match": "*"})]},
                {"prompt": "B"},
            ],
        },
    ],
}


def found_at(checks: tuple[CheckView, ...], places: tuple[int, ...]) -> CheckView:
    one = checks[places[0]]
    return one if len(places) == 1 else found_at(one.children, places[1:])


def test_each_follow_up_hangs_on_the_check_that_the_engine_sent_it_for(project: Project) -> None:
    project.write("evals.yaml", NESTED)
    report = rejoinder.run("evals.yaml")
    followed = 0
    for one in report.results:
        turns = told(one).turns
        by_number = {shown.turn: shown for shown in turns}
        assert [shown.turn for shown in turns] == [kept.turn for kept in one.turns]
        for kept, shown in zip(one.turns, turns, strict=True):
            assert (shown.asked_by is None) == (kept.asked_by is None) == (not kept.depth)
            if shown.asked_by is None or kept.asked_by is None:
                continue
            followed += 1
            assert (shown.asked_by.turn, shown.asked_by.check) == (kept.asked_by.turn, kept.asked_by.check)
            asking = found_at(by_number[shown.asked_by.turn].checks, shown.asked_by.check)
            assert asking.state == "failed"
            assert shown.asked_by.because == f"{asking.called} failed"
    assert followed >= 6


def test_a_place_that_no_check_has_is_told_without_its_name() -> None:
    from rejoinder.model import AskedBy

    lost = result(
        "x", turn(passed=False), turn("b", 2, asked_by=AskedBy(1, (7, 3))), turn("c", 3, asked_by=AskedBy(9, (0,)))
    )
    low = result("x", turn(passed=False), turn("b", 2, asked_by=AskedBy(1, ())))
    assert [because(one) for one in told(lost).turns[1:]] == ["a check failed", "a check failed"]
    assert because(told(low).turns[1]) == "the score is too low"
    assert check_at((), (0,)) is None


def because(one: TurnView) -> str:
    return "" if one.asked_by is None else one.asked_by.because


def test_a_tool_is_shown_with_its_server_and_the_fault_that_met_it() -> None:
    call = ToolCall("find", server="orders", status="failed", result="broken", fault="error")
    [shown] = told(result("x", turn(tool_calls=(call,)))).turns[0].tools
    assert (shown.server, shown.note) == ("orders", "failed, error on purpose")


@pytest.mark.parametrize(("found", "names"), [((), []), ((2,), ["turn 2"])])
def test_of_what_must_never_be_the_turns_are_shown_in_which_it_is(found: tuple[int, ...], names: list[str]) -> None:
    turns = tuple(check(number in found, name=f"turn {number}") for number in (1, 2, 3))
    never = check(not found, check="never", kind="never", children=turns)
    [shown] = told(result("a", conversation_checks=(never,))).checks
    assert [(child.called, child.state) for child in shown.children] == [(name, "failed") for name in names]
