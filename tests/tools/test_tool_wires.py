"""Tools over the four wire formats: the same records whichever API answers, and our requests are those of the vendors'
own clients, which hand back what the API said as they were given it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rejoinder.model import ChatMessage, Offered, Picture, Request, ToolCall, WantedBack
from rejoinder.providers.openai_chat import write_messages
from rejoinder.testing import Answer, Received
from rejoinder.testing import ToolCall as Called
from tests.kit import Project, Raw
from tests.labs.wire_lab import FORMATS, LIMIT, Lab, join_contents, target

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "weather", "description": "The weather of a city.", "parameters": SCHEMA, "returns": "rain"}
CALLS = [Called("weather", {"city": "Zürich"}, "call_a"), Called("weather", {"city": "Bern"}, "call_b")]
FAILED = "the tool failed: internal error"
QUESTION = "Do I need an umbrella?"


@pytest.fixture(autouse=True)
def _nothing_left(lab: Lab) -> Iterator[None]:
    lab.script.clear()
    lab.server.reset()
    yield
    assert not lab.script


def ours(project: Project, lab: Lab, api: str, *script: Answer | str, **more: Any) -> tuple[Raw, list[Received]]:
    """A run whose second call of the tool fails; its result and its requests."""
    lab.script[:] = script
    tool = {"scripted": WEATHER, "fails": [{"fault": "error", "at": 2}]}
    one = {"id": "one", "prompt": QUESTION, "checks": [{"match": "*"}]}
    project.write("evals.yaml", {"targets": [target(lab, api, **more)], "tools": [tool], "evals": [one]})
    [result] = project.run_json("run", "--max-retries", "0")["results"]
    assert result["error"] is None, result["error"]
    return result, list(lab.server.requests)


def test_the_same_suite_gives_the_same_records_on_every_wire(project: Project, lab: Lab) -> None:
    records: list[Raw] = []
    for api in FORMATS:
        lab.server.reset()
        result, _ = ours(project, lab, api, Answer("I look.", tool_calls=CALLS), "Yes.")
        [turn] = result["turns"]
        assert turn["response"] == "Yes."
        calls = [
            {name: call[name] for name in call if name not in ("duration_s", "started_at")}
            for call in turn["tool_calls"]
        ]
        records.append({"calls": calls, "faults": result["faults"]})
    assert records[0]["calls"] == [
        {"name": "weather", "arguments": '{"city":"Zürich"}', "id": "call_a", "result": "rain", "status": "completed"},
        {
            "name": "weather",
            "arguments": '{"city":"Bern"}',
            "id": "call_b",
            "result": FAILED,
            "status": "failed",
            "fault": "error",
        },
    ]
    assert all(record == records[0] for record in records)


def _chat(lab: Lab) -> None:
    client = lab.client("openai")
    function = {name: WEATHER[name] for name in ("name", "description", "parameters")}
    options: Raw = {"model": "gpt-4o", "tools": [{"type": "function", "function": function}]}
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    said = client.chat.completions.create(messages=messages, **options).choices[0].message
    calls = [{"id": one.id, "type": "function", "function": one.function.to_dict()} for one in said.tool_calls]
    messages.append({"role": "assistant", "content": said.content, "tool_calls": calls})
    results = zip(said.tool_calls, ("rain", FAILED), strict=True)
    messages += [{"role": "tool", "tool_call_id": one.id, "content": text} for one, text in results]
    client.chat.completions.create(messages=messages, **options)


def _responses(lab: Lab) -> None:
    client = lab.client("openai")
    function = {name: WEATHER[name] for name in ("name", "description", "parameters")}
    options: Raw = {"model": "gpt-4o", "tools": [{"type": "function", **function}]}
    items: list[Any] = [{"role": "user", "content": QUESTION}]
    output = client.responses.create(input=items, **options).output
    items += [one.to_dict() for one in output]
    results = zip([one for one in output if one.type == "function_call"], ("rain", FAILED), strict=True)
    items += [{"type": "function_call_output", "call_id": one.call_id, "output": text} for one, text in results]
    client.responses.create(input=items, **options)


def _anthropic(lab: Lab) -> None:
    client = lab.client("anthropic")
    tool = {"name": "weather", "description": WEATHER["description"], "input_schema": SCHEMA}
    thinking = {"type": "enabled", "budget_tokens": 1024}
    options: Raw = {"model": "claude", "tools": [tool], "max_tokens": LIMIT + 1024, "thinking": thinking}
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    said = client.messages.create(messages=messages, **options)
    messages.append({"role": "assistant", "content": [block.to_dict() for block in said.content]})
    first, second = [block.id for block in said.content if block.type == "tool_use"]
    rain = {"type": "tool_result", "tool_use_id": first, "content": "rain"}
    failed = {"type": "tool_result", "tool_use_id": second, "content": FAILED, "is_error": True}
    messages.append({"role": "user", "content": [rain, failed]})
    client.messages.create(messages=messages, **options)


def _gemini(lab: Lab) -> None:
    from google.genai import types

    declared = types.FunctionDeclaration(
        name="weather", description=str(WEATHER["description"]), parameters_json_schema=SCHEMA
    )
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[declared])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    contents = [types.Content(role="user", parts=[types.Part.from_text(text=QUESTION)])]
    models = lab.client("gemini").models
    said = models.generate_content(model="gemini-2.5-flash", contents=contents, config=config).candidates[0].content
    calls = [part.function_call for part in said.parts if part.function_call]
    answers = {"result": "rain"}, {"error": FAILED}
    parts = [
        types.Part(function_response=types.FunctionResponse(id=one.id, name=one.name, response=answer))
        for one, answer in zip(calls, answers, strict=True)
    ]
    contents += [said, types.Content(role="user", parts=parts)]
    models.generate_content(model="gemini-2.5-flash", contents=contents, config=config)


EXPERTS = {"openai": _chat, "responses": _responses, "anthropic": _anthropic, "gemini": _gemini}
THINKING: dict[str, Raw] = {"anthropic": {"thinking_budget": 1024, "max_tokens": LIMIT + 1024}}


def _plain(api: str, body: Raw) -> Raw:
    """Bodies as they mean the same: Gemini's client writes an empty object, and one name with underscores; the API
    reads both."""
    body = json.loads(json.dumps(body).replace("parameters_json_schema", "parametersJsonSchema"))
    if api == "gemini":
        body = join_contents({name: value for name, value in body.items() if name != "generationConfig" or value})
    return body


@pytest.mark.parametrize("api", FORMATS)
def test_our_requests_are_those_of_the_vendors_client(project: Project, lab: Lab, api: str) -> None:
    thinking = None if api == "openai" else "It may rain."
    script = Answer("I look.", thinking=thinking, tool_calls=CALLS), "Yes."
    _, sent = ours(project, lab, api, *script, **THINKING.get(api, {}))
    lab.server.reset()
    lab.script[:] = script
    EXPERTS[api](lab)
    theirs = list(lab.server.requests)
    assert [_plain(api, one.body) for one in sent] == [_plain(api, _same_ids(one.body, sent, theirs)) for one in theirs]


def _same_ids(body: Raw, ours: list[Received], theirs: list[Received]) -> Raw:
    """The fake numbers its answers; what it named in the second conversation is named as in the first."""
    text = json.dumps(body)
    mine, other = (json.dumps(requests[1].body) for requests in (ours, theirs))
    import re

    marks = r"(?:rs|msg|fc)_[0-9a-f]{30,}|c2lnbmF0dXJl[A-Za-z0-9+/=]+"
    for one, another in zip(re.findall(marks, other), re.findall(marks, mine), strict=True):
        text = text.replace(one, another)
    return json.loads(text)


@pytest.mark.parametrize(
    ("api", "mark"),
    [("responses", '"type": "reasoning"'), ("anthropic", '"signature"'), ("gemini", '"thoughtSignature"')],
)
def test_what_was_thought_goes_back_with_its_calls(project: Project, lab: Lab, api: str, mark: str) -> None:
    script = Answer("", thinking="It may rain.", tool_calls=CALLS), "Yes."
    _, [first, second] = ours(project, lab, api, *script, **THINKING.get(api, {}))
    assert mark not in json.dumps(first.body)
    assert mark in json.dumps(second.body)


@pytest.mark.parametrize("api", FORMATS)
def test_calls_without_ids_are_told_apart_over_many_rounds(project: Project, lab: Lab, api: str) -> None:
    calls = Answer("", tool_calls=[Called("weather", {"city": "a"}), Called("weather", {"city": "b"})])
    result, requests = ours(project, lab, api, calls, calls, calls, "Yes.")
    assert result["status"] == "passed" and len(requests) == 4
    assert [call["status"] for call in result["turns"][0]["tool_calls"]] == ["completed", "failed", *["completed"] * 4]


def test_arguments_that_are_no_json_go_back_so_that_each_api_takes_them(project: Project, lab: Lab) -> None:
    broken = Answer("", tool_calls=[Called("weather", '{"city": ', "call_a")])
    result, [_, second] = ours(project, lab, "openai", broken, "Sorry.")
    assert result["turns"][0]["tool_calls"][0]["result"] == "the arguments are no JSON object"
    assert second.body["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"city": '
    for api in ("anthropic", "gemini"):
        body = _written(lab, api, ToolCall("weather", '{"city": ', "call_a"))
        assert '{"arguments": "{\\"city\\": "}' in json.dumps(body)


def _written(lab: Lab, api: str, call: ToolCall, **more: Any) -> Raw:
    """What is sent after a call of a tool, by the wire format itself."""
    from rejoinder.model import Target
    from rejoinder.providers.registry import open_provider
    from rejoinder.providers.shared import Exchange

    settings = {name: value for name, value in target(lab, api).items() if name not in ("name", "provider")}
    provider: Any = open_provider(
        Target(name="t", provider=target(lab, api)["provider"], settings=settings), ("/", "/"), {}, Exchange()
    )
    messages = (
        ChatMessage("user", "?"),
        ChatMessage("assistant", "", (call,), wanted_back=more.pop("wanted_back", None)),
        ChatMessage("tool", "a dot", (), call.id, **more),
    )
    offered = Offered("weather", "", json.dumps(SCHEMA), "weather")
    request = Request(
        target="t", case_id="c", trial=1, turn=1, call=0, messages=messages, question="?", tools=(offered,)
    )
    return json.loads(provider.write(request).body)


IMAGES = {
    "openai": "a dot\\n(an image that cannot be shown)",
    "responses": '{"type": "input_image", "image_url": "data:image/png;base64,QUJD"}',
    "anthropic": '{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}',
    "gemini": '{"inlineData": {"mimeType": "image/png", "data": "QUJD"}}',
}


@pytest.mark.parametrize("api", FORMATS)
def test_images_go_to_apis_that_take_them(lab: Lab, api: str) -> None:
    picture = Picture("image/png", "QUJD")
    assert IMAGES[api] in json.dumps(_written(lab, api, ToolCall("weather", "{}", "call_a"), pictures=(picture,)))


@pytest.mark.parametrize("api", ["responses", "anthropic", "gemini"])
def test_what_another_model_thought_is_not_sent_back(lab: Lab, api: str) -> None:
    foreign = WantedBack("messages other-model", '[{"type": "thinking", "thinking": "hm", "signature": "x"}]')
    assert "signature" not in json.dumps(_written(lab, api, ToolCall("weather", "{}", "call_a"), wanted_back=foreign))


def test_servers_that_resemble_openais_get_back_what_they_gave() -> None:
    kept = [{"reasoning_content": "hm"}, {"extra_content": {"google": {"thought_signature": "x"}}}]
    messages = ChatMessage("assistant", "", (ToolCall("a", "{}", "1"),)), ChatMessage("tool", "b", (), "1")
    written = write_messages(messages, lambda message: kept if message.tool_calls else None)
    assert written[0]["reasoning_content"] == "hm"
    assert written[0]["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "x"}}
