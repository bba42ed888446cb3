"""Transcripts of AgentV: one message per line, grouped by `test_id`; in its older form one conversation per line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import structs

from rejoinder.json_values import at, count_at, list_at, money_at, text_at
from rejoinder.model import ToolCall, Usage
from rejoinder.transcripts.draft import Draft, as_text, assistant, blocks, keep_rest, seconds_at, tool_call, when
from rejoinder.transcripts.files import Document
from rejoinder.transcripts.values import Transcript

NAME = "agentv"
_OF_A_MESSAGE = frozenset({"content", "message_index", "role"})


def looks_like(document: Document) -> bool:
    return any(
        isinstance(at(value, "source"), dict)
        and (
            (text_at(value, "test_id") and text_at(value, "role"))
            or (isinstance(at(value, "output"), list) and "input" in value)
        )
        for value in document.values[:5]
    )


def read(document: Document) -> Iterator[Transcript]:
    groups: dict[tuple[str, str], list[Any]] = {}
    rest: list[Any] = []
    values = [line for value in document.values for line in (value if isinstance(value, list) else [value])]
    for number, value in enumerate(values, 1):
        if text_at(value, "test_id"):
            groups.setdefault((text_at(value, "test_id"), text_at(value, "target")), []).append(value)
        elif isinstance(at(value, "output"), list):
            groups[str(number), ""] = [value]
        else:
            rest.append(value)
    return iter(keep_rest((_conversation(document, id, rows) for (id, _), rows in groups.items()), rest))


def _conversation(document: Document, id: str, rows: list[Any]) -> Transcript:
    first = rows[0]
    draft = Draft(NAME, document, {key: value for key, value in first.items() if key not in _OF_A_MESSAGE})
    draft.id = text_at(first, "source", "session_id") if isinstance(at(first, "output"), list) else id
    draft.model = text_at(first, "source", "model") or None
    if isinstance(at(first, "output"), list):
        draft.hear("user", as_text(at(first, "input")), when(at(first, "source", "timestamp")))
        for message in list_at(first, "output"):
            _take(draft, message)
    else:
        ordered = sorted(rows, key=lambda row: (count_at(row, "message_index"),))
        for row in ordered:
            _take(draft, row)
    last = draft.last_reply
    if last is not None and last.usage is None and last.cost is None:
        # If no message has its own figures, the last reply gets the figures of the whole.
        draft.change_last(**_whole(next((row for row in rows if at(row, "transcript_token_usage")), first)))
    return draft.finish()


def _whole(row: Any) -> dict[str, Any]:
    usage = _usage(at(row, "transcript_token_usage") or at(row, "token_usage"))
    cost = money_at(row, "transcript_cost_usd")
    cost = money_at(row, "cost_usd") if cost is None else cost
    return {"usage": usage, "cost": cost, "latency_s": seconds_at(row, "transcript_duration_ms")}


def _take(draft: Draft, message: Any) -> None:
    role, time = text_at(message, "role"), when(at(message, "end_time") or at(message, "start_time"))
    text = "\n".join(text_at(part, "text") for part in blocks(at(message, "content")) if text_at(part, "text"))
    if role == "user":
        draft.hear_user(text, time)
    elif role in ("system", "developer"):
        draft.hear("system", text, time)
    elif role == "assistant":
        calls = [_call(call) for call in list_at(message, "tool_calls") or list_at(message, "toolCalls")]
        duration_s = seconds_at(message, "duration_ms")
        draft.say(
            assistant(
                text, calls, at=time, usage=_usage(at(message, "token_usage")), latency_s=duration_s, model=draft.model
            )
        )
    elif role == "tool":
        draft.end_call(text_at(message, "tool_call_id") or text_at(message, "name"), text)
    else:
        draft.not_understood(f"role {role}" if role else "line", message)


def _call(call: Any) -> ToolCall:
    made = tool_call(
        text_at(call, "id"), text_at(call, "tool"), at(call, "input"), started_at=when(at(call, "start_time"))
    )
    output = at(call, "output")
    if output is None:
        return made
    status = "failed" if text_at(call, "status") in ("error", "failed") else "completed"
    return structs.replace(made, result=as_text(output), status=status, duration_s=seconds_at(call, "duration_ms"))


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    return Usage(
        count_at(value, "input"),
        count_at(value, "output"),
        reasoning_tokens=count_at(value, "reasoning"),
        cached_tokens=count_at(value, "cached"),
    ).possible()
