"""Anthropic: the Messages API."""

from __future__ import annotations

import base64
from collections.abc import Collection
from itertools import takewhile
from typing import Any

from rejoinder.testing.api import Api, Asked, Endpoint, Refusal, bearer, require, require_object
from rejoinder.testing.values import Answer, Json, Received, as_list, as_object, is_number, is_whole

MESSAGES_FIELDS = frozenset(
    {
        *("max_tokens", "messages", "model", "cache_control", "container", "context_management", "diagnostics"),
        *("inference_geo", "mcp_servers", "metadata", "output_config", "output_format", "service_tier", "speed"),
        *("stop_sequences", "stream", "system", "temperature", "thinking", "tool_choice", "tools", "top_k", "top_p"),
    }
)
_BLOCKS = frozenset(
    {"text", "image", "document", "search_result", "thinking", "redacted_thinking", "tool_use", "tool_result"}
)
_STOPS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "refusal": "refusal",
}

_ERRORS = {
    400: ("invalid_request_error", "The request was malformed."),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "Your credit balance is too low to access the Anthropic API."),
    403: ("permission_error", "Your API key does not have permission to use the specified resource."),
    404: ("not_found_error", "Not Found"),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your organization's rate limit of requests per minute."),
    500: ("api_error", "Internal server error"),
    504: ("timeout_error", "Request timed out"),
    529: ("overloaded_error", "Overloaded"),
}


def _error(refusal: Refusal, request_id: str) -> Json:
    kind, message = _ERRORS.get(refusal.status) or _ERRORS[500 if refusal.status >= 500 else 400]
    error = {"type": refusal.code or kind, "message": refusal.message or message}
    return {"type": "error", "error": error, "request_id": request_id}


def _check_key(received: Received, key: str) -> None:
    given = received.headers.get("x-api-key") or bearer(received)
    if not given:
        raise Refusal(401, "x-api-key header is required")
    if given != key:
        raise Refusal(401)


# What is refused before a model sees it.


def _check(received: Received, extra: Collection[str]) -> None:
    require(received.headers.get("anthropic-version"), "anthropic-version: header is required")
    body = require_object(received, "The request body is not valid JSON")
    for name in ("model", "messages", "max_tokens"):
        require(name in body, f"{name}: Field required")
    for name in body:
        require(name in MESSAGES_FIELDS or name in extra, f"{name}: Extra inputs are not permitted")
    stream = body.get("stream")
    require(not stream, "stream: This fake server does not stream: send the request without `stream`")
    _check_settings(body)
    _check_system(body.get("system"))
    _check_messages(body["messages"])


def _check_settings(body: Json) -> None:
    limit, temperature = body["max_tokens"], body.get("temperature")
    require(is_whole(limit), "max_tokens: Input should be a valid integer")
    # Zero asks for the prompt to be cached, and for nothing else.
    require(limit >= 0, "max_tokens: must be greater than or equal to 0")
    require(temperature is None or (is_number(temperature) and 0 <= temperature <= 1), "temperature: range: 0..1")
    form = as_object(as_object(body.get("output_config")).get("format"))
    if form:
        require(form.get("type") == "json_schema", "output_config.format.type: Input should be 'json_schema'")
        require("schema" in form, "output_config.format.schema: Field required")
        _check_closed(as_object(form["schema"]))
    budget = as_object(body.get("thinking")).get("budget_tokens")
    require(budget is None or budget < limit, "`max_tokens` must be greater than `thinking.budget_tokens`.")


def _check_closed(schema: Json) -> None:
    closed = schema.get("type") != "object" or schema.get("additionalProperties") is False
    text = "For 'object' type, 'additionalProperties' must be explicitly set to false"
    require(closed, f"output_config.format.schema: {text}")
    for inner in filter(None, (*as_object(schema.get("properties")).values(), schema.get("items"))):
        _check_closed(as_object(inner))


def _check_system(system: Any) -> None:
    if system is not None and not isinstance(system, str):
        require(isinstance(system, list), "system: Input should be a valid string or a list of text blocks")
        for block in as_list(system):
            _check_text(as_object(block).get("text"), "system")


def _check_messages(messages: Any) -> None:
    require(isinstance(messages, list), "messages: Input should be a valid list")
    turns = [as_object(message) for message in as_list(messages)]
    require(turns, "messages: at least one message is required")
    for index, turn in enumerate(turns):
        _check_role(turn.get("role"), index)
    require(turns[0]["role"] == "user", 'messages: first message must use the "user" role')
    for index, turn in enumerate(turns):
        _check_content(turn, index, is_last=index == len(turns) - 1)
    _check_tools(turns)


def _check_role(role: Any, index: int) -> None:
    text = 'Unexpected role "system". The Messages API accepts a top-level `system` parameter, '
    require(role != "system", f'messages: {text}not "system" as an input message role.')
    require(role in ("user", "assistant"), f"messages.{index}.role: Input should be 'user' or 'assistant'")


