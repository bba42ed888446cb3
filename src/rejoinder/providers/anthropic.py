"""Anthropic's Messages API.

The system message is a separate field, and `max_tokens` is required. A conversation begins with the user and the roles
alternate, so consecutive messages of one role become blocks of one message. Texts must not be blank: `(empty)` replaces
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from rejoinder.model import ChatMessage, Offered, Reply, Request, ToolCall, Usage, WantedBack
from rejoinder.model.pictures import Picture, pieces_of
from rejoinder.providers.http1 import HttpAnswer
from rejoinder.providers.http_api import EMPTY, ENDS_TARGET, ErrorDetails, JsonWire, Outgoing, pair_calls, split_system
from rejoinder.providers.json_fields import arguments_object, arguments_text, count, read_json, read_raw
from rejoinder.providers.settings import Sampling

VERSION = "2023-06-01"
DEFAULT_MAX_TOKENS = 4096
_ENDING_TYPES = frozenset({"authentication_error", "permission_error", "not_found_error", "billing_error"})


class AnthropicMessages(JsonWire):
    def __init__(self, url: str, model: str, sampling: Sampling, extra_body: Mapping[str, Any]) -> None:
        super().__init__(url, {"model": model, **_parameters(sampling)}, extra_body)

    def write(self, request: Request) -> Outgoing:
        system, others = split_system(request.messages)
        turns = self._turns(pair_calls(others, "start of next turn"))
        tools = [_tool(tool) for tool in request.tools] or None
        fields = {**self._fixed, "messages": turns, "system": system, "tools": tools}
        if request.output_schema:
            form = {"type": "json_schema", "schema": msgspec.Raw(request.output_schema.encode())}
            fields["output_config"] = {**self._fixed.get("output_config", {}), "format": form}
        return self.outgoing(**fields)

    def read(self, answer: HttpAnswer) -> Reply:
        message = read_json(_DECODER, answer.body)
        used = message.usage or _Usage()
        cached, written = count(used.cache_read_input_tokens), count(used.cache_creation_input_tokens)
        thoughts = [block.thinking for block in message.content if block.type == "thinking" and block.thinking]
        return Reply(
            "".join(block.text or "" for block in message.content if block.type == "text"),
            Usage(
                count(used.input_tokens) + cached + written,
                count(used.output_tokens),
                count((used.output_tokens_details or {}).get("thinking_tokens")),
                approximate=used.output_tokens is None,
                cached_tokens=cached,
                cache_write_tokens=written,
            ),
            model=message.model,
            finish_reason=_FINISHES.get(message.stop_reason or "", message.stop_reason),
            tool_calls=tuple(
                ToolCall(block.name or "", arguments_text(block.input), block.id or "")
                for block in message.content
                if block.type == "tool_use"
            ),
            thinking="\n\n".join(thoughts) or None,
            refusal=message.stop_reason == "refusal",
            wanted_back=self._wanted_back(message, answer),
        )

    def _wanted_back(self, message: _Message, answer: HttpAnswer) -> WantedBack | None:
        """Tool calls must be sent back with the signed thoughts before them; otherwise the API refuses them."""
        kinds = {block.type for block in message.content}
        if "tool_use" not in kinds or kinds.isdisjoint(("thinking", "redacted_thinking")):
            return None
        return self.keep(read_raw(answer.body)["content"])

    def _turns(self, messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
        """Messages grouped by turn, user first. A single text stays a text, as in most requests."""
        turns: list[tuple[str, list[dict[str, Any]]]] = []
        for message in messages:
            role = "assistant" if message.role == "assistant" else "user"
            if not turns and role == "assistant":
                turns.append(("user", [_text("")]))
            blocks = self.kept(message) or _blocks(message)
            if turns and turns[-1][0] == role:
                turns[-1][1].extend(blocks)
            else:
                turns.append((role, blocks))
        if not turns:
            turns.append(("user", [_text("")]))
        return [{"role": role, "content": _content(blocks)} for role, blocks in turns]

    def explain(self, answer: HttpAnswer) -> ErrorDetails:
        ends = answer.status in ENDS_TARGET
        try:
            error = read_json(_ERROR_DECODER, answer.body).error
        except msgspec.MsgspecError:
            return ErrorDetails(ends_target=ends)
        ends = ends or error.type in _ENDING_TYPES
        overloaded = error.type == "overloaded_error"
        return ErrorDetails(type=error.type, message=error.message, ends_target=ends, overloaded=overloaded)


def _parameters(sampling: Sampling) -> dict[str, Any]:
    budget, most = sampling.thinking_budget, sampling.max_output_tokens
    return {
        # The budget counts against the limit, and something must be left to answer with.
        "max_tokens": DEFAULT_MAX_TOKENS + (budget or 0) if most is None else most,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "stop_sequences": sampling.stop,
        "thinking": {"type": "enabled", "budget_tokens": budget} if budget else None,
        "output_config": {"effort": sampling.reasoning_effort} if sampling.reasoning_effort else None,
    }


def _content(blocks: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks


def _blocks(message: ChatMessage) -> list[dict[str, Any]]:
    if message.role == "tool" and message.tool_call_id:
        failed = {"is_error": True} if message.failed else {}
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": _result(message), **failed}]
    if message.role == "user" and message.pictures:
        pieces = pieces_of(message.content, message.pictures)
        return [_text(piece) if isinstance(piece, str) else _image(piece) for piece in pieces]
    if not message.tool_calls:
        return [_text(message.content)]
    blocks = [_text(message.content)] if message.content.strip() else []
    for call in message.tool_calls:
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": arguments_object(call.arguments)})
    return blocks


def _result(message: ChatMessage) -> str | list[dict[str, Any]]:
    if not message.pictures:
        return message.content
    images = map(_image, message.pictures)
    return [*([_text(message.content)] if message.content.strip() else []), *images]


def _image(picture: Picture) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": picture.mime_type, "data": picture.sent()}}


def _tool(tool: Offered) -> dict[str, Any]:
    said = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **said, "input_schema": msgspec.Raw(tool.parameters)}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text if text.strip() else EMPTY}


_FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "model_context_window_exceeded": "length",
}


class _Block(Struct):
    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"{}")


class _Usage(Struct):
    input_tokens: Any = None
    output_tokens: Any = None
    cache_read_input_tokens: Any = None
    cache_creation_input_tokens: Any = None
    output_tokens_details: dict[str, Any] | None = None


class _Message(Struct):
    content: list[_Block]
    usage: _Usage | None = None
    model: str | None = None
    stop_reason: str | None = None


class _Error(Struct):
    type: str | None = None
    message: str | None = None


class _ErrorBody(Struct):
    error: _Error


_DECODER = msgspec.json.Decoder(_Message)
_ERROR_DECODER = msgspec.json.Decoder(_ErrorBody)
