"""`tool_calls_path` and `usage_path`: what a service tells beside its words."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.model import Usage
from rejoinder.providers.reply_fields import read_calls, read_usage
from rejoinder.testing import FakeServer, Fault
from tests.kit import Project, Raw, bounded, cases_of, refusal, run, spec


def asked(project: Project, body: Any, code: int | None, *checks: Raw, **more: Any) -> Raw:
    answer = Fault("status", status=200, body=json.dumps(body), headers={"content-type": "application/json"})
    with FakeServer(faults=[answer]) as server:
        target = {"name": "bot", "provider": "http", "url": f"{server.url}/x", "reply_path": "reply", **more}
        suite = {"targets": [target], "evals": [{"id": "one", "prompt": "Hi", "checks": [*checks]}]}
        return run(project, suite, code=code)


FORMS: dict[str, Raw] = {
    "openai": {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"q": "x"}'}},
    "plain": {"name": "look", "arguments": {"q": "x"}},
    "plain text": {"name": "look", "arguments": '{"q": "x"}'},
    "anthropic": {"type": "tool_use", "id": "b", "name": "look", "input": {"q": "x"}},
    "with its result": {"name": "look", "arguments": {"q": "x"}, "result": {"found": 1}},
}


@spec("3B")
@pytest.mark.parametrize("form", FORMS)
def test_tool_calls_of_a_service_are_judged(form: str, project: Project) -> None:
    body = {"reply": "done", "calls": [FORMS[form]]}
    wanted: Raw = {"tool_calls": {"calls": [{"name": "look", "arguments": {"q": "x"}}]}}
    result = asked(project, body, 0, wanted, tool_calls_path="calls")["results"][0]
    [call] = result["turns"][0]["tool_calls"]
    assert call["name"] == "look" and json.loads(call["arguments"]) == {"q": "x"}
    assert call.get("result") == ('{"found":1}' if "result" in form else None)


def test_a_reply_may_be_tool_calls_alone(project: Project) -> None:
    body = {"reply": None, "calls": [FORMS["openai"]]}
    found = asked(project, body, 0, {"tool_calls": {"min": 1}}, tool_calls_path="calls")
    assert found["results"][0]["turns"][0]["response"] == ""


@pytest.mark.parametrize(
    ("body", "path", "words"),
    [
        ({"reply": "a", "calls": {"name": "x"}}, "calls", "at `calls` there is dict, and a list"),
        ({"reply": "a", "calls": ["x"]}, "calls", "a tool call without a `name`"),
        ({"reply": "a"}, "message.calls", "`tool_calls_path: message.calls` finds no `message` in it"),
    ],
)
def test_another_form_is_an_error_and_no_reply_without_calls(
    body: Raw, path: str, words: str, project: Project
) -> None:
    found = asked(project, body, 3, {"tool_calls": {"max": 0}}, tool_calls_path=path)
    assert words in found["results"][0]["error"]["message"]


def test_no_calls_are_no_calls(project: Project) -> None:
    for body in ({"reply": "a"}, {"reply": "a", "calls": None}, {"reply": "a", "calls": []}):
        asked(project, body, 0, {"tool_calls": {"max": 0}}, tool_calls_path="calls")


USAGES: dict[str, tuple[Raw, Usage]] = {
    "plain": ({"input_tokens": 9, "output_tokens": 4}, Usage(9, 4)),
    "openai": (
        {
            "prompt_tokens": 9,
            "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 5},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
        Usage(9, 4, 2, cached_tokens=5),
    ),
    "responses": (
        {"input_tokens": 9, "output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 3}},
        Usage(9, 4, 3),
    ),
    "anthropic": (
        {"input_tokens": 2, "output_tokens": 4, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3},
        Usage(10, 4, cached_tokens=5, cache_write_tokens=3),
    ),
}


@pytest.mark.parametrize("form", USAGES)
def test_counts_of_a_service_are_read(form: str) -> None:
    written, usage = USAGES[form]
    assert read_usage(written, "usage") == usage


def test_counts_and_prices_make_costs(project: Project) -> None:
    body = {"reply": "a", "usage": {"input_tokens": 9, "output_tokens": 4}}
    project.write(".rejoinder/config.yaml", {"prices": {"bot": {"input": 1000000, "output": 2000000}}})
    [result] = asked(project, body, 0, {"max_tokens": 4}, {"cost": 17}, usage_path="usage")["results"]
    assert result["usage"] == {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
    assert result["cost"] == 17


def test_a_budget_counts_a_service_that_tells_its_most(project: Project) -> None:
    body = {"reply": "a", "usage": {"input_tokens": 9, "output_tokens": 4}}
    project.write(".rejoinder/config.yaml", {"prices": {"bot": {"input": 1000000, "output": 2000000}}})
    answer = Fault("status", status=200, body=json.dumps(body), headers={"content-type": "application/json"})
    with FakeServer(faults=[answer] * 9) as server:
        target = {"name": "bot", "provider": "http", "url": f"{server.url}/x", "reply_path": "reply"}
        target |= {"usage_path": "usage", "most_tokens": 20}
        suite = {"targets": [target], "evals": cases_of(9, {"contains": "a"})}
        for budget, most in (("--budget-tokens", 50), ("--budget-usd", 75)):
            done = run(project, suite, budget, str(most), "--workers", "1", code=4)
            assert done["summary"]["passed"] == 3  # after three calls of 13 tokens, or 17 dollars, no other fits
            server.reset()
    del target["most_tokens"]
    project.write("evals.yaml", suite)
    assert "the most that a call of target `bot` can cost is unknown" in refusal(project, "run", "--budget-tokens", "9")


@pytest.mark.parametrize(("usage", "words"), [({}, "no counts of tokens"), ("9", "there is str"), (None, "")])
def test_counts_of_another_form_are_an_error(usage: Any, words: str, project: Project) -> None:
    answer = {"reply": "a", "usage": usage}
    found = asked(project, answer, 3 if words else 0, {"contains": "a"}, usage_path="usage")["results"][0]
    assert words in found["error"]["message"] if words else found["usage"]["approximate"]


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "arguments", "function", "input_tokens", "prompt_tokens", "result"]), inner
        )
    ),
    max_leaves=8,
)


@given(value=ANYTHING)
@bounded(500)
def test_no_value_ends_in_a_traceback(value: Any) -> None:
    for read in (read_calls, read_usage):
        with contextlib.suppress(msgspec.DecodeError):
            msgspec.json.encode(read(value, "x"))
