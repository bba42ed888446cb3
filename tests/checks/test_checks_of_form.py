"""Checks on JSON, on likeness and on how a reply ended."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.checks.json_text import find_json
from rejoinder.checks.text import rouge_l
from rejoinder.testing import Answer, FakeServer
from tests.kit import Project, bounded, run
from tests.labs.check_lab import run_one, verdicts

PASS, FAIL = True, False
ORDER = '{"id": 7, "items": [{"name": "skate", "price": 9.5}, {"name": "rocket", "price": 100}], "paid": true}'
CUT = '{"items": [{"name": "x", "price": 1}, {"name": "y", "pri'
PROSE = f"Here is the order:\n```json\n{ORDER}\n```\nAnything else?"


@pytest.mark.parametrize(
    ("check", "reply", "passed"),
    [
        ({"is_json": True}, ORDER, PASS),
        ({"is_json": True}, f"  {ORDER}\n", PASS),
        ({"is_json": True}, "12", PASS),
        ({"is_json": True}, PROSE, FAIL),
        ({"is_json": True}, "{'id': 7}", FAIL),
        ({"is_json": False}, "plain words", PASS),
        ({"is_json": False}, ORDER, FAIL),
        ({"contains_json": True}, PROSE, PASS),
        ({"contains_json": True}, f"The order is {ORDER}, as you said.", PASS),
        ({"contains_json": True}, "no {braces} here", FAIL),
        ({"contains_json": False}, "no {braces} here", PASS),
        ({"contains_json": True}, "12", FAIL),
        ({"contains_json": True}, CUT, FAIL),
        ({"contains_json": True}, f"{CUT} and {ORDER}", FAIL),
        ({"contains_json": True}, '{"a": "}[1]", "b', FAIL),
        ({"contains_json": True}, '[{"a": 1}, {"b', FAIL),
        ({"contains_json": True}, 'It is {"a": NaN, "b": [Infinity]}.', FAIL),
        ({"contains_json": True}, '{"a": [1], b: 2}', FAIL),
        ({"contains_json": True}, '{"a": 1e999}', FAIL),
        ({"contains_json": True}, 'See {this}, [that] and [0, 1): {"a": 1}', PASS),
        ({"contains_json": True}, 'See [0, [1, {"a": 1}', FAIL),
        ({"contains_json": True}, 'See {this}, [that and {"a": 1}', PASS),
        ({"json_schema": {"type": "object"}}, '{"a": NaN}', FAIL),
        ({"json_schema": {"required": ["name", "price"]}}, CUT, FAIL),
        ({"json_path": {"path": "$.name", "equals": "x"}}, CUT, FAIL),
        ({"json_path": "$.a"}, '{"a": -Infinity}', FAIL),
        ({"json_path": {"path": "$.admin", "equals": True}}, json.dumps('{"admin": true}'), FAIL),
        ({"json_path": {"path": "$", "equals": '{"admin": true}'}}, json.dumps('{"admin": true}'), PASS),
        ({"json_path": {"path": "$", "equals": "42"}}, '"42"', PASS),
        ({"json_path": {"path": "$", "equals": 42}}, '"42"', FAIL),
        ({"json_path": {"path": "$", "equals": "[1"}}, '"[1"', PASS),
        ({"json_path": "$..*"}, '"[1, 2]"', FAIL),
        ({"json_path": "$[0:1]"}, '"ab"', FAIL),
        ({"json_path": "$.a[0:1]"}, '{"a": "bc"}', FAIL),
        ({"json_schema": {"type": "object", "required": ["id", "items"]}}, PROSE, PASS),
        ({"json_schema": {"type": "object", "required": ["address"]}}, PROSE, FAIL),
        ({"json_schema": {"type": "object"}}, "no JSON", FAIL),
        ({"json_path": "$.items[1].name"}, PROSE, PASS),
        ({"json_path": "$.items[2].name"}, PROSE, FAIL),
        ({"json_path": {"path": "$.items[*].name", "equals": "rocket"}}, PROSE, PASS),
        ({"json_path": {"path": "$.items[*].name", "equals": "sledge"}}, PROSE, FAIL),
        ({"json_path": {"path": "$.paid", "equals": True}}, ORDER, PASS),
        ({"json_path": {"path": "$.paid", "equals": 1}}, ORDER, FAIL),
        ({"json_path": {"path": "$.items[0]", "equals": {"price": 9.5, "name": "skate"}}}, ORDER, PASS),
        ({"json_path": {"path": "$.items[?@.price > 50].name", "check": {"starts_with": "rock"}}}, ORDER, PASS),
        ({"json_path": {"path": "$.items[0].name", "check": {"starts_with": "rock"}}}, ORDER, FAIL),
        ({"levenshtein": {"expected": "Paris", "max": 1}}, "Pari", PASS),
        ({"levenshtein": {"expected": "Paris", "max": 1}}, "Prague", FAIL),
        ({"similar": {"expected": "The capital is Paris.", "threshold": 0.8}}, "The capital is Paris", PASS),
        ({"similar": {"expected": ["Rome", "Paris"], "threshold": 1}}, "Paris", PASS),
        ({"similar": {"expected": "Paris", "threshold": 0.8}}, "Oslo", FAIL),
        ({"rouge_l": {"expected": "the cat sat on the mat", "threshold": 0.8}}, "The cat sat on a mat", PASS),
        ({"rouge_l": {"expected": "the cat sat on the mat", "threshold": 0.8}}, "a dog", FAIL),
        ({"is_refusal": True}, "I'm sorry, but I can't help with that.", PASS),
        ({"is_refusal": True}, "I cannot assist with this request.", PASS),
        ({"is_refusal": False}, "You cannot help but like Paris.", PASS),
        ({"is_refusal": False}, "Sure: Paris.", PASS),
        ({"is_refusal": False}, "I must decline to answer.", FAIL),
        ({"finish_reason": "stop"}, "scripts do not say", FAIL),
    ],
)
def test_what_each_check_says(check: dict[str, Any], reply: str, passed: bool, project: Project) -> None:
    [said] = verdicts(project, (check, reply))
    assert said["passed"] is passed, said
    assert said["reason"]


def test_a_schema_in_a_file(project: Project) -> None:
    project.write("order.schema.json", {"type": "object", "required": ["id"]})
    [good, bad] = verdicts(
        project, ({"json_schema": "order.schema.json"}, ORDER), ({"json_schema": "order.schema.json"}, "[]")
    )
    assert good["passed"] and not bad["passed"] and "object" in bad["reason"]


def test_scores_of_likeness_are_kept(project: Project) -> None:
    result = run_one(project, [{"rouge_l": {"expected": "a b c d", "threshold": 0.4}}], "a b x y")
    assert result["score"] == 0.5 and result["turns"][0]["checks"][0]["reason"] == "0.50 is at least 0.4"


def test_how_an_api_says_that_a_reply_ended(project: Project) -> None:
    def reply(request: Any) -> Answer:
        question = request.body["messages"][-1]["content"]
        return {"long": Answer("cut", finish="length"), "bad": Answer(refusal="No.", finish="refusal")}[question]

    with FakeServer(reply) as server:
        target = {"name": "t", "provider": "openai", "model": "m", "base_url": server.openai_url}
        evals = [
            {"id": "a", "prompt": "long", "checks": [{"finish_reason": ["length", "stop"]}, {"is_refusal": False}]},
            {"id": "b", "prompt": "bad", "checks": [{"is_refusal": True}, {"finish_reason": "refusal"}]},
        ]
        document = run(project, {"targets": [target], "evals": evals}, code=0)
    assert document["summary"]["passed"] == 2


@pytest.mark.parametrize(
    ("check", "code", "path"),
    [
        ({"is_json": "yes"}, "wrong-type", "is_json"),
        ({"json_schema": {"type": "objekt"}}, "invalid-schema", "json_schema"),
        ({"json_schema": "nowhere.json"}, "file-not-found", "json_schema"),
        ({"json_path": "items[0"}, "invalid-path", "json_path"),
        ({"json_path": {"equals": 1}}, "missing-field", "json_path.path"),
        ({"json_path": {"path": "$.a", "equal": 1}}, "unknown-key", "json_path.equal"),
        ({"json_path": {"path": "$.a", "check": {}}}, "missing-field", "json_path.check"),
        (
            {"json_path": {"path": "$.a", "check": {"equals": "1", "max_words": 1}}},
            "multiple-check-keys",
            "json_path.check",
        ),
        ({"json_path": {"path": "$.a", "check": {"not": {"equals": "1"}}}}, "unknown-key", "json_path.check.not"),
        (
            {"json_path": {"path": "$.a", "check": {"equals": "1", "weight": 2}}},
            "unknown-key",
            "json_path.check.weight",
        ),
        ({"json_path": {"path": "$.a", "equals": 1, "check": {"equals": "1"}}}, "conflicting-keys", "json_path.check"),
        ({"levenshtein": {"expected": "a"}}, "missing-field", "levenshtein.max"),
        ({"levenshtein": {"expected": "a", "max": -1}}, "out-of-range", "levenshtein.max"),
        ({"similar": {"expected": "a", "threshold": 2}}, "out-of-range", "similar.threshold"),
        ({"rouge_l": {"expected": "", "threshold": 0.5}}, "empty-pattern", "rouge_l.expected"),
    ],
)
def test_mistakes_are_found_before_anything_is_sent(
    check: dict[str, Any], code: str, path: str, project: Project
) -> None:
    suite = {"evals": [{"prompt": "Q", "checks": [check]}]}
    [error] = project.errors(suite)
    assert (error["code"], error["path"]) == (code, f"evals[0].checks[0].{path}")


@pytest.mark.slow
@bounded(200)
@given(st.text())
def test_any_text_may_be_searched_for_json(text: str) -> None:
    find_json(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
).filter(lambda value: isinstance(value, dict | list))


@pytest.mark.slow
@bounded(200)
@given(JSON, st.text(st.characters(exclude_characters="{}[]`", exclude_categories=["Cs"])))
def test_json_is_found_in_prose_and_in_code_blocks(value: Any, prose: str) -> None:
    text = json.dumps(value)
    assert find_json(text).data == value
    assert find_json(f"Words {prose}\n```json\n{text}\n```\n{prose}").data == value
    assert find_json(f"Words {prose} {text}").data == value


def test_rouge_l_by_hand() -> None:
    # "police killed the gunman" against "police kill the gunman": 3 of 4 words in order.
    assert rouge_l("police killed the gunman", "police kill the gunman") == 0.75
    assert rouge_l("", "") == 1.0 and rouge_l("", "a") == 0.0
