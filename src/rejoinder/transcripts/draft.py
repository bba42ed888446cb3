"""A conversation while it is read: collects messages, matches results with calls, and keeps unknown events."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct, structs

from rejoinder.errors import UsageError
from rejoinder.json_values import as_list, at, count_at, text_at
from rejoinder.model import ChatMessage, ToolCall, Usage
from rejoinder.model.calls import LATEST
from rejoinder.model.messages import Role, ToolStatus
from rejoinder.transcripts.files import Document
from rejoinder.transcripts.keys import MOST_KEYS, keys_of
from rejoinder.transcripts.values import Said, Transcript, Unknown

MOST_MESSAGES = 50_000
"""Maximum messages of one file. A conversation that long cannot serve as a case."""
_FINISHED = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "toolUse": "tool_calls",
    "tool-calls": "tool_calls",
    "function_call": "tool_calls",
    "content-filter": "content_filter",
}
"""Our words for a format's finish reasons."""
_NOT_THE_USER = (
    "<environment_context>",
    "<session_context>",
    "<user_instructions>",
    "<turn_aborted>",
    "# AGENTS.md instructions",
    "<skill>",
)
"""Beginnings of messages that coding agents write in the user's name."""


class _Outcome(Struct, frozen=True):
    result: str
    status: ToolStatus
    duration_s: float | None = None


class Draft:
    """A conversation as far as a reader has read it."""

    def __init__(self, format: str, document: Document, head: Any = None) -> None:
        """`head`: the recording's data about the conversation as a whole."""
        self.id = text_at(head, "id")
        self.title = text_at(head, "title")
        self.model: str | None = text_at(head, "model") or None
        self._empty = Transcript(id="", format=format, source=document.name)
        self._messages: list[Said] = []
        self._last: int | None = None
        """The position of the assistant's last message."""
        self._outcomes: dict[str, _Outcome] = {}
        self._statuses: dict[str, ToolStatus] = {}
        self._keys = keys_of(head)
        self._unknown: dict[str, list[str]] = {}
        """Events that this version does not understand, by type."""
        self._passed_over: dict[str, int] = {}
        """Number of events that are not part of the conversation, by type."""
        self.notes: list[str] = []

    @property
    def last_reply(self) -> Said | None:
        return None if self._last is None else self._messages[self._last]

    def say(self, said: Said) -> None:
        """Add a message."""
        if len(self._messages) >= MOST_MESSAGES:
            raise UsageError(f"{self._empty.source} has more than {MOST_MESSAGES:,} messages", "Cut it into parts.")
        if said.message.role == "assistant":
            self._last = len(self._messages)
        self._messages.append(said)

    def hear(self, role: Role, text: str, at: float | None = None) -> None:
        """Add a message that is not the assistant's. An empty text is not a message."""
        if text.strip():
            self.say(Said(message=ChatMessage(role, text), at=at))

    def hear_user(self, text: str, at: float | None = None) -> None:
        """Add the user's message to a coding agent, unless the agent wrote it in the user's name."""
        if text.lstrip().startswith(_NOT_THE_USER):
            self.pass_over("user, written by the program")
        else:
            self.hear("user", text, at)

    def add_keys(self, head: Any) -> None:
        """Note more data about the conversation. The first value of a key stays, and the number of keys is limited."""
        if len(self._keys) < MOST_KEYS:
            self._keys = {**keys_of(head), **self._keys}

    def change_last(self, **changes: Any) -> None:
        """Add later information to the assistant's last message, if there is one."""
        if self._last is not None:
            self._messages[self._last] = structs.replace(self._messages[self._last], **changes)

    def end_call(self, id: str, result: str, status: ToolStatus = "completed", duration_s: float | None = None) -> None:
        """Note the result of a tool call. A result without its call stays a separate message."""
        known = self._outcomes.get(id)
        if known is None:
            self.say(Said(message=ChatMessage("tool", result, tool_call_id=id)))
        elif status == "completed":  # told once more, without how it ended
            status = known.status
        self._outcomes[id] = _Outcome(result, status, duration_s)

    def mark_call(self, id: str, status: ToolStatus) -> None:
        """Note the status of a call that is reported apart from its result."""
        self._statuses[id] = status

    def not_understood(self, type: str, value: Any) -> None:
        """Keep an event that this version does not understand."""
        self._unknown.setdefault(type or "(no type)", []).append(encode(value))

    def pass_over(self, type: str) -> None:
        """Count an event that is not part of the conversation."""
        self._passed_over[type] = self._passed_over.get(type, 0) + 1

    def finish(self) -> Transcript:
        ids = {call.id for one in self._messages for call in one.message.tool_calls if call.id}
        messages = [self._finished(one) for one in self._messages if not self._is_answer_to(one, ids)]
        return structs.replace(
            self._empty,
            id=self.id,
            title=self.title,
            model=self.model or next((one.model for one in messages if one.model), None),
            messages=tuple(messages),
            keys=self._keys,
            unknown=tuple(Unknown(type, tuple(raw)) for type, raw in self._unknown.items()),
            aside=tuple(self._passed_over.items()),
            notes=tuple(self.notes),
        )

    @staticmethod
    def _is_answer_to(one: Said, ids: set[str]) -> bool:
        return one.message.role == "tool" and one.message.tool_call_id in ids

    def _finished(self, one: Said) -> Said:
        if not one.message.tool_calls:
            return one
        calls = tuple(map(self._ended, one.message.tool_calls))
        return structs.replace(one, message=structs.replace(one.message, tool_calls=calls))

    def _ended(self, call: ToolCall) -> ToolCall:
        if call.result is not None:
            return call
        outcome = self._outcomes.get(call.id) if call.id else None
        if outcome is None:
            return structs.replace(call, status=self._statuses.get(call.id, call.status or "pending"))
        status = self._statuses.get(call.id, outcome.status)
        duration_s = outcome.duration_s if call.duration_s is None else call.duration_s
        return structs.replace(call, result=outcome.result, status=status, duration_s=duration_s)


