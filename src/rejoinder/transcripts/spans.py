"""Spans and log records in OTLP/JSON, and conversations made from them.

A model call is a span with the sent messages: the whole conversation so far, or only new messages. Known messages are
not repeated. Events may be inside a span, or be log records that name it; if the span itself is not in the file, its
records replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from rejoinder.json_values import as_items, at, list_at, text_at
from rejoinder.model import ChatMessage, ToolCall
from rejoinder.model.messages import Role, trim
from rejoinder.transcripts.draft import Draft, keep_rest, when
from rejoinder.transcripts.files import Document
from rejoinder.transcripts.values import Said, Transcript

_DEEPEST_VALUE = 20
_SCOPES = ("scopeSpans", "instrumentationLibrarySpans")
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
    """Its attributes as JSON values."""
    events: tuple[dict[str, Any], ...] = ()
    """The attributes of its events, each with the event's name as `event.name`, and its body as `body`."""
    failed: str = ""
    """Its status message, if the status is an error."""


class Told(Struct, frozen=True, kw_only=True):
    """The part of a conversation that one span contains."""

    heard: tuple[Said, ...] = ()
    """The sent messages, in order."""
    replies: tuple[Said, ...] = ()
    results: tuple[tuple[str, str], ...] = ()
    """Tool results: ids of calls, each with its result."""


def has_spans(document: Document) -> bool:
    return any(map(_is_otlp, document.values[:5]))


def _is_otlp(value: Any) -> bool:
    return any(isinstance(at(value, key), list) for key in ("resourceSpans", "resourceLogs"))


def spans_of(document: Document) -> list[Span]:
    """All spans of a file in the order of their times."""
    records: dict[tuple[str, str], list[Any]] = {}
    for value in document.values:
        for raw in _items(value, "resourceLogs", ("scopeLogs",), "logRecords"):
            records.setdefault((text_at(raw, "traceId"), text_at(raw, "spanId")), []).append(raw)
    raw_spans = (raw for value in document.values for raw in _items(value, "resourceSpans", _SCOPES, "spans"))
    found = [_span(raw, records.pop((text_at(raw, "traceId"), text_at(raw, "spanId")), [])) for raw in raw_spans]
    found += [_span_of_records(*ids, several) for ids, several in records.items()]
    return sorted(found, key=lambda span: (span.start, -span.end))


def _items(value: Any, resources: str, scopes: tuple[str, ...], items: str) -> Iterator[Any]:
    for resource in list_at(value, resources):
        for scope in next(filter(None, (list_at(resource, name) for name in scopes)), []):
            yield from list_at(scope, items)


def _span(raw: Any, records: Iterable[Any]) -> Span:
    start = when(at(raw, "startTimeUnixNano")) or 0.0
    failed = at(raw, "status", "code") in (2, "STATUS_CODE_ERROR")
    return Span(
        trace=text_at(raw, "traceId"),
        id=text_at(raw, "spanId"),
        name=text_at(raw, "name"),
        start=start,
        end=max(start, when(at(raw, "endTimeUnixNano")) or start),
        values=_attributes(raw),
        events=tuple(map(_event, (*as_items(list_at(raw, "events")), *records))),
        failed=(text_at(raw, "status", "message") or "error") if failed else "",
    )


def _span_of_records(trace: str, id: str, records: Sequence[Any]) -> Span:
    times = [when(at(raw, "timeUnixNano")) or when(at(raw, "observedTimeUnixNano")) or 0.0 for raw in records]
    events = tuple(map(_event, records))
    values = {key: value for event in events for key, value in event.items() if key not in ("event.name", "body")}
    name = text_at(events[0], "event.name")
    return Span(trace=trace, id=id, name=name, start=min(times), end=max(times), values=values, events=events)


def _event(raw: Any) -> dict[str, Any]:
    """An event of a span, or a log record."""
    name = text_at(raw, "eventName") or text_at(raw, "name")
    return {"event.name": name, "body": _value(at(raw, "body")), **_attributes(raw)}


def _attributes(raw: Any) -> dict[str, Any]:
    return {text_at(one, "key"): _value(at(one, "value")) for one in list_at(raw, "attributes") if text_at(one, "key")}


def _value(value: Any, depth: int = 0) -> Any:
    """An attribute's value without the wrapper that names its type."""
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


def listed(values: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The items of a list in flat attributes, such as `prompt.0.role`, ordered by number."""
    found: dict[int, dict[str, Any]] = {}
    for key, value in values.items():
        number, _, rest = key.removeprefix(f"{prefix}.").partition(".")
        if key.startswith(f"{prefix}.") and number.isdecimal() and len(number) < 8 and rest:
            found.setdefault(int(number), {})[rest] = value
    return [found[number] for number in sorted(found)]


def read_spans(
    document: Document, format: str, key: Callable[[Span], str], tell: Callable[[Draft, Span], Told | None]
) -> Iterator[Transcript]:
    """Conversations of a file. `key` returns the conversation of a span; `tell` its content, or None if it has none."""
    groups: dict[str, list[Span]] = {}
    all_spans = spans_of(document)
    named = {span.trace: key(span) for span in all_spans if key(span)}
    for span in all_spans:
        groups.setdefault(key(span) or named.get(span.trace) or span.trace, []).append(span)
    found = (_conversation(document, format, id, spans, tell) for id, spans in groups.items())
    told = (one for one in found if one.turns or one.unknown)
    return iter(keep_rest(told, (value for value in document.values if not _is_otlp(value))))


def _conversation(
    document: Document, format: str, id: str, spans: Iterable[Span], tell: Callable[[Draft, Span], Told | None]
) -> Transcript:
    draft = Draft(format, document)
    draft.id = id
    known = _Known(draft)
    for span in spans:
        draft.add_keys(span.values)
        told = tell(draft, span)
        if told is None:
            draft.pass_over(span.name.partition(" ")[0] or "span")
        else:
            known.add(told)
    return draft.finish()


class _Known:
    """The messages known so far, so that none is repeated."""

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
        """The messages after the last known one, if it is among them."""
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
    """A message's identity. Some programs leave out the text next to calls when they send a message again."""
    ids = [call.id for call in message.tool_calls]
    if ids and all(ids):
        return (message.role, *ids)
    return (message.role, trim(message.content), *(call.name for call in message.tool_calls))


def said_by(role: str, text: str, calls: tuple[ToolCall, ...] = (), **told: Any) -> Said:
    """A message by a span's role; an unknown role counts as the user."""
    return Said(message=ChatMessage(_ROLES.get(role.lower(), "user"), text, calls), **told)


def tool_said(id: str, result: str) -> Said:
    return Said(message=ChatMessage("tool", result, tool_call_id=id))
