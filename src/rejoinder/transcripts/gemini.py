"""Chats of Gemini CLI: a log of patches, which is replayed to get the messages, or the messages in one document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rejoinder.json_values import as_mapping, at, count_at, list_at, text_at
from rejoinder.model import Usage
from rejoinder.model.messages import ToolStatus
from rejoinder.transcripts.draft import Draft, as_text, assistant, blocks, tool_call, when
from rejoinder.transcripts.files import Document
from rejoinder.transcripts.values import Transcript

NAME = "gemini"
_ASIDE = frozenset({"info", "error", "warning", "about", "help", "quit", "compression"})
_ENDED: dict[str, ToolStatus] = {"success": "completed", "error": "failed", "cancelled": "denied"}


def looks_like(document: Document) -> bool:
    return any(
        text_at(value, "sessionId") and ("projectHash" in as_mapping(value) or "startTime" in as_mapping(value))
        for value in document.values[:5]
    )


def read(document: Document) -> Iterator[Transcript]:
    draft = Draft(NAME, document)
    log = _Log(draft)
    for value in document.values:
        log.take(value)
    if log.taken_back:
        draft.notes.append(f"{log.taken_back} messages that the log took back are left out")
    for message in log.messages:
        _take(draft, message)
    yield draft.finish()


class _Log:
    """The messages after the patches so far."""

    def __init__(self, draft: Draft) -> None:
        self.messages: list[Any] = []
        self.taken_back = 0
        self._places: dict[str, int] = {}
        """Positions of the messages, by id."""
        self._users: list[int] = []
        """The positions of the user's messages."""
        self._draft = draft

    def take(self, value: Any) -> None:
        if isinstance(change := at(value, "$set"), dict):
            self._head(change)
        elif id := text_at(value, "$rewindTo"):
            self._rewind(self._places.get(id, len(self.messages)))
        elif text_at(value, "sessionId") and not text_at(value, "type"):
            self._head(as_mapping(value))
        elif text_at(value, "type"):
            self._message(as_mapping(value))
        else:
            self._draft.not_understood("line", value)

    def _head(self, change: Any) -> None:
        self._draft.id = text_at(change, "sessionId") or self._draft.id
        self._draft.title = text_at(change, "summary") or self._draft.title
        self._draft.add_keys(change)
        if isinstance(at(change, "messages"), list):
            self._replace(list_at(change, "messages"))

    def _replace(self, messages: list[Any]) -> None:
        left = {text_at(one, "id") for one in messages}
        self.taken_back += sum(text_at(one, "id") not in left for one in self.messages)
        self.messages = list(messages)
        self._places = {text_at(one, "id"): place for place, one in enumerate(messages)}
        self._users = [place for place, one in enumerate(messages) if text_at(one, "type") == "user"]

    def _rewind(self, place: int) -> None:
        """Remove the messages from a position. It costs as much as it removes, because a log may do so at each line."""
        for gone in self.messages[place:]:
            self._places.pop(text_at(gone, "id"), None)
            self.taken_back += 1
        del self.messages[place:]
        while self._users and self._users[-1] >= place:
            self._users.pop()

    def _message(self, message: Any) -> None:
        id = text_at(message, "id")
        for call in list_at(message, "toolCalls"):
            if (status := _ENDED.get(text_at(call, "status"))) is not None:
                self._draft.mark_call(text_at(call, "id"), status)
        place = self._places.get(id) if id else None
        if place is None:
            self._places[id] = len(self.messages)
            if text_at(message, "type") == "user":
                self._users.append(len(self.messages))
            self.messages.append(message)
            return
        known = len(list_at(self.messages[place], "toolCalls"))
        later = list_at(message, "toolCalls")[known:]
        if later and self._users and place < self._users[-1]:
            # The program adds calls of a later turn to a message of an earlier one. They stay in their own turn.
            self.messages.append({**message, "id": f"{id} {known}", "toolCalls": later, "tokens": None, "content": ""})
            message = {**message, "toolCalls": list_at(message, "toolCalls")[:known]}
        self.messages[place] = message


def _take(draft: Draft, message: Any) -> None:
    kind, time = text_at(message, "type"), when(at(message, "timestamp"))
    if kind == "user":
        draft.hear_user(_text(draft, message), time)
    elif kind == "gemini":
        _reply(draft, message, time)
    elif kind in _ASIDE:
        draft.pass_over(kind)
    else:
        draft.not_understood(kind, message)


def _reply(draft: Draft, message: Any, time: float | None) -> None:
    calls = list_at(message, "toolCalls")
    text = _text(draft, message)
    thoughts = [f"{text_at(one, 'subject')}\n{text_at(one, 'description')}" for one in list_at(message, "thoughts")]
    said = assistant(
        text,
        [tool_call(text_at(call, "id"), text_at(call, "name"), at(call, "args")) for call in _calls(message)],
        at=time,
        usage=_usage(at(message, "tokens")),
        model=text_at(message, "model") or None,
        thinking="\n\n".join(thoughts).strip() or None,
    )
    if said.message.content or said.message.tool_calls or said.usage is not None:
        draft.say(said)
    for call in calls:
        result = at(call, "result")
        if result is not None:
            draft.end_call(text_at(call, "id"), _result(result), _ENDED.get(text_at(call, "status"), "completed"))


def _calls(message: Any) -> list[Any]:
    """The tool calls of a message: a separate list, or parts of the content after the log was rewritten."""
    parts = [call for part in list_at(message, "content") if (call := at(part, "functionCall")) is not None]
    return list_at(message, "toolCalls") or parts


def _result(result: Any) -> str:
    """A tool's answer, which is inside a response object."""
    if isinstance(result, list) and len(result) == 1:
        response = at(result[0], "functionResponse", "response")
        output = at(response, "output")
        return as_text(response if output is None else output) if response is not None else as_text(result)
    return as_text(result)


def _text(draft: Draft, message: Any) -> str:
    texts: list[str] = []
    for part in blocks(at(message, "content")):
        if isinstance(at(part, "text"), str):
            texts.append(text_at(part, "text"))
        elif at(part, "functionResponse") is not None:
            response = at(part, "functionResponse")
            draft.end_call(text_at(response, "id"), _result([part]))
        elif at(part, "functionCall") is None:
            draft.not_understood(f"part {', '.join(as_mapping(part))[:80]}", part)
    return "\n".join(texts)


def _usage(tokens: Any) -> Usage | None:
    if not isinstance(tokens, dict):
        return None
    thoughts = count_at(tokens, "thoughts")
    return Usage(
        count_at(tokens, "input") + count_at(tokens, "tool"),
        count_at(tokens, "output") + thoughts,
        reasoning_tokens=thoughts,
        cached_tokens=count_at(tokens, "cached"),
    ).possible()
