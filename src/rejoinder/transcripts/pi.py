"""Sessions of pi: entries that name the entry before them. The branch of the last message is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rejoinder.json_values import at, list_at, money_at, text_at
from rejoinder.model import Usage
from rejoinder.transcripts.draft import (
    Draft,
    as_text,
    assistant,
    blocks,
    finished,
    tool_call,
    usage_beside_cache,
    when,
)
from rejoinder.transcripts.files import Document
from rejoinder.transcripts.values import Transcript

NAME = "pi"
_ASIDE = frozenset(
    {
        *("model_change", "thinking_level_change", "compaction", "branch_summary", "label", "session_info"),
        *("custom", "custom_message"),
    }
)


def looks_like(document: Document) -> bool:
    return any(text_at(value, "type") == "session" and text_at(value, "id") for value in document.values[:5])


def read(document: Document) -> Iterator[Transcript]:
    draft = Draft(NAME, document)
    entries = document.values
    branch = _branch(entries)
    left_out = 0
    for entry in entries:
        kind = text_at(entry, "type")
        if kind == "message" and (text_at(entry, "id") in branch or not text_at(entry, "id")):
            _take(draft, at(entry, "message"), when(at(entry, "timestamp")))
        elif kind == "message":
            left_out += 1
        elif kind == "session":
            draft.id = text_at(entry, "id")
            draft.add_keys(entry)
        elif kind in _ASIDE:
            draft.title = text_at(entry, "name") or draft.title
            draft.pass_over(kind)
        else:
            draft.not_understood(kind, entry)
    if left_out:
        draft.notes.append(
            f"{left_out} messages of other branches are left out; the branch of the last message is read"
        )
    yield draft.finish()


def _branch(entries: list[Any]) -> set[str]:
    """The ids of the last message and of all before it."""
    parents = {text_at(entry, "id"): text_at(entry, "parentId") for entry in entries}
    id = next((text_at(one, "id") for one in reversed(entries) if text_at(one, "type") == "message"), "")
    found: set[str] = set()
    while id and id not in found:
        found.add(id)
        id = parents.get(id, "")
    return found


def _take(draft: Draft, message: Any, written: float | None) -> None:
    role, time = text_at(message, "role"), when(at(message, "timestamp")) or written
    if role == "user":
        draft.hear("user", _text(draft, message), time)
    elif role == "assistant":
        _reply(draft, message, written or time)
    elif role == "toolResult":
        status = "failed" if at(message, "isError") is True else "completed"
        draft.end_call(text_at(message, "toolCallId"), as_text(at(message, "content")), status)
    elif role == "bashExecution":
        draft.pass_over("command of the user")
    else:
        draft.not_understood(f"role {role}", message)


def _reply(draft: Draft, message: Any, time: float | None) -> None:
    parts = list_at(message, "content")
    calls = [
        tool_call(text_at(part, "id"), text_at(part, "name"), at(part, "arguments"))
        for part in parts
        if text_at(part, "type") == "toolCall"
    ]
    thoughts = [text_at(part, "thinking") for part in parts if text_at(part, "type") == "thinking"]
    draft.say(
        assistant(
            _text(draft, message) or text_at(message, "errorMessage"),
            calls,
            at=time,
            usage=_usage(at(message, "usage")),
            cost=money_at(message, "usage", "cost", "total"),
            model=text_at(message, "model") or None,
            finish_reason=finished(at(message, "stopReason")),
            thinking="\n\n".join(filter(None, thoughts)) or None,
        )
    )


def _text(draft: Draft, message: Any) -> str:
    texts: list[str] = []
    for part in blocks(at(message, "content")):
        if text_at(part, "type") == "text":
            texts.append(text_at(part, "text"))
        elif text_at(part, "type") not in ("toolCall", "thinking"):
            draft.not_understood(f"part {text_at(part, 'type')}", part)
    return "\n\n".join(texts)


def _usage(value: Any) -> Usage | None:
    return usage_beside_cache(value, "input", "output", "cacheRead", "cacheWrite")
