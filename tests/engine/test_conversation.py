"""The rules of conversations: examples, and the machine against a second reading of the rules on random trees.

The second reading (`Reading`) works on the mappings of a suite as an author writes them and shares no code with what
it is compared to. `FUZZ_EXAMPLES=5000 pytest tests/engine/test_conversation.py` draws new trees.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rejoinder.errors import SuiteError
from rejoinder.model import ChatMessage, Failure, Reply
from rejoinder.suite.document_paths import read_path
from rejoinder.validation.findings import validate_file
from tests.engine.readings import (
    Had,
    Reading,
    Script,
    Tree,
    Unclear,
    have,
    match,
)
from tests.kit import Project, Raw, bounded, follow, spec


def talk(
    checks: Any,
    *replies: str | None,
    judge: list[Any] | None = None,
    prompt: str = "Q",
    suite: Raw | None = None,
    **case: Any,
) -> Had:
    """A conversation with scripted replies; None is a request that fails. Every reply has to be used."""
    verdicts = iter(judge or [])

    def reply(turn: int) -> Reply | Failure:
        assert turn <= len(replies), f"turn {turn} was not expected"
        text = replies[turn - 1]
        return Failure("scripted", "down") if text is None else Reply(text)

    def answer(turn: int, user: str) -> Reply | Failure:
        verdict = next(verdicts)
        return Failure("scripted", "down") if verdict is None else Reply(json.dumps({"score": float(verdict)}))

    had = have({"prompt": prompt, "checks": checks, **case}, reply, answer, suite)
    assert len(had.sent) == len(replies), had.prompts
    return had


def refused(checks: Any, **case: Any) -> list[tuple[str, str]]:
    """The codes and places of what the loader refuses."""
    with pytest.raises(SuiteError) as caught:
        talk(checks, **case)
    return [(problem.code, problem.path) for problem in caught.value.problems if problem.severity == "error"]


# Turns


@spec("R56", "R57")
def test_a_level_that_passes_ends_the_conversation() -> None:
    had = talk([match("four"), follow("again", match("four"))], "four")
    assert had.ending == ("passed", 1)
    assert had.prompts == ["Q"] and had.depths == [0]
    assert had.outcome.score == 1.0 and had.outcome.error is None


@spec("R56")
def test_all_checks_are_evaluated_although_the_first_fails() -> None:
    had = talk([match("a"), match("b"), {"or": [match("a"), match("b"), match("c")]}, match("c")], "b c")
    assert had.states(1) == ["failed", "passed", "passed", "passed"]
    assert [child.state for child in had.outcome.turns[0].verdicts[2].children] == ["failed", "passed", "passed"]


@spec("C21", "R58", "R60", "C27")
def test_a_failed_level_sends_its_prompt_and_a_passing_answer_passes_the_case() -> None:
    had = talk([match("four"), follow("Look again.", match("five"))], "three", "five")
    assert had.prompts == ["Q", "Look again."] and had.depths == [0, 1]
    assert had.ending == ("passed", 2)
    assert [turn.passed for turn in had.outcome.turns] == [False, True]


@spec("R59", "R60", "C27")
def test_only_the_new_reply_and_the_nested_checks_count() -> None:
    had = talk([match("a"), match("b"), follow("more", match("z"))], "a", "z")
    assert had.ending == ("passed", 2)
    assert [len(turn.verdicts) for turn in had.outcome.turns] == [2, 1]
    had = talk([match("a"), follow("more", match("a"), match("b"))], "b", "a")
    assert had.ending == ("failed", None), "what an earlier reply satisfied does not help a later one"


@spec("R61")
def test_without_an_applicable_prompt_the_case_fails() -> None:
    assert talk([match("a")], "x").ending == ("failed", None)
    had = talk([match("a"), match("b", **follow("about b", match("b")))], "b")
    assert had.ending == ("failed", None), "the prompt belongs to a check that passed"


@spec("R50", "R59")
def test_the_rule_applies_again_below() -> None:
    tree = [match("a"), follow("one", match("b"), follow("two", match("c"), follow("three", match("d"))))]
    had = talk(tree, "x", "x", "c")
    assert had.prompts == ["Q", "one", "two"] and had.ending == ("passed", 3)
    had = talk(tree, "x", "x", "x", "x")
    assert had.depths == [0, 1, 2, 3] and had.ending == ("failed", None)


def chain(depth: int) -> list[Raw]:
    """`depth` prompts, one in the other."""
    return [match(f"w{depth}"), *([follow(f"prompt {depth}", *chain(depth - 1))] if depth else [])]


@spec("C25", "R52", "R61")
def test_five_prompts_may_be_nested_and_six_may_not() -> None:
    had = talk(chain(5), *["no"] * 6)
    assert had.depths == [0, 1, 2, 3, 4, 5]
    assert had.ending == ("failed", None)
    assert talk(chain(5), *["no"] * 5, "w0").ending == ("passed", 6)
    [(code, path)] = refused(chain(6))
    assert code == "followup-too-deep"
    assert path == "evals[0]" + ".checks[1]" * 6 + ".prompt"


@spec("C25", "R53")
def test_the_fifth_prompt_has_an_ordinary_list() -> None:
    tree: list[Raw] = [match("a"), match("b")]
    for number in range(5):
        tree = [match("a"), follow(f"p{number}", *tree)]
    had = talk(tree, *["x"] * 5, "b")
    assert had.states(6) == ["failed", "passed"] and had.ending == ("failed", None)


# Which prompt


@spec("C22", "R48", "R49")
def test_both_forms_of_a_follow_up_are_understood() -> None:
    standalone = talk([match("a"), follow("p", match("b"))], "x", "b")
    attached = talk([match("a", **follow("p", match("b")))], "x", "b")
    assert standalone.prompts == attached.prompts == ["Q", "p"]
    assert standalone.ending == attached.ending == ("passed", 2)


@spec("C23", "R58")
def test_the_first_applicable_prompt_in_document_order_is_sent() -> None:
    tree = [
        match("a", **follow("about a", match("z"))),
        match("b", **follow("about b", match("z"))),
        follow("about all", match("z")),
    ]
    assert talk(tree, "-", "z").prompts == ["Q", "about a"]
    assert talk(tree, "a", "z").prompts == ["Q", "about b"]
    assert talk([match("a"), *tree[1:]], "b", "z").prompts == ["Q", "about all"]


@spec("C24", "C23")
def test_the_place_of_a_standalone_prompt_only_orders() -> None:
    alone, attached = follow("alone", match("z")), match("b", **follow("about b", match("z")))
    assert talk([alone, match("a"), attached], "-", "z").prompts == ["Q", "alone"]
    assert talk([match("a"), attached, alone], "-", "z").prompts == ["Q", "about b"]
    assert talk([alone, match("a")], "a").ending == ("passed", 1)


@spec("C24", "P25")
def test_after_a_standalone_prompt_nothing_is_reached(project: Project) -> None:
    tree = [match("a", **follow("mine", match("z"))), follow("first", match("z")), follow("second", match("z"))]
    assert talk([match("a"), *tree[1:]], "-", "-").prompts == ["Q", "first"]
    warnings = project.warnings({"metadata": {"model": "scripted/x"}, "evals": [{"prompt": "Q", "checks": tree}]})
    assert [(one["code"], one["path"]) for one in warnings] == [("unreachable-followup", "evals[0].checks[2].prompt")]


@spec("R62", "P25", "C29")
def test_an_or_fails_only_if_all_its_options_fail() -> None:
    tree = [match("a"), {"or": [match("b"), match("c"), follow("or", match("z"))]}]
    assert talk(tree, "a c").ending == ("passed", 1)
    assert talk(tree, "a", "z").prompts == ["Q", "or"]


@spec("P25", "R62", "C30")
@pytest.mark.parametrize(
    "block",
    [
        {"or": [match("b"), match("c"), follow("or", match("z"))]},
        {"or": [follow("or", match("z")), match("b"), match("c")]},
        {"or": [match("b", **follow("or", match("z"))), match("c")]},
        {"or": [match("b"), match("c")], **follow("or", match("z"))},
    ],
    ids=["standalone-inside", "standalone-first", "attached-inside", "beside"],
)
def test_a_prompt_in_an_or_waits_until_all_of_the_or_failed(block: Raw) -> None:
    # The level fails because of `a`, but the `or` does not.
    assert talk([match("a"), block], "c").ending == ("failed", None)
    assert talk([match("a"), block, follow("level", match("z"))], "c", "z").prompts == ["Q", "level"]
    assert talk([match("a"), block, follow("level", match("z"))], "-", "z").prompts == ["Q", "or"]


@spec("C30", "R62", "R53")
def test_a_prompt_of_a_top_level_or() -> None:
    block = {"or": [match("b"), match("c"), follow("or", match("z"))]}
    assert talk(block, "c").ending == ("passed", 1)
    assert talk(block, "-", "z").prompts == ["Q", "or"]
    assert refused({"or": [match("a")], "prompt": "no", "checks": [match("b")]}) == [
        ("unknown-key", "evals[0].checks.prompt"),
        ("unknown-key", "evals[0].checks.checks"),
    ]


@spec("P25")
def test_an_or_may_stand_in_an_or() -> None:
    inner = {"or": [match("c"), match("d"), follow("inner", match("z"))]}
    tree = [{"or": [match("b"), inner, follow("outer", match("z"))]}]
    assert talk(tree, "d").ending == ("passed", 1)
    assert talk(tree, "b").ending == ("passed", 1)
    assert talk(tree, "-", "z").prompts == ["Q", "inner"]
    assert talk([match("a"), *tree], "b").ending == ("failed", None)


@spec("P25", "C29")
def test_an_and_in_an_or_sends_the_prompt_of_what_failed_in_it() -> None:
    both = {"and": [match("c", **follow("about c", match("z"))), match("d", **follow("about d", match("z")))]}
    tree = [{"or": [match("b"), both]}]
    assert talk(tree, "c d").ending == ("passed", 1)
    assert talk(tree, "c", "z").prompts == ["Q", "about d"]
    assert talk(tree, "d", "z").prompts == ["Q", "about c"]


@spec("C26", "C31", "R51")
def test_what_cannot_be_had_is_refused() -> None:
    assert refused([{"match": "*a*", "checks": [match("b")]}]) == [("checks-without-prompt", "evals[0].checks[0]")]
    assert refused([{"match": "*a*", "prompt": "p"}]) == [("prompt-without-checks", "evals[0].checks[0]")]
    assert refused([follow("p", match("b"))]) == [("no-check-at-level", "evals[0].checks")]
    assert refused([match("a"), follow("p", follow("q", match("b")))]) == [
        ("no-check-at-level", "evals[0].checks[1].checks")
    ]


# All follow-ups


@spec("P25", "C24")
def test_all_tries_siblings_in_order_until_a_branch_passes() -> None:
    tree = [match("a"), follow("one", match("b")), follow("two", match("c")), follow("three", match("d"))]
    had = talk(tree, "-", "-", "c", followups="all")
    assert had.prompts == ["Q", "one", "two"] and had.depths == [0, 1, 1]
    assert had.ending == ("passed", 3)
    assert talk(tree, *"----", followups="all").ending == ("failed", None)


@spec("P25")
def test_all_goes_depth_first_in_one_linear_history() -> None:
    tree = [
        match("a"),
        follow("one", match("b"), follow("one.one", match("c")), follow("one.two", match("d"))),
        follow("two", match("e")),
    ]
    had = talk(tree, "r1", "r2", "r3", "r4", "r5", followups="all")
    assert had.prompts == ["Q", "one", "one.one", "one.two", "two"]
    assert had.depths == [0, 1, 2, 2, 1]
    said = [(message.role, message.content) for message in had.sent[-1]]
    assert said == [
        ("user", "Q"),
        *[("assistant", "r1"), ("user", "one")],
        *[("assistant", "r2"), ("user", "one.one")],
        *[("assistant", "r3"), ("user", "one.two")],
        *[("assistant", "r4"), ("user", "two")],
    ]


@spec("P25")
def test_with_all_the_prompts_are_fixed_by_the_reply_of_their_level() -> None:
    about_b = match("b", **follow("about b", match("z")))
    tree = [match("a", **follow("about a", match("z"))), about_b, match("c", **follow("about c", match("z")))]
    # The second reply has a `b`, which is of no help: the first had none. The first has a `c`, and keeps it.
    had = talk(tree, "c", "b", "-", followups="all")
    assert had.prompts == ["Q", "about a", "about b"] and had.ending == ("failed", None)


@spec("P25")
def test_all_has_at_most_twenty_turns_unless_more_are_allowed() -> None:
    tree = [match("a"), *[follow(f"p{number}", match("a")) for number in range(30)]]
    had = talk(tree, *["-"] * 20, followups="all")
    assert len(had.prompts) == 20 and had.ending == ("failed", None)
    assert len(talk(tree, *["-"] * 25, followups="all", max_turns=25).prompts) == 25
    assert len(talk(tree, *["-"] * 31, followups="all", max_turns=99).prompts) == 31
    assert talk(tree, *["-"] * 19, "a", followups="all").ending == ("passed", 20)


@spec("P25", "R61")
@pytest.mark.parametrize("most", [1, 2, 3])
def test_max_turns_ends_a_conversation(most: int) -> None:
    had = talk(chain(5), *["no"] * most, max_turns=most)
    assert len(had.prompts) == most and had.ending == ("failed", None)
    assert had.outcome.score == 0.0
    assert talk(chain(5), *["no"] * (most - 1), f"w{6 - most}", max_turns=most).ending == ("passed", most)


# What is sent


@spec("R58", "R64", "P14")
def test_every_request_is_the_first_one_and_all_that_was_said_since() -> None:
    tree = [match("a"), follow("one", match("a"), follow("two", match("a")))]
    suite = {"metadata": {"model": "scripted/x", "system_prompt": "Be brief."}}
    had = talk(tree, "r1", "r2", "r3", suite=suite)
    first = (ChatMessage("system", "Be brief."), ChatMessage("user", "Q"))
    second = (*first, ChatMessage("assistant", "r1"), ChatMessage("user", "one"))
    assert had.sent == [first, second, (*second, ChatMessage("assistant", "r2"), ChatMessage("user", "two"))]


@spec("P14", "P2")
@pytest.mark.parametrize("reply", ["", "  \n\t ", "\n\n two lines \r\n and spaces \n\n", "@[User]:\nI am you", "﻿x"])
def test_replies_enter_the_history_as_they_came(reply: str) -> None:
    had = talk([match("zz"), follow("again", match("ok"))], reply, "ok")
    assert had.sent[1][1] == ChatMessage("assistant", reply)
    assert had.outcome.turns[0].response == reply


@spec("P14")
def test_the_opening_of_input_messages_is_sent_again_and_again_unchanged() -> None:
    messages = [
        {"role": "system", "content": "You are kind."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi!"},
        {"role": "user", "content": "And now?"},
    ]
    case = {"input_messages": messages, "checks": [match("a"), follow("more", match("b"))]}
    had = have(case, lambda turn: Reply("ab"[turn - 1] if turn > 1 else "-"), lambda turn, user: Reply(""))
    assert [message.role for message in had.sent[0]] == ["system", "user", "assistant", "user"]
    assert had.sent[1] == (*had.sent[0], ChatMessage("assistant", "-"), ChatMessage("user", "more"))
    assert had.prompts[0].startswith("@[System]:\nYou are kind."), "the first turn shows the question"
    assert had.prompts[1] == "more"


@spec("P2", "C17")
def test_the_words_of_a_follow_up_are_trimmed() -> None:
    had = talk([match("a"), follow("\r\n \n  one\r\ntwo  \n\n", match("a"))], "-", "a")
    assert had.prompts[1] == "  one\ntwo"
    assert had.sent[1][-1] == ChatMessage("user", "  one\ntwo")


@spec("P15", "P14")
def test_follow_ups_may_quote_replies() -> None:
    tree = [
        match("zz"),
        follow("You said: {{ response }}!", match("zz"), follow("{{response(1)}}, {{ response(2) }}.", match("zz"))),
    ]
    had = talk(tree, " one\n", "two", "zz")
    assert had.prompts == ["Q", "You said:  one\n!", " one\n, two."]


@spec("P15")
def test_a_quoted_reply_is_not_read_again() -> None:
    had = talk([match("zz"), follow("{{ response }}", match("zz"))], "{{ response(1) }} {{ failed }}", "zz")
    assert had.prompts[1] == "{{ response(1) }} {{ failed }}"


WANTS = [match("a"), match("b"), match("c", name="has a c"), {"or": [match("d"), match("e")]}]


@spec("P15", "P43")
def test_follow_ups_may_say_what_failed_without_what_was_wanted() -> None:
    had = talk([*WANTS, follow("Wrong:\n{{ failed }}", match("b"))], "a", "b")
    assert had.prompts[1].splitlines() == [
        "Wrong:",
        "match: it does not match",
        "has a c: it does not match",
        "or: none of several checks passes",
    ]


@spec("P43")
def test_follow_ups_may_say_what_was_wanted_where_they_ask_for_it() -> None:
    had = talk([*WANTS, follow("Wrong:\n{{ failed(answer) }}", match("b"))], "a", "b")
    lines = had.prompts[1].splitlines()
    assert lines[0] == "Wrong:" and len(lines) == 4
    for line, words in zip(lines[1:], ["match *b*", "has a c", "or"], strict=True):
        assert words in line
    assert "*a*" not in had.prompts[1]


@spec("P15")
def test_with_all_the_last_response_is_that_of_the_turn_before() -> None:
    tree = [match("zz"), follow("1 {{ response }}", match("zz")), follow("2 {{ response }}", match("zz"))]
    assert talk(tree, "x", "y", "zz", followups="all").prompts == ["Q", "1 x", "2 y"]


@spec("P14", "R59")
def test_empty_replies_are_replies() -> None:
    had = talk([match("a"), follow("?", match("a"), {"max_tokens": 0})], "", "")
    assert had.states(1) == ["failed"] and had.states(2) == ["failed", "passed"]
    assert had.outcome.turns[0].response == ""
    assert talk([{"equals": ""}], "").ending == ("passed", 1)


# Failures and errors


@spec("P26")
@pytest.mark.parametrize("turn", [1, 2, 3])
def test_a_failed_request_ends_the_conversation(turn: int) -> None:
    had = talk(chain(5), *["no"] * (turn - 1), None)
    assert had.ending == ("error", None)
    assert had.outcome.score is None
    assert had.outcome.error is not None
    assert (had.outcome.error.type, had.outcome.error.message, had.outcome.error.turn) == ("scripted", "down", turn)
    last = had.outcome.turns[-1]
    assert (last.turn, last.depth, last.response, last.passed, last.verdicts) == (turn, turn - 1, None, False, ())
    assert last.prompt == ("Q" if turn == 1 else f"prompt {7 - turn}")


JUDGE = {"llm_judge": {"criteria": "kind?"}}


@spec("P26", "P27")
def test_a_judge_that_fails_is_an_error_and_sends_no_follow_up() -> None:
    had = talk([match("a"), JUDGE, follow("more", match("a"))], "a", judge=[None])
    assert had.ending == ("error", None) and had.outcome.score is None
    assert had.outcome.error is not None and had.outcome.error.turn == 1
    assert had.states(1) == ["passed", "error"]


@spec("P27")
def test_in_a_list_a_failure_outweighs_an_error() -> None:
    had = talk([JUDGE, match("a"), follow("more", match("a"))], "-", "a", judge=[None])
    assert had.states(1) == ["error", "failed"]
    assert had.ending == ("passed", 2)


@spec("P27", "C23")
def test_a_check_in_error_does_not_send_its_own_prompt() -> None:
    tree = [{**JUDGE, **follow("about the judge", match("z"))}, match("a", **follow("about a", match("z")))]
    assert talk(tree, "-", "z", judge=[None]).prompts == ["Q", "about a"]


@spec("P27")
@pytest.mark.parametrize(
    ("reply", "verdict", "ending"),
    [("a", None, "passed"), ("-", None, "error"), ("-", 0, "failed"), ("-", 1, "passed")],
)
def test_errors_in_an_or(reply: str, verdict: int | None, ending: str) -> None:
    had = talk([{"or": [JUDGE, match("a")]}], reply, judge=[verdict])
    assert had.outcome.status == ending


@spec("P27", "P25")
def test_an_or_in_error_sends_none_of_its_prompts() -> None:
    tree = [{"or": [JUDGE, match("a"), follow("or", match("z"))]}, match("b"), follow("level", match("z"))]
    assert talk(tree, "-", "z", judge=[None]).prompts == ["Q", "level"]
    assert talk([*tree[:1], follow("level", match("z"))], "-", judge=[None]).ending == ("error", None)


@spec("P27")
@pytest.mark.parametrize(("reply", "ending"), [("a", "error"), ("-", "failed")])
def test_errors_in_an_and(reply: str, ending: str) -> None:
    assert talk([{"and": [JUDGE, match("a")]}], reply, judge=[None]).outcome.status == ending


@spec("P27")
def test_an_error_at_a_later_level_ends_the_conversation() -> None:
    had = talk([match("a"), follow("one", JUDGE, follow("two", match("a")))], "-", "-", judge=[None])
    assert had.ending == ("error", None)
    assert had.outcome.error is not None and had.outcome.error.turn == 2


# Levels and scores


@spec("P27")
@pytest.mark.parametrize(
    ("reply", "threshold", "passed"),
    [("a", 0.5, True), ("a", 0.51, False), ("-", 0.0, True), ("a b", 1.0, True), ("b", 0.5, True)],
)
def test_a_level_with_a_threshold_passes_by_its_mean(reply: str, threshold: float, passed: bool) -> None:
    had = talk([match("a"), match("b")], reply, threshold=threshold)
    assert (had.outcome.status == "passed") is passed


@spec("P27")
def test_the_mean_is_weighted() -> None:
    checks = [match("a", weight=3), match("b")]
    assert talk(checks, "a", threshold=0.75).outcome.score == 0.75
    assert talk(checks, "b", threshold=0.75).outcome.status == "failed"
    assert talk(checks, "b", threshold=0.25).ending == ("passed", 1)
    assert talk(checks, "b").outcome.score == 0.25


@spec("P27")
def test_a_required_check_has_to_pass_whatever_the_mean() -> None:
    checks = [match("a", required=True), match("b"), match("c")]
    assert talk(checks, "b c", threshold=0.5).outcome.status == "failed"
    assert talk(checks, "a", threshold=0.3).outcome.status == "passed"


@spec("P27")
def test_without_a_threshold_every_check_has_to_pass() -> None:
    had = talk([match("a", weight=9), match("b", required=False)], "a")
    assert had.outcome.status == "failed" and had.outcome.score == 0.9


@spec("P27", "C23")
def test_a_level_may_fail_its_threshold_although_no_check_failed() -> None:
    attached = {**JUDGE, **follow("about the judge", match("z"))}
    had = talk([attached, follow("level", match("z"))], "-", "z", judge=[0.6], threshold=0.9)
    assert had.states(1) == ["passed"] and had.prompts == ["Q", "level"]


@spec("P27", "C23")
def test_a_level_may_reach_its_threshold_in_spite_of_a_failed_check() -> None:
    had = talk([match("a"), match("b", **follow("about b", match("b")))], "a", threshold=0.5)
    assert had.ending == ("passed", 1) and had.prompts == ["Q"]


@spec("P27")
def test_a_standalone_prompt_may_have_a_threshold_for_its_own_level() -> None:
    tree = [match("a"), follow("more", match("b"), match("c"), threshold=0.5)]
    assert talk(tree, "-", "b").ending == ("passed", 2)
    had = talk([match("a"), match("b"), follow("more", match("b"), threshold=0.5)], "a", "b")
    assert had.ending == ("passed", 2), "it does not hold for the level that the prompt stands in"


@spec("P27")
def test_the_score_is_that_of_the_deciding_level() -> None:
    tree = [match("a"), match("b"), follow("one", match("a"), match("b"), match("c"), match("d"))]
    assert talk(tree, "a", "a b c d").outcome.score == 1.0
    assert talk(tree, "a b"[:1], "a b c").outcome.score == 0.75
    assert talk([match("a"), JUDGE, follow("x", JUDGE)], "-", "-", judge=[0.9, 0.7]).outcome.score == 0.7
    assert talk([match("a"), JUDGE], "a", judge=[0.6]).outcome.score == 0.8


# Checks of every turn


@spec("P18")
def test_checks_of_every_turn_join_every_level() -> None:
    suite = {"checks": [{"not_match": "*rude*", "every_turn": True}, match("a")]}
    had = talk([match("b"), follow("one", match("c"), follow("two", match("d")))], "-", "c rude", "d", suite=suite)
    assert [[verdict.check for verdict in turn.verdicts] for turn in had.outcome.turns] == [
        ["not_match *rude*", "match *a*", "match *b*"],
        ["not_match *rude*", "match *c*"],
        ["not_match *rude*", "match *d*"],
    ]
    assert had.states(2) == ["failed", "passed"] and had.ending == ("passed", 3)


@spec("P18")
def test_the_suites_checks_stand_before_the_cases_own() -> None:
    suite = {"checks": [match("a"), follow("suite", match("z"))]}
    had = talk([match("b"), follow("case", match("z"))], "-", "z", suite=suite)
    assert [verdict.check for verdict in had.outcome.turns[0].verdicts] == ["match *a*", "match *b*"]
    assert had.prompts == ["Q", "suite"]


@spec("P18", "C25")
@pytest.mark.parametrize(
    "check",
    [
        match("polite", every_turn=True, **follow("again", match("z"))),
        {"or": [match("polite"), match("kind")], "every_turn": True, **follow("again", match("z"))},
        {"or": [match("polite"), follow("again", match("z"))], "every_turn": True},
        {"and": [match("polite", **follow("again", match("z")))], "every_turn": True},
    ],
    ids=["attached", "beside-or", "inside-or", "inside-and"],
)
def test_prompts_of_a_check_of_every_turn_belong_to_the_first_level(check: Raw) -> None:
    had = talk([match("b")], "b", "z", suite={"checks": [check]})
    assert had.prompts == ["Q", "again"] and had.ending == ("failed", None)


@spec("P18")
def test_an_evaluator_that_fails_sends_follow_ups_like_any_check() -> None:
    evaluators = [{"name": "tone", "type": "llm_judge", "criteria": "kind?"}]
    had = talk([match("a"), follow("kinder", match("b"))], "a", "b", judge=[0.2], evaluators=evaluators)
    assert had.states(1) == ["passed", "failed"] and had.ending == ("passed", 2)


@spec("P18")
def test_an_outcome_alone_is_judged_and_beside_checks_it_is_data() -> None:
    def judge(turn: int, user: str) -> Reply:
        assert "[[ ## expected_outcome ## ]]\nSays hello." in user
        return Reply('{"score": 0.5}')

    had = have({"prompt": "Q", "outcome": "Says hello."}, lambda turn: Reply("hello"), judge)
    assert had.ending == ("passed", 1) and len(had.judged) == 1
    assert talk([match("a")], "a", outcome="Says hello.").judged == []


# A second reading of the rules, and random trees


@st.composite
def trees(draw: Any) -> tuple[Raw, list[Raw], Script, list[str]]:
    seed = draw(st.integers(0, 2**32))
    tree = Tree(seed)
    case, everywhere = tree.case(), tree.everywhere()
    script = Script(
        seed, tree.pick(0.1, 0.2, 0.2, 0.4, 0.8), tree.pick(0, 0, 0, 0.1, 0.3), tree.pick(*[None] * 6, 1, 2, 3, 5)
    )
    return case, everywhere, script, tree.leaves


@pytest.mark.slow
@spec("R56", "R57", "R58", "R59", "R60", "R61", "R62", "R64", "C23", "C25", "C27", "C29", "P14", "P25", "P26", "P27")
@bounded(400)
@given(trees())
def test_the_machine_agrees_with_a_second_reading_of_the_rules(drawn: tuple[Raw, list[Raw], Script, list[str]]) -> None:
    case, everywhere, script, leaves = drawn
    reading = Reading(case, everywhere, script, leaves)
    try:
        reading.carry_out()
    except Unclear:
        assume(False)

    def reply(turn: int) -> Reply | Failure:
        text = script.reply(turn, leaves)
        return Failure("scripted", "down") if text is None else Reply(text)

    def judge(turn: int, user: str) -> Reply | Failure:
        found = re.search(r"\[\[ ## expected_outcome ## \]\]\n(\w+)\n", user)
        assert found
        score = script.judgement(turn, found[1])
        return Reply("no verdict" if score is None else json.dumps({"score": score}))

    had = have(case, reply, judge, {"checks": everywhere} if everywhere else None)
    outcome = had.outcome
    assert [[(message.role, message.content) for message in messages] for messages in had.sent] == reading.sent
    found = [(turn.turn, turn.depth, turn.prompt, turn.response, turn.passed) for turn in outcome.turns]
    assert found == reading.turns
    assert (outcome.status, outcome.succeeded_on_turn) == (reading.status, reading.succeeded_on_turn)
    assert outcome.score == (None if reading.score is None else pytest.approx(reading.score))
    assert (outcome.error is None) is (reading.status != "error")
    assert outcome.error is None or outcome.error.turn == len(found)
    assert len(found) <= (6 if case.get("followups") != "all" else 20)
    assert all(depth <= 5 for _, depth, *_ in found)


@pytest.mark.slow
@spec("C24", "P18", "P25")
@bounded(150)
@given(trees(), st.booleans())
def test_a_follow_up_that_is_called_unreachable_is_never_sent(
    drawn: tuple[Raw, list[Raw], Script, list[str]], shared: bool
) -> None:
    case, everywhere, script, leaves = drawn
    suite: Raw = {"metadata": {"model": "scripted/x"}}
    if shared and isinstance(case["checks"], list):  # the suite's checks stand before the case's own
        suite["checks"] = case["checks"]
        case = {
            **case,
            "checks": [match("own", **follow("prompt 1001", match("own"))), follow("prompt 1002", match("z"))],
        }
    elif everywhere:
        suite["checks"] = everywhere
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "evals.yaml")
        path.write_text(json.dumps({**suite, "evals": [case]}), encoding="utf-8")
        found = [problem for problem in validate_file(path) if problem.code == "unreachable-followup"]
    assert case.get("followups") != "all" or not found
    unreachable = {number_of(at({**suite, "evals": [case]}, problem.path)) for problem in found}
    for seed in range(4):
        chances = Script(script.seed + seed, script.chance, 0, None)
        had = have(
            case,
            lambda turn, chances=chances: Reply(chances.reply(turn, leaves) or ""),
            lambda turn, user, chances=chances: Reply(json.dumps({"score": chances.judgement(turn, user)})),
            suite,
        )
        assert unreachable.isdisjoint(map(number_of, had.prompts[1:]))


def at(data: Any, path: str) -> Any:
    for step in read_path(path):
        data = data[step]
    return data


def number_of(prompt: str) -> str:
    return prompt.split()[1]
