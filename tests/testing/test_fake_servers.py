"""The fake servers: the official clients are satisfied with them, and they fail, refuse and limit as they are told."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import doctest
import http.client
import itertools
import json
import math
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import rejoinder.testing
from rejoinder.testing import Answer, FakeServer, Fault, RateLimit, Received, ToolCall, embed
from rejoinder.testing.anthropic import MESSAGES_FIELDS
from rejoinder.testing.gemini import CONFIG_FIELDS, DATA_FIELDS, REQUEST_FIELDS
from rejoinder.testing.limits import duration, keep
from rejoinder.testing.openai_chat import CHAT_FIELDS, EMBEDDINGS_FIELDS
from rejoinder.testing.openai_responses import RESPONSES_FIELDS
from tests.kit import Raw

pytestmark = pytest.mark.slow

APIS = ("openai", "responses", "azure", "anthropic", "gemini")
FAR = 3600.0
"""Seconds that no test waits."""

USAGE = Answer(
    "Paris", input_tokens=1000, output_tokens=90, cached_tokens=600, cache_write_tokens=100, reasoning_tokens=40
)
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


# The official clients.


@contextlib.contextmanager
def openai_client(server: FakeServer, key: str = "right") -> Iterator[Any]:
    import openai

    with openai.OpenAI(base_url=server.openai_url, api_key=key, max_retries=0, timeout=30) as client:
        yield client


@contextlib.contextmanager
def azure_client(server: FakeServer, key: str = "right") -> Iterator[Any]:
    import openai

    options: Raw = {"api_version": "2024-10-21", "max_retries": 0, "timeout": 30}
    with openai.AzureOpenAI(azure_endpoint=server.azure_url, api_key=key, **options) as client:
        yield client


@contextlib.contextmanager
def anthropic_client(server: FakeServer, key: str = "right") -> Iterator[Any]:
    import anthropic

    with anthropic.Anthropic(base_url=server.anthropic_url, api_key=key, max_retries=0, timeout=30) as client:
        yield client


@contextlib.contextmanager
def gemini_client(server: FakeServer, key: str = "right") -> Iterator[Any]:
    from google import genai
    from google.genai import types

    client = genai.Client(api_key=key, http_options=types.HttpOptions(base_url=server.gemini_url, timeout=30_000))
    try:
        yield client
    finally:
        client.close()


def ask_openai(server: FakeServer, key: str = "right", **more: Any) -> Any:
    with openai_client(server, key) as client:
        return client.chat.completions.create(model="gpt-4o", messages=[user("Capital of France?")], **more)


def ask_responses(server: FakeServer, key: str = "right", **more: Any) -> Any:
    with openai_client(server, key) as client:
        return client.responses.create(model="gpt-4o", input="Capital of France?", **more)


def ask_azure(server: FakeServer, key: str = "right", **more: Any) -> Any:
    with azure_client(server, key) as client:
        return client.chat.completions.create(model="deployed", messages=[user("Capital of France?")], **more)


def ask_anthropic(server: FakeServer, key: str = "right", **more: Any) -> Any:
    with anthropic_client(server, key) as client:
        return client.messages.create(model="claude", max_tokens=50, messages=[user("Capital of France?")], **more)


def ask_gemini(server: FakeServer, key: str = "right", **more: Any) -> Any:
    with gemini_client(server, key) as client:
        return client.models.generate_content(model="gemini-2.5-flash", contents="Capital of France?", **more)


ASK: dict[str, Callable[..., Any]] = {
    "openai": ask_openai,
    "responses": ask_responses,
    "azure": ask_azure,
    "anthropic": ask_anthropic,
    "gemini": ask_gemini,
}


def user(text: str) -> Raw:
    return {"role": "user", "content": text}


# Plain HTTP.

PATHS = {
    "openai": "/v1/chat/completions",
    "responses": "/v1/responses",
    "azure": "/openai/deployments/deployed/chat/completions?api-version=2024-10-21",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/gemini-2.5-flash:generateContent",
}
BODIES: dict[str, Raw] = {
    "openai": {"model": "gpt-4o", "messages": [user("Hi")]},
    "responses": {"model": "gpt-4o", "input": "Hi"},
    "azure": {"messages": [user("Hi")]},
    "anthropic": {"model": "claude", "max_tokens": 9, "messages": [user("Hi")]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
}


def connect(server: FakeServer, timeout: float = 30, context: ssl.SSLContext | None = None) -> Any:
    scheme, _, address = server.url.partition("://")
    if scheme == "https":
        return http.client.HTTPSConnection(address, timeout=timeout, context=context)
    return http.client.HTTPConnection(address, timeout=timeout)


@contextlib.contextmanager
def posted(
    server: FakeServer, api: str = "openai", body: Any = None, *, timeout: float = 30, headers: Raw | None = None
) -> Iterator[http.client.HTTPResponse]:
    """A response whose body has not been read."""
    sent = BODIES[api] if body is None else body
    raw = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
    connection = connect(server, timeout)
    given = {"anthropic-version": "2023-06-01"} if headers is None else headers
    try:
        connection.request("POST", PATHS[api], raw, given)
        with connection.getresponse() as response:
            yield response
    finally:
        connection.close()


def post(server: FakeServer, api: str = "openai", body: Any = None, **more: Any) -> tuple[int, Any, Any]:
    """Status, JSON and headers of an answer."""
    with posted(server, api, body, **more) as response:
        return response.status, json.loads(response.read()), response.headers


def text_of(api: str, body: Any) -> str:
    """The model's words in an answer's JSON."""
    if api == "gemini":
        return body["candidates"][0]["content"]["parts"][0]["text"]
    if api == "anthropic":
        return body["content"][0]["text"]
    if api == "responses":
        return body["output"][0]["content"][0]["text"]
    return body["choices"][0]["message"]["content"]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.005)


# The package.


def test_the_example_of_the_package_runs() -> None:
    assert doctest.testmod(rejoinder.testing) == (0, 5)


def test_the_package_needs_msgspec_alone() -> None:
    code = (
        "import sys, rejoinder.testing; print([m for m in sys.modules if m in ('aiohttp', 'yaml', 'click', 'openai')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Answer(finish="ended"), "unknown finish"),  # pyright: ignore
        (lambda: Answer(input_tokens=5, cached_tokens=6), "cannot be less"),
        (lambda: Answer(output_tokens=5, reasoning_tokens=6), "cannot be less"),
        (lambda: Fault("nothing"), "unknown fault"),  # pyright: ignore
        (lambda: RateLimit(0), "at least something"),
        (lambda: RateLimit(5, burst=0), "at least something"),
        (lambda: RateLimit(5, kind="sieve"), "unknown kind"),  # pyright: ignore
        (lambda: RateLimit(5, headers="azure"), "unknown kind or headers"),  # pyright: ignore
        (lambda: RateLimit(5, burst=5, kind="window"), "no burst"),
        (lambda: RateLimit(0.5, kind="window"), "at least one"),
    ],
)
def test_nonsense_is_refused_when_it_is_written(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


# OpenAI's client.


def test_openai_plain() -> None:
    with FakeServer("Paris") as server:
        completion = ask_openai(server)
        [request] = server.requests
    [choice] = completion.choices
    assert (choice.message.content, choice.message.refusal, choice.finish_reason) == ("Paris", None, "stop")
    assert completion.model == "gpt-4o"
    assert completion.usage.completion_tokens == 1
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + 1
    assert (request.api, request.method, request.path, request.query) == ("openai", "POST", PATHS["openai"], {})
    assert request.headers["authorization"] == "Bearer right"
    assert request.body["messages"] == [user("Capital of France?")]
    assert json.loads(request.raw) == request.body


def test_openai_tools_there_and_back() -> None:
    calls = [ToolCall("weather", {"city": "Paris"}), ToolCall("weather", '{"city": "Ro', id="call_mine")]
    replies = iter([Answer(tool_calls=calls), "Sunny"])
    tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]
    with FakeServer(lambda _: next(replies)) as server, openai_client(server) as client:
        messages: list[Any] = [user("Weather?")]
        first = client.chat.completions.create(model="gpt-4o", messages=messages, tools=tools).choices[0]
        assert (first.finish_reason, first.message.content) == ("tool_calls", None)
        one, two = first.message.tool_calls
        assert (one.function.name, json.loads(one.function.arguments)) == ("weather", {"city": "Paris"})
        assert (two.id, two.function.arguments) == ("call_mine", '{"city": "Ro')
        assert one.id not in ("", two.id)
        messages += [first.message, *({"role": "tool", "tool_call_id": c.id, "content": "sun"} for c in (one, two))]
        second = client.chat.completions.create(model="gpt-4o", messages=messages, tools=tools).choices[0]
        assert second.message.content == "Sunny"


def test_openai_thinking_refusal_and_endings() -> None:
    answers = [
        Answer("Paris", thinking="France, so", finish="length"),
        Answer(refusal="I will not."),
        Answer("Par", finish="content_filter"),
    ]
    replies = iter(answers)
    with FakeServer(lambda _: next(replies)) as server:
        thought, refused, filtered = (ask_openai(server).choices[0] for _ in answers)
    assert (thought.message.reasoning_content, thought.finish_reason) == ("France, so", "length")
    assert (refused.message.content, refused.message.refusal) == (None, "I will not.")
    assert refused.finish_reason == "stop"
    assert (filtered.message.content, filtered.finish_reason) == ("Par", "content_filter")


def test_openai_usage() -> None:
    with FakeServer(USAGE) as server:
        usage = ask_openai(server).usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (1000, 90, 1090)
    assert (usage.prompt_tokens_details.cached_tokens, usage.prompt_tokens_details.cache_write_tokens) == (600, 100)
    assert usage.completion_tokens_details.reasoning_tokens == 40


def test_responses_plain_and_usage() -> None:
    with FakeServer(USAGE) as server:
        response = ask_responses(server)
    assert (response.output_text, response.status, response.incomplete_details) == ("Paris", "completed", None)
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (1000, 90, 1090)
    assert (usage.input_tokens_details.cached_tokens, usage.input_tokens_details.cache_write_tokens) == (600, 100)
    assert usage.output_tokens_details.reasoning_tokens == 40


def test_responses_tools_there_and_back() -> None:
    replies = iter([Answer(thinking="I need it", tool_calls=[ToolCall("weather", {"city": "Paris"})]), "Sunny"])
    with FakeServer(lambda _: next(replies)) as server, openai_client(server) as client:
        items: list[Any] = [user("Weather?")]
        first = client.responses.create(model="gpt-4o", input=items)
        thought, call = first.output
        assert (thought.type, thought.summary[0].text) == ("reasoning", "I need it")
        assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "weather", {"city": "Paris"})
        items += [*first.output, {"type": "function_call_output", "call_id": call.call_id, "output": "sun"}]
        assert client.responses.create(model="gpt-4o", input=items).output_text == "Sunny"


def test_responses_refusal_and_endings() -> None:
    answers = [Answer(refusal="I will not."), Answer("Par", finish="length"), Answer(finish="content_filter")]
    replies = iter(answers)
    with FakeServer(lambda _: next(replies)) as server:
        refused, cut, filtered = (ask_responses(server) for _ in answers)
    assert refused.output[0].content[0].refusal == "I will not."
    assert refused.status == "completed"
    assert (cut.output_text, cut.status, cut.incomplete_details.reason) == ("Par", "incomplete", "max_output_tokens")
    assert (filtered.output, filtered.incomplete_details.reason) == ([], "content_filter")


def test_models_are_listed() -> None:
    import openai

    with FakeServer() as server, openai_client(server) as client:
        first, *_ = client.models.list().data
        assert client.models.retrieve(first.id) == first
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("unheard-of")
        assert all(request.body is None and request.method == "GET" for request in server.requests)


def test_embeddings_are_unit_vectors_near_where_words_are_shared() -> None:
    texts = ["The cat sat on the mat", "the mat sat on the cat", "A cat sat there", "Stocks fell sharply today"]
    with FakeServer() as server, openai_client(server) as client:
        embedded = client.embeddings.create(model="fake-embedding", input=texts)
        vectors = [one.embedding for one in embedded.data]
        plain = client.embeddings.create(model="fake-embedding", input=texts[0], encoding_format="float", dimensions=32)
        tokens = client.embeddings.create(model="fake-embedding", input=[1, 2, 3])
        packed = server.requests[0].body["encoding_format"]
    assert packed == "base64"
    assert all(math.isclose(math.hypot(*vector), 1, abs_tol=1e-6) for vector in vectors)
    same, near, far = (sum(map(float.__mul__, vectors[0], one)) for one in vectors[1:])
    assert math.isclose(same, 1, abs_tol=1e-6)
    assert far < 0.3 < near < 0.95
    assert vectors[0] == pytest.approx(embed(texts[0]), abs=1e-6)
    assert len(plain.data[0].embedding) == 32
    assert len(tokens.data) == 1
    assert embedded.usage.prompt_tokens == sum(len(text.split()) for text in texts)


# Azure.


def test_azure_speaks_by_deployment_and_by_model() -> None:
    import openai

    with FakeServer("Paris", key="right") as server:
        completion = ask_azure(server)
        address = f"{server.azure_url}/openai/v1"
        with openai.OpenAI(base_url=address, api_key="right", max_retries=0) as client:
            newer = client.chat.completions.create(model="gpt-4o", messages=[user("Capital?")])
            answered = client.responses.create(model="gpt-4o", input="Capital?").output_text
        first, *_ = server.requests
    assert (completion.choices[0].message.content, completion.model) == ("Paris", "deployed")
    assert completion.choices[0].content_filter_results["hate"] == {"filtered": False, "severity": "safe"}
    assert (newer.choices[0].message.content, newer.model, answered) == ("Paris", "gpt-4o", "Paris")
    assert (first.api, first.query, first.headers["api-key"]) == ("azure", {"api-version": "2024-10-21"}, "right")


def test_azure_filters_prompts_and_answers() -> None:
    import openai

    with FakeServer(
        Answer("Par", finish="content_filter"), faults=[Fault("status", status=400, code="content_filter")]
    ) as server:
        with pytest.raises(openai.BadRequestError) as caught:
            ask_azure(server)
        choice = ask_azure(server).choices[0]
    error: Any = caught.value.body
    assert (error["code"], error["innererror"]["code"]) == ("content_filter", "ResponsibleAIPolicyViolation")
    assert error["innererror"]["content_filter_result"]["violence"] == {"filtered": True, "severity": "medium"}
    assert choice.finish_reason == "content_filter"
    assert choice.content_filter_results["violence"]["filtered"]


def test_azure_without_a_version_finds_nothing() -> None:
    with FakeServer() as server:
        connection = connect(server)
        connection.request("POST", PATHS["azure"].partition("?")[0], json.dumps(BODIES["azure"]))
        response = connection.getresponse()
        assert (response.status, json.loads(response.read())["error"]["code"]) == (404, "404")
        connection.close()


# Anthropic.


def test_anthropic_plain_and_usage() -> None:
    with FakeServer(USAGE) as server:
        message = ask_anthropic(server, system="Be brief.")
        [request] = server.requests
    assert ([block.text for block in message.content], message.stop_reason) == (["Paris"], "end_turn")
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (300, 600, 100)
    assert (usage.output_tokens, usage.output_tokens_details.thinking_tokens) == (90, 40)
    assert (request.api, request.body["system"]) == ("anthropic", "Be brief.")
    assert message._request_id == "req_000000000000000000000001"


def test_anthropic_tools_and_thinking_there_and_back() -> None:
    calls = [ToolCall("weather", {"city": "Paris"}), ToolCall("weather", '{"city": "Rome"}')]
    replies = iter([Answer("Let me see.", thinking="I need it", tool_calls=calls), "Sunny"])
    with FakeServer(lambda _: next(replies)) as server, anthropic_client(server) as client:
        options: Raw = {"model": "claude", "max_tokens": 50, "tools": [{"name": "weather", "input_schema": WEATHER}]}
        messages: list[Any] = [user("Weather?")]
        first = client.messages.create(messages=messages, **options)
        thought, text, one, two = first.content
        assert first.stop_reason == "tool_use"
        assert (thought.type, thought.thinking, text.text) == ("thinking", "I need it", "Let me see.")
        assert thought.signature
        assert (one.name, one.input, two.input) == ("weather", {"city": "Paris"}, {"city": "Rome"})
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": "sun"} for call in (one, two)]
        messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
        assert client.messages.create(messages=messages, **options).content[0].text == "Sunny"


def test_anthropic_refusal_and_endings() -> None:
    answers = [Answer(refusal="Not this."), Answer("Par", finish="length"), Answer(finish="content_filter"), ""]
    replies = iter(answers)
    with FakeServer(lambda _: next(replies)) as server:
        refused, cut, filtered, empty = (ask_anthropic(server) for _ in answers)
    assert (refused.stop_reason, refused.content, refused.stop_details.explanation) == ("refusal", [], "Not this.")
    assert (cut.stop_reason, cut.content[0].text) == ("max_tokens", "Par")
    assert filtered.stop_reason == "refusal"
    assert (empty.stop_reason, empty.content) == ("end_turn", [])


# Gemini.


def test_gemini_plain_and_usage() -> None:
    with FakeServer(USAGE) as server:
        response = ask_gemini(server, config={"system_instruction": "Be brief.", "temperature": 0.5})
        [request] = server.requests
    assert (response.text, response.candidates[0].finish_reason.value) == ("Paris", "STOP")
    usage = response.usage_metadata
    assert (usage.prompt_token_count, usage.cached_content_token_count) == (1000, 600)
    assert (usage.candidates_token_count, usage.thoughts_token_count, usage.total_token_count) == (50, 40, 1090)
    assert response.model_version == "gemini-2.5-flash"
    assert (request.api, request.headers["x-goog-api-key"]) == ("gemini", "right")
    assert request.body["generationConfig"] == {"temperature": 0.5}


def test_gemini_tools_and_thinking_there_and_back() -> None:
    from google.genai import types

    call = ToolCall("weather", {"city": "Paris"})
    replies = iter([Answer(thinking="I need it", tool_calls=[call]), "Sunny"])
    with FakeServer(lambda _: next(replies)) as server, gemini_client(server) as client:
        declared = types.FunctionDeclaration(name="weather", parameters_json_schema=WEATHER)
        config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[declared])])
        contents: list[Any] = [types.Content(role="user", parts=[types.Part(text="Weather?")])]
        first = client.models.generate_content(model="gemini-3-pro", contents=contents, config=config)
        thought, wanted = first.candidates[0].content.parts
        assert (thought.text, thought.thought) == ("I need it", True)
        assert (wanted.function_call.name, wanted.function_call.args) == ("weather", {"city": "Paris"})
        assert wanted.thought_signature
        result = types.Part.from_function_response(name="weather", response={"result": "sun"})
        contents += [first.candidates[0].content, types.Content(role="user", parts=[result])]
        assert client.models.generate_content(model="gemini-3-pro", contents=contents, config=config).text == "Sunny"


def test_gemini_refusal_and_endings() -> None:
    answers = [Answer(refusal="Not this."), Answer("Par", finish="length"), Answer(finish="length"), ""]
    replies = iter(answers)
    with FakeServer(lambda _: next(replies)) as server:
        refused, cut, spent, empty = (ask_gemini(server).candidates[0] for _ in answers)
    assert (refused.finish_reason.value, refused.content) == ("SAFETY", None)
    assert refused.safety_ratings[0].blocked
    assert (cut.finish_reason.value, cut.content.parts[0].text) == ("MAX_TOKENS", "Par")
    assert (spent.finish_reason.value, spent.content.parts) == ("MAX_TOKENS", None)
    assert (empty.finish_reason.value, empty.content.parts[0].text) == ("STOP", "")


# Errors, as the clients understand them.

CLASSES = {
    (400, "openai"): "BadRequestError",
    (401, "openai"): "AuthenticationError",
    (403, "openai"): "PermissionDeniedError",
    (404, "openai"): "NotFoundError",
    (429, "openai"): "RateLimitError",
    (500, "openai"): "InternalServerError",
    (503, "openai"): "InternalServerError",
    (429, "responses"): "RateLimitError",
    (401, "azure"): "AuthenticationError",
    (404, "azure"): "NotFoundError",
    (429, "azure"): "RateLimitError",
    (503, "azure"): "InternalServerError",
    (400, "anthropic"): "BadRequestError",
    (401, "anthropic"): "AuthenticationError",
    (402, "anthropic"): "APIStatusError",
    (403, "anthropic"): "PermissionDeniedError",
    (404, "anthropic"): "NotFoundError",
    (413, "anthropic"): "ContentTooLargeError",
    (429, "anthropic"): "RateLimitError",
    (500, "anthropic"): "InternalServerError",
    (529, "anthropic"): "OverloadedError",
    (400, "gemini"): "ClientError",
    (429, "gemini"): "ClientError",
    (500, "gemini"): "ServerError",
    (503, "gemini"): "ServerError",
}


@pytest.mark.slow
@pytest.mark.parametrize(("status", "api"), CLASSES)
def test_each_error_is_of_the_class_that_the_client_has_for_it(status: int, api: str) -> None:
    with FakeServer(faults=[Fault("status", status=status)]) as server:
        with pytest.raises(Exception) as caught:
            ASK[api](server)
        assert type(caught.value).__name__ == CLASSES[status, api]
        assert len(server.requests) == 1
        ASK[api](server)  # the fault is used up


def test_errors_have_the_shape_of_their_api() -> None:
    with FakeServer(faults=itertools.repeat(Fault("status", status=429, retry_after=7))) as server:
        bodies = {api: post(server, api) for api in APIS}
    for status, _, headers in bodies.values():
        assert (status, headers["retry-after"]) == (429, "7")
    error = bodies["openai"][1]["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
    assert "try again in 7s" in error["message"]
    assert bodies["responses"][1]["error"] == error
    assert bodies["azure"][1]["error"]["code"] == "429"
    body = bodies["anthropic"][1]
    assert (body["type"], body["error"]["type"]) == ("error", "rate_limit_error")
    assert body["request_id"] == bodies["anthropic"][2]["request-id"]
    error = bodies["gemini"][1]["error"]
    assert (error["code"], error["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert error["details"] == [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}]


@pytest.mark.parametrize(
    ("api", "status", "code", "found"),
    [
        ("openai", 429, "insufficient_quota", {"type": "insufficient_quota", "code": "insufficient_quota"}),
        ("openai", 400, "context_length_exceeded", {"code": "context_length_exceeded"}),
        ("openai", 418, "teapot", {"type": "invalid_request_error", "code": "teapot"}),
        ("anthropic", 400, "billing_error", {"type": "billing_error"}),
        ("anthropic", 599, None, {"type": "api_error"}),
        ("gemini", 400, "FAILED_PRECONDITION", {"status": "FAILED_PRECONDITION"}),
        ("gemini", 400, "API_KEY_INVALID", {"status": "INVALID_ARGUMENT"}),
    ],
)
def test_a_code_picks_one_of_several_errors(api: str, status: int, code: str | None, found: Raw) -> None:
    with FakeServer(faults=[Fault("status", status=status, code=code)]) as server:
        answered, body, _ = post(server, api)
    assert answered == status
    assert body["error"].items() >= found.items()


def test_a_body_of_ones_own_is_sent_as_it_is() -> None:
    own = Fault("status", status=200, body={"promptFeedback": {"blockReason": "SAFETY"}}, headers={"x-mine": "yes"})
    with FakeServer(faults=[own, Fault("status", status=502, body="<html>Bad Gateway</html>")]) as server:
        blocked = ask_gemini(server)
        with posted(server) as response:
            assert (response.status, response.read()) == (502, b"<html>Bad Gateway</html>")
    assert (blocked.candidates, blocked.prompt_feedback.block_reason.value) == (None, "SAFETY")
    assert blocked.sdk_http_response.headers["x-mine"] == "yes"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("api", "status", "said"),
    [
        ("openai", 401, "Incorrect API key provided"),
        ("responses", 401, "Incorrect API key provided"),
        ("azure", 401, "Access denied due to invalid subscription key"),
        ("anthropic", 401, "invalid x-api-key"),
        ("gemini", 400, "API key not valid"),
    ],
)
def test_another_key_is_refused(api: str, status: int, said: str) -> None:
    with FakeServer("Paris", key="right") as server:
        with pytest.raises(Exception, match=said) as caught:
            ASK[api](server, "wrong-and-long-enough")
        error: Any = caught.value
        assert (getattr(error, "status_code", None) or error.code) == status
        assert "wrong-and-long-enough" not in str(error)
        assert server.accepted == 0
        ASK[api](server, "right")
        assert server.accepted == 1


@pytest.mark.parametrize(("api", "status"), [("openai", 401), ("azure", 401), ("anthropic", 401), ("gemini", 403)])
def test_no_key_is_refused(api: str, status: int) -> None:
    with FakeServer(key="right") as server:
        assert post(server, api)[0] == status


@pytest.mark.parametrize(
    ("api", "header"),
    [("openai", "x-request-id"), ("responses", "x-request-id"), ("azure", "x-request-id"), ("anthropic", "request-id")],
)
def test_every_answer_has_an_id_of_its_own(api: str, header: str) -> None:
    with FakeServer(faults=[None, Fault("status", status=500)]) as server:
        ids = {post(server, api)[2][header] for _ in range(3)}
    assert len(ids) == 3
    assert None not in ids


# Requests that the real API would refuse.

CALL: Raw = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLING: Raw = {"role": "assistant", "content": None, "tool_calls": [CALL]}
USING: Raw = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]}
RESULT: Raw = {"type": "tool_result", "tool_use_id": "t1", "content": "done"}


def tool(name: str) -> Raw:
    return {"role": "tool", "tool_call_id": name, "content": "done"}


def chat(*messages: Any, **more: Any) -> Raw:
    return {"model": "gpt-4o", "messages": list(messages), **more}


def talk(*messages: Any, **more: Any) -> Raw:
    return {"model": "claude", "max_tokens": 9, "messages": list(messages), **more}


def respond(*items: Any, **more: Any) -> Raw:
    return {"model": "gpt-4o", "input": list(items), **more}


def generate(*contents: Any, **more: Any) -> Raw:
    return {"contents": list(contents), **more}


def turn(role: str, *parts: Raw) -> Raw:
    return {"role": role, "parts": list(parts)}


HI = turn("user", {"text": "Hi"})
FUNCTION_CALL = turn("model", {"functionCall": {"name": "f", "args": {}}})
FUNCTION_RESPONSE = turn("user", {"functionResponse": {"name": "f", "response": {}}})

REFUSED: list[tuple[str, Any, str]] = [
    ("openai", b"{", "could not parse the JSON body"),
    ("openai", [], "could not parse the JSON body"),
    ("openai", {"messages": [user("Hi")]}, "you must provide a model parameter"),
    ("openai", {"model": "gpt-4o"}, "Missing required parameter: 'messages'"),
    ("openai", chat(), "Invalid 'messages': empty array"),
    ("openai", chat() | {"messages": "Hi"}, "Invalid type for 'messages'"),
    ("openai", chat("Hi"), r"Invalid type for 'messages\[0\]'"),
    ("openai", chat({"role": "robot", "content": "Hi"}), "Invalid value: 'robot'"),
    ("openai", chat({"role": "user", "content": None}), "expected a string, got null"),
    ("openai", chat({"role": "assistant"}), "expected a string, got null"),
    ("openai", chat({"role": "user", "content": 5}), r"messages\[0\].content"),
    ("openai", chat({"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}), "'input_text'"),
    ("openai", chat({"role": "user", "content": [{"type": "text"}]}), r"content\[0\].text"),
    ("openai", chat(user("Hi"), stream=True), "does not stream"),
    ("openai", chat(user("Hi"), max_output_tokens=5), "Unknown parameter: 'max_output_tokens'"),
    ("openai", chat(user("Hi"), max_tokens=5) | {"model": "gpt-5-mini"}, "Use 'max_completion_tokens' instead"),
    ("openai", chat(user("Hi"), tool("c1")), "must be a response to a preceeding message with 'tool_calls'"),
    ("openai", chat(user("Hi"), CALLING, tool("c2")), "'tool_call_id' of 'c2' not found"),
    ("openai", chat(user("Hi"), CALLING), "did not have response messages: c1"),
    ("openai", chat(user("Hi"), CALLING, user("Well?"), tool("c1")), "did not have response messages: c1"),
    ("openai", chat(user("Hi"), CALLING, {"role": "tool", "content": "done"}), "tool_call_id"),
    ("openai", chat(user("Hi"), CALLING | {"tool_calls": []}), "empty array"),
    ("openai", chat(user("Hi"), CALLING | {"tool_calls": [{"type": "function"}]}), r"tool_calls\[0\].id"),
    ("openai", chat(user("Hi"), CALLING | {"tool_calls": [CALL | {"function": {"arguments": {}}}]}), "arguments"),
    ("azure", chat(), "Invalid 'messages': empty array"),
    ("azure", chat(user("Hi"), tool("c1")), "must be a response to a preceeding message"),
    ("responses", {"model": "gpt-4o"}, "Missing required parameter: 'input'"),
    ("responses", respond(), "Invalid 'input': empty array"),
    ("responses", respond(user("Hi"), messages=[]), "Unknown parameter: 'messages'"),
    ("responses", respond({"role": "tool", "content": "Hi"}), "Invalid value: 'tool'"),
    ("responses", respond({"role": "user", "content": None}), r"input\[0\].content"),
    ("responses", respond({"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}), "'input_text'"),
    ("responses", respond({"type": "function_call_output", "call_id": "c", "output": ""}), "No tool call found"),
    ("responses", respond({"type": "function_call", "call_id": "c", "name": "f"}), "No tool output found"),
    ("responses", respond({"type": "function_call_output", "output": ""}), "call_id"),
    ("responses", respond(user("Hi"), stream=True), "does not stream"),
    ("anthropic", b"nonsense", "not valid JSON"),
    ("anthropic", {"model": "claude", "messages": [user("Hi")]}, "max_tokens: Field required"),
    ("anthropic", {"max_tokens": 9, "messages": [user("Hi")]}, "model: Field required"),
    ("anthropic", {"model": "claude", "max_tokens": 9}, "messages: Field required"),
    ("anthropic", talk(user("Hi")) | {"max_tokens": -1}, "max_tokens: must be greater"),
    ("anthropic", talk(user("Hi")) | {"max_tokens": "9"}, "max_tokens: Input should be a valid integer"),
    ("anthropic", talk(user("Hi"), temperature=1.5), "temperature: range: 0..1"),
    ("anthropic", talk(user("Hi"), thinking={"type": "enabled", "budget_tokens": 9}), "must be greater than"),
    ("anthropic", talk(user("Hi"), max_completion_tokens=5), "max_completion_tokens: Extra inputs are not permitted"),
    ("anthropic", talk(user("Hi"), stream=True), "does not stream"),
    ("anthropic", talk(), "at least one message is required"),
    ("anthropic", talk({"role": "system", "content": "Hi"}), 'Unexpected role "system"'),
    ("anthropic", talk(user("Hi"), {"role": "tool", "content": "Hi"}), "messages.1.role"),
    ("anthropic", talk({"role": "assistant", "content": "Hi"}), 'first message must use the "user" role'),
    ("anthropic", talk({"role": "user"}), "messages.0.content: Field required"),
    ("anthropic", talk(user("")), "messages.0: all messages must have non-empty content"),
    ("anthropic", talk(user("Hi"), {"role": "assistant", "content": []}, user("So?")), "messages.1: all messages"),
    ("anthropic", talk(user(" \n")), "text content blocks must contain non-whitespace text"),
    (
        "anthropic",
        talk({"role": "user", "content": [{"type": "text", "text": ""}]}),
        "text content blocks must be non-empty",
    ),
    ("anthropic", talk(user("Hi"), {"role": "assistant", "content": "Well "}), "cannot end with trailing whitespace"),
    ("anthropic", talk(user("Hi"), system=[{"type": "text", "text": ""}]), "system: text content blocks must be non"),
    ("anthropic", talk({"role": "user", "content": [{"type": "input_text"}]}), "Input tag 'input_text'"),
    ("anthropic", talk({"role": "user", "content": [RESULT]}), "unexpected `tool_use_id`"),
    ("anthropic", talk(user("Hi"), USING), "without `tool_result` blocks immediately after: t1"),
    ("anthropic", talk(user("Hi"), USING, user("So?")), "without `tool_result` blocks immediately after: t1"),
    (
        "anthropic",
        talk(user("Hi"), USING, {"role": "user", "content": [{"type": "text", "text": "So"}, RESULT]}),
        "without `tool_result` blocks immediately after: t1",
    ),
    ("anthropic", talk(user("Hi"), {"role": "assistant", "content": [RESULT]}), "can only be in `user` messages"),
    ("gemini", b"", "Invalid JSON payload"),
    ("gemini", {}, "contents is not specified"),
    ("gemini", generate(), "contents is not specified"),
    ("gemini", generate(turn("assistant", {"text": "Hi"})), "Please use a valid role: user, model"),
    ("gemini", generate(turn("user")), "contents.parts must not be empty"),
    ("gemini", generate(HI, turn("model", {"text": ""})), r"contents\[1\].parts\[0\].data: required oneof field"),
    ("gemini", generate(turn("user", {"thought": True})), "required oneof field"),
    ("gemini", generate(turn("user", {"text": "Hi", "inlineData": {}})), "already set. Cannot set 'inlineData'"),
    ("gemini", generate(HI, maxOutputTokens=5), 'Unknown name "maxOutputTokens": Cannot find field'),
    ("gemini", generate(HI, generationConfig={"max_tokens": 5}), "Unknown name \"max_tokens\" at 'generation_config'"),
    ("gemini", generate(HI, systemInstruction={"parts": [{"text": ""}]}), "system_instruction"),
    ("gemini", generate(HI, FUNCTION_RESPONSE), "comes immediately after a function call turn"),
    ("gemini", generate(HI, FUNCTION_CALL, HI), "number of function response parts"),
]


@pytest.fixture(scope="module")
def strict() -> Iterator[FakeServer]:
    def reply(_: Received) -> str:
        raise AssertionError("a refused request must not reach the model")

    with FakeServer(reply) as server:
        yield server


@pytest.mark.parametrize(("api", "body", "said"), REFUSED)
def test_what_the_real_api_refuses_is_refused(strict: FakeServer, api: str, body: Any, said: str) -> None:
    status, answer, _ = post(strict, api, body)
    assert status == 400
    assert re.search(said, answer["error"]["message"]), answer


ACCEPTED: list[tuple[str, Raw]] = [
    ("openai", chat({"role": "developer", "content": "Be brief"}, user("Hi"), max_completion_tokens=5)),
    ("openai", chat(user("Hi"), CALLING, tool("c1"), user("And?"))),
    ("openai", chat(user(""), {"role": "assistant", "content": ""})),
    ("azure", {"messages": [user("Hi"), CALLING, tool("c1")]}),
    ("responses", respond({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]})),
    ("responses", respond({"type": "function_call_output", "call_id": "c", "output": ""}, previous_response_id="r")),
    ("anthropic", talk(user("Hi"), user("again"), USING, {"role": "user", "content": [RESULT]})),
    ("anthropic", talk(user("Hi"), {"role": "assistant", "content": ""})),
    ("anthropic", talk(user("Hi"), system="", temperature=1)),
    ("gemini", generate({"parts": [{"text": "Hi"}]}, generation_config={"max_output_tokens": 5})),
    ("gemini", generate(HI, FUNCTION_CALL, FUNCTION_RESPONSE, HI)),
]


@pytest.mark.parametrize(("api", "body"), ACCEPTED)
def test_what_the_real_api_accepts_is_accepted(api: str, body: Raw) -> None:
    with FakeServer("Yes") as server:
        status, answer, _ = post(server, api, body)
        assert (status, text_of(api, answer)) == (200, "Yes")


def test_anthropic_wants_its_version() -> None:
    with FakeServer() as server:
        status, answer, _ = post(server, "anthropic", headers={})
    assert (status, answer["error"]["message"]) == (400, "anthropic-version: header is required")


def test_gemini_does_not_stream_either() -> None:
    with FakeServer() as server, gemini_client(server) as client, pytest.raises(Exception, match="does not stream"):
        list(client.models.generate_content_stream(model="gemini-2.5-flash", contents="Hi"))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"model": "m"}, "Missing required parameter: 'input'"),
        ({"model": "m", "input": []}, "empty array"),
        ({"model": "m", "input": ["word", ""]}, "cannot be an empty string"),
        ({"model": "m", "input": 5}, "Invalid type for 'input'"),
        ({"model": "m", "input": "word", "dimensions": 0}, "Invalid type for 'dimensions'"),
    ],
)
def test_embeddings_of_nothing_are_refused(body: Raw, said: str) -> None:
    with FakeServer() as server:
        connection = connect(server)
        connection.request("POST", "/v1/embeddings", json.dumps(body))
        response = connection.getresponse()
        assert (response.status, said in json.loads(response.read())["error"]["message"]) == (400, True)
        connection.close()


def test_fields_that_only_similar_servers_have_can_be_let_in() -> None:
    body = chat(user("Hi"), top_k=5)
    with FakeServer(extra_fields=["top_k"]) as server:
        assert post(server, "openai", body)[0] == 200


def test_the_fields_known_here_are_all_that_the_clients_know() -> None:
    """A client that learns a new field makes this test fail, and not the tests of users who use the field."""
    from anthropic.types.message_create_params import MessageCreateParamsBase
    from google.genai import types
    from openai.types.chat.completion_create_params import CompletionCreateParamsBase
    from openai.types.embedding_create_params import EmbeddingCreateParams
    from openai.types.responses.response_create_params import ResponseCreateParamsBase

    def camel(names: Any) -> set[str]:
        return {name.split("_")[0] + "".join(word.capitalize() for word in name.split("_")[1:]) for name in names}

    assert set(CompletionCreateParamsBase.__annotations__) - CHAT_FIELDS == set()
    assert set(ResponseCreateParamsBase.__annotations__) - RESPONSES_FIELDS == set()
    assert set(EmbeddingCreateParams.__annotations__) - EMBEDDINGS_FIELDS == set()
    in_headers = {"user_profile_id", "workspace_id"}
    assert set(MessageCreateParamsBase.__annotations__) - MESSAGES_FIELDS - in_headers == set()
    of_vertex = {"audioTimestamp", "routingConfig"}
    assert camel(types.GenerationConfig.model_fields) - CONFIG_FIELDS - of_vertex == set()
    no_data = {"mediaResolution", "thought", "thoughtSignature", "videoMetadata", "partMetadata"}
    no_data |= {"mediaProcessing", "speechMetadata"}
    assert camel(types.Part.model_fields) - DATA_FIELDS == no_data
    assert {"contents", "systemInstruction", "toolConfig"} <= REQUEST_FIELDS


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/unheard/of", 404),
        ("POST", "/v1/messages/batches", 404),
        ("POST", "/v1beta/models", 404),
        ("POST", "/openai/unheard", 404),
        ("POST", "/elsewhere", 404),
        ("GET", "/v1/chat/completions", 405),
        ("GET", "/v1/messages", 405),
        ("DELETE", "/v1/models", 405),
    ],
)
def test_unknown_paths_and_methods(method: str, path: str, status: int) -> None:
    with FakeServer() as server:
        connection = connect(server)
        connection.request(method, path)
        response = connection.getresponse()
        assert response.status == status
        assert "error" in json.loads(response.read())
        connection.close()
        assert len(server.requests) == 1


# Rate limits. The rates are so low that no machine is slow enough to earn another request.


@pytest.mark.parametrize("api", APIS)
def test_requests_beyond_the_limit_are_refused_and_counted(api: str) -> None:
    with FakeServer("Yes", rate_limit=RateLimit(per_second=0.001, burst=3)) as server:
        seen = [post(server, api)[0] for _ in range(5)]
        assert seen == [200, 200, 200, 429, 429]
        assert (server.accepted, server.refused, len(server.requests)) == (3, 2, 5)
        with pytest.raises(Exception, match="429"):
            ASK[api](server)


def test_openai_style_headers_tell_the_state_of_the_limit() -> None:
    with FakeServer(rate_limit=RateLimit(per_second=0.001, burst=2, headers="openai")) as server:
        seen = [post(server)[2] for _ in range(3)]
    assert [one["x-ratelimit-limit-requests"] for one in seen] == ["2", "2", "2"]
    assert [one["x-ratelimit-remaining-requests"] for one in seen] == ["1", "0", "0"]
    assert seen[0]["x-ratelimit-reset-requests"] == "16m40s"
    assert seen[1]["x-ratelimit-reset-requests"].startswith("33m")
    assert all(one["retry-after"] is None for one in seen)


def test_anthropic_style_headers_tell_the_state_of_the_limit() -> None:
    limit = RateLimit(per_second=0.001, burst=1, headers="anthropic", retry_after=True)
    with FakeServer(rate_limit=limit) as server:
        first, second = (post(server, "anthropic")[2] for _ in range(2))
    assert [first["anthropic-ratelimit-requests-remaining"], first["retry-after"]] == ["0", None]
    assert second["anthropic-ratelimit-requests-limit"] == "1"
    assert 900 < int(second["retry-after"]) <= 1000
    reset = datetime.fromisoformat(second["anthropic-ratelimit-requests-reset"])
    assert second["anthropic-ratelimit-requests-reset"].endswith("Z")
    assert 900 < (reset - datetime.now(UTC)).total_seconds() <= 1001


def test_ietf_style_headers_tell_the_state_of_the_limit() -> None:
    with FakeServer(rate_limit=RateLimit(per_second=0.01, burst=2, headers="ietf")) as server:
        headers = post(server)[2]
    assert [headers[f"ratelimit-{name}"] for name in ("limit", "remaining", "reset")] == ["2", "1", "100"]


def test_a_refused_request_is_not_answered_by_the_model_and_a_bad_key_takes_nothing_from_the_limit() -> None:
    asked: list[Received] = []

    def reply(received: Received) -> str:
        asked.append(received)
        return "Yes"

    with FakeServer(reply, key="right", rate_limit=RateLimit(0.001, burst=1)) as server:
        for key, status in (("wrong", 401), ("right", 200), ("right", 429)):
            assert post(server, headers={"authorization": f"Bearer {key}"})[0] == status
    assert len(asked) == 1


def test_a_bucket_refills_evenly() -> None:
    take = keep(RateLimit(per_second=2, burst=3))
    assert [take(10.0).allowed for _ in range(4)] == [True, True, True, False]
    denied = take(10.25)
    assert (denied.allowed, denied.remaining, denied.wait, denied.reset) == (False, 0, 0.25, 1.25)
    assert take(10.5).allowed
    assert not take(10.5).allowed
    assert [take(20.0).allowed for _ in range(4)] == [True, True, True, False]


def test_a_bucket_holds_a_second_by_default() -> None:
    take = keep(RateLimit(per_second=5))
    assert sum(take(0.0).allowed for _ in range(20)) == 5


def test_a_window_starts_anew_when_it_ends() -> None:
    take = keep(RateLimit(per_second=2, kind="window"))
    first, second, third = take(5.0), take(5.5), take(5.75)
    assert [first.allowed, second.allowed, third.allowed] == [True, True, False]
    assert (first.remaining, first.wait, first.reset) == (1, 0.0, 1.0)
    assert (third.limit, third.remaining, third.wait, third.reset) == (2, 0, 0.25, 0.25)
    assert [take(6.0).allowed for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0, "0s"), (0.1201, "121ms"), (0.12, "120ms"), (1, "1s"), (1.5, "1.5s"), (360, "6m0s"), (3661.25, "1h1m1.25s")],
)
def test_durations_are_written_as_openai_does(seconds: float, written: str) -> None:
    assert duration(seconds) == written


# Faults, seen by a plain client.


def test_a_reset_before_the_headers() -> None:
    with FakeServer(faults=[Fault("reset_before_headers")]) as server:
        with pytest.raises(ConnectionResetError) as caught, posted(server):
            pass
        assert not isinstance(caught.value, http.client.RemoteDisconnected)
        assert post(server)[0] == 200


def test_a_reset_in_the_body() -> None:
    with FakeServer(faults=[Fault("reset_in_body")]) as server, posted(server) as response:
        assert response.status == 200
        with pytest.raises(ConnectionResetError):
            response.read()
    assert server.in_flight == 0


def test_slow_headers_and_then_the_usual_answer() -> None:
    with FakeServer("Yes", faults=[Fault("slow_headers", seconds=FAR), Fault("slow_headers", seconds=0.05)]) as server:
        with pytest.raises(TimeoutError), posted(server, timeout=0.2):
            pass
        assert text_of("openai", post(server)[1]) == "Yes"


def test_a_stall_in_the_body_and_then_the_rest() -> None:
    faults = [Fault("stall_in_body", seconds=FAR), Fault("stall_in_body", seconds=0.05)]
    with FakeServer("Yes", faults=faults) as server:
        with posted(server, timeout=0.5) as response:
            assert response.status == 200
            with pytest.raises(TimeoutError):
                response.read()
        assert text_of("openai", post(server)[1]) == "Yes"


def test_an_endless_body_ends_with_the_client() -> None:
    with FakeServer(faults=[Fault("endless_body")]) as server:
        with posted(server) as response:
            assert (response.status, response.headers["content-type"]) == (200, "application/json")
            assert response.read(20_000).isspace()
            assert server.in_flight == 1
        wait_until(lambda: server.in_flight == 0)


@pytest.mark.parametrize("kind", ["invalid_json", "truncated_json", "empty_body"])
def test_bodies_that_are_no_json(kind: Any) -> None:
    with FakeServer(faults=[Fault(kind)]) as server, posted(server) as response:
        assert (response.status, response.headers["content-type"]) == (200, "application/json")
        body = response.read()
        assert len(body) == int(response.headers["content-length"])
        with pytest.raises(json.JSONDecodeError):
            json.loads(body)


def test_a_page_instead_of_an_answer() -> None:
    with FakeServer(faults=[Fault("wrong_content_type")]) as server, posted(server) as response:
        assert response.headers["content-type"].startswith("text/html")
        assert b"<html>" in response.read()


def test_faults_come_in_order_and_none_lets_a_request_through() -> None:
    faults = (Fault("status", status=code) if code else None for code in (500, None, 503))
    with FakeServer(faults=faults) as server:
        assert [post(server)[0] for _ in range(5)] == [500, 200, 503, 200, 200]


@pytest.mark.parametrize("kind", ["slow_headers", "truncated_json", "status"])
def test_a_script_can_answer_with_a_fault(kind: Any) -> None:
    calls: list[str] = []

    def reply(received: Received) -> Fault:
        calls.append(received.path)
        return Fault(kind, status=418, seconds=0.01)

    with FakeServer(reply) as server, posted(server) as response:
        assert response.status == (418 if kind == "status" else 200)
        response.read()
    assert len(calls) == 1


def test_a_mistake_in_a_script_is_told_to_both_sides() -> None:
    def reply(_: Received) -> str:
        raise LookupError("no such word")

    with pytest.raises(LookupError, match="no such word"), FakeServer(reply) as server:
        status, answer, _ = post(server, "anthropic")
        assert (status, "no such word" in answer["error"]["message"]) == (500, True)


def test_a_failed_test_is_not_hidden_by_a_mistake_in_a_script() -> None:
    def reply(_: Received) -> str:
        raise LookupError("no such word")

    with pytest.raises(ZeroDivisionError), FakeServer(reply) as server:
        post(server)
        raise ZeroDivisionError


# The server.


def test_a_script_sees_the_request_and_may_answer_by_it() -> None:
    def reply(received: Received) -> Answer | str:
        return Answer("short", model="other") if received.body["model"] == "gpt-4o" else "long"

    with FakeServer(reply, extra_headers={"x-served-by": "fake"}) as server:
        _, answer, headers = post(server)
        assert (text_of("openai", answer), answer["model"], headers["x-served-by"]) == ("short", "other", "fake")
        assert text_of("openai", post(server, "openai", chat(user("Hi")) | {"model": "x"})[1]) == "long"


def test_one_connection_serves_many_requests_of_all_apis() -> None:
    with FakeServer("Yes") as server:
        connection = connect(server)
        for api in APIS:
            connection.request("POST", PATHS[api], json.dumps(BODIES[api]), {"anthropic-version": "2023-06-01"})
            assert text_of(api, json.loads(connection.getresponse().read())) == "Yes"
        connection.close()
        assert server.connections == 1
        assert [one.api for one in server.requests] == ["openai", "openai", "azure", "anthropic", "gemini"]
        times = [one.at for one in server.requests]
        assert times == sorted(times)


def test_what_was_seen_can_be_forgotten() -> None:
    with FakeServer(rate_limit=RateLimit(0.001, burst=1)) as server:
        seen = server.requests
        post(server)
        post(server)
        assert (seen, len(server.requests)) == ([], 2)
        server.reset()
        counts = (server.requests, server.connections, server.accepted, server.refused, server.peak_in_flight)
        assert counts == ([], 0, 0, 0, 0)
        assert post(server)[0] == 429, "the limit is not forgotten"


@contextlib.contextmanager
def raw_socket(server: FakeServer) -> Iterator[socket.socket]:
    port = int(server.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
        yield plain


def read_until(plain: socket.socket, count: int, mark: bytes = b'"fp_fake"}') -> bytes:
    data = b""
    while data.count(mark) < count:
        more = plain.recv(65536)
        assert more, data
        data += more
    return data


HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"


def counted() -> bytes:
    body = json.dumps(BODIES["openai"]).encode()
    return HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def test_requests_in_pieces_in_a_row_and_in_chunks_are_understood() -> None:
    body = json.dumps(BODIES["openai"]).encode()
    chunks = b"%x\r\n%b\r\n%x;note=1\r\n%b\r\n0\r\n\r\n" % (5, body[:5], len(body) - 5, body[5:])
    with FakeServer(latency_s=0.01) as server, raw_socket(server) as plain:
        for byte in counted():
            plain.send(bytes([byte]))
        read_until(plain, 1)
        plain.sendall(counted() * 2 + HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + counted())
        assert read_until(plain, 4).count(b"HTTP/1.1 200 OK") == 4
        assert [one.body for one in server.requests] == [BODIES["openai"]] * 5
        assert server.peak_in_flight == 1


def test_a_client_that_asks_first_is_told_to_go_on() -> None:
    head, _, body = counted().partition(b"\r\n\r\n")
    with FakeServer() as server, raw_socket(server) as plain:
        plain.sendall(head + b"\r\nExpect: 100-continue\r\n\r\n")
        assert plain.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        plain.sendall(body)
        assert read_until(plain, 1).startswith(b"HTTP/1.1 200 OK")


def test_a_connection_is_closed_when_the_client_wants_it() -> None:
    with FakeServer() as server, raw_socket(server) as plain:
        plain.sendall(counted().replace(b"Host: x", b"Connection: close"))
        assert b"connection: close" in read_until(plain, 1)
        assert plain.recv(1) == b""


@pytest.mark.parametrize(
    "nonsense",
    [b"hello\r\n\r\n", HEAD + b"Content-Length: many\r\n\r\n", HEAD + b"no colon\r\n\r\n", b"GET / HTTP/2.0\r\n\r\n"],
)
def test_what_is_no_http_is_refused(nonsense: bytes) -> None:
    with FakeServer() as server, raw_socket(server) as plain:
        plain.sendall(nonsense)
        assert plain.recv(65536).startswith(b"HTTP/1.1 400 ")
        assert server.requests == []


@pytest.mark.slow
def test_a_thousand_requests_wait_at_once() -> None:
    count = 1000

    async def wait(server: FakeServer) -> None:
        port = int(server.url.rpartition(":")[2])
        pairs = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in range(count)))
        for _, writer in pairs:
            writer.write(counted())
        await asyncio.to_thread(wait_until, lambda: server.in_flight == count)
        for _, writer in pairs:
            writer.transport.abort()
        await asyncio.to_thread(wait_until, lambda: server.in_flight == 0)

    with FakeServer(latency_s=FAR) as server:
        asyncio.run(wait(server))
        assert (server.peak_in_flight, server.connections, len(server.requests)) == (count, count, count)


def test_many_requests_from_many_threads_are_all_received() -> None:
    with FakeServer() as server:

        def work() -> None:
            connection = connect(server)
            for _ in range(25):
                connection.request("POST", PATHS["openai"], json.dumps(BODIES["openai"]))
                connection.getresponse().read()
            connection.close()

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(server.requests), server.accepted, server.in_flight, server.connections) == (200, 200, 0, 8)


def test_stopping_leaves_nothing_behind() -> None:
    before = threading.active_count()
    with FakeServer(latency_s=FAR) as server, raw_socket(server) as waiting, raw_socket(server) as idle:
        waiting.sendall(counted())
        wait_until(lambda: server.in_flight == 1 and server.connections == 2)
        address = server.url
        server.stop()
        assert (waiting.recv(1), idle.recv(1)) == (b"", b"")
        assert threading.active_count() == before
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", int(address[17:]))):
            pass
        server.stop()  # twice is no harm


def test_a_server_can_be_started_once_at_a_time_and_again() -> None:
    server = FakeServer().start()
    with pytest.raises(RuntimeError, match="running already"):
        server.start()
    server.stop()
    with server:
        assert post(server)[0] == 200


# TLS.


@pytest.fixture(scope="module")
def authority() -> Any:
    import trustme

    return trustme.CA()


@pytest.fixture
def tls(authority: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def trusting(authority: Any) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def ask_safely(server: FakeServer, context: ssl.SSLContext, times: int = 1) -> list[Any]:
    connection = connect(server, context=context)
    answers: list[Any] = []
    try:
        for _ in range(times):
            connection.request("POST", PATHS["openai"], json.dumps(BODIES["openai"]))
            answers.append(json.loads(connection.getresponse().read()))
    finally:
        connection.close()
    return answers


def test_tls_is_spoken(tls: ssl.SSLContext, trusting: ssl.SSLContext) -> None:
    with FakeServer("Yes", tls=tls) as server:
        assert server.openai_url.startswith("https://127.0.0.1:")
        answers = ask_safely(server, trusting, times=3)
        assert ([text_of("openai", one) for one in answers], server.connections) == (["Yes"] * 3, 1)


@pytest.mark.slow
def test_a_client_that_does_not_trust_the_certificate_goes_away(tls: ssl.SSLContext) -> None:
    with FakeServer(tls=tls) as server:
        for _ in range(20):
            with pytest.raises(ssl.SSLCertVerificationError):
                ask_safely(server, ssl.create_default_context())
        assert server.requests == []


def test_connections_are_reset_under_tls_too(tls: ssl.SSLContext, trusting: ssl.SSLContext) -> None:
    with FakeServer(tls=tls, faults=[Fault("reset_before_headers"), Fault("reset_in_body")]) as server:
        for _ in range(2):  # Python's TLS shows some resets as a sudden end
            with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
                ask_safely(server, trusting)
        assert len(ask_safely(server, trusting)) == 1


def test_a_server_stops_in_the_middle_of_a_handshake(tls: ssl.SSLContext) -> None:
    before = threading.active_count()
    with FakeServer(tls=tls) as server, raw_socket(server) as silent, raw_socket(server) as babbling:
        babbling.sendall(base64.b64decode("FgMBAgABAAH8AwM="))  # the first bytes of a greeting
        server.stop()
        with contextlib.suppress(ConnectionResetError):  # it was not even accepted
            assert silent.recv(1) == b""
    assert threading.active_count() == before
