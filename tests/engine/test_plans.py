"""Planned turns and follow-ups that doubt: examples, and the machine against a second reading of the rules on random
plans.

The second reading (`PlanReading`) works on the mappings of a suite and shares no code with what it is compared to.
`FUZZ_EXAMPLES=5000 pytest tests/engine/test_plans.py` draws new plans.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.model import Failure, Reply
from tests.engine.plan_readings import Drawn, PlanReading
from tests.engine.readings import (
    have,
    match,
)
from tests.kit import Project, Raw, bounded, case, follow, run, scripted, spec

# Examples


def plan(*turns: Raw, replies: list[Any], **more: Any) -> Raw:
    return {
        "target": "it",
        "targets": [scripted("it", *replies)],
        "evals": [{"id": "one", "turns": list(turns), **more}],
    }


def turn(prompt: str, *checks: Raw, **more: Any) -> Raw:
    return {"prompt": prompt, **({"checks": list(checks)} if checks else {}), **more}


def one_result(project: Project, suite: Raw, *arguments: str) -> Raw:
    [result] = run(project, suite, *arguments)["results"]
    return result


def steps_of(result: Raw) -> list[tuple[str, float | None]]:
    return [(step["status"], step["score"]) for step in result["steps"]]


def said(result: Raw) -> list[str]:
    return [turn["prompt"] for turn in result["turns"]]


def test_turns_are_said_one_after_the_other_and_follow_ups_stay_in_their_step(project: Project) -> None:
    mend = follow("once more", match("four"))
    suite = plan(
        turn("a table", match("many"), name="ask"),
        turn("for four", match("four"), mend, name="number"),
        turn("thanks"),
        replies=["how many?", "no", "four", "bye"],
    )
    result = one_result(project, suite)
    assert said(result) == ["a table", "for four", "once more", "thanks"]
    assert [(turn["step"], turn["name"], turn["depth"]) for turn in result["turns"]] == [
        *((1, "ask", 0), (2, "number", 0), (2, "number", 1), (3, None, 0))
    ]
    assert steps_of(result) == [("passed", 1.0), ("recovered", 1.0), ("passed", None)]
    assert (result["status"], result["succeeded_on_turn"], result["score"]) == ("passed", 4, 1.0)


@pytest.mark.parametrize(
    ("options", "status", "statuses", "score"),
    [
        ({}, "failed", ["passed", "failed", "skipped", "skipped"], 0.5 / 3),
        ({"on_turn_failure": "continue"}, "failed", ["passed", "failed", "passed", "passed"], 0.5),
        ({"on_turn_failure": "continue", "pass_steps": "aggregate"}, "passed", None, 0.5),
        ({"on_turn_failure": "continue", "pass_steps": "aggregate", "threshold": 0.6}, "failed", None, 0.5),
        ({"on_turn_failure": "continue", "aggregation": "min"}, "failed", None, 0.0),
        ({"on_turn_failure": "continue", "aggregation": "max", "pass_steps": "aggregate"}, "passed", None, 1.0),
        ({"pass_steps": "aggregate"}, "failed", ["passed", "failed", "skipped", "skipped"], 0.5 / 3),
        ({"max_turns": 1}, "failed", ["passed", "skipped", "skipped", "skipped"], 0.5 / 3),
    ],
)
def test_what_a_failed_step_comes_to(
    project: Project, options: Raw, status: str, statuses: list[str] | None, score: float
) -> None:
    half = {"llm_judge": {"criteria": "Nice?"}}
    turns = turn("one", half), turn("two", match("yes")), turn("three"), turn("four", match("*"))
    suite = plan(*turns, replies=["a", "no", "c", "d"], **options)
    suite["targets"][0]["judge"] = [0.5]
    result = one_result(project, suite)
    assert result["status"] == status
    assert statuses is None or [one["status"] for one in result["steps"]] == statuses
    assert result["score"] == pytest.approx(score)


def test_a_plan_of_checks_of_the_whole_alone_passes_by_them(project: Project) -> None:
    for passes in ("all", "aggregate"):
        suite = plan(turn("one"), turn("two"), replies=["a", "b"], conversation_checks=[{"always": match("*")}])
        suite["evals"][0]["pass_steps"] = passes
        result = one_result(project, suite)
        assert (result["status"], result["score"]) == ("passed", 1.0)


@spec("P15")
def test_turns_quote_what_was_said_and_extracted(project: Project) -> None:
    suite = plan(
        turn("book", name="book", extract={"ref": {"regex": r"ref (\w+)"}, "whole": {"regex": r"ref \w+"}}),
        turn("{{ ref }}/{{ whole }}/{{ response }}", match("x"), follow("again", match("y"))),
        turn("data", extract={"city": {"json_path": "$.to.city"}}),
        turn("{{ city }}, {{ response(1) }}, {{ turn('book').response }}, {{ ref }}", match("*")),
        replies=["ref A1.", "no", "y", '{"to": {"city": "Kraków"}}', "ok"],
    )
    result = one_result(project, suite)
    assert said(result)[1] == "A1/ref A1/ref A1."
    assert said(result)[-1] == "Kraków, ref A1., ref A1., A1"
    assert result["status"] == "passed"


def test_where_nothing_is_extracted_the_step_fails_and_a_follow_up_may_mend_it(project: Project) -> None:
    first = turn(
        "book", match("booked"), follow("your reference?", match("ref")), extract={"ref": {"regex": r"ref (\w+)"}}
    )
    last = turn("cancel {{ ref }}", match("*"))
    result = one_result(project, plan(first, last, replies=["booked", "ref B2", "ok"]))
    assert said(result) == ["book", "your reference?", "cancel B2"]
    assert steps_of(result) == [("recovered", 1.0), ("passed", 1.0)]
    result = one_result(project, plan(first, last, replies=["booked", "ref?", "ok"]))
    assert [status for status, _ in steps_of(result)] == ["failed", "skipped"]
    only = turn("book", extract={"ref": {"regex": r"ref (\w+)"}})
    result = one_result(project, plan(only, only, last, replies=["no", "ref C3", "ok"]))
    assert steps_of(result) == [("failed", 0.0), ("skipped", 0.0), ("skipped", 0.0)]


@spec("P14")
def test_a_window_shows_the_system_and_the_last_turns(project: Project) -> None:
    turns = [turn(f"t{number}") for number in range(1, 4)] + [turn("t4", match("*"), window_size=1)]
    suite = plan(*turns, replies=["r1", "r2", "r3", "r4"], window_size=2)
    suite["metadata"] = {"system_prompt": "S"}
    result = one_result(project, suite, "--include", "messages")
    shown = [sent_by(result, number) for number in range(1, 5)]
    assert shown == [["S", "t1"], ["S", "t1", "r1", "t2"], ["S", "t2", "r2", "t3"], ["S", "t4"]]


def sent_by(result: Raw, number: int) -> list[str]:
    return [message["content"] for message in result["turns"][number - 1]["messages"]]


def test_a_turn_of_several_messages(project: Project) -> None:
    several = [
        {"role": "user", "content": "I said"},
        {"role": "assistant", "content": "you said"},
        {
            "role": "user",
            "content": [{"type": "text", "value": "and {{ response }}"}, {"type": "file", "value": "n.txt"}],
        },
    ]
    project.write("n.txt", "The note.")
    suite = plan(turn("one"), {"messages": several, "checks": [match("*")]}, replies=["r1", "r2"])
    result = one_result(project, suite, "--include", "messages")
    *before, last = sent_by(result, 2)
    assert before == ["one", "r1", "I said", "you said"]
    assert last.startswith("and r1\n") and "The note." in last
    assert said(result)[1] == f"I said\n\nyou said\n\n{last}"


def test_every_turn_holds_in_all_steps_and_other_checks_at_the_last(project: Project) -> None:
    suite = plan(turn("one"), turn("two", match("b"), follow("again", match("b"))), replies=["a", "a", "ab"])
    suite["checks"] = [match("a", every_turn=True), match("z")]
    result = one_result(project, suite)
    checks = [[check["check"] for check in turn["checks"]] for turn in result["turns"]]
    assert checks == [["match *a*"], ["match *b*", "match *a*", "match *z*"], ["match *a*", "match *b*"]]
    assert result["status"] == "passed"


# Follow-ups that doubt


def doubt(prompt: str, *checks: Raw) -> Raw:
    return follow(prompt, *checks, ask="always")


def asked(project: Project, *checks: Raw, replies: list[str], **more: Any) -> tuple[list[str], str, int | None]:
    suite = {"target": "it", "targets": [scripted("it", *replies)], "evals": [case("one", *checks, **more)]}
    result = one_result(project, suite)
    return said(result)[1:], result["status"], result["succeeded_on_turn"]


def test_a_doubt_is_sent_to_right_answers_and_the_last_reply_decides(project: Project) -> None:
    sure = doubt("sure?", match("4"))
    assert asked(project, match("4"), sure, replies=["4", "4"]) == (["sure?"], "passed", 2)
    assert asked(project, match("4"), sure, replies=["4", "5"]) == (["sure?"], "failed", None)
    assert asked(project, match("4"), sure, replies=["5", "4"]) == (["sure?"], "passed", 2)
    mend = follow("wrong", match("4"))
    assert asked(project, match("4"), mend, sure, replies=["5", "4"]) == (["wrong"], "passed", 2)
    assert asked(project, match("4"), mend, sure, replies=["4", "4"]) == (["sure?"], "passed", 2)
    everything = asked(project, match("4"), mend, sure, replies=["5", "4", "4"], followups="all")
    assert everything == (["wrong", "sure?"], "passed", 3)


def test_a_doubt_inside_a_group_is_sent_in_any_case(project: Project) -> None:
    either = {"or": [match("4"), match("four"), doubt("inside", match("4"))], **doubt("beside", match("4"))}
    assert asked(project, either, replies=["4", "4"])[0] == ["inside"]
    assert asked(project, either, replies=["-", "4"])[0] == ["inside"]
    assert asked(project, match("x"), either, replies=["4", "4"])[0] == ["inside"]
    assert asked(project, either, replies=["4", "4", "4"], followups="all")[0] == ["inside", "beside"]


def test_ready_doubts_and_the_ladder(project: Project) -> None:
    suite = {"target": "it", "targets": [scripted("it", "4", "5", "4", "4")], "ready_followups": "doubt"}
    result = one_result(project, {**suite, "evals": [case("one", match("4"))]})
    assert (len(result["turns"]), result["status"]) == (4, "passed")
    assert [turn.get("doubts", False) for turn in result["turns"]] == [False, True, True, True]
    suite = {"target": "it", "targets": [scripted("it", "1", "2", "3", "4")], "ready_followups": "ladder"}
    result = one_result(project, {**suite, "evals": [case("one", match("4"))]})
    assert [turn.get("hint") for turn in result["turns"]] == [None, "look", "wrong", "kind"]
    assert "4" not in said(result)[3]


# A second reading of the rules, and random plans


@pytest.mark.slow
@spec("P14", "P15", "P25", "P26", "P27")
@bounded(300)
@given(st.integers(0, 2**32))
def test_the_machine_agrees_with_a_second_reading_of_the_rules_of_plans(seed: int) -> None:
    drawn = Drawn(seed)
    if drawn.case.get("pass_steps") != "aggregate":
        drawn.case.pop("threshold", None)
    reading = PlanReading(drawn)
    reading.carry_out()

    def reply(turn: int) -> Reply | Failure:
        text = drawn.reply(turn)
        return Failure("scripted", "down") if text is None else Reply(text)

    def judge(turn: int, user: str) -> Reply | Failure:
        found = re.search(r"\[\[ ## expected_outcome ## \]\]\n(\w+)\n", user)
        assert found
        score = drawn.script.judgement(turn, found[1])
        return Reply("no verdict" if score is None else json.dumps({"score": score}))

    had = have(drawn.case, reply, judge, drawn.suite)
    outcome = had.outcome
    assert [[(message.role, message.content) for message in messages] for messages in had.sent] == reading.sent
    found = [
        (one.turn, one.depth, one.prompt, one.response, one.passed, one.step, one.name, one.doubts)
        for one in outcome.turns
    ]
    assert found == reading.turns
    steps = [(one.step, one.name, one.status, _about(one.score)) for one in outcome.steps]
    assert steps == [(*rest, _about(score)) for *rest, score in reading.steps]
    assert [verdict.state for verdict in outcome.conversation_checks] == reading.whole
    assert outcome.status == reading.status
    assert _about(outcome.score) == _about(reading.final_score)
    assert outcome.succeeded_on_turn == (len(found) if reading.status == "passed" else None)
    assert (outcome.error is None) is (reading.status != "error")


def _about(score: float | None) -> float | None:
    return None if score is None else round(score, 9)


# What strangers found


def ran(project: Project, *cases: Raw, code: int | None = None, **replies: list[str]) -> dict[str, Raw]:
    """The results of scripted conversations by id; `guest` are the words of the user."""
    guest = replies.pop("guest", [])
    suite: Raw = {
        "metadata": {"model": "bot"},
        "targets": [
            {"name": "bot", "provider": "scripted", "replies": replies},
            {"name": "guest", "provider": "scripted", "replies": guest},
        ],
        "evals": list(cases),
    }
    document = project.run_json("run", str(project.write("evals.yaml", suite)), code=code)
    return {result["id"]: result for result in document["results"]}


REF: Raw = {"prompt": "a", "extract": {"ref": {"regex": r"(HX.\d+)"}}}


def test_what_was_extracted_can_be_checked(project: Project) -> None:
    checks: list[Raw] = [{"icontains": "{{ ref }}"}, {"regex": "^{{ ref }} it"}, {"match": "{{ ref }}*"}]
    checks.append({"not": {"equals": "{{ ref }}"}})
    whole = [{"by_turn": {"turn": 2, "check": {"equals": "{{ ref }} it is"}}}]
    case = {"id": "ref", "turns": [REF, {"prompt": "b", "checks": checks}], "conversation_checks": whole}
    result = ran(project, case, ref=["It is HX*1.", "HX*1 it is"], code=0)["ref"]
    assert result["turns"][1]["checks"][0]["check"] == "icontains HX*1"
    wrong = ran(project, case, ref=["It is HX*1.", "HXX1 it is"], code=1)["ref"]
    assert [check["passed"] for check in wrong["turns"][1]["checks"]] == [False, False, False, True]


def test_a_step_without_a_value_that_it_needs_is_skipped(project: Project) -> None:
    checks = [{"contains": "{{ ref }}"}]
    turns = [REF, {"prompt": "cancel {{ ref }}"}, {"prompt": "b", "checks": checks}, {"prompt": "c"}]
    case = {"id": "miss", "on_turn_failure": "continue", "turns": turns}
    result = ran(project, case, miss=["none", "bye"], code=1)["miss"]
    assert [step["status"] for step in result["steps"]] == ["failed", "skipped", "skipped", "passed"]
    assert [turn["prompt"] for turn in result["turns"]] == ["a", "c"]


def test_the_ladder_comes_after_a_follow_up_of_the_authors_own(project: Project) -> None:
    yes = {"contains": "yes"}
    own = [yes, {"prompt": "No.", "checks": [yes]}]
    case = {"id": "own", "prompt": "q", "checks": own, "ready_followups": "ladder"}
    result = ran(project, case, own=["no", "no", "no", "yes"], code=0)["own"]
    assert [turn.get("hint") for turn in result["turns"]] == [None, None, "look", "wrong"]


def test_all_messages_of_a_turn_are_in_the_transcript(project: Project) -> None:
    messages = [{"role": "user", "content": "code 4711"}, {"role": "user", "content": "go"}]
    whole = [{"on": "transcript", "contains": "4711"}]
    case = {"id": "multi", "turns": [{"prompt": "x"}, {"messages": messages}], "conversation_checks": whole}
    assert ran(project, case, multi=["a", "b"], code=0)["multi"]["passed"]


def test_the_threshold_of_a_sharded_task_holds_in_every_condition(project: Project) -> None:
    checks = [{"contains": "train"}, {"contains": "plane"}]
    case = {"id": "sh", "threshold": 0.5, "shards": {"task": "whole", "pieces": ["a", "b"]}, "checks": checks}
    assert all(result["passed"] for result in ran(project, case, **{"*": ["train", "train"]}, code=0).values())


def test_the_answer_of_a_judge_is_what_it_missed(project: Project) -> None:
    suite: Raw = {
        "metadata": {"model": "bot"},
        "targets": [{"name": "bot", "provider": "scripted", "replies": ["a", "b", "c", "d", "e"],
                     "judge": [{"score": 0, "misses": ["no greeting"], "reasoning": "It is curt."}] * 5}],
        "evals": [{"id": "a", "prompt": "q", "outcome": "greets", "ready_followups": "ladder"}],
    }  # fmt: skip
    [result] = project.run_json("run", str(project.write("evals.yaml", suite)), code=1)["results"]
    assert "no greeting" in result["turns"][4]["prompt"] and "no greeting" not in result["turns"][3]["prompt"]
