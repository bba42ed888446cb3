"""`effort`, `skill_used`, and the keys `subset` and `schema` of `tool_calls`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import Project, Raw, codes, follow, run, scripted
from tests.labs.check_lab import run_one


def calls(*made: Any) -> Raw:
    return {"text": "Done.", "tool_calls": [{"name": one} if isinstance(one, str) else one for one in made]}


def skill(name: str, /, **arguments: Any) -> Raw:
    return {"name": name, "arguments": arguments}


SEARCH = {"name": "search", "arguments": {"city": "Rome"}}


@pytest.mark.parametrize(
    ("check", "made", "reason"),
    [
        ({"subset": ["search", "book"]}, ["search", "search"], ""),
        ({"subset": ["search", "book"]}, [], ""),
        ({"subset": ["search"], "min": 1}, [], "at least 1 call is expected"),
        ({"subset": ["search", "book"]}, ["search", "pay"], "pay is not among the allowed calls"),
        ({"subset": [SEARCH]}, [SEARCH], ""),
        ({"subset": [SEARCH]}, [skill("search", city="Oslo")], 'search {"city":"Oslo"} is not among'),
        ({"subset": [{"name": "search", "like": {"city": "R*"}}]}, [SEARCH], ""),
        ({"calls": ["search"], "subset": ["search", "book"]}, ["book"], "search was not called"),
    ],
)
def test_only_calls_of_the_subset_may_be_made(project: Project, check: Raw, made: list[Any], reason: str) -> None:
    result = run_one(project, [{"tool_calls": check}], calls(*made))
    [verdict] = result["turns"][0]["checks"]
    assert verdict["passed"] is not bool(reason), verdict
    assert reason in verdict["reason"]


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"scripted": {"name": "search", "parameters": CITY, "returns": ["ok"]}}]


@pytest.mark.parametrize(
    ("made", "state", "words"),
    [
        (SEARCH, "passed", "the reply calls search"),
        (skill("search", city=7), "failed", "does not satisfy its schema: $.city: 7 is not of type"),
        (skill("search"), "failed", '$: "city" is a required property'),
        (skill("find", city="Rome"), "failed", "there is no tool find"),
    ],
)
def test_arguments_have_to_satisfy_the_schema_of_the_tool(project: Project, made: Raw, state: str, words: str) -> None:
    replies = [{"text": "", "tool_calls": [made]}, "Done."]
    checks = [{"tool_calls": {"schema": True}}]
    case = {"id": "a", "prompt": "Q", "tools": TOOLS, "checks": checks}
    [result] = run(project, {"target": "it", "targets": [scripted("it", *replies)], "evals": [case]})["results"]
    [verdict] = result["turns"][0]["checks"]
    assert result["status"] == state and words in verdict["reason"]
    replayed = project.run_json("replay", "last", code=None)["results"][0]
    assert replayed["turns"][0]["checks"][0]["reason"] == verdict["reason"]


def test_schema_without_known_tools_is_an_error(project: Project) -> None:
    result = run_one(project, [{"not": {"tool_calls": {"schema": True}}}], calls(SEARCH))
    assert result["status"] == "error" and "no schema of a tool is known here" in result["error"]["message"]


def test_effort_counts_the_conversation_so_far(project: Project) -> None:
    bound = {"effort": {"max_tool_calls": 2, "max_turns": 1, "min_tokens": 1}}
    checks = [
        {"contains": "never"},
        bound,
        follow("Again.", {"effort": {"max_tool_calls": 2}}, {"effort": {"max_turns": 2}}),
    ]
    replies = [
        {**calls("a", "b"), "input_tokens": 10, "output_tokens": 5},
        {**calls("c"), "input_tokens": 20, "output_tokens": 5},
    ]
    result = run_one(project, checks, *replies, conversation_checks=[{"effort": {"max_tokens": 39}}])
    first, second = (turn["checks"] for turn in result["turns"])
    assert first[1]["reason"] == "2 tool calls, 1 turn, 15 tokens" and first[1]["passed"]
    assert second[0]["reason"] == "3 tool calls, and at most 2 are allowed" and not second[0]["passed"]
    assert second[1]["passed"]
    [whole] = result["conversation_checks"]
    assert not whole["passed"] and whole["reason"] == "40 tokens, and at most 39 are allowed"


def test_effort_over_time_sees_what_was_done_until_then(project: Project) -> None:
    turns = [{"prompt": "one"}, {"prompt": "two", "checks": [{"effort": {"min_turns": 2, "min_tool_calls": 2}}]}]
    rules = [{"by_turn": {"turn": 1, "check": {"effort": {"min_tool_calls": 2}}}}]
    case = {"id": "a", "turns": turns, "conversation_checks": rules}
    document = run(project, {"target": "it", "targets": [scripted("it", calls("a"), calls("b"))], "evals": [case]})
    [result] = document["results"]
    assert result["turns"][1]["checks"][0]["passed"] and not result["conversation_checks"][0]["passed"]


@pytest.mark.parametrize(
    "made",
    [
        skill("Skill", skill="pdf"),
        skill("skill", name="pdf"),
        skill("Skill", command="/pdf"),
        skill("Skill", skill="tools:pdf"),
        skill("activate_skill", name="pdf"),
        "Using skill: pdf",
        "Skill: pdf",
        skill("Read", file_path="/w/.claude/skills/pdf/SKILL.md"),
        skill("bash", command=["cat", ".agents/skills/pdf/SKILL.md | head"]),
        skill("read", path="C:\\w\\skills\\pdf\\SKILL.md"),
    ],
)
def test_skill_is_used_by_its_tool_or_by_reading_it(project: Project, made: Any) -> None:
    checks = [{"skill_used": "pdf"}, {"skill_used": ["pdf", "docx"]}, {"not": {"skill_used": "docx"}}]
    result = run_one(project, checks, calls(made))
    assert [one["passed"] for one in result["turns"][0]["checks"]] == [True, False, True]
    assert result["turns"][0]["checks"][1]["reason"].startswith("docx was not used; the reply uses ")
    assert result["turns"][0]["checks"][1]["score"] == 0.5


@pytest.mark.parametrize(
    "made",
    [
        skill("Skill", skill="pdf-forms"),
        skill("Read", file_path="/w/skills/pdf/README.md"),
        skill("search", name="pdf"),
        skill("Read", file_path="/w/skills/my-pdf/SKILL.md"),
        {"name": "Skill", "arguments": {"skill": 7}},
    ],
)
def test_other_calls_use_no_such_skill(project: Project, made: Raw) -> None:
    result = run_one(project, [{"skill_used": "pdf"}], calls(made))
    assert result["status"] == "failed"


@pytest.mark.parametrize(
    ("check", "code", "words"),
    [
        ({"effort": {}}, "missing-field", "needs a bound"),
        ({"effort": {"max_turns": 1, "min_turns": 2}}, "out-of-range", "`max_turns: 1` is less than `min_turns: 2`"),
        ({"effort": {"max_calls": 1}}, "unknown-key", "max_tool_calls"),
        ({"effort": 5}, "wrong-type", "a mapping"),
        ({"skill_used": []}, "out-of-range", "must not be empty"),
        ({"skill_used": ""}, "out-of-range", "must not be empty"),
        ({"tool_calls": {"subset": []}}, "out-of-range", "must not be empty"),
        ({"tool_calls": {"schema": False}}, "missing-field", "`subset` or `schema: true`"),
        ({"tool_calls": {"subset": [{"name": "a", "times": 2}]}}, "out-of-range", "`times` has no effect in `subset`"),
        ({"json_path": {"path": "$.a", "check": {"effort": {"max_turns": 1}}}}, "unknown-key", "a part of a reply"),
    ],
)
def test_mistakes_are_named(project: Project, check: Raw, code: str, words: str) -> None:
    errors = project.errors({"target": "scripted/x", "evals": [{"prompt": "Q", "checks": [check]}]})
    assert codes(errors) == [code]
    assert words in errors[0]["message"]