def _check_content(turn: Json, index: int, *, is_last: bool) -> None:
    content, where = turn.get("content"), f"messages.{index}"
    require(content is not None, f"{where}.content: Field required")
    wanted = "Input should be a valid string or a list of blocks"
    require(isinstance(content, str | list), f"{where}.content: {wanted}")
    prefill = is_last and turn["role"] == "assistant"
    if not content:
        rule = "all messages must have non-empty content except for the optional final assistant message"
        require(prefill, f"{where}: {rule}")
        return
    blocks = _blocks(content)
    for place, block in enumerate(blocks):
        _check_block(block, turn["role"], f"{where}.content.{place}")
    trails = prefill and blocks[-1].get("text", "")[-1:].isspace()
    require(not trails, "messages: final assistant content cannot end with trailing whitespace")


_ROLE_OF = {"tool_use": "assistant", "thinking": "assistant", "tool_result": "user"}
_REQUIRED = {"tool_use": ("id", "name", "input"), "tool_result": ("tool_use_id",), "thinking": ("signature",)}


def _check_block(block: Json, role: str, where: str) -> None:
    kind = block.get("type")
    unknown = f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
    require(kind in _BLOCKS, unknown)
    kind = str(kind)
    if kind == "text":
        _check_text(block.get("text"), "messages")
    wanted = _ROLE_OF.get(kind, role)
    require(role == wanted, f"{where}: `{kind}` blocks can only be in `{wanted}` messages")
    for name in _REQUIRED.get(kind, ()):
        require(name in block, f"{where}.{kind}.{name}: Field required")


def _check_text(text: Any, where: str) -> None:
    require(isinstance(text, str), f"{where}: text content blocks must have a `text` that is a string")
    require(text, f"{where}: text content blocks must be non-empty")
    require(text.strip(), f"{where}: text content blocks must contain non-whitespace text")


def _check_tools(turns: list[Json]) -> None:
    """Check that each call is answered at the start of the very next turn, and that each result has its call there."""
    called: list[str] = []
    for index, (role, blocks) in enumerate(_merged(turns)):
        answered = {block["tool_use_id"] for block in takewhile(lambda block: block["type"] == "tool_result", blocks)}
        for place, block in enumerate(blocks):
            stray = block["type"] == "tool_result" and block["tool_use_id"] not in called
            require(not stray, _stray(f"messages.{index}.content.{place}", str(block.get("tool_use_id"))))
        _require_answers([name for name in called if name not in answered], index - 1)
        called = [block["id"] for block in blocks if block["type"] == "tool_use"] if role == "assistant" else []
    _require_answers(called, len(turns) - 1)


def _stray(where: str, name: str) -> str:
    rule = "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
    return f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {name}. {rule}"


def _require_answers(names: list[str], index: int) -> None:
    text = f"`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(names)}. "
    rule = "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    require(not names, f"messages.{index}: {text}{rule}")


def _merged(turns: list[Json]) -> list[tuple[str, list[Json]]]:
    """Neighbouring messages of one role are one turn to the API."""
    merged: list[tuple[str, list[Json]]] = []
    for turn in turns:
        if merged and merged[-1][0] == turn["role"]:
            merged[-1][1].extend(_blocks(turn["content"]))
        else:
            merged.append((turn["role"], list(_blocks(turn["content"]))))
    return merged


def _blocks(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [as_object(block) for block in as_list(content)]


# Answers.


def _body(asked: Asked) -> Json:
    answer, tokens, stop = asked.answer, asked.tokens, _STOPS[asked.answer.ending]
    details = {"type": "refusal", "category": None, "explanation": answer.refusal} if stop == "refusal" else None
    usage: Json = {
        "input_tokens": tokens.input - tokens.cached - tokens.cache_write,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cached,
        "cache_creation": {"ephemeral_5m_input_tokens": tokens.cache_write, "ephemeral_1h_input_tokens": 0},
        "output_tokens": tokens.output,
        "service_tier": "standard",
    }
    if tokens.reasoning:
        usage["output_tokens_details"] = {"thinking_tokens": tokens.reasoning}
    return {
        "id": f"msg_{asked.number:024x}",
        "type": "message",
        "role": "assistant",
        "model": answer.model or asked.body["model"],
        "content": _content(answer, asked.number),
        "stop_reason": stop,
        "stop_sequence": None,
        "stop_details": details,
        "usage": usage,
    }


def _content(answer: Answer, number: int) -> list[Json]:
    content: list[Json] = []
    if answer.thinking is not None:
        signature = base64.b64encode(f"signature {number}".encode()).decode()
        content.append({"type": "thinking", "thinking": answer.thinking, "signature": signature})
    if answer.text:
        content.append({"type": "text", "text": answer.text})
    for index, call in enumerate(answer.tool_calls):
        name = call.id or f"toolu_{number:x}_{index}"
        content.append({"type": "tool_use", "id": name, "name": call.name, "input": call.fields})
    return content


_MESSAGES = Endpoint(_check, _body)
API = Api(
    name="anthropic",
    owns=lambda path: path == "/v1/messages" or path.startswith("/v1/messages/"),
    find=lambda received: _MESSAGES if received.path == "/v1/messages" else None,
    check_key=_check_key,
    error=_error,
    request_id=lambda number: f"req_{number:024x}",
    request_id_header="request-id",
)
