"""OpenAI: the Responses API."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from rejoinder.testing.api import Asked, Endpoint, require
from rejoinder.testing.openai_chat import (
    check_form,
    read_body,
    require_field,
    require_items,
    require_model,
    require_type,
    require_value,
)
from rejoinder.testing.values import Answer, Json, Received, Tokens, as_list, as_object

RESPONSES_FIELDS = frozenset(
    {
        *("access_programs", "background", "context_management", "conversation", "image", "include", "input"),
        *("instructions", "max_output_tokens", "max_tool_calls", "metadata", "model", "moderation"),
        *("parallel_tool_calls", "previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_options"),
        *("prompt_cache_retention", "reasoning", "safety_identifier", "service_tier", "store", "stream"),
        *("stream_options", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation"),
        *("user",),
    }
)
_ROLES = ("user", "assistant", "system", "developer")
_SPOKEN = ("output_text", "refusal")
_HEARD = ("input_text", "input_image", "input_file", "input_audio")
_CONTINUES = ("previous_response_id", "conversation", "prompt")


def _check(received: Received, extra: Collection[str]) -> None:
    body = read_body(received, RESPONSES_FIELDS | frozenset(extra))
    require_model(body)
    form = as_object(as_object(body.get("text")).get("format"))
    if form.get("type") == "json_schema":
        check_form(form, "text.format")
    given, continues = body.get("input"), any(body.get(name) for name in _CONTINUES)
    require_field(given is not None or continues, "input")
    if given is None or isinstance(given, str):
        return
    items = require_items(given, "input", "one of a string or array of input items")
    for index, item in enumerate(items):
        _check_item(item, f"input[{index}]")
    if not continues:
        _check_calls(items)


def _check_item(item: Any, where: str) -> None:
    given = as_object(item)
    require_type(isinstance(item, dict), where, "an object")
    if given.get("type", "message") == "message":
        _check_message(given, where)
    elif given["type"] in ("function_call", "function_call_output"):
        require_field(isinstance(given.get("call_id"), str), f"{where}.call_id")


def _check_message(item: Json, where: str) -> None:
    role, content = item.get("role"), item.get("content")
    require_value(role, _ROLES, f"{where}.role")
    if not isinstance(content, str):
        require_type(isinstance(content, list), f"{where}.content", "one of a string or array of objects")
        for place, part in enumerate(as_list(content)):
            kind, allowed = as_object(part).get("type"), _SPOKEN if role == "assistant" else _HEARD
            require_value(kind, allowed, f"{where}.content[{place}]")


def _check_calls(items: list[Json]) -> None:
    """Check that calls and results come in pairs, the call first."""
    open_calls: dict[str, None] = {}
    for item in items:
        name = item.get("call_id")
        if item.get("type") == "function_call":
            open_calls[item["call_id"]] = None
        elif item.get("type") == "function_call_output":
            text = f"No tool call found for function call output with call_id {name}."
            require(name in open_calls, text, param="input")
            del open_calls[item["call_id"]]
    require(not open_calls, f"No tool output found for function call {next(iter(open_calls), '')}.", param="input")


def _body(call: Asked) -> Json:
    asked, answer, number = call.body, call.answer, call.number
    reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
    reason = reasons.get(answer.ending)
    status = "completed" if reason is None else "incomplete"
    return {
        "id": f"resp_{number:048x}",
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "error": None,
        "incomplete_details": None if reason is None else {"reason": reason},
        "instructions": asked.get("instructions"),
        "max_output_tokens": asked.get("max_output_tokens"),
        "model": answer.model or asked.get("model", "fake"),
        "output": _output(answer, status, number),
        "parallel_tool_calls": asked.get("parallel_tool_calls", True),
        "previous_response_id": asked.get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None} | as_object(asked.get("reasoning")),
        "store": asked.get("store", True),
        "temperature": asked.get("temperature", 1.0),
        "text": {"format": {"type": "text"}} | as_object(asked.get("text")),
        "tool_choice": asked.get("tool_choice", "auto"),
        "tools": asked.get("tools", []),
        "top_p": asked.get("top_p", 1.0),
        "truncation": "disabled",
        "usage": _usage(call.tokens),
        "metadata": asked.get("metadata", {}),
    }


def _output(answer: Answer, status: str, number: int) -> list[Json]:
    output: list[Json] = []
    if answer.thinking is not None:
        summary = [{"type": "summary_text", "text": answer.thinking}]
        output.append({"id": f"rs_{number:048x}", "type": "reasoning", "summary": summary})
    content = _content(answer)
    if content:
        message: Json = {"id": f"msg_{number:048x}", "type": "message", "status": status, "role": "assistant"}
        output.append(message | {"content": content})
    for index, call in enumerate(answer.tool_calls):
        output.append(
            {
                "id": f"fc_{number:046x}{index:02x}",
                "type": "function_call",
                "status": "completed",
                "call_id": call.id or f"call_{number:x}_{index}",
                "name": call.name,
                "arguments": call.text,
            }
        )
    return output


def _content(answer: Answer) -> list[Json]:
    content: list[Json] = []
    if answer.text or (answer.ending == "stop"):
        content.append({"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []})
    if answer.refusal is not None:
        content.append({"type": "refusal", "refusal": answer.refusal})
    return content


def _usage(tokens: Tokens) -> Json:
    return {
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": tokens.cache_write},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.total,
    }


RESPONSES = Endpoint(_check, _body)
