"""OpenAI: chat completions, which many other servers speak too, and embeddings; and the errors, the key and the basic
checks of a body that all of its endpoints share.
"""

from __future__ import annotations

import base64
import re
import sys
import time
from array import array
from collections.abc import Collection
from typing import Any

from rejoinder.testing.api import Asked, Endpoint, Refusal, bearer, require, require_object
from rejoinder.testing.values import Answer, Json, Received, as_list, as_object, count_words, is_whole

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
"""Name prefixes of models that refuse `max_tokens`."""


def check_chat(received: Received, extra: Collection[str]) -> None:
    body = read_body(received, CHAT_FIELDS | frozenset(extra))
    require_model(body)
    refused = "max_tokens" in body and body["model"].startswith(_REASONING)
    message = "Unsupported parameter: 'max_tokens' is not supported with this model."
    hint = " Use 'max_completion_tokens' instead."
    require(not refused, message + hint, code="unsupported_parameter", param="max_tokens")
    form = as_object(body.get("response_format"))
    if form.get("type") == "json_schema":
        check_form(as_object(form.get("json_schema")), "response_format.json_schema")
    check_messages(body)


def check_form(form: Json, where: str) -> None:
    """Check structured output: its name, and the rules of strict schemas."""
    name = form.get("name")
    require_field(name is not None, f"{where}.name")
    fits = isinstance(name, str) and re.fullmatch(r"[\w-]{1,64}", name)
    text = f"Invalid '{where}.name': string does not match pattern."
    require(fits, text, code="invalid_value", param=f"{where}.name")
    schema = as_object(form.get("schema"))
    where = f"Invalid schema for response_format '{name}'"
    require(schema.get("type") == "object", f"{where}: schema must be a JSON Schema of 'type: \"object\"'.")
    if form.get("strict"):
        _check_strict(schema, where)


def _check_strict(schema: Json, where: str) -> None:
    properties = as_object(schema.get("properties"))
    if schema.get("type") == "object":
        closed = schema.get("additionalProperties") is False
        require(closed, f"{where}: 'additionalProperties' is required to be supplied and to be false.")
        told = set(as_list(schema.get("required"))) == set(properties)
        require(told, f"{where}: 'required' is required to be an array including every key in properties.")
    for inner in filter(None, (*properties.values(), schema.get("items"), *as_list(schema.get("anyOf")))):
        _check_strict(as_object(inner), where)


def check_messages(body: Json) -> None:
    require_field(body.get("messages") is not None, "messages")
    messages = require_items(body["messages"], "messages", "an array of objects")
    for index, message in enumerate(messages):
        _check_message(message, index)
    _check_tool_answers(messages)


def _check_message(message: Any, index: int) -> None:
    where, given = f"messages[{index}]", as_object(message)
    require_type(isinstance(message, dict), where, "an object")
    require_value(given.get("role"), _ROLES, f"{where}.role")
    if "tool_calls" in given:
        _check_calls(given["tool_calls"], f"{where}.tool_calls")
    if given["role"] == "tool":
        require_field(isinstance(given.get("tool_call_id"), str), f"{where}.tool_call_id")
    _check_content(given, index)


def _check_content(message: Json, index: int) -> None:
    content, where = message.get("content"), f"messages[{index}].content"
    if content is None:
        says_otherwise = any(message.get(name) for name in ("tool_calls", "function_call", "refusal", "audio"))
        text = "Invalid value for 'content': expected a string, got null."
        require(message["role"] == "assistant" and says_otherwise, text, param=f"messages.[{index}].content")
    elif not isinstance(content, str):
        require_type(isinstance(content, list), where, "one of a string or array of objects")
        for place, part in enumerate(as_list(content)):
            kind = as_object(part).get("type")
            require_value(kind, _PARTS, f"{where}[{place}].type")
            require_field(kind in part, f"{where}[{place}].{kind}")


def _check_calls(calls: Any, where: str) -> None:
    for index, call in enumerate(require_items(calls, where, "an array of objects")):
        given, place = as_object(call), f"{where}[{index}]"
        require_field(isinstance(given.get("id"), str), f"{place}.id")
        require_value(given.get("type"), ("function", "custom"), f"{place}.type")
        if given["type"] == "function":
            arguments = as_object(given.get("function")).get("arguments")
            require_type(isinstance(arguments, str), f"{place}.function.arguments", "a string")


def _check_tool_answers(messages: list[Json]) -> None:
    """Check that tool messages come directly after the calls that they answer, and that every call has one."""
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
        text = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
        require(called is not None, f"Invalid parameter: {text}", param=f"messages.[{index}].role")
        text = f"'tool_call_id' of '{answered}' not found in 'tool_calls' of previous message."
        require(answered in (called or ()), f"Invalid parameter: {text}", param=f"messages.[{index}].tool_call_id")
        open_calls = [one for one in open_calls if one != answered]
    _require_answered(open_calls, len(messages))


def _require_answered(open_calls: list[str], index: int) -> None:
    text = "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    text += "'tool_call_id'. The following tool_call_ids did not have response messages: "
    require(not open_calls, text + ", ".join(open_calls), param=f"messages.[{index}].role")


