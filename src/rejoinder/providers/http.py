"""`http`: any service that answers a request with text. The target describes the request and the reply's location.

Texts of `url`, `headers` and `body` may hold `{{ prompt }}` (the last user message), `{{ messages }}`, `{{ system }}`,
`{{ question }}` (turn 1 as a transcript), `{{ case_id }}`, `{{ trial }}`, `{{ turn }}`, `{{ conversation_id }}` and `{{
session }}`. A text that is only `{{ messages }}` becomes the list itself.

A service that keeps the conversation itself (`history: theirs`) gets only new messages. `session` finds its name for
the conversation in the answer to the first request, or to the request `open` before that; `close` reports the end.

A body written as text counts as JSON if it would be JSON with values in place of its variables. Then it stays valid
JSON whatever the variables hold. In any other text, values are inserted unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import structs

from rejoinder.model import ChatMessage, Reply, Request
from rejoinder.placeholders import IN_A_REQUEST, OF_A_REQUEST, find_faults_of_request, requested_in, texts_in
from rejoinder.providers.base import ProviderError
from rejoinder.providers.http1 import HttpAnswer
from rejoinder.providers.http_api import LONGEST_MESSAGE, ApiProvider, ErrorDetails, Outgoing, Wire, Wires
from rejoinder.providers.json_fields import read_json
from rejoinder.providers.json_paths import JsonPath
from rejoinder.providers.reply_fields import ReplyFields
from rejoinder.providers.settings import Settings, normalize_keys
from rejoinder.providers.streamed import ACCEPTED, StreamedCall, read_stream_settings
from rejoinder.providers.streams import NOT_READ, find_stream
from rejoinder.words.numbers import shortened

DEFAULT_BODY = {"messages": "{{ messages }}"}
_QUOTED_OR_PLACEHOLDER = re.compile(r'"(?:[^"\\]|\\.)*"|\{\{\s*\w+\s*\}\}', re.DOTALL)
_BARE = "\0"
"""Marks a placeholder without quotes in JSON; a suite's own text cannot begin with it."""

_NOT_TEXT = re.compile(
    r"(?:multipart|image|audio|video|font)/|application/(?:[\w.-]*(?:protobuf|msgpack|grpc)\b|cbor|pdf|zip|gzip)"
)
"""Content types whose bodies are not the text of a reply."""
LONGEST_ID = 60
"""Most characters of a session's id in a message."""

_DECODER = msgspec.json.Decoder()


class _Template:
    """A request with placeholders."""

    def __init__(self, settings: Settings, values: Mapping[str, Any], body: Any) -> None:
        self._url = str(values["url"])
        self._method = str(values.get("method") or "POST").upper()
        self._headers = {name.lower(): str(value) for name, value in dict(values.get("headers") or {}).items()}
        self._body: Any = _read_body(values.get("body", body if self._method != "GET" else None))
        for _, text in texts_in((self._url, self._headers, self._body)):
            for fault in find_faults_of_request(text, has_session=bool(settings.values.get("session"))):
                raise settings.error(f"cannot be asked: {fault}")

    def write(self, request: Request) -> Outgoing:
        url = _fill(self._url, request, lambda text: quote(text, safe=""))
        known = {
            name: value
            for name, value in self._headers.items()
            if request.session or "session" not in requested_in(value)
        }
        headers = {name: _utf8(_fill(value, request, _one_line)) for name, value in known.items()}
        body = _render(self._body, request)
        data = None if body is None else body.encode() if isinstance(body, str) else msgspec.json.encode(body)
        return Outgoing(url, data, self._method, headers)

    @property
    def names_session(self) -> bool:
        return "session" in requested_in((self._url, self._headers, self._body))


