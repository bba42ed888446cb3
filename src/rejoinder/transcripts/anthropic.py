"""Messages in the form of Anthropic's API: blocks of text, tools and thoughts, with `system` beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rejoinder.json_values import at, text_at
from rejoinder.model import Usage
from rejoinder.transcripts.draft import (
    Draft,
    as_text,
    assistant,
    blocks,
    finished,
    keep_rest,
    tool_call,
    usage_beside_cache,
    when,
)
from rejoinder.transcripts.exchanges import Exchange, join_exchanges, new_messages, read_exchanges
from rejoinder.transcripts.files import Document
from rejoinder.transcripts.openai import is_anthropic
from rejoinder.transcripts.values import Said, Transcript

NAME = "anthropic"


def looks_like(document: Document) -> bool:
    found, _ = read_exchanges(document)
    roles = {text_at(message, "role") for one in found for message in one.messages[:50]}
    return bool(found) and roles <= {"user", "assistant", "system"} and any(map(is_anthropic, found))


def read(document: Document) -> Iterator[Transcript]:
    exchanges, rest = read_exchanges(document)
    return iter(keep_rest((_conversation(document, several) for several in join_exchanges(exchanges)), rest))


def _conversation(document: Document, exchanges: Sequence[Exchange]) -> Transcript:
    draft = Draft(NAME, document, exchanges[0].head)
    draft.model = text_at(exchanges[0].request, "model") or None
    draft.hear("system", as_text(at(exchanges[0].request, "system")))
    for exchange, messages in new_messages(exchanges):
        for message in messages:
            _take(draft, message)
        if exchange.answer is not None:
            _take(draft, exchange.answer)
    return draft.finish()


def _take(draft: Draft, message: Any) -> None:
    """One message of a list."""
    role, time = text_at(message, "role"), when(at(message, "timestamp"))
    if role == "assistant":
        draft.say(reply_of(draft, message, time))
    elif role in ("user", "system"):
        draft.hear("user" if role == "user" else "system", words_of(draft, message), time)
    else:
        draft.not_understood(f"role {role}" if role else "message", message)


def words_of(draft: Draft, message: Any) -> str:
    """The user's words in a message; tool results in it are added to their calls."""
    texts: list[str] = []
    for block in blocks(at(message, "content")):
        kind = text_at(block, "type")
        if kind == "text":
            texts.append(text_at(block, "text"))
        elif kind == "tool_result":
            status = "failed" if at(block, "is_error") is True else "completed"
            draft.end_call(text_at(block, "tool_use_id"), as_text(at(block, "content")), status)
        else:
            draft.not_understood(f"block {kind}", block)
    return "\n\n".join(texts)


def reply_of(draft: Draft, message: Any, time: float | None) -> Said:
    texts: list[str] = []
    thoughts: list[str] = []
    calls = [
        tool_call(text_at(block, "id"), text_at(block, "name"), at(block, "input"))
        for block in blocks(at(message, "content"))
        if text_at(block, "type") in ("tool_use", "server_tool_use", "mcp_tool_use")
    ]
    for block in blocks(at(message, "content")):
        kind = text_at(block, "type")
        if kind == "text":
            texts.append(text_at(block, "text"))
        elif kind == "thinking":
            thoughts.append(text_at(block, "thinking"))
        elif kind.endswith("_tool_result"):
            draft.end_call(text_at(block, "tool_use_id"), as_text(at(block, "content")))
        elif kind == "redacted_thinking":
            draft.pass_over(f"block {kind}")
        elif kind not in ("tool_use", "server_tool_use", "mcp_tool_use"):
            draft.not_understood(f"block {kind}", block)
    return assistant(
        "\n\n".join(texts),
        calls,
        at=time,
        usage=usage_of(at(message, "usage")),
        model=text_at(message, "model") or None,
        finish_reason=finished(at(message, "stop_reason")),
        thinking="\n\n".join(filter(None, thoughts)) or None,
    )


def usage_of(value: Any) -> Usage | None:
    """Anthropic's usage, which counts cache reads and writes separately from other input."""
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return usage_beside_cache(value, *names)
