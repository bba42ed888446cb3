"""Messages in the form of OpenAI's chat completions: lists of them, alone or with the request around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rejoinder.json_values import as_items, at, count_at, list_at, text_at
from rejoinder.model import ToolCall, Usage
from rejoinder.model.messages import Role
from rejoinder.transcripts.draft import Draft, as_text, assistant, blocks, finished, keep_rest, tool_call, when
from rejoinder.transcripts.exchanges import Exchange, join_exchanges, new_messages, read_exchanges
from rejoinder.transcripts.files import Document
from rejoinder.transcripts.values import Transcript

NAME = "openai"
ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user"}
_ROLES = frozenset({*ROLES, "assistant", "tool", "function"})
_TEXTS = frozenset({"text", "input_text", "output_text"})


def looks_like(document: Document) -> bool:
    found, _ = read_exchanges(document)
    messages = [message for one in found for message in one.messages[:50]]
    roles = {text_at(message, "role") for message in messages}
    is_open = bool(messages) and roles <= _ROLES and not any(at(value, "test_id") for value in document.values[:5])
    return is_open and not any(map(is_anthropic, found))


def is_anthropic(exchange: Exchange) -> bool:
    """Whether it has blocks, or keys, that only Anthropic's messages have."""
    if at(exchange.request, "system") is not None or text_at(exchange.response, "type") == "message":
        return True
    messages = exchange.messages[:50]
    kinds = {text_at(block, "type") for message in messages for block in list_at(message, "content")}
    own = ("stop_reason", "stop_sequence")
    return bool(kinds & {"tool_use", "tool_result", "thinking"}) or any(
        key in m for m in as_items(messages) for key in own
    )


def read(document: Document) -> Iterator[Transcript]:
    exchanges, rest = read_exchanges(document)
    return iter(keep_rest((_conversation(document, several) for several in join_exchanges(exchanges)), rest))


def _conversation(document: Document, exchanges: Sequence[Exchange]) -> Transcript:
    draft = Draft(NAME, document, exchanges[0].head)
    draft.id = draft.id or text_at(exchanges[0].head, "metadata", "id")
    draft.model = text_at(exchanges[0].request, "model") or None
    for exchange, messages in new_messages(exchanges):
        for message in messages:
            _take(draft, message)
        if exchange.answer is not None:
            _take(draft, exchange.answer)
            _add_figures(draft, exchange.response)
    return draft.finish()


def _add_figures(draft: Draft, response: Any) -> None:
    reasons = [at(choice, "finish_reason") for choice in list_at(response, "choices")[:1]]
    draft.change_last(
        at=when(at(response, "created")),
        usage=_usage(at(response, "usage")),
        finish_reason=finished(next(iter(reasons), None)),
        model=text_at(response, "model") or draft.model,
    )


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
        cache_write_tokens=count_at(value, "prompt_tokens_details", "cache_write_tokens"),
    ).possible()
