"""OpenAI: chat completions, which many other servers speak too."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from rejoinder.testing.api import Endpoint, Json, Refusal, as_list, as_object
from rejoinder.testing.openai_common import empty_array, missing, read_body, require_model, wrong_type, wrong_value
from rejoinder.testing.values import Answer, Received, count_tokens

CHAT_FIELDS = frozenset(
    {
        *("messages", "model", "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs"),
        *("max_completion_tokens", "max_tokens", "metadata", "modalities", "moderation", "n", "parallel_tool_calls"),
        *("prediction", "presence_penalty", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
        *("reasoning_effort", "response_format", "safety_identifier", "seed", "service_tier", "stop", "store"),
        *("stream", "stream_options", "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user"),
        *("verbosity", "web_search_options"),
    }
)
_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_PARTS = ("text", "image_url", "input_audio", "refusal", "audio", "file")
_REASONING = ("o1", "o3", "o4", "gpt-5")
"""Beginnings of the names of models that refuse `max_tokens`."""


def check_chat(received: Received, extra: Collection[str]) -> None:
    body = read_body(received, CHAT_FIELDS | frozenset(extra))
    require_model(body)
    _check_max_tokens(body)
    check_messages(body)


def check_messages(body: Json) -> None:
    messages = body.get("messages")
    if messages is None:
        raise missing("messages")
    if not isinstance(messages, list):
        raise wrong_type("messages", "an array of objects")
    if not messages:
        raise empty_array("messages")
    for index, message in enumerate(as_list(messages)):
        _check_message(message, index)
    _check_tool_answers(as_list(messages))


def _check_max_tokens(body: Json) -> None:
    if "max_tokens" in body and body["model"].startswith(_REASONING):
        message = "Unsupported parameter: 'max_tokens' is not supported with this model."
        hint = " Use 'max_completion_tokens' instead."
        raise Refusal(400, message + hint, code="unsupported_parameter", param="max_tokens")


def _check_message(message: Any, index: int) -> None:
    where = f"messages[{index}]"
    if not isinstance(message, dict):
        raise wrong_type(where, "an object")
    given = as_object(message)
    role = given.get("role")
    if role not in _ROLES:
        raise wrong_value(role, _ROLES, f"{where}.role")
    if "tool_calls" in given:
        _check_calls(given["tool_calls"], f"{where}.tool_calls")
    if role == "tool" and not isinstance(given.get("tool_call_id"), str):
        raise missing(f"{where}.tool_call_id")
    _check_content(given, index)


def _check_content(message: Json, index: int) -> None:
    content = message.get("content")
    says_otherwise = any(message.get(name) for name in ("tool_calls", "function_call", "refusal", "audio"))
    if content is None:
        if message["role"] == "assistant" and says_otherwise:
            return
        text = "Invalid value for 'content': expected a string, got null."
        raise Refusal(400, text, param=f"messages.[{index}].content")
    if isinstance(content, str):
        return
    where = f"messages[{index}].content"
    if not isinstance(content, list):
        raise wrong_type(where, "one of a string or array of objects")
    for place, part in enumerate(as_list(content)):
        kind = as_object(part).get("type")
        if kind not in _PARTS:
            raise wrong_value(kind, _PARTS, f"{where}[{place}].type")
        if kind not in part:
            raise missing(f"{where}[{place}].{kind}")


def _check_calls(calls: Any, where: str) -> None:
    if not isinstance(calls, list):
        raise wrong_type(where, "an array of objects")
    if not calls:
        raise empty_array(where)
    for index, call in enumerate(as_list(calls)):
        given, place = as_object(call), f"{where}[{index}]"
        if not isinstance(given.get("id"), str):
            raise missing(f"{place}.id")
        if given.get("type") not in ("function", "custom"):
            raise wrong_value(given.get("type"), ("function", "custom"), f"{place}.type")
        if given["type"] == "function" and not isinstance(as_object(given.get("function")).get("arguments"), str):
            raise wrong_type(f"{place}.function.arguments", "a string")


def _check_tool_answers(messages: list[Json]) -> None:
    """Tool messages stand directly after the calls that they answer, and every call has one."""
    called: set[str] | None = None
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        if message["role"] != "tool":
            _require_answered(open_calls, index)
            calls = message.get("tool_calls")
            open_calls = [call["id"] for call in calls or ()]
            called = set(open_calls) if calls else None
            continue
        answered = message["tool_call_id"]
        if called is None:
            text = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
            raise Refusal(400, f"Invalid parameter: {text}", param=f"messages.[{index}].role")
        if answered not in called:
            text = f"'tool_call_id' of '{answered}' not found in 'tool_calls' of previous message."
            raise Refusal(400, f"Invalid parameter: {text}", param=f"messages.[{index}].tool_call_id")
        open_calls = [one for one in open_calls if one != answered]
    _require_answered(open_calls, len(messages))


def _require_answered(open_calls: list[str], index: int) -> None:
    if open_calls:
        text = "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        text += "'tool_call_id'. The following tool_call_ids did not have response messages: "
        raise Refusal(400, text + ", ".join(open_calls), param=f"messages.[{index}].role")


def chat_body(received: Received, answer: Answer, number: int) -> Json:
    tokens = count_tokens(received, answer)
    ending = "stop" if answer.ending == "refusal" else answer.ending
    return {
        "id": f"chatcmpl-{number:029x}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": answer.model or as_object(received.body).get("model", "fake"),
        "choices": [{"index": 0, "message": _message(answer, number), "logprobs": None, "finish_reason": ending}],
        "usage": {
            "prompt_tokens": tokens.input,
            "completion_tokens": tokens.output,
            "total_tokens": tokens.total,
            "prompt_tokens_details": {
                "cached_tokens": tokens.cached,
                "cache_write_tokens": tokens.cache_write,
                "audio_tokens": 0,
            },
            "completion_tokens_details": {
                "reasoning_tokens": tokens.reasoning,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        },
        "service_tier": "default",
        "system_fingerprint": "fp_fake",
    }


def _message(answer: Answer, number: int) -> Json:
    silent = not answer.text and (answer.tool_calls or answer.refusal is not None)
    message: Json = {
        "role": "assistant",
        "content": None if silent else answer.text,
        "refusal": answer.refusal,
        "annotations": [],
    }
    if answer.thinking is not None:  # OpenAI keeps it to itself; DeepSeek, vLLM and others give it like this
        message["reasoning_content"] = answer.thinking
    if answer.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id or f"call_{number:x}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.text},
            }
            for index, call in enumerate(answer.tool_calls)
        ]
    return message


CHAT = Endpoint(check_chat, chat_body)
