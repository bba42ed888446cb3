"""Spans in OTLP/JSON, and conversations made of them.

A call of a model is a span that holds what was sent: all of the conversation so far, or only what is new. What is known
already is not said again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct

from rejoinder.json_values import as_items, at, list_at, text_at
from rejoinder.model import ChatMessage, ToolCall
from rejoinder.model.messages import Role, trim
from rejoinder.transcripts.draft import Draft, when
from rejoinder.transcripts.files import Document
from rejoinder.transcripts.values import Said, Transcript

_DEEPEST_VALUE = 20
_ROLES: dict[str, Role] = {
    **dict.fromkeys(("assistant", "model", "ai"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "function"), "tool"),
}


class Span(Struct, frozen=True, kw_only=True):
    trace: str
    id: str
    name: str
    start: float
    end: float
    values: dict[str, Any]
    """Its attributes, as JSON has them."""
    events: tuple[dict[str, Any], ...] = ()
    """The attributes of its events, each with the event's name as `event.name`."""
    failed: str = ""
    """What its status says, where that is an error."""


class Told(Struct, frozen=True, kw_only=True):
    """What one span says of a conversation."""

    heard: tuple[Said, ...] = ()
    """What was sent, in order."""
    replies: tuple[Said, ...] = ()
    results: tuple[tuple[str, str], ...] = ()
    """Results of tools: ids of calls, and what came of them."""


def has_spans(document: Document) -> bool:
    return any(isinstance(at(value, "resourceSpans"), list) for value in document.values[:5])


def spans_of(document: Document) -> list[Span]:
    """All spans of a file in the order of their times."""
    found = [_span(raw) for value in document.values for raw in _raw_spans(value)]
    return sorted(found, key=lambda span: (span.start, -span.end))


def _raw_spans(value: Any) -> Iterator[Any]:
    for resource in list_at(value, "resourceSpans"):
        for scope in list_at(resource, "scopeSpans") or list_at(resource, "instrumentationLibrarySpans"):
            yield from list_at(scope, "spans")


def _span(raw: Any) -> Span:
    start = when(at(raw, "startTimeUnixNano")) or 0.0
    failed = at(raw, "status", "code") in (2, "STATUS_CODE_ERROR")
    return Span(
        trace=text_at(raw, "traceId"),
        id=text_at(raw, "spanId"),
        name=text_at(raw, "name"),
        start=start,
        end=max(start, when(at(raw, "endTimeUnixNano")) or start),
        values=_attributes(raw),
        events=tuple(
            {"event.name": text_at(event, "name"), **_attributes(event)} for event in as_items(list_at(raw, "events"))
        ),
        failed=(text_at(raw, "status", "message") or "error") if failed else "",
    )


def _attributes(raw: Any) -> dict[str, Any]:
    return {text_at(one, "key"): _value(at(one, "value")) for one in list_at(raw, "attributes") if text_at(one, "key")}


def _value(value: Any, depth: int = 0) -> Any:
    """An attribute's value, out of the wrapping that says its type."""
    if not isinstance(value, dict) or depth > _DEEPEST_VALUE:
        return None
    if "intValue" in value:
        number = value["intValue"]
        return (
            int(number) if isinstance(number, str) and number.lstrip("-").isdecimal() and len(number) < 20 else number
        )
    if "arrayValue" in value:
        return [_value(one, depth + 1) for one in list_at(value, "arrayValue", "values")]
    if "kvlistValue" in value:
        inner = list_at(value, "kvlistValue", "values")
        return {text_at(one, "key"): _value(at(one, "value"), depth + 1) for one in inner}
    return next((value[key] for key in ("stringValue", "boolValue", "doubleValue") if key in value), None)


def read_spans(
    document: Document, format: str, key: Callable[[Span], str], tell: Callable[[Draft, Span], Told | None]
) -> Iterator[Transcript]:
    """Conversations of a file. `key` says which one a span belongs to; `tell` what it says, None where it says
    nothing."""
    groups: dict[str, list[Span]] = {}
    named = {span.trace: key(span) for span in spans_of(document) if key(span)}
    for span in spans_of(document):
        groups.setdefault(key(span) or named.get(span.trace) or span.trace, []).append(span)
    for id, spans in groups.items():
        draft = Draft(format, document.name)
        draft.id = id
        known = _Known(draft)
        for span in spans:
            told = tell(draft, span)
            if told is None:
                draft.pass_over(span.name.partition(" ")[0] or "span")
            else:
                known.add(told)
        if (done := draft.finish()).turns or done.unknown:
            yield done


class _Known:
    """What has been said so far, so that nothing is said twice."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._last: tuple[str, ...] | None = None
        self._system: set[str] = set()

    def add(self, told: Told) -> None:
        for id, result in told.results:
            self._draft.end_call(id, result)
        for said in (*self._new(told.heard), *told.replies):
            self._say(said)

    def _new(self, heard: tuple[Said, ...]) -> Iterable[Said]:
        """What comes after the last message that is known, where that is among them."""
        places = [place for place, said in enumerate(heard) if _sign(said.message) == self._last]
        return heard[places[-1] + 1 :] if places else heard

    def _say(self, said: Said) -> None:
        message = said.message
        if message.role == "system":
            if message.content in self._system:
                return
            self._system.add(message.content)
        if message.role == "tool":
            self._draft.end_call(message.tool_call_id, message.content)
            return
        self._draft.say(said)
        self._last = _sign(message)


def _sign(message: ChatMessage) -> tuple[str, ...]:
    return (message.role, trim(message.content), *(call.name for call in message.tool_calls))


def said_by(role: str, text: str, calls: tuple[ToolCall, ...] = (), **told: Any) -> Said:
    """A message by the role that a span gives it: who is not known speaks as the user."""
    return Said(message=ChatMessage(_ROLES.get(role.lower(), "user"), text, calls), **told)


def tool_said(id: str, result: str) -> Said:
    return Said(message=ChatMessage("tool", result, tool_call_id=id))