class _Session:
    """The location of the service's name for the conversation in an answer."""

    def __init__(self, values: Mapping[str, Any], settings: Settings) -> None:
        path, header = values.get("json_path"), values.get("header")
        self._header = str(header).lower() if header else ""
        self.changes = values.get("changes") is True
        self.path = JsonPath(str(path), "session", settings) if path else None

    def find(self, answer: HttpAnswer) -> str | None:
        """The session's name; None if the answer does not contain it."""
        try:
            return self.need(answer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    def need(self, answer: HttpAnswer) -> str:
        """The session's name. Raises msgspec.DecodeError if the answer does not contain it."""
        found = answer.headers.get(self._header, "") if self.path is None else self.path.text_in(_json(answer))
        if not found:
            raise msgspec.DecodeError(f"it has no header `{self._header}`" if self._header else "it is empty there")
        return found


class TemplatedHttp:
    """The wire format of a service: the target's templates are its requests."""

    def __init__(self, settings: Settings) -> None:
        settings.needed("url")
        values = settings.values
        self._template = _Template(settings, values, DEFAULT_BODY)
        path = settings.text("reply_path")
        self._path = JsonPath(path, "reply_path", settings) if path else None
        self._fields = ReplyFields(settings)
        session = normalize_keys(settings.mapping("session"))
        self.session = _Session(session, settings) if session else None
        session_path = None if self.session is None else self.session.path
        self.stream = read_stream_settings(settings, self._fields, session_path)
        self._wants_all = values.get("history") != "theirs"
        self.opening, self.closing = (_of_session(settings, name) for name in ("open", "close"))
        self.keeps_history = not self._wants_all or any((self.session, self.opening, self.closing))
        relies = not self._wants_all or self._template.names_session
        self.stays_in_session = relies and self.session is not None and not self.session.changes
        """Whether the session must be the same in all answers of a conversation."""

    def write(self, request: Request) -> Outgoing:
        if not self._wants_all:
            request = structs.replace(request, messages=request.new_messages)
        outgoing = self._template.write(request)
        if self.stream is None or "accept" in outgoing.headers:
            return outgoing
        return structs.replace(outgoing, headers={"accept": ACCEPTED, **outgoing.headers})

    def read(self, answer: HttpAnswer) -> Reply:
        fields = self._fields
        if fields.calls is None and fields.usage is None:
            reply = Reply(self._text_of(answer))
        else:
            data = _json(answer)
            calls = fields.calls_in(data)
            says_nothing = bool(calls) and self._path is not None and self._path.optional_in(data) is None
            text = "" if says_nothing else self._text_of(answer)
            reply = Reply(text, fields.usage_in(data), tool_calls=calls)
        return reply if self.session is None else structs.replace(reply, session=self.session.find(answer))

    def _text_of(self, answer: HttpAnswer) -> str:
        if (stream := find_stream(answer)) is not None:
            raise msgspec.DecodeError(f"it is {stream}, and {NOT_READ}")
        if self._path is not None:
            return self._path.text_in(_json(answer))
        if answer.content_type != "application/json":
            return _plain_text(answer)
        value = _json(answer)
        if not isinstance(value, str):
            raise msgspec.DecodeError(
                "it is JSON; set `reply_path` to the field that holds the reply, such as `choices[0].message.content`"
            )
        return value

    def explain(self, answer: HttpAnswer) -> ErrorDetails:
        if answer.content_type not in ("application/json", "application/problem+json", "text/plain"):
            return ErrorDetails()
        return ErrorDetails(message=shortened(answer.body.decode("utf-8", "replace"), LONGEST_MESSAGE))


def _of_session(settings: Settings, name: str) -> _Template | None:
    """The request that opens or closes a session; None if not set."""
    values = settings.mapping(name)
    if not values:
        return None
    if not values.get("url"):
        raise settings.error(f"has an `{name}` without `url`")
    if urlsplit(str(values["url"]))[:2] != urlsplit(settings.needed("url"))[:2]:
        raise settings.error(f"has an `{name}` at another address than its `url`; both have to be at the same host")
    return _Template(settings, values, None)


class ServiceProvider(ApiProvider):
    """A service, which may keep conversations itself."""

    sees_conversation = True

    def __init__(self, name: str, wires: Wires, *rest: Any) -> None:
        super().__init__(name, wires, *rest)
        assert isinstance(wires.replies, TemplatedHttp)
        self._wire = wires.replies
        self.keeps_history = self._wire.keeps_history
        self._opened: dict[str, str | None] = {}
        """The session of each conversation that a request has opened."""

    async def reply_within(self, request: Request, timeout_s: float | None) -> Reply:
        wire, opens = self._wire, not request.new and request.embed is None
        if opens and wire.opening is not None:
            request = structs.replace(request, session=await self._open(request, wire.opening, timeout_s))
        if request.embed is None and wire.stream is not None:
            call = StreamedCall(wire, wire.stream)
            reply = await self.reply_by(call, request, timeout_s, call.joiner)
        else:
            reply = await super().reply_within(request, timeout_s)
        if reply.session is None:
            return structs.replace(reply, session=request.session)
        self._refuse_other_session(request.session, reply.session)
        return reply

    def _refuse_other_session(self, asked: str | None, told: str) -> None:
        """Raise ProviderError if the service has not gone on with the session of the request: it has lost what was said
        in it, and its reply would be judged as if it had not."""
        if asked is None or asked == told or not self._wire.stays_in_session:
            return
        message = (
            f"the service answered in another session ({shortened(told, LONGEST_ID)}) than it was asked in"
            f" ({shortened(asked, LONGEST_ID)}): it has lost the conversation. If each of its answers has a new id,"
            " set `session: {..., changes: true}`"
        )
        raise ProviderError(message, type="other-session", status=200)

    def read(self, wire: Wire, answer: HttpAnswer, request: Request) -> Reply:
        reply = super().read(wire, answer, request)
        if self._wire.session is not None and reply.session is None and request.session is None:
            self._session_of(answer, "the first answer")
        return reply

    async def _open(self, request: Request, opening: _Template, timeout_s: float | None) -> str | None:
        """Open a session, once per conversation: a first turn that was refused is sent again in the same session."""
        if request.conversation_id not in self._opened:
            answer = await self.exchange(self._wire, opening.write(request), request, timeout_s)
            self._opened[request.conversation_id] = None
            self._opened[request.conversation_id] = self._session_of(answer, "the answer to `open`")
        return self._opened[request.conversation_id]

    def _session_of(self, answer: HttpAnswer, which: str) -> str | None:
        if self._wire.session is None:
            return None
        try:
            return self._wire.session.need(answer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            message = f"{which} ({answer.status}) tells no session: {error}"
            raise ProviderError(message, type="bad-response", status=answer.status, ends_target=True) from None

    async def end(self, request: Request, *, failed: bool) -> None:  # noqa: ARG002
        wire, has_opened = self._wire, request.conversation_id in self._opened
        session = self._opened.pop(request.conversation_id, None)
        if wire.closing is None or (wire.opening is not None and not has_opened):
            return
        request = structs.replace(request, session=request.session or session)
        if request.session is not None or not wire.closing.names_session:
            await self.exchange(wire, wire.closing.write(request), request, None)


def _plain_text(answer: HttpAnswer) -> str:
    """The body as text. Raises msgspec.DecodeError if it is empty or not text: a check that something does *not* occur
    would pass."""
    text = answer.body.decode("utf-8", "replace")
    if not text.strip():
        raise msgspec.DecodeError("the body is empty")
    if _NOT_TEXT.match(answer.content_type) or "\0" in text:
        raise msgspec.DecodeError("it is not text; ask the service for JSON or plain text")
    return text


def _json(answer: HttpAnswer) -> Any:
    """The body as JSON. Raises msgspec.DecodeError."""
    return read_json(_DECODER, answer.body, nulls=True)


def _read_body(body: Any) -> Any:
    """The body as values: JSON written as text is filled in as JSON, so that quotes cannot break it."""
    if not isinstance(body, str):
        return body
    for text in (body, _QUOTED_OR_PLACEHOLDER.sub(_quoted, body)):
        try:
            read = _DECODER.decode(text)
        except msgspec.DecodeError:
            continue
        if isinstance(read, dict | list):
            return read
    return body


def _quoted(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else msgspec.json.encode(f"{_BARE}{found[0]}").decode()


def _last_user_message(request: Request) -> str:
    return next((message.content for message in reversed(request.messages) if message.role == "user"), "")


def _system(request: Request) -> str:
    return "\n\n".join(message.content for message in request.messages if message.role == "system")


def _plain(message: ChatMessage) -> dict[str, Any]:
    return msgspec.to_builtins(message)


_MADE: Mapping[str, Callable[[Request], Any]] = {
    "prompt": _last_user_message,
    "messages": lambda request: [_plain(message) for message in request.messages],
    "system": _system,
}
_VALUES: Mapping[str, Callable[[Request], Any]] = {name: _MADE.get(name) or attrgetter(name) for name in OF_A_REQUEST}
"""The value of each placeholder: computed from the request, or a field of it."""


def _render(template: Any, request: Request) -> Any:
    if isinstance(template, str):
        whole = IN_A_REQUEST.fullmatch(template.removeprefix(_BARE).strip())
        if whole is None or whole[1] is None:
            return _fill(template, request, str)
        value = _VALUES[whole[1]](request)
        return _unquoted(value) if template.startswith(_BARE) and isinstance(value, str) else value
    if isinstance(template, list):
        return [_render(item, request) for item in template]
    if isinstance(template, dict):
        return {_fill(str(key), request, str): _render(value, request) for key, value in template.items()}
    return template


def _unquoted(text: str) -> Any:
    """The value of a placeholder without quotes: the JSON itself if it is valid JSON, otherwise a text."""
    try:
        _DECODER.decode(text)
    except msgspec.DecodeError:
        return text
    return msgspec.Raw(text.encode())


def _fill(template: str, request: Request, write: Callable[[str], str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[3]
        one = _VALUES[found[1]](request)
        return write(one if isinstance(one, str) else "" if one is None else msgspec.json.encode(one).decode())

    return IN_A_REQUEST.sub(value, template)


def _one_line(text: str) -> str:
    """A header value on one line of visible characters; a line break would begin another header."""
    return re.sub(r"[\x00-\x1f\x7f]+", " ", text)


def _utf8(text: str) -> str:
    """A header's text, encoded so that its bytes, which are sent one per character, are UTF-8."""
    return text if text.isascii() else text.encode().decode("latin-1")
