"""Lists of messages in the form of an API: stored on their own, or logged with their request and answer.

A request repeats everything said before it. So a logged request that begins with an earlier request and its answer
continues that conversation, and known messages are not repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from rejoinder.json_values import as_mapping, at, list_at, text_at
from rejoinder.transcripts.draft import blocks
from rejoinder.transcripts.files import Document


class Exchange(Struct, frozen=True):
    """A list of messages, and the answer to it."""

    head: Any
    """Everything that was logged."""
    request: Any
    """The request without its messages."""
    messages: list[Any]
    answer: dict[str, Any] | None = None
    """The answering message; None if the list already contains all messages."""
    response: Any = None
    """The response without its message: tokens, the model, the finish reason."""

    @property
    def all_messages(self) -> list[Any]:
        return [*self.messages, *([] if self.answer is None else [self.answer])]


def read_exchanges(document: Document) -> tuple[list[Exchange], list[Any]]:
    """The lists of messages in a file, and the values that belong to none. A line, or an item of a list, is a list of
    messages if it has `messages`, and one message if it has a `role`."""
    values = document.values
    if not document.lines and isinstance(values[0], list):
        values = values[0]
    found: list[Exchange] = []
    single: list[Any] = []
    rest: list[Any] = []
    for value in values:
        if (exchange := _exchange(value)) is not None:
            found.append(exchange)
        else:
            (single if text_at(value, "role") else rest).append(value)
    return [*found, *([Exchange({}, {}, single)] if single else [])], rest


def _exchange(value: Any) -> Exchange | None:
    if isinstance(value, list):
        return Exchange({}, {}, value) if any(text_at(one, "role") for one in value) else None
    request = _body(at(value, "request")) if at(value, "request") is not None else value
    if not isinstance(at(request, "messages"), list):
        return None
    response = _body(at(value, "response"))
    if isinstance(response, str):
        return Exchange(value, request, list_at(request, "messages"), {"role": "assistant", "content": response})
    response = response if isinstance(response, dict) else value
    return Exchange(value, request, list_at(request, "messages"), _answer(response), response)


def _body(value: Any) -> Any:
    """The body of an HTTP request: the value itself, its `body`, or either as JSON text."""
    if isinstance(value, str):
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return value
    inner = at(value, "body")
    return _body(inner) if isinstance(inner, dict | str) else value


def _answer(response: Any) -> dict[str, Any] | None:
    """The message of a response: OpenAI's first choice, or Anthropic's response itself."""
    for choice in list_at(response, "choices")[:1]:
        return {"role": "assistant", **as_mapping(at(choice, "message"))}
    if isinstance(at(response, "content"), list | str) and "messages" not in response:
        return {"role": "assistant", **as_mapping(response)}
    return None


def join_exchanges(exchanges: Iterable[Exchange]) -> list[list[Exchange]]:
    """Exchanges grouped by conversation, in order."""
    conversations: list[list[Exchange]] = []
    unfinished: dict[int, list[int]] = {}
    """Conversations that may continue: their positions by a digest of all their messages."""
    for exchange in exchanges:
        digests = _digests(text_at(exchange.head, "id"), exchange.all_messages)
        before = digests[: len(exchange.messages)]
        known = next((digest for digest in reversed(before) if unfinished.get(digest)), None)
        if known is None:
            place = len(conversations)
            conversations.append([exchange])
        else:
            place = unfinished[known].pop()
            conversations[place].append(exchange)
        if exchange.answer is not None:
            unfinished.setdefault(digests[-1], []).append(place)
    return conversations


def new_messages(exchanges: Sequence[Exchange]) -> list[tuple[Exchange, list[Any]]]:
    """Each exchange of a conversation with the messages that are new in it."""
    known = 0
    found: list[tuple[Exchange, list[Any]]] = []
    for one in exchanges:
        found.append((one, one.messages[known:]))
        known = len(one.all_messages)
    return found


def _digests(id: str, messages: Iterable[Any]) -> list[int]:
    """A digest of each message together with all messages before it."""
    digest = hash(id)
    found: list[int] = []
    for message in messages:
        digest = hash((digest, _sign(message)))
        found.append(digest)
    return found


def _sign(message: Any) -> tuple[str, ...]:
    """A message's identity, independent of its form."""
    parts = blocks(at(message, "content"))
    text = "\n".join(text_at(part, "text") for part in parts).strip()
    ids = [text_at(part, "id") or text_at(part, "tool_use_id") for part in parts]
    return (text_at(message, "role"), text, *filter(None, ids), *_call_ids(message))


def _call_ids(message: Any) -> list[str]:
    return [text_at(call, "id") for call in list_at(message, "tool_calls")]
