"""Sessions of GitHub Copilot's command line: `events.jsonl`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rejoinder.json_values import at, count_at, list_at, text_at
from rejoinder.model import Usage
from rejoinder.transcripts.draft import Draft, as_text, assistant, finished, tool_call, when
from rejoinder.transcripts.files import Document
from rejoinder.transcripts.values import Transcript

NAME = "copilot"
_ASIDE = frozenset(
    {
        *("abort", "assistant.intent", "assistant.reasoning", "assistant.turn_start", "assistant.turn_end"),
        *("assistant.usage", "session.idle", "session.info", "session.model_change", "session.resume"),
        *("session.shutdown", "session.start", "session.truncation", "session.usage_info", "session.usage_record"),
        *(
            "session.warning",
            "system.message",
            "tool.execution_start",
            "tool.execution_progress",
            "tool.user_requested",
        ),
        *("session.compaction_start", "session.compaction_complete", "hook.start", "hook.end", "session.error"),
        *("permission.requested", "permission.completed"),
    }
)


def looks_like(document: Document) -> bool:
    return document.lines and any(
        text_at(value, "type") in ("session.start", "user.message", "assistant.message")
        and isinstance(at(value, "data"), dict)
        for value in document.values[:50]
    )


def read(document: Document) -> Iterator[Transcript]:
    draft = Draft(NAME, document)
    usages = {
        text_at(value, "data", "usage", "apiCallId"): at(value, "data", "usage")
        for value in document.values
        if text_at(value, "type") == "session.usage_record"
    }
    helpers = 0
    for value in document.values:
        kind, data, time = text_at(value, "type"), at(value, "data"), when(at(value, "timestamp"))
        if text_at(data, "parentToolCallId"):
            helpers += 1
            draft.pass_over(f"{kind} of a sub-agent")
        elif kind == "user.message":
            draft.hear("user", text_at(data, "content"), time)
        elif kind == "assistant.message":
            _reply(draft, data, usages.get(text_at(data, "apiCallId") or "-"), time)
        elif kind == "tool.execution_complete":
            _end_call(draft, data)
        else:
            if kind == "session.start":
                draft.id = text_at(data, "sessionId")
                draft.model = text_at(data, "selectedModel") or None
                draft.add_keys(data)
            (draft.pass_over(kind) if kind in _ASIDE else draft.not_understood(kind, value))
    if helpers:
        draft.notes.append(f"{helpers} events of sub-agents are left out")
    yield draft.finish()


def _reply(draft: Draft, data: Any, used: Any, time: float | None) -> None:
    calls = [
        tool_call(text_at(call, "toolCallId"), text_at(call, "name"), at(call, "arguments"))
        for call in list_at(data, "toolRequests")
    ]
    usage = Usage(
        count_at(used, "inputTokens"),
        count_at(used, "outputTokens"),
        cached_tokens=count_at(used, "cacheReadTokens"),
        cache_write_tokens=count_at(used, "cacheWriteTokens"),
    )
    draft.say(
        assistant(
            text_at(data, "content"),
            calls,
            at=time,
            usage=None if used is None else usage.possible(),
            model=text_at(data, "model") or draft.model,
            finish_reason=finished(at(used, "finishReason")) or ("tool_calls" if calls else None),
            thinking=text_at(data, "reasoningText") or None,
        )
    )


def _end_call(draft: Draft, data: Any) -> None:
    id = text_at(data, "toolCallId")
    if at(data, "success") is False:
        status = "denied" if text_at(data, "error", "code") == "denied" else "failed"
        draft.end_call(id, text_at(data, "error", "message"), status)
    else:
        result = at(data, "result", "content")
        draft.end_call(id, as_text(at(data, "result") if result is None else result))
