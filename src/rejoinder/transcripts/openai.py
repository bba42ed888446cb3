"""Messages as OpenAI's chat completions take them: lists of them, alone or with the request around them.

A line, or an item of a list, is a conversation where it has `messages`, and one message where it has a `role`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rejoinder.json_values import as_items, at, count_at, list_at, text_at
from rejoinder.model import ToolCall, Usage
from rejoinder.model.messages import Role
from rejoinder.transcripts.draft import Draft, as_text, assistant, blocks, finished, tool_call, when
from rejoinder.transcripts.files import Document
from rejoinder.transcripts.values import Transcript

NAME = "openai"
ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user"}
_ROLES = frozenset({*ROLES, "assistant", "tool", "function"})
_TEXTS = frozenset({"text", "input_text", "output_text"})


def conversations(document: Document) -> list[tuple[Any, list[Any]]]:
    """Each conversation of a file with messages: what stands around its messages, and the messages."""
    values = document.values
    if not document.lines and isinstance(values[0], list):
        values = values[0]
    whole = [(value, list_at(value, "messages")) for value in values if isinstance(at(value, "messages"), list)]
    single = [value for value in values if text_at(value, "role")]
    nested = [({}, value) for value in values if isinstance(value, list) and any(text_at(one, "role") for one in value)]
    return [*whole, *nested, *([({}, single)] if single else [])]


def looks_like(document: Document) -> bool:
    found = conversations(document)
    messages = [message for _, several in found for message in several[:50]]
    roles = {text_at(message, "role") for message in messages}
    is_open = bool(messages) and roles <= _ROLES and not any(at(value, "test_id") for value in document.values[:5])
    return is_open and not any(is_anthropic(around, several) for around, several in found)


def is_anthropic(around: Any, messages: list[Any]) -> bool:
    """Are there blocks, or keys, that only Anthropic's messages have?"""
    if at(around, "system") is not None or text_at(around, "type") == "message":
        return True
    kinds = {text_at(block, "type") for message in messages[:50] for block in list_at(message, "content")}
    own = ("stop_reason", "stop_sequence")
    return bool(kinds & {"tool_use", "tool_result", "thinking"}) or any(
        key in m for m in as_items(messages) for key in own
    )


def read(document: Document) -> Iterator[Transcript]:
    for around, messages in conversations(document):
        draft = Draft(NAME, document.name)
        draft.id = text_at(around, "id") or text_at(around, "metadata", "id")
        draft.title = text_at(around, "title")
        draft.model = text_at(around, "model") or None
        for message in messages:
            _take(draft, message)
        answer = at(around, "response") if isinstance(at(around, "response"), dict) else around
        for choice in list_at(answer, "choices")[:1]:
            _take(draft, at(choice, "message"))
            draft.change_last(
                usage=_usage(at(answer, "usage")),
                finish_reason=finished(at(choice, "finish_reason")),
                model=text_at(answer, "model") or draft.model,
            )
        yield draft.finish()


def _take(draft: Draft, message: Any) -> None:
    role = text_at(message, "role")
    text = _text(draft, message)
    time = when(at(message, "timestamp"))
    if role in ROLES:
        draft.hear(ROLES[role], text, time)
    elif role == "assistant":
        said = assistant(
            text or text_at(message, "refusal"),
            _calls(message),
            at=time,
            usage=_usage(at(message, "usage")),
            model=text_at(message, "model") or None,
            finish_reason=finished(at(message, "finish_reason")),
            thinking=text_at(message, "reasoning_content") or None,
        )
        draft.say(said)
    elif role in ("tool", "function"):
        draft.end_call(text_at(message, "tool_call_id") or text_at(message, "name"), text)
    else:
        draft.not_understood(f"role {role}" if role else "message", message)


def _text(draft: Draft, message: Any) -> str:
    texts: list[str] = []
    for part in blocks(at(message, "content")):
        if text_at(part, "type") in _TEXTS:
            texts.append(text_at(part, "text"))
        elif isinstance(part, str):
            texts.append(part)
        elif text_at(part, "type") == "refusal":
            texts.append(text_at(part, "refusal"))
        else:
            draft.not_understood(f"part {text_at(part, 'type')}", part)
    return "\n".join(texts)


def _calls(message: Any) -> Iterator[ToolCall]:
    for call in list_at(message, "tool_calls"):
        function = at(call, "function") if isinstance(at(call, "function"), dict) else at(call, "custom") or call
        arguments = at(function, "arguments")
        given = at(function, "input") if arguments is None else arguments
        yield tool_call(text_at(call, "id"), text_at(function, "name"), given)
    if isinstance(old := at(message, "function_call"), dict):
        # Before calls had ids, a result named its function.
        yield tool_call(text_at(old, "name"), text_at(old, "name"), as_text(at(old, "arguments")))


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    return Usage(
        count_at(value, "prompt_tokens") or count_at(value, "input_tokens"),
        count_at(value, "completion_tokens") or count_at(value, "output_tokens"),
        reasoning_tokens=count_at(value, "completion_tokens_details", "reasoning_tokens"),
        cached_tokens=count_at(value, "prompt_tokens_details", "cached_tokens"),
    ).possible()
