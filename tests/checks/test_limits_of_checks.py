"""Checks whose work could grow without end are refused, or end in an error of their own: no suite and no reply keeps a
run from going on. Ordinary schemas and texts are not touched by the bounds."""

from __future__ import annotations

import json
import time
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.json_schemas import Expansion
from tests.kit import Project, Raw, bounded, scripted

SOON_S = 20.0
"""What is bounded to a second may take longer on a busy machine. Without a bound it would take minutes."""


def suite_of(schema: Any, reply: str) -> Raw:
    target = scripted("model", reply)
    return {"targets": [target], "target": "model", "evals": [{"prompt": "Hi", "checks": [{"json_schema": schema}]}]}


def judge(project: Project, schema: Any, value: Any) -> Raw:
    """The result of a run with one check of one reply."""
    return judge_text(project, {"json_schema": schema}, json.dumps(value))


def judge_text(project: Project, check: Raw, reply: str) -> Raw:
    project.write("bot.py", "import pathlib\ndef reply(request):\n    return pathlib.Path('reply').read_text()\n")
    project.write("reply", reply)
    target = {"name": "model", "provider": "python", "call": "bot:reply"}
    project.write(
        "evals.yaml", {"targets": [target], "target": "model", "evals": [{"prompt": "Hi", "checks": [check]}]}
    )
    started = time.monotonic()
    [result] = project.run_json("run", code=None)["results"]
    assert time.monotonic() - started < SOON_S
    return result


def refer(name: str) -> Raw:
    return {"$ref": f"#/$defs/{name}"}


def chain(depth: int, link: Any, last: Any = None) -> Raw:
    """Definitions of which each is made of the next."""
    definitions = {f"d{level}": link(refer(f"d{level + 1}")) for level in range(depth)}
    return {"$defs": {**definitions, f"d{depth}": last or {"type": "string"}}, **refer("d0")}


EXPLODING = {
    "any and all": lambda inner: {"anyOf": [{"allOf": [inner, inner]}, {"allOf": [inner, inner]}]},
    "all": lambda inner: {"allOf": [inner, inner]},
    "one": lambda inner: {"oneOf": [inner, inner]},
    "not": lambda inner: {"not": inner, "allOf": [inner]},
    "if": lambda inner: {"if": inner, "then": inner},
    "dependent": lambda inner: {"dependentSchemas": {"a": inner, "b": inner}},
    "unevaluated": lambda inner: {"allOf": [inner], "unevaluatedProperties": False},
}


@pytest.mark.parametrize("link", EXPLODING.values(), ids=EXPLODING.keys())
def test_a_schema_whose_references_multiply_is_refused(project: Project, link: Any) -> None:
    started = time.monotonic()
    suite = suite_of(chain(40, link), '"x"')
    [error] = project.errors(suite)
    assert (error["code"], error["path"]) == ("schema-multiplies", "evals[0].checks[0].json_schema")
    assert "more than 10,000 sub-schemas" in error["message"] and "fewer levels of `allOf`" in error["message"]
    project.run("run", code=2)
    assert time.monotonic() - started < SOON_S


def test_a_schema_that_refers_to_itself_at_the_same_place_is_refused(project: Project) -> None:
    [error] = project.errors(suite_of({"$defs": {"a": refer("b"), "b": {"anyOf": [refer("a")]}}, **refer("a")}, "1"))
    assert error["code"] == "invalid-schema"
    assert "refers to itself without going into the reply" in error["message"]


ORDINARY = {
    "no references": ({"type": "object", "properties": {"a": {"type": "string"}}}, {"a": "x"}, {"a": 1}),
    "a short chain": (chain(3, lambda inner: {"allOf": [inner]}), "x", 1),
    "a tree": (
        {
            "$defs": {"node": {"properties": {"v": {"type": "integer"}, "kids": {"items": refer("node")}}}},
            **refer("node"),
        },
        {"v": 1, "kids": [{"v": 2, "kids": [{"v": 3}]}, {"v": 4}]},
        {"v": 1, "kids": [{"v": 2, "kids": [{"v": "three"}]}]},
    ),
    "any JSON": (
        {"anyOf": [{"type": "string"}, {"items": {"$ref": "#"}, "type": "array"}]},
        [["a", ["b"]], "c"],
        [["a", [1]]],
    ),
    "names": (
        {
            "$id": "http://example.com/root.json",
            "$defs": {"a": {"$id": "a.json", "$anchor": "text", "type": "string"}},
            "allOf": [{"$ref": "a.json"}, {"$ref": "http://example.com/a.json#text"}, {"$ref": "#/$defs/a"}],
        },
        "x",
        1,
    ),
    "odd pointers": ({"$defs": {"a/b~c d": {"type": "string"}}, "$ref": "#/$defs/a~1b~0c%20d"}, "x", 1),
    "a dynamic reference": (
        {"$dynamicAnchor": "n", "properties": {"kids": {"items": {"$dynamicRef": "#n"}}, "v": {"type": "string"}}},
        {"v": "x", "kids": [{"v": "y"}]},
        {"kids": [{"v": 1}]},
    ),
    "draft 4": (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "definitions": {"a": {"id": "#here", "type": "string"}},
            "items": [{"$ref": "#here"}],
            "additionalItems": {"$ref": "#/definitions/a"},
        },
        ["x", "y"],
        ["x", 1],
    ),
    "JSON Schema itself": (
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"properties": {"a": {"type": "string"}}},
        {"properties": {"a": {"type": 1}}},
    ),
}