def chat_body(asked: Asked) -> Json:
    answer, number, tokens = asked.answer, asked.number, asked.tokens
    ending = "stop" if answer.ending == "refusal" else answer.ending
    return {
        "id": f"chatcmpl-{number:029x}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": answer.model or asked.body.get("model", "fake"),
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


_Kind = tuple[str, str | None, str]
"""An error's type, code and usual words."""

_ERRORS: dict[tuple[int, str | None], _Kind] = {
    (400, None): ("invalid_request_error", None, "Your request was malformed."),
    (400, "content_filter"): ("invalid_request_error", "content_filter", "The request was filtered."),
    (400, "context_length_exceeded"): (
        "invalid_request_error",
        "context_length_exceeded",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. "
        "Please reduce the length of the messages.",
    ),
    (401, None): ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    (403, None): ("request_forbidden", "unsupported_country_region_territory", "Country or region not supported."),
    (404, None): ("invalid_request_error", "model_not_found", "The model does not exist or you do not have access."),
    (405, None): ("invalid_request_error", "method_not_supported", "Not allowed."),
    (429, None): ("requests", "rate_limit_exceeded", "Rate limit reached on requests per min (RPM)."),
    (429, "insufficient_quota"): (
        "insufficient_quota",
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    (500, None): ("server_error", None, "The server had an error while processing your request. Sorry about that!"),
    (503, None): ("server_error", None, "The engine is currently overloaded, please try again later."),
}


def error_body(refusal: Refusal, _: str = "") -> Json:
    kind, code, message = _kind(refusal.status, refusal.code)
    if refusal.status < 429 and refusal.message:
        code = refusal.code  # in refusals of a request's content the code is often null
    if refusal.retry_after is not None:
        message += f" Please try again in {refusal.retry_after:g}s."
    words = refusal.message or message
    return {"error": {"message": words, "type": kind, "param": refusal.param, "code": code}}


def _kind(status: int, code: str | None) -> _Kind:
    known = _ERRORS.get((status, code))
    if known is not None:
        return known
    kind, usual_code, message = _ERRORS.get((status, None)) or _ERRORS[(500 if status >= 500 else 400, None)]
    return kind, code or usual_code, message


def check_key(received: Received, key: str) -> None:
    given = bearer(received)
    if not given:
        message = "You didn't provide an API key. Provide it in an Authorization header using Bearer auth."
        raise Refusal(401, message)
    if given != key:
        raise Refusal(401, f"Incorrect API key provided: {_masked(given)}.", code="invalid_api_key")


def _masked(key: str) -> str:
    return f"{key[:3]}{'*' * 8}{key[-2:]}" if len(key) > 8 else "*" * len(key)


def read_body(received: Received, fields: Collection[str]) -> Json:
    """The body, if it is an object with these fields and does not request a stream."""
    body = require_object(received, "We could not parse the JSON body of your request.")
    for name in body:
        require(name in fields, f"Unknown parameter: '{name}'.", code="unknown_parameter", param=name)
    text = "This fake server does not stream: send the request without `stream`."
    require(not body.get("stream"), text, param="stream")
    return body


def require_model(body: Json) -> None:
    require(isinstance(body.get("model"), str) and body["model"], "you must provide a model parameter")


def require_field(present: bool, name: str) -> None:
    require(present, f"Missing required parameter: '{name}'.", code="missing_required_parameter", param=name)


def require_value(value: Any, allowed: Collection[str], where: str) -> None:
    names = ", ".join(f"'{one}'" for one in allowed)
    message = f"Invalid value: '{value}'. Supported values are: {names}."
    require(value in allowed, message, code="invalid_value", param=where)


def require_type(right: bool, where: str, wanted: str) -> None:
    require(right, f"Invalid type for '{where}': expected {wanted}.", code="invalid_type", param=where)


def require_items(value: Any, where: str, wanted: str) -> list[Any]:
    """A list that is not empty."""
    require_type(isinstance(value, list), where, wanted)
    message = "empty array. Expected an array with minimum length 1, but got an empty array instead."
    require(value, f"Invalid '{where}': {message}", code="empty_array", param=where)
    return as_list(value)


EMBEDDINGS_FIELDS = frozenset({"input", "model", "dimensions", "encoding_format", "user"})


def _check(received: Received, extra: Collection[str]) -> None:
    body = read_body(received, EMBEDDINGS_FIELDS | frozenset(extra))
    require_model(body)
    check_input(body)


def check_input(body: Json) -> None:
    given, dimensions = body.get("input"), body.get("dimensions")
    require_field(given is not None, "input")
    if not isinstance(given, str):
        require_items(given, "input", "one of a string or array of strings")
    is_size = dimensions is None or (is_whole(dimensions) and dimensions > 0)
    require_type(is_size, "dimensions", "an integer above 0")
    require(all(_texts(given)), "Invalid 'input': input cannot be an empty string.", param="input")


def _texts(given: Any) -> list[str]:
    """The inputs as texts: one, several, one list of tokens, or several such lists."""
    if isinstance(given, str):
        return [given]
    items = as_list(given)
    if items and is_whole(items[0]):
        items = [items]
    return [one if isinstance(one, str) else " ".join(map(str, as_list(one))) for one in items]


def embeddings_body(asked: Asked) -> Json:
    texts = _texts(asked.body["input"])
    vectors = [asked.vector(text, asked.body.get("dimensions")) for text in texts]
    packed = asked.body.get("encoding_format") == "base64"
    used = count_words(texts)
    return {
        "object": "list",
        "model": asked.body.get("model"),
        "data": [
            {"object": "embedding", "index": index, "embedding": _packed(numbers) if packed else numbers}
            for index, numbers in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": used, "total_tokens": used},
    }


def _packed(numbers: list[float]) -> str:
    packed = array("f", numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return base64.b64encode(packed.tobytes()).decode()


EMBEDDINGS = Endpoint(_check, embeddings_body, asks=False)
