"""Rollouts of Codex. Both `response_item` and `event_msg` hold messages: the first is read, and the second only for its
additions (tokens, times, and the status of commands).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rejoinder.json_values import as_mapping, at, count_at, list_at, text_at
from rejoinder.model import NO_USAGE, Usage
from rejoinder.model.messages import ToolStatus
from rejoinder.transcripts.draft import Draft, as_text, assistant, seconds_at, tool_call, when
from rejoinder.transcripts.files import Document
from rejoinder.transcripts.values import Transcript

NAME = "codex"
_LINES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "token_usage_record"})
_ASIDE = frozenset({"world_state", "compacted", "turn_context", "ghost_snapshot", "session_state"})
_EVENTS = frozenset(
    {
        *(
            "task_started",
            "thread_settings_applied",
            "user_message",
            "agent_message",
            "agent_reasoning",
            "item_started",
        ),
        *("agent_reasoning_raw_content", "exec_command_begin", "mcp_tool_call_begin", "mcp_tool_call_end"),
        *("turn_aborted", "context_compacted", "web_search_begin", "web_search_end", "turn_diff", "plan_update"),
        *("patch_apply_begin", "patch_apply_end", "stream_error", "error", "warning", "background_event"),
    }
)
_ENDED: dict[str, ToolStatus] = {"completed": "completed", "failed": "failed", "declined": "denied"}


def looks_like(document: Document) -> bool:
    return document.lines and any(
        text_at(value, "type") in _LINES and isinstance(at(value, "payload"), dict) for value in document.values[:20]
    )


def read(document: Document) -> Iterator[Transcript]:
    reader = _Reader(document, has_records=any(_is_record(value) for value in document.values))
    for value in document.values:
        reader.take(value)
    yield reader.draft.finish()


def _is_record(value: Any) -> bool:
    return text_at(value, "type") == "token_usage_record"


class _Reader:
    def __init__(self, document: Document, *, has_records: bool) -> None:
        self.draft = Draft(NAME, document)
        self._has_records = has_records
        """Whether separate records report tokens. Then other counts only repeat them."""
        self._total = NO_USAGE
        self._thoughts: list[str] = []

    def take(self, line: Any) -> None:
        kind, payload = text_at(line, "type"), at(line, "payload")
        time = when(at(line, "timestamp"))
        if kind == "session_meta":
            self.draft.id = self.draft.id or text_at(payload, "id") or text_at(payload, "session_id")
            self.draft.add_keys(payload)
            self.draft.pass_over(kind)
        elif kind == "response_item":
            self._item(payload, time)
        elif kind == "token_usage_record":
            self._count(_usage(at(payload, "usage")))
            self.draft.pass_over(kind)
        elif kind == "event_msg":
            self._event(payload)
        elif kind in _ASIDE:
            self.draft.model = text_at(payload, "model") or self.draft.model
            self.draft.pass_over(kind)
        else:
            self.draft.not_understood(kind, line)

    def _item(self, item: Any, time: float | None) -> None:
        take = _ITEMS.get(text_at(item, "type"))
        if take is None:
            self.draft.not_understood(f"response_item {text_at(item, 'type')}", item)
        else:
            take(self, item, time)

    def message(self, item: Any, time: float | None) -> None:
        role = text_at(item, "role")
        text = "\n\n".join(found for part in list_at(item, "content") if (found := text_at(part, "text")))
        for part in list_at(item, "content"):
            if not isinstance(at(part, "text"), str):
                self.draft.not_understood(f"part {text_at(part, 'type')}", part)
        if role == "assistant":
            thoughts, self._thoughts = "\n\n".join(self._thoughts) or None, []
            self.draft.say(assistant(text, at=time, model=self.draft.model, thinking=thoughts))
        elif role == "user" and _is_the_user(item):
            self.draft.hear_user(text, time)
        else:
            self.draft.pass_over(f"message of {role or 'no role'}, written by the program")

    def call(self, item: Any, time: float | None) -> None:
        id = text_at(item, "call_id") or text_at(item, "id")
        given = at(item, "arguments")
        given = at(item, "input") if given is None else given
        given = at(item, "action") if given is None else given
        name = text_at(item, "name") or text_at(item, "type").removesuffix("_call")
        call = tool_call(id, name, given)
        thoughts, self._thoughts = "\n\n".join(self._thoughts) or None, []
        self.draft.say(assistant("", [call], at=time, model=self.draft.model, thinking=thoughts))

    def output(self, item: Any, _time: float | None) -> None:
        output = at(item, "output")
        inner = at(output, "content")
        status: ToolStatus = "failed" if at(output, "success") is False else "completed"
        self.draft.end_call(text_at(item, "call_id"), as_text(output if inner is None else inner), status)

    def reasoning(self, item: Any, _time: float | None) -> None:
        self._thoughts += filter(None, (text_at(part, "text") for part in list_at(item, "summary")))

    def _event(self, event: Any) -> None:
        kind = text_at(event, "type")
        if kind == "token_count" and not self._has_records:
            total = _usage(at(event, "info", "total_token_usage"))
            if total is not None and total != self._total:
                self._count(total.since(self._total))
                self._total = total
        elif kind == "task_complete":
            self.draft.change_last(latency_s=seconds_at(event, "duration_ms"), finish_reason="stop")
        elif kind == "item_completed":
            self._completed(as_mapping(at(event, "item")))
        elif kind == "exec_command_end":
            failed = at(event, "exit_code") not in (0, None)
            self.draft.mark_call(text_at(event, "call_id"), "failed" if failed else "completed")
        elif kind not in _EVENTS and kind != "token_count":
            self.draft.not_understood(f"event_msg {kind}", event)
            return
        self.draft.pass_over(f"event_msg {kind}")

    def _completed(self, item: Any) -> None:
        """Only this event reports how a command ended."""
        status = _ENDED.get(text_at(item, "status"))
        if status is not None and text_at(item, "id"):
            failed = status == "completed" and at(item, "exit_code") not in (0, None)
            self.draft.mark_call(text_at(item, "id"), "failed" if failed else status)

    def _count(self, usage: Usage | None) -> None:
        """Tokens are reported after the message, or the call, that used them."""
        if usage is None:
            return
        last = self.draft.last_reply
        if last is not None:
            self.draft.change_last(usage=usage if last.usage is None else last.usage + usage)


_ITEMS: dict[str, Callable[[_Reader, Any, float | None], None]] = {
    "message": _Reader.message,
    "function_call": _Reader.call,
    "custom_tool_call": _Reader.call,
    "local_shell_call": _Reader.call,
    "web_search_call": _Reader.call,
    "function_call_output": _Reader.output,
    "custom_tool_call_output": _Reader.output,
    "reasoning": _Reader.reasoning,
}


def _is_the_user(item: Any) -> bool:
    kinds = list_at(item, "internal_chat_message_metadata_passthrough", "content_item_kinds")
    return not kinds or any(isinstance(kind, str) and kind.startswith("user") for kind in kinds)


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    return Usage(
        count_at(value, "input_tokens"),
        count_at(value, "output_tokens"),
        reasoning_tokens=count_at(value, "reasoning_output_tokens"),
        cached_tokens=count_at(value, "cached_input_tokens"),
        cache_write_tokens=count_at(value, "cache_write_input_tokens"),
    ).possible()
