"""Streams of a service, joined into a reply: server-sent events, or lines of JSON.

A stream is read as it comes, so that the first word has a time. It is joined only if it is whole: a malformed event, an
event that reports an error, or an end that is not marked is an error, and never a shorter reply.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from rejoinder.model import Reply, Request, ToolCall
from rejoinder.providers.http1 import HttpAnswer
from rejoinder.providers.http_api import ErrorDetails, Outgoing, Wire
from rejoinder.providers.json_paths import JsonPath
from rejoinder.providers.reply_fields import ReplyFields, read_calls, read_usage
from rejoinder.providers.settings import Settings, normalize_keys
from rejoinder.providers.streams import FIELD, kind_of
from rejoinder.words.numbers import shortened

Format: TypeAlias = Literal["sse", "ndjson"]
MOST_STREAM = 16 << 20
"""Bytes of a stream. A reply is a thousand times smaller."""
ACCEPTED = "text/event-stream, application/x-ndjson, application/json"
_USUAL_END = "[DONE]"
_LONGEST_SHOWN = 120
_FORMATS: Mapping[str, Format] = {"a stream of events": "sse", "a stream of lines of JSON": "ndjson"}


class StreamSettings(Struct, frozen=True):
    """The place of a piece of the reply in an event, and the mark of the end."""

    delta: JsonPath | None
    """None: the data of an event is a piece of the reply."""
    done: str
    """The data or the name of the last event; empty: the usual end, or the end of the answer if that is marked."""
    done_path: JsonPath | None
    format: Format | None
    fields: ReplyFields
    session: JsonPath | None


def read_stream_settings(settings: Settings, fields: ReplyFields, session: JsonPath | None) -> StreamSettings | None:
    written = settings.values.get("stream")
    if not written:
        return None
    values = normalize_keys(written)
    path, done = values.get("delta_path"), values.get("done")
    done_path = done.get("json_path") if isinstance(done, dict) else None
    return StreamSettings(
        JsonPath(str(path), "delta_path", settings) if path else None,
        str(done or "").strip() if done_path is None else "",
        JsonPath(str(done_path), "done", settings) if done_path else None,
        values.get("format"),
        fields,
        session,
    )


_CR, _LF = b"\r\n"
_LINE_END = re.compile(rb"[\r\n]")
"""Server-sent events have lines that end with CRLF, LF or CR."""


class _Fault(Exception):
    """A stream cannot be joined. The message says why."""


class Joiner:
    """Reads one stream as it comes. `is_over`: no more of it is needed."""

    def __init__(self, settings: StreamSettings) -> None:
        self._settings = settings
        self._began = time.perf_counter()
        self._format = settings.format
        self._heard = 0
        self._rest = bytearray()
        self._after_cr = False
        """Whether the last line ended with CR, so that a LF behind it ends no other line."""
        self._name = ""
        self._data: list[str] = []
        self._texts: list[str] = []
        self._found = False
        """Whether an event had a piece of the reply, even an empty one."""
        self._calls: dict[int | str, dict[str, Any]] = {}
        self._usage: dict[str, Any] | None = None
        self._session: str | None = None
        self._first_event = ""
        self._done = False
        self._fault = ""
        self.first_token_s: float | None = None

    @property
    def was_chosen(self) -> bool:
        """Whether the target says what kind of stream it is, whatever the answer says."""
        return self._settings.format is not None

    @property
    def is_over(self) -> bool:
        return self._done or bool(self._fault)

    def begins(self, status: int, headers: Mapping[str, str]) -> bool:
        """Whether the answer with this head is a stream that can be read as it comes."""
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        is_plain = headers.get("content-encoding", "identity").lower() in ("", "identity", "none")
        if not 200 <= status < 300 or not is_plain or (is_json(kind) and self._settings.format is None):
            return False
        self._format = self._format or _FORMATS.get(kind_of(kind) or "")
        return True

    def hear(self, data: bytes) -> None:
        if self.is_over:
            return
        self._heard += len(data)
        try:
            if self._heard > MOST_STREAM:
                raise _Fault(f"the stream is longer than {MOST_STREAM >> 20} MiB")
            start = len(self._rest)
            self._rest += data
            while not self._done and (end := self._line_end(start)) >= 0:
                line, ended_by = bytes(self._rest[:end]), self._rest[end]
                del self._rest[: end + 1]
                start = 0
                if line or ended_by != _LF or not self._after_cr:
                    self._read_line(line)
                self._after_cr = ended_by == _CR
        except _Fault as fault:
            self._fault = str(fault)

    def _line_end(self, start: int) -> int:
        """The place of the next line end; -1 if there is none. In JSON lines, CR is white space."""
        if self._format == "ndjson":
            return self._rest.find(b"\n", start)
        found = _LINE_END.search(self._rest, start)
        return -1 if found is None else found.start()

    def finish(self, answer: HttpAnswer) -> Reply:
        """The joined reply. Raises msgspec.DecodeError if the stream is not whole."""
        if not self._heard and answer.body:
            self._began = 0.0  # it was compressed: the time of its first word is unknown
            self.begins(answer.status, {**answer.headers, "content-encoding": ""})
            self.hear(answer.body)
        try:
            self._end(answer)
        except _Fault as fault:
            self._fault = self._fault or str(fault)
        if self._fault:
            raise msgspec.DecodeError(self._fault)
        calls = tuple(self._joined_calls())
        where = self._settings.fields.usage.text if self._settings.fields.usage is not None else ""
        usage = read_usage(self._usage, where)
        return Reply(
            "".join(self._texts),
            usage,
            tool_calls=calls,
            session=self._session,
            first_token_s=self.first_token_s,
        )

    def _end(self, answer: HttpAnswer) -> None:
        if self._fault:
            return
        if not self._done:
            if self._rest:
                self._read_line(bytes(self._rest))
            if self._data and not self._done:
                self._dispatch()
        settings = self._settings
        if not self._done and (settings.done or settings.done_path is not None):
            wanted = settings.done or f"{settings.done_path.text if settings.done_path else ''}"
            raise _Fault(f"the stream was cut: it ended without `{wanted}`, which marks its end (`done`)")
        if not self._done and not answer.framed:
            raise _Fault(
                "nothing marks the end of the stream but the end of the connection, so it may have been cut; set"
                " `done` of `stream` to what the last event has"
            )
        if not self._found and not self._calls:
            place = f"`delta_path: {settings.delta.text}`" if settings.delta is not None else "any data"
            first = f"; the first event is {self._first_event}" if self._first_event else ", and no event at all"
            raise _Fault(f"no event of the stream has {place}{first}")
        if settings.fields.usage is not None and self._usage is None:
            raise _Fault(f"no event of the stream has `usage_path: {settings.fields.usage.text}`")

    def _read_line(self, line: bytes) -> None:
        try:
            text = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            raise _Fault("a line of the stream is not UTF-8") from None
        text = text.removeprefix("\ufeff")
        if self._format is None and text.strip():
            self._format = "ndjson" if text.lstrip("\x1e \t")[:1] in "{[" else "sse"
        if self._format == "ndjson":
            if text := text.strip("\x1e \t"):
                self._take("", text)
            return
        if not text:
            if self._data or self._name:
                self._dispatch()
        elif not FIELD.match(text.encode()):
            raise _Fault(f"the stream has a line that belongs to no event: {shortened(text, _LONGEST_SHOWN)}")
        else:
            field, _, value = text.partition(":")
            value = value.removeprefix(" ")
            if field == "data":
                self._data.append(value)
            elif field == "event":
                self._name = value.strip()

    def _dispatch(self) -> None:
        name, data = self._name, "\n".join(self._data)
        has_data = bool(self._data)
        self._name, self._data = "", []
        if has_data or name:
            self._take(name, data)

    def _take(self, name: str, data: str) -> None:
        """Read one event."""
        settings = self._settings
        self._first_event = self._first_event or shortened(f"{name} {data}".strip(), _LONGEST_SHOWN)
        end = settings.done or ("" if settings.done_path is not None else _USUAL_END)
        if name == "error":
            raise _Fault(f"the stream reports an error: {shortened(data, 4 * _LONGEST_SHOWN)}")
        if end and end in (data.strip(), name):
            self._done = True
            return
        if settings.delta is None:
            if data:
                self._add(data)
            return
        if not data:
            return
        try:
            value = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            shown = shortened(data, _LONGEST_SHOWN)
            raise _Fault(f"an event of the stream is malformed or was cut: {shown}") from None
        self._take_value(value, settings.delta)

    def _take_value(self, value: Any, delta: JsonPath) -> None:
        if isinstance(value, dict) and (value.get("error") or value.get("type") == "error"):
            told = value.get("error") or value
            shown = told if isinstance(told, str) else msgspec.json.encode(told).decode()
            raise _Fault(f"the stream reports an error: {shortened(shown, 4 * _LONGEST_SHOWN)}")
        piece = delta.seen_in(value)
        if isinstance(piece, str):
            self._add(piece)
        elif piece is not None:
            raise _Fault(f"at `{delta.text}` an event of the stream has {type(piece).__name__}, and a text is expected")
        self._take_fields(value)
        done_path = self._settings.done_path
        if done_path is not None and done_path.seen_in(value) not in (None, False):
            self._done = True

    def _take_fields(self, value: Any) -> None:
        fields, session = self._settings.fields, self._settings.session
        if fields.calls is not None and (calls := fields.calls.seen_in(value)) is not None:
            self._add_calls(calls, fields.calls.text)
        if fields.usage is not None and (usage := fields.usage.seen_in(value)) is not None:
            if not isinstance(usage, dict):
                raise _Fault(f"at `{fields.usage.text}` an event of the stream has no counts of tokens")
            self._usage = {**(self._usage or {}), **usage}  # Anthropic tells some of them first, others last
        if session is not None and self._session is None and (told := session.seen_in(value)) is not None:
            self._session = told if isinstance(told, str) else msgspec.json.encode(told).decode()

    def _add(self, piece: str) -> None:
        self._found = True
        if piece:
            self._has_begun()
            self._texts.append(piece)

    def _has_begun(self) -> None:
        if self.first_token_s is None and self._began:
            self.first_token_s = round(time.perf_counter() - self._began, 6)

    def _add_calls(self, calls: Any, where: str) -> None:
        """Calls come whole, or, with an `index`, in pieces whose arguments are joined."""
        for one in calls if isinstance(calls, list) else [calls]:
            if not isinstance(one, dict):
                raise _Fault(f"at `{where}` an event of the stream has {type(one).__name__} as a tool call")
            self._has_begun()
            index = one.get("index")
            if not isinstance(index, int):
                self._calls[f"whole {len(self._calls)}"] = one
            elif index in self._calls:
                _join(self._calls[index], one)
            else:
                self._calls[index] = {**one, "function": dict(one.get("function") or {})} if "function" in one else one

    def _joined_calls(self) -> tuple[ToolCall, ...]:
        calls = self._settings.fields.calls
        return () if calls is None else read_calls(list(self._calls.values()), calls.text)


def _join(call: dict[str, Any], piece: dict[str, Any]) -> None:
    """Add a piece of a tool call to its earlier pieces."""
    for name, value in piece.items():
        known = call.get(name)
        if isinstance(known, dict) and isinstance(value, dict):
            _join(known, value)
        elif name in ("arguments", "input") and isinstance(known, str) and isinstance(value, str):
            call[name] = known + value
        elif value not in (None, ""):
            call[name] = value


class StreamedCall:
    """The wire format of one call whose answer is a stream."""

    def __init__(self, wire: Wire, settings: StreamSettings) -> None:
        self._wire = wire
        self.joiner = Joiner(settings)

    def write(self, request: Request) -> Outgoing:
        return self._wire.write(request)

    def read(self, answer: HttpAnswer) -> Reply:
        if is_json(answer.content_type) and not self.joiner.was_chosen:
            return self._wire.read(answer)  # it did not stream
        return self.joiner.finish(answer)

    def explain(self, answer: HttpAnswer) -> ErrorDetails:
        return self._wire.explain(answer)


def is_json(kind: str) -> bool:
    """Whether a content type means one value of JSON."""
    return kind == "application/json" or (kind.endswith("+json") and kind_of(kind) is None)
