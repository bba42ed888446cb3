"""A count of tokens that a server does not tell is no exact 0: usage is approximate, and a budget counts in full."""

from __future__ import annotations

import pytest

from rejoinder.testing import FakeServer, Fault
from tests.kit import Project, Raw

TEXT = "The parcel is on its way, and it will be there on Monday at noon."


def chat(usage: Raw | None) -> Raw:
    return {"choices": [{"message": {"content": TEXT}, "finish_reason": "stop"}], "model": "m", "usage": usage}


def responses(usage: Raw | None) -> Raw:
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": TEXT}]}
    return {"status": "completed", "output": [item], "model": "m", "usage": usage}


def anthropic(usage: Raw | None) -> Raw:
    return {"content": [{"type": "text", "text": TEXT}], "stop_reason": "end_turn", "model": "m", "usage": usage}


def gemini(usage: Raw | None) -> Raw:
    content = {"role": "model", "parts": [{"text": TEXT}]}
    return {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage}


def target(server: FakeServer, api: str) -> Raw:
    settings: dict[str, Raw] = {
        "chat": {"provider": "openai", "base_url": server.openai_url},
        "responses": {"provider": "openai", "api": "responses", "base_url": server.openai_url},
        "azure": {"provider": "azure", "endpoint": server.azure_url, "deployment": "m"},
        "anthropic": {"provider": "anthropic", "base_url": server.url},
        "gemini": {"provider": "gemini", "base_url": server.url},
    }
    return {"name": "it", "model": "m", "api_key": "any", "max_tokens": 60, **settings[api]}


BODIES = {"chat": chat, "responses": responses, "azure": chat, "anthropic": anthropic, "gemini": gemini}
NAMES = {
    "chat": ("prompt_tokens", "completion_tokens"),
    "azure": ("prompt_tokens", "completion_tokens"),
    "responses": ("input_tokens", "output_tokens"),
    "anthropic": ("input_tokens", "output_tokens"),
    "gemini": ("promptTokenCount", "candidatesTokenCount"),
}
APIS = tuple(BODIES)
UNTOLD = ("only input", "output zero", "output null", "output negative", "only output", "nothing")


def usage_of(api: str, kind: str) -> Raw | None:
    given, said = NAMES[api]
    return {
        "only input": {given: 10},
        "output zero": {given: 10, said: 0},
        "output null": {given: 10, said: None},
        "output negative": {given: 10, said: -5},
        "only output": {said: 17},
        "nothing": None,
    }[kind]


def run(project: Project, server: FakeServer, api: str, *arguments: str, code: int, cases: int = 1) -> Raw:
    evals = [
        {"id": f"c{n}", "prompt": f"Where is parcel {n}?", "checks": [{"contains": "parcel"}]} for n in range(cases)
    ]
    project.write(".rejoinder/config.yaml", {"prices": {"m": {"input": 10, "output": 30}}})
    project.write("evals.yaml", {"target": "it", "targets": [target(server, api)], "evals": evals})
    return project.run_json("run", *arguments, code=code)


@pytest.mark.parametrize("kind", UNTOLD)
@pytest.mark.parametrize("api", APIS)
def test_a_count_that_is_not_told_is_estimated_and_said_to_be(project: Project, api: str, kind: str) -> None:
    with FakeServer(Fault("status", status=200, body=BODIES[api](usage_of(api, kind)))) as server:
        document = run(project, server, api, code=0)
        [result] = document["results"]
    usage = result["turns"][0]["usage"]
    assert usage["approximate"] is True
    assert usage["input_tokens"] == (10 if kind.startswith("output ") or kind == "only input" else 5)
    assert usage["output_tokens"] == (17 if kind in ("only output", "nothing") else usage["output_tokens"]) > 0
    assert document["summary"]["usage"]["approximate"] is True
    assert "about " in project.run("show")


@pytest.mark.parametrize("kind", UNTOLD)
@pytest.mark.parametrize("api", APIS)
def test_a_budget_holds_where_output_is_not_counted(project: Project, api: str, kind: str) -> None:
    budget = 0.02
    with FakeServer(Fault("status", status=200, body=BODIES[api](usage_of(api, kind)))) as server:
        document = run(project, server, api, "--budget-usd", str(budget), code=4, cases=40)
        calls = len(server.requests)
    paid = 60 * 30 / 1e6 * calls
    assert 0 < calls < 12, "60 tokens of output at $30 a million, $0.0018 each, and $0.02 for all"
    assert paid <= document["run"]["budget"]["spent_usd"] <= budget


@pytest.mark.parametrize("api", APIS)
def test_counts_that_are_told_stay_exact(project: Project, api: str) -> None:
    given, said = NAMES[api]
    with FakeServer(Fault("status", status=200, body=BODIES[api]({given: 10, said: 17}))) as server:
        [result] = run(project, server, api, code=0)["results"]
    assert result["turns"][0]["usage"] == {"input_tokens": 10, "output_tokens": 17, "total_tokens": 27}


def test_a_refusal_without_a_word_may_have_no_output_tokens(project: Project) -> None:
    body = {"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}], "model": "m"}
    with FakeServer(
        Fault("status", status=200, body={**body, "usage": {"prompt_tokens": 9, "completion_tokens": 0}})
    ) as server:
        [result] = run(project, server, "chat", code=1)["results"]
    assert result["turns"][0]["usage"] == {"input_tokens": 9, "output_tokens": 0, "total_tokens": 9}
