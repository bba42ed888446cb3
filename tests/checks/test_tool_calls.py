"""The check `tool_calls`: which tools a reply calls, with what, how often and in which order."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.checks.base import Context
from rejoinder.checks.tools import grade_tool_calls
from rejoinder.model import Reply, ToolCall, ToolCalls, Verdict, WantedCall
from rejoinder.testing import Answer, FakeServer
from rejoinder.testing import ToolCall as MadeUp
from tests.kit import Project, Raw, bounded, run, scripted, spec
from tests.labs.check_lab import run_one

PASS, FAIL = True, False


def call(name: str, /, **arguments: Any) -> Raw:
    return {"name": name, "arguments": arguments}


SEARCH, ROME, BOOK = call("search", city="Paris", stars=4), call("search", city="Rome"), call("book", hotel="Lutetia")
NESTED = call("sort", by={"key": "price", "up": True}, tags=["a", {"b": 1}], none=None)


def run_calls(project: Project, check: Any, *calls: Any, **beside: Any) -> Raw:
    """The result of a case whose one reply calls these tools."""
    return run_one(project, [{"tool_calls": check, **beside}], {"text": "Well.", "tool_calls": list(calls)})


def said(project: Project, check: Any, *calls: Any, **beside: Any) -> Raw:
    [found] = run_calls(project, check, *calls, **beside)["turns"][0]["checks"]
    return found


@spec("B7")
@pytest.mark.parametrize(
    ("check", "calls", "passed"),
    [
        (["search"], [SEARCH], PASS),
        (["search"], [], FAIL),
        (["search"], [BOOK], FAIL),
        (["Search"], [SEARCH], FAIL),
        (["search", "book"], [SEARCH, BOOK], PASS),
        (["search", "book"], [SEARCH, ROME, BOOK], PASS),
        (["search", "book"], [ROME, BOOK, SEARCH], PASS),
        (["search", "book"], [BOOK, SEARCH], FAIL),
        (["search", "search"], [SEARCH], FAIL),
        (["search", "search"], [SEARCH, BOOK, ROME], PASS),
        ([{"name": "search", "times": 2}], [SEARCH, ROME], PASS),
        ([{"name": "search", "times": 2}], [SEARCH, ROME, SEARCH], PASS),
        ([{"name": "search", "times": 3}], [SEARCH, ROME], FAIL),
        ([{"name": "search", "times": 2}, "book"], [SEARCH, BOOK, ROME], FAIL),
        ({"calls": ["search", "book"]}, [BOOK, SEARCH], FAIL),
        ({"calls": ["search", "book"], "mode": "in_order"}, [SEARCH, BOOK], PASS),
        ({"calls": ["search", "book"], "mode": "any_order"}, [BOOK, SEARCH], PASS),
        ({"calls": ["search", "book"], "mode": "any_order"}, [BOOK, NESTED, SEARCH], PASS),
        ({"calls": [{"name": "search", "times": 2}], "mode": "any_order"}, [SEARCH, BOOK], FAIL),
        # The plain name must leave the one call to the demand that only it satisfies, however they are written.
        ({"calls": ["search", SEARCH], "mode": "any_order"}, [SEARCH, ROME], PASS),
        ({"calls": [SEARCH, "search"], "mode": "any_order"}, [SEARCH, ROME], PASS),
        ({"calls": ["search", "search", ROME], "mode": "any_order"}, [ROME, SEARCH, SEARCH], PASS),
        ({"calls": ["search", "book"], "mode": "exact"}, [SEARCH, BOOK], PASS),
        ({"calls": ["search", "book"], "mode": "exact"}, [BOOK, SEARCH], FAIL),
        ({"calls": ["search", "book"], "mode": "exact"}, [SEARCH, ROME, BOOK], FAIL),
        ({"calls": ["search", "book"], "mode": "exact"}, [SEARCH], FAIL),
        ({"calls": [{"name": "search", "times": 2}], "mode": "exact"}, [SEARCH, ROME], PASS),
        ({"calls": [{"name": "search", "times": 2}], "mode": "exact"}, [SEARCH, ROME, SEARCH], FAIL),
        ({"max": 0}, [], PASS),
        ({"max": 0}, [BOOK], FAIL),
        ({"min": 1}, [], FAIL),
        ({"min": 1}, [BOOK], PASS),
        ({"min": 1, "max": 2}, [BOOK, BOOK, BOOK], FAIL),
        ({"calls": ["book"], "max": 2}, [BOOK, SEARCH], PASS),
        ({"calls": ["book"], "max": 2}, [BOOK, SEARCH, ROME], FAIL),
        ({"calls": ["book"], "min": 2}, [BOOK], FAIL),
    ],
)
def test_order_and_counts(check: Any, calls: list[Raw], passed: bool, project: Project) -> None:
    found = said(project, check, *calls)
    assert found["passed"] is passed, found
    assert found["reason"] and "error" not in found


@spec("B7")
@pytest.mark.parametrize(
    ("wanted", "made", "passed"),
    [
        ({"city": "Paris"}, SEARCH, PASS),
        ({"city": "Paris", "stars": 4}, SEARCH, PASS),
        ({}, SEARCH, PASS),
        ({"city": "paris"}, SEARCH, FAIL),
        ({"stars": 4.0}, SEARCH, PASS),
        ({"stars": "4"}, SEARCH, FAIL),
        ({"stars": 5}, SEARCH, FAIL),
        ({"other": None}, SEARCH, FAIL),
        ({"by": {"key": "price"}}, NESTED, PASS),
        ({"by": {"up": True}}, NESTED, PASS),
        ({"by": {"up": 1}}, NESTED, FAIL),
        ({"by": {"key": "price", "more": 1}}, NESTED, FAIL),
        ({"by": "price"}, NESTED, FAIL),
        ({"tags": ["a", {"b": 1}]}, NESTED, PASS),
        ({"tags": ["a"]}, NESTED, FAIL),
        ({"tags": ["a", {}]}, NESTED, FAIL),
        ({"none": None}, NESTED, PASS),
        ({"n": 1e20}, {"name": "x", "arguments": '{"n": 1%s}' % ("0" * 20)}, PASS),
        ({"n": 1}, {"name": "x", "arguments": '{"n": 1%s}' % ("0" * 4000)}, FAIL),
        ({"a": 1}, {"name": "x", "arguments": "{broken"}, FAIL),
        ({"a": 1}, {"name": "x", "arguments": ""}, FAIL),
        ({}, {"name": "x", "arguments": ""}, PASS),
        ({}, {"name": "x"}, PASS),
        ({}, {"name": "x", "arguments": "[]"}, FAIL),
        ({}, {"name": "x", "arguments": "{broken"}, FAIL),
        ({"a": 1}, {"name": "x", "arguments": "null"}, FAIL),
        ({"a": 1}, {"name": "x", "arguments": "[" * 100_000}, FAIL),
        ({"a": 1}, {"name": "x", "arguments": '{"a":' * 5000 + "1" + "}" * 5000}, FAIL),
    ],
)
def test_arguments_are_compared_as_json(wanted: Raw, made: Raw, passed: bool, project: Project) -> None:
    found = said(project, [{"name": made["name"], "arguments": wanted}], made)
    assert found["passed"] is passed, found
    assert len(found["reason"]) < 400


def test_a_name_alone_accepts_any_arguments(project: Project) -> None:
    for arguments in ("{broken", "", "[]", {}, {"a": 1}):
        assert said(project, ["x"], {"name": "x", "arguments": arguments})["passed"] is PASS


@spec("B7", "P27")
@pytest.mark.parametrize(
    ("check", "calls", "score", "hits", "misses"),
    [
        (["search", "book"], [SEARCH], 0.5, ["search"], ["book"]),
        (["search", "book", "pay"], [SEARCH, BOOK], 2 / 3, ["search", "book"], ["pay"]),
        (["book", "search"], [SEARCH, BOOK], 0.5, ["book"], ["search"]),
        ([{"name": "search", "times": 4}], [SEARCH, ROME, BOOK], 0.5, [], ["search"]),
        ({"calls": ["search"], "mode": "exact"}, [SEARCH, ROME], 0.5, ["search"], []),
        ({"calls": ["search", "book"], "max": 2}, [SEARCH, BOOK, ROME], 0, ["search", "book"], []),
        ({"max": 0}, [], 1, [], []),
        ({"max": 0}, [BOOK], 0, [], []),
        ([{"name": "book", "arguments": {"hotel": "Ritz"}}], [BOOK], 0, [], ['book {"hotel":"Ritz"}']),
    ],
)
def test_scores_are_the_share_that_was_found(
    check: Any, calls: list[Raw], score: float, hits: list[str], misses: list[str], project: Project
) -> None:
    result = run_calls(project, check, *calls)
    assert result["score"] == result["turns"][0]["checks"][0]["score"] == pytest.approx(score)
    assert (result["hits"], result["misses"]) == (hits, misses)


def test_a_threshold_beside_it_is_the_share_that_is_needed(project: Project) -> None:
    assert said(project, ["search", "book"], SEARCH, threshold=0.5)["passed"] is PASS
    assert said(project, ["search", "book"], SEARCH, threshold=0.6)["passed"] is FAIL
    assert said(project, {"calls": ["search"], "max": 1}, SEARCH, BOOK, threshold=0)["passed"] is FAIL


@pytest.mark.parametrize(
    ("check", "calls", "reason"),
    [
        (["search", "book"], [SEARCH, BOOK], "the reply calls search, book"),
        (["book"], [], "book was not called; the reply calls no tool"),
        (["book"], [SEARCH], "book was not called; the reply calls search"),
        (["book", "search"], [SEARCH, BOOK], "search was not called in its place; the reply calls search, book"),
        (["search", "search"], [SEARCH], "search was not called once more; the reply calls search"),
        ([{"name": "search", "times": 3}], [SEARCH], "search was called 1 of 3 times; the reply calls search"),
        (
            [call("book", hotel="Ritz")],
            [BOOK],
            'book {"hotel":"Ritz"} was not called, but book {"hotel":"Lutetia"}; the reply calls book',
        ),
        (
            [call("book", hotel="Ritz")],
            [{"name": "book", "arguments": "{hotel\n: Ritz"}],
            'book {"hotel":"Ritz"} was not called, but book {hotel : Ritz (no JSON); the reply calls book',
        ),
        (
            {"calls": ["search"], "mode": "exact"},
            [SEARCH, BOOK],
            'book {"hotel":"Lutetia"} was called as well; the reply calls search, book',
        ),
        ({"max": 0}, [BOOK], "no call is allowed; the reply calls book"),
        ({"max": 1}, [BOOK, BOOK], "2 calls are more than 1; the reply calls book, book"),
        ({"min": 1}, [], "at least 1 call is expected; the reply calls no tool"),
        ({"min": 2}, [BOOK], "at least 2 calls are expected; the reply calls book"),
        (["b"], [call("a")] * 9, "b was not called; the reply calls a, a, a, a and 5 more"),
    ],
)
def test_reasons_say_which_call_is_missing_and_which_was_made(
    check: Any, calls: list[Raw], reason: str, project: Project
) -> None:
    assert said(project, check, *calls)["reason"] == reason


def test_reasons_say_of_each_call_what_came_of_it(project: Project) -> None:
    replies = {"tool_calls": [call("look", word="a"), call("look", word="b")]}, {"tool_calls": [call("look")]}, "done"
    content = {
        "targets": [{"name": "t", "provider": "scripted", "replies": list(replies)}],
        "tools": [{"scripted": {"name": "look", "returns": ["one", "two", "three"]}, "fails": [{"fault": "error"}]}],
        "evals": [{"prompt": "Q", "checks": [{"tool_calls": [{"name": "look", "result": "four"}]}]}],
    }
    [result] = run(project, content)["results"]
    assert result["turns"][0]["checks"][0]["reason"] == (
        'look with result \'four\' was not called, but look {"word":"a"}, which failed: \'the tool failed: internal'
        " error', and look {\"word\":\"b\"}, which answered: 'two', and look, which answered: 'three';"
        " the reply calls look, look, look"
    )


def test_long_arguments_are_shortened(project: Project) -> None:
    reason = said(project, [call("book", hotel="R" * 500)], call("book", hotel="L" * 500))["reason"]
    assert reason == (
        f'book {{"hotel":"{"R" * 50}... was not called, but book {{"hotel":"{"L" * 50}...; the reply calls book'
    )


def test_variables_in_names_and_arguments(project: Project) -> None:
    case = {
        "id": "case",
        "prompt": "Q",
        "vars": {"tool": "search", "town": "Paris"},
        "checks": [{"tool_calls": ["{{ tool }}", {"name": "{{ tool }}", "arguments": {"a": [{"b": "{{ town }}"}]}}]}],
    }
    calls = [call("search"), call("search", a=[{"b": "Paris"}])]
    target = scripted("script", {"tool_calls": calls})
    [result] = run(project, {"targets": [target], "evals": [case]})["results"]
    assert result["status"] == "passed"
    assert result["hits"] == ["search", 'search {"a":[{"b":"Paris"}]}']
    assert [one["name"] for one in result["turns"][0]["tool_calls"]] == ["search", "search"]


@spec("B7")
def test_calls_that_an_api_reports(project: Project) -> None:
    calls = (MadeUp("search", {"city": "Paris"}), MadeUp("book", '{"hotel": "Ritz"}'))
    with FakeServer(Answer("", tool_calls=calls, finish="tool_calls")) as server:
        target = {"name": "t", "provider": "openai", "model": "m", "base_url": server.openai_url, "api_key": "k"}
        checks = [
            {"tool_calls": {"calls": [call("search", city="Paris"), "book"], "mode": "exact"}},
            {"tool_calls": ["book", "search"]},
            {"not": {"tool_calls": ["pay"]}},
        ]
        [result] = run(project, {"targets": [target], "evals": [{"prompt": "Q", "checks": checks}]})["results"]
    assert [one["passed"] for one in result["turns"][0]["checks"]] == [PASS, FAIL, PASS]


def test_follow_ups_and_suite_checks_look_at_the_calls_of_their_turn(project: Project) -> None:
    checks = [{"tool_calls": ["book"]}, {"prompt": "Book it!", "checks": [{"tool_calls": ["book"]}]}]
    result = run_one(project, checks, {"text": "I look.", "tool_calls": [SEARCH]}, {"tool_calls": [BOOK]})
    assert (result["status"], result["succeeded_on_turn"]) == ("passed", 2)


@spec("B7", "P19")
@pytest.mark.parametrize(
    ("check", "code", "path"),
    [
        ([], "out-of-range", ""),
        ("search", "wrong-type", ""),
        (3, "wrong-type", ""),
        (None, "wrong-type", ""),
        ([""], "out-of-range", "[0]"),
        ([1], "wrong-type", "[0]"),
        ([{}], "missing-field", "[0].name"),
        ([{"name": ""}], "out-of-range", "[0].name"),
        ([{"name": "a", "arguments": []}], "wrong-type", "[0].arguments"),
        ([{"name": "a", "times": 0}], "out-of-range", "[0].times"),
        ([{"name": "a", "times": 101}], "out-of-range", "[0].times"),
        ([{"name": "a", "times": 1.5}], "wrong-type", "[0].times"),
        ([{"name": "a", "args": {}}], "unknown-key", "[0].args"),
        ({}, "missing-field", ".calls"),
        ({"mode": "exact"}, "missing-field", ".calls"),
        ({"mode": "exact", "max": 1}, "missing-field", ".calls"),
        ({"calls": []}, "out-of-range", ".calls"),
        ({"calls": ["a"], "mode": "strict"}, "out-of-range", ".mode"),
        ({"min": -1}, "out-of-range", ".min"),
        ({"min": "1"}, "wrong-type", ".min"),
        ({"min": 2, "max": 1}, "out-of-range", ".max"),
        ({"calls": ["a", "b"], "max": 1}, "out-of-range", ".max"),
        ({"calls": [{"name": "a", "times": 3}], "max": 2}, "out-of-range", ".max"),
        ({"calls": ["a"], "mode": "exact", "min": 2}, "out-of-range", ".min"),
        ({"max": 1, "most": 2}, "unknown-key", ".most"),
    ],
)
def test_mistakes_are_found_before_anything_is_sent(check: Any, code: str, path: str, project: Project) -> None:
    [error] = project.errors({"evals": [{"prompt": "Q", "checks": [{"tool_calls": check}]}]})
    assert (error["code"], error["path"]) == (code, f"evals[0].checks[0].tool_calls{path}")


def test_an_empty_list_says_what_to_write(project: Project) -> None:
    [error] = project.errors({"evals": [{"prompt": "Q", "checks": [{"tool_calls": []}]}]})
    assert "`tool_calls: {max: 0}`" in error["message"]


@pytest.mark.parametrize("kind", ["contains_any", "contains_all", "icontains_any", "icontains_all", "tool_calls"])
def test_a_text_of_which_variables_leave_nothing_is_refused(kind: str, project: Project) -> None:
    """Every reply contains an empty text, so that the check would pass whatever the reply is."""
    case = {"prompt": "Q", "vars": {"nothing": ""}, "checks": [{kind: ["{{ nothing }}"]}]}
    [error] = project.errors({"evals": [case]})
    assert (error["code"], error["path"]) == ("empty-pattern", f"evals[0].checks[0].{kind}[0]")


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ({"tool_calls": "search"}, "tool_calls"),
        ({"tool_calls": ["search"]}, "tool_calls[0]"),
        ({"tool_calls": [{"name": "a", "arguments": 1}]}, "tool_calls[0].arguments"),
    ],
)
def test_mistakes_in_scripted_calls(entry: Raw, path: str, project: Project) -> None:
    targets = [scripted("t", entry)]
    [error] = project.errors({"targets": targets, "evals": [{"prompt": "Q", "checks": [{"match": "*"}]}]})
    assert (error["code"], error["path"]) == ("wrong-type", f"targets[0].replies[0].{path}")
    assert "NAME" not in error["message"]


# Against brute force

NAMES = st.sampled_from("ab")
VALUES = st.sampled_from([None, '{"x":1}', '{"y":2}', '{"x":1,"y":2}'])
WANTED = st.lists(st.builds(WantedCall, NAMES, VALUES, st.integers(1, 2)), min_size=1, max_size=3)
MADE = st.lists(st.builds(ToolCall, NAMES, VALUES.map(lambda one: one or "{}")), max_size=5)


def judged(check: ToolCalls, made: list[ToolCall]) -> Verdict:
    # The check looks at nothing but the reply.
    return grade_tool_calls(check, Context(None, Reply("", tool_calls=tuple(made)), 1, None))  # type: ignore[arg-type]


def accepts(wanted: WantedCall, made: ToolCall) -> bool:
    given = json.loads(made.arguments).items()
    return wanted.name == made.name and json.loads(wanted.arguments or "{}").items() <= given


@pytest.mark.slow
@bounded(150)
@given(wanted=WANTED, made=MADE, mode=st.sampled_from(["in_order", "any_order", "exact"]))
def test_as_many_calls_are_found_as_can_be(wanted: list[WantedCall], made: list[ToolCall], mode: Any) -> None:
    flat = [one for one in wanted for _ in range(one.times)]
    most = 0
    for size in range(1, min(len(flat), len(made)) + 1):
        for few in itertools.combinations(flat, size):
            ways = itertools.permutations(made, size) if mode == "any_order" else itertools.combinations(made, size)
            if any(all(map(accepts, few, way)) for way in ways):
                most = size
                break
        if most < size:
            break
    found = judged(ToolCalls(calls=tuple(wanted), mode=mode), made)
    assert found.score == pytest.approx(most / (max(len(flat), len(made)) if mode == "exact" else len(flat)))
    assert found.passed == (most == len(flat) and (mode != "exact" or len(made) == most))
    assert len(found.hits) + len(found.misses) == len(wanted)
