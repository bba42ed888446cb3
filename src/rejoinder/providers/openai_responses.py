"""OpenAI's Responses API, used if a target has `api: responses`.

The system message is sent as `instructions`. Tool calls and their results are separate items.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from rejoinder.model import ChatMessage, Reply, Request, ToolCall, Usage, WantedBack
from rejoinder.model.pictures import Picture, pieces_of
from rejoinder.providers.http1 import HttpAnswer
from rejoinder.providers.http_api import Outgoing, pair_calls, split_system
from rejoinder.providers.json_fields import arguments_text, count, read_json, read_raw
from rejoinder.providers.openai_chat import OpenAiError, OpenAiWire, function_of, told_inside
from rejoinder.providers.settings import Sampling
from rejoinder.providers.structured import openai_form


class OpenAiResponses(OpenAiWire):
    def __init__(self, url: str, model: str, sampling: Sampling, extra_body: Mapping[str, Any]) -> None:
        super().__init__(url, {"model": model, **_parameters(sampling)}, extra_body)

    def write(self, request: Request) -> Outgoing:
        system, others = split_system(request.messages)
        items = [item for message in pair_calls(others, "anywhere") for item in self.kept(message) or _items(message)]
        # An empty list is refused, an empty text is not.
        items = items or [{"role": "user", "content": ""}]
        tools = [{"type": "function", **function_of(tool)} for tool in request.tools] or None
        schema = request.output_schema
        form = {"format": {"type": "json_schema", **openai_form(schema)}} if schema else None
        return self.outgoing(input=items, **self._fixed, instructions=system, tools=tools, text=form)

    def read(self, answer: HttpAnswer) -> Reply:
        response = read_json(_DECODER, answer.body)
        if response.status not in (None, "completed", "incomplete"):
            raise told_inside(response.error or OpenAiError(message=f"its status is {response.status}"))
        parts = [part for item in response.output if item.type == "message" for part in _said(item.content)]
        refusals = [part.refusal for part in parts if part.type == "refusal" and part.refusal]
        texts = [part.text for part in parts if part.type == "output_text" and part.text]
        thoughts = [one.text for item in response.output if item.type == "reasoning" for one in item.summary or ()]
        calls = tuple(
            ToolCall(item.name or "", arguments_text(item.arguments), item.call_id or "")
            for item in response.output
            if item.type == "function_call"
        )
        finish = "tool_calls" if calls else "refusal" if refusals else "stop"
        if response.incomplete_details is not None:
            reason = response.incomplete_details.get("reason")
            finish = {"max_output_tokens": "length"}.get(str(reason), str(reason))
        return Reply(
            "".join(texts) or "".join(refusals),
            _usage(response.usage),
            model=response.model,
            finish_reason=finish,
            tool_calls=calls,
            thinking="\n\n".join(text for text in thoughts if text) or None,
            refusal=bool(refusals),
            wanted_back=self._wanted_back(response, answer) if calls else None,
        )

    def _wanted_back(self, response: _Response, answer: HttpAnswer) -> WantedBack | None:
        """The thoughts before a tool call, which are sent back with it so that the model can continue from them."""
        if all(item.type != "reasoning" for item in response.output):
            return None
        return self.keep(read_raw(answer.body)["output"])


def _parameters(sampling: Sampling) -> dict[str, Any]:
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_output_tokens": sampling.max_output_tokens,
        "reasoning": {"effort": sampling.reasoning_effort} if sampling.reasoning_effort else None,
    }


def _items(message: ChatMessage) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        if message.tool_call_id:
            yield {"type": "function_call_output", "call_id": message.tool_call_id, "output": _output(message)}
        else:
            yield {"role": "user", "content": message.content}
        return
    if message.role == "user" and message.pictures:
        pieces = pieces_of(message.content, message.pictures)
        yield {"role": "user", "content": [_text(one) if isinstance(one, str) else _image(one) for one in pieces]}
        return
    if message.content or not message.tool_calls:
        yield {"role": message.role, "content": message.content}
    for call in message.tool_calls:
        yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}


def _output(message: ChatMessage) -> str | list[dict[str, Any]]:
    if not message.pictures:
        return message.content
    return [*([_text(message.content)] if message.content else []), *map(_image, message.pictures)]


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _image(picture: Picture) -> dict[str, Any]:
    return {"type": "input_image", "image_url": picture.data_url()}


def _said(content: list[_Part] | str | None) -> list[_Part]:
    return [_Part("output_text", content)] if isinstance(content, str) else content or []


def _usage(usage: _Usage | None) -> Usage:
    if usage is None:
        return Usage()
    given, made = usage.input_tokens_details or {}, usage.output_tokens_details or {}
    return Usage(
        count(usage.input_tokens),
        count(usage.output_tokens),
        count(made.get("reasoning_tokens")),
        approximate=usage.output_tokens is None,
        cached_tokens=count(given.get("cached_tokens")),
        cache_write_tokens=count(given.get("cache_write_tokens")),
    )


class _Part(Struct):
    type: str
    text: str | None = None
    refusal: str | None = None


class _Item(Struct):
    type: str
    content: list[_Part] | str | None = None
    summary: list[_Part] | None = None
    name: str | None = None
    arguments: Any = None
    call_id: str | None = None


class _Usage(Struct):
    input_tokens: Any = None
    output_tokens: Any = None
    input_tokens_details: dict[str, Any] | None = None
    output_tokens_details: dict[str, Any] | None = None


class _Response(Struct):
    output: list[_Item]
    model: str | None = None
    status: str | None = None
    usage: _Usage | None = None
    incomplete_details: dict[str, Any] | None = None
    error: OpenAiError | str | None = None


_DECODER = msgspec.json.Decoder(_Response)