@pytest.mark.parametrize(("schema", "good", "bad"), ORDINARY.values(), ids=ORDINARY.keys())
def test_ordinary_schemas_say_what_is_wrong_and_where(project: Project, schema: Any, good: Any, bad: Any) -> None:
    assert judge(project, schema, good)["status"] == "passed"
    result = judge(project, schema, bad)
    assert result["status"] == "failed"
    assert result["turns"][0]["checks"][0]["reason"].startswith("$")


def expressions(count: int) -> Raw:
    """The schema of an expression with many kinds of operators, as languages have it."""
    operands = {"left": refer("e"), "right": refer("e")}
    kinds = [
        {"type": "object", "properties": {**operands, "op": {"const": f"o{number}"}}, "required": ["op", "left"]}
        for number in range(count)
    ]
    return {"$defs": {"e": {"anyOf": [{"type": "number"}, *kinds]}}, **refer("e")}


def nested(depth: int, leaf: Any) -> Any:
    return {"op": "o9", "left": nested(depth - 1, leaf), "right": 1} if depth else leaf


@pytest.mark.slow
def test_alternatives_that_multiply_with_the_depth_of_a_reply_end_in_time(project: Project) -> None:
    """Ten ways into each of twenty levels: every place is looked at once, and the ways are not written out."""
    assert judge(project, expressions(10), nested(20, 1))["status"] == "passed"
    result = judge(project, expressions(10), nested(20, "x"))
    assert result["status"] == "failed"
    assert "too many steps on this reply to say where" in result["turns"][0]["checks"][0]["reason"]
    [shallow] = judge(project, expressions(10), nested(2, "x"))["turns"][0]["checks"]
    assert shallow["reason"].startswith("$")


@pytest.mark.slow
def test_a_schema_that_takes_too_long_on_a_reply_is_an_error_of_its_check(project: Project) -> None:
    choices = [{"a": number} for number in range(5000)]
    result = judge(project, {"items": {"enum": choices}}, [{"a": -1}] * 3000)
    assert (result["status"], result["error"]["type"]) == ("error", "check")
    assert "the schema takes more than 50,000,000 steps on this reply" in result["error"]["message"]


@pytest.mark.slow
def test_a_long_reply_is_no_trouble_for_an_ordinary_schema(project: Project) -> None:
    schema = {"items": {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]}}
    assert judge(project, schema, [{"a": number, "b": "x"} for number in range(100_000)])["status"] == "passed"


@pytest.mark.slow
@pytest.mark.parametrize(
    "check",
    [
        {"levenshtein": {"expected": "b" * 300_000, "max": 5}},
        {"similar": {"expected": "b" * 300_000, "threshold": 0.5}},
        {"rouge_l": {"expected": "b " * 150_000, "threshold": 0.5}},
    ],
    ids=["levenshtein", "similar", "rouge_l"],
)
def test_texts_that_are_too_long_to_be_compared_are_an_error_of_their_check(project: Project, check: Raw) -> None:
    result = judge_text(project, check, "ab" * 200_000)
    assert (result["status"], result["error"]["type"]) == ("error", "check")
    assert "too long to be compared: 400,000 characters with" in result["error"]["message"]
    result = judge_text(project, check, "ab" * 20_000)
    assert result["status"] == "failed"


# The count is an upper bound of what a validator does, and the validator can be trusted with what is within bounds.

LEAVES = st.sampled_from([{"type": "string"}, {"type": "integer"}, {"minimum": 3}, True, False, {}])
REFERENCES = st.sampled_from([refer(f"d{number}") for number in range(4)])


def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=4)
    lists, single = ["allOf", "anyOf", "oneOf", "prefixItems"], ["not", "items", "additionalProperties"]
    return st.one_of(
        st.builds(lambda key, found: {key: found}, st.sampled_from(lists), several),
        st.builds(lambda key, found: {key: found}, st.sampled_from(single), inner),
        st.builds(lambda one, other: {"properties": {"a": one, "b": other}}, inner, inner),
        st.builds(lambda one, other: {"allOf": [one], "unevaluatedProperties": other}, inner, inner),
    )


SCHEMAS = st.recursive(st.one_of(LEAVES, REFERENCES), larger, max_leaves=12)
VALUES = st.recursive(
    st.one_of(st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from("abc"), inner)),
    max_leaves=20,
)


@pytest.mark.slow
@bounded(200)
@given(st.lists(SCHEMAS, min_size=4, max_size=4), VALUES)
def test_what_is_within_the_bounds_is_validated_soon(definitions: list[Any], value: Any) -> None:
    schema = {"$defs": {f"d{number}": one for number, one in enumerate(definitions)}, **refer("d0")}
    try:
        expansion = Expansion(schema)
    except ValueError:
        return
    visits = expansion.visits(value, 50_000, remembers=False)
    assert visits >= expansion.visits(value, 50_000, remembers=True) >= 1
    validator = jsonschema_rs.validator_for(schema)
    started = time.monotonic()
    validator.is_valid(value)
    if visits <= 50_000:
        list(validator.iter_errors(value))
    assert time.monotonic() - started < SOON_S