def keep_rest(found: Iterable[Transcript], rest: Iterable[Any]) -> list[Transcript]:
    """The conversations of a file. The last one keeps the values that belong to none."""
    transcripts = list(found)
    types: dict[str, list[str]] = {}
    for value in rest:
        types.setdefault(text_at(value, "type") or "(no type)", []).append(encode(value))
    if transcripts and types:
        unknown = (Unknown(type, tuple(raw)) for type, raw in types.items())
        transcripts[-1] = structs.replace(transcripts[-1], unknown=(*transcripts[-1].unknown, *unknown))
    return transcripts


def assistant(text: str, calls: Iterable[ToolCall] = (), **told: Any) -> Said:
    """An assistant's message with data of the recording."""
    return Said(message=ChatMessage("assistant", text, tuple(calls)), **told)


def tool_call(id: str, name: str, arguments: Any, **more: Any) -> ToolCall:
    """A tool call. Arguments that are not text are written as JSON."""
    written = arguments if isinstance(arguments, str) else encode({} if arguments is None else arguments)
    return ToolCall(name or "(no name)", written or "{}", id, **more)


def encode(value: Any) -> str:
    """A value as JSON text."""
    return msgspec.json.encode(value).decode()


def as_text(value: Any) -> str:
    """A tool's answer as text: a text verbatim, blocks of text joined, anything else as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list) and value and all(text_at(block, "text") for block in value):
        return "\n".join(text_at(block, "text") for block in value)
    return encode(value)


def finished(reason: Any) -> str | None:
    """The finish reason of a reply in our words."""
    return _FINISHED.get(reason, reason) if isinstance(reason, str) and reason else None


def when(value: Any) -> float | None:
    """Seconds since 1970, from a date, or from seconds, milliseconds, microseconds or nanoseconds."""
    if isinstance(value, str):
        if value.isdecimal() and len(value) <= 20:
            return when(int(value))
        try:
            date = datetime.fromisoformat(value[:40])
            seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
        return seconds if 0 <= seconds <= LATEST else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e20:
        return None
    return next(value / unit for most, unit in ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (1e20, 1e9)) if value < most)


def seconds_at(value: Any, *names: str, unit: float = 1000.0) -> float | None:
    """A duration in seconds; `unit`: units per second."""
    found = at(value, *names)
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return found / unit if is_number and 0 <= found < 1e12 else None


def usage_beside_cache(value: Any, given: str, made: str, read: str, written: str) -> Usage | None:
    """Usage from a format that counts cached tokens separately from other input; the names are the format's."""
    if not isinstance(value, dict):
        return None
    cached, stored = count_at(value, *read.split(".")), count_at(value, *written.split("."))
    return Usage(
        count_at(value, given) + cached + stored,
        count_at(value, made),
        cached_tokens=cached,
        cache_write_tokens=stored,
    ).possible()


def blocks(content: Any) -> list[Any]:
    """The blocks of a content; a text is one block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content)
