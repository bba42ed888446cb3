"""Exports of `opencode export`: one document with a session and its messages, each in parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import structs

from rejoinder.json_values import at, count_at, list_at, money_at, text_at
from rejoinder.model import ToolCall, Usage
from rejoinder.model.messages import ToolStatus
from rejoinder.transcripts.draft import (
    Draft,
    as_text,
    assistant,
    finished,
    keep_rest,
    tool_call,
    usage_beside_cache,
    when,
)
from rejoinder.transcripts.files import Document
from rejoinder.transcripts.values import Transcript

NAME = "opencode"
_ASIDE = frozenset({"step-start", "step-finish", "snapshot", "patch", "agent", "compaction", "retry", "subtask"})
_ENDED: dict[str, ToolStatus] = {"completed": "completed", "error": "failed"}


def looks_like(document: Document) -> bool:
    return any(
        isinstance(at(value, "info"), dict)
        and isinstance(at(value, "messages"), list)
        and all(isinstance(at(message, "parts"), list) for message in list_at(value, "messages"))
        for value in document.values[:5]
    )


def read(document: Document) -> Iterator[Transcript]:
    sessions = [value for value in document.values if isinstance(at(value, "messages"), list)]
    rest = [value for value in document.values if not isinstance(at(value, "messages"), list)]
    return iter(keep_rest((_conversation(document, one) for one in sessions), rest))


def _conversation(document: Document, session: Any) -> Transcript:
    draft = Draft(NAME, document, at(session, "info"))
    draft.model = text_at(session, "info", "model", "id") or None
    for message in list_at(session, "messages"):
        _take(draft, at(message, "info"), list_at(message, "parts"))
    return draft.finish()


def _take(draft: Draft, info: Any, parts: list[Any]) -> None:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    for part in parts:
        kind = text_at(part, "type")
        if kind == "text" and at(part, "synthetic") is not True:
            texts.append(text_at(part, "text"))
        elif kind == "reasoning":
            thoughts.append(text_at(part, "text"))
        elif kind == "tool":
            calls.append(_call(part))
        elif kind in _ASIDE or kind == "text":
            draft.pass_over(f"part {kind}")
        else:
            draft.not_understood(f"part {kind}", part)
    role, created = text_at(info, "role"), when(at(info, "time", "created"))
    if role == "user":
        draft.hear("user", "\n\n".join(texts), created)
    elif role == "assistant":
        completed = when(at(info, "time", "completed"))
        draft.say(
            assistant(
                "\n\n".join(texts) or text_at(info, "error", "data", "message"),
                calls,
                at=completed or created,
                usage=_usage(at(info, "tokens")),
                cost=money_at(info, "cost"),
                model=text_at(info, "modelID") or None,
                finish_reason=finished(at(info, "finish")) or ("error" if at(info, "error") else None),
                thinking="\n\n".join(filter(None, thoughts)) or None,
            )
        )
    else:
        draft.not_understood(f"role {role}", info)


def _call(part: Any) -> ToolCall:
    state = at(part, "state")
    call = tool_call(text_at(part, "callID"), text_at(part, "tool"), at(state, "input"))
    status = _ENDED.get(text_at(state, "status"), "pending")
    began, ended = when(at(state, "time", "start")), when(at(state, "time", "end"))
    result = at(state, "error") if status == "failed" else at(state, "output")
    return structs.replace(
        call,
        status=status,
        result=None if status == "pending" else as_text(result),
        started_at=began,
        duration_s=None if began is None or ended is None else max(0.0, round(ended - began, 6)),
    )


def _usage(tokens: Any) -> Usage | None:
    """Usage. Thoughts count separately from other output, unless the total says otherwise."""
    usage = usage_beside_cache(tokens, "input", "output", "cache.read", "cache.write")
    thought = count_at(tokens, "reasoning")
    if usage is None or not thought:
        return usage
    apart = 0 if count_at(tokens, "total") == usage.total_tokens else thought
    return structs.replace(usage, output_tokens=usage.output_tokens + apart, reasoning_tokens=thought).possible()
