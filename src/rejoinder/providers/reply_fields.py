"""Reads tool calls and counts of tokens in the answers of services, in the common forms.

Tool calls are objects of OpenAI's form (`{id, function: {name, arguments}}`), of Anthropic's (`{id, name, input}`), or
plain (`{name, arguments}`, with a `result` if the service has run the tool). Counts are OpenAI's, Anthropic's, or plain
`input_tokens` and `output_tokens`. Another form is an error: a call that is not seen would let a check pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rejoinder.model import NO_USAGE, ToolCall, Usage
from rejoinder.providers.json_fields import arguments_text, count
from rejoinder.providers.json_paths import JsonPath
from rejoinder.providers.settings import Settings

MOST_CALLS = 1000
_ARGUMENTS = ("arguments", "args", "input", "parameters")
_RESULTS = ("result", "output")


class ReplyFields:
    """The places of tool calls and counts in an answer."""

    def __init__(self, settings: Settings) -> None:
        self.calls, self.usage = (_path(settings, name) for name in ("tool_calls_path", "usage_path"))

    def calls_in(self, data: Any) -> tuple[ToolCall, ...]:
        """Raises msgspec.DecodeError for another form."""
        return () if self.calls is None else read_calls(self.calls.optional_in(data), self.calls.text)

    def usage_in(self, data: Any) -> Usage:
        """Raises msgspec.DecodeError for another form."""
        return NO_USAGE if self.usage is None else read_usage(self.usage.value_in(data), self.usage.text)


def _path(settings: Settings, name: str) -> JsonPath | None:
    text = settings.text(name)
    return JsonPath(text, name, settings) if text else None


def read_calls(value: Any, where: str) -> tuple[ToolCall, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MOST_CALLS:
        what = f"{len(value):,} tool calls" if isinstance(value, list) else type(value).__name__
        raise msgspec.DecodeError(f"at `{where}` there is {what}, and a list of at most {MOST_CALLS:,} is expected")
    return tuple(_call(one, where) for one in value)


def _call(written: Any, where: str) -> ToolCall:
    inner = written.get("function") if isinstance(written, dict) else None
    told: Mapping[str, Any] = inner if isinstance(inner, dict) else written
    if not isinstance(told, dict) or not isinstance(told.get("name"), str) or not told["name"]:
        raise msgspec.DecodeError(f"at `{where}` there is a tool call without a `name`")
    given = next((told[key] for key in _ARGUMENTS if key in told), None)
    result = next((written[key] for key in _RESULTS if written.get(key) is not None), None)
    return ToolCall(
        told["name"],
        arguments_text(given),
        str(written.get("id") or ""),
        None if result is None else result if isinstance(result, str) else msgspec.json.encode(result).decode(),
        None if result is None else "completed",
    )


def read_usage(value: Any, where: str) -> Usage:
    """Counts that are not there are 0, and estimated later; None: the service has not counted."""
    if value is None:
        return NO_USAGE
    if not isinstance(value, dict):
        raise msgspec.DecodeError(f"at `{where}` there is {type(value).__name__}, and counts of tokens are expected")
    of_openai = "prompt_tokens" in value or "completion_tokens" in value
    given, made = _OF_OPENAI if of_openai else _PLAIN
    if given not in value and made not in value:
        named = ", ".join(f"`{key}`" for key in list(value)[:10]) or "nothing"
        raise msgspec.DecodeError(
            f"at `{where}` there are no counts of tokens (`input_tokens`, `prompt_tokens`), but {named}"
        )
    read, written = count(value.get("cache_read_input_tokens")), count(value.get("cache_creation_input_tokens"))
    cached = read or _inner(value, f"{given}_details", "cached_tokens") or count(value.get("cached_tokens"))
    thought = _inner(value, f"{made}_details", "reasoning_tokens") or count(value.get("reasoning_tokens"))
    # Anthropic counts what a cache has read and written beside its input; all others count it as a part.
    return Usage(count(value.get(given)) + read + written, count(value.get(made)), thought, False, cached, written)


_OF_OPENAI = "prompt_tokens", "completion_tokens"
_PLAIN = "input_tokens", "output_tokens"


def _inner(value: Mapping[str, Any], key: str, name: str) -> int:
    inner = value.get(key)
    return count(inner.get(name)) if isinstance(inner, dict) else 0
