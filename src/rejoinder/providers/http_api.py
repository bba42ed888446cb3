"""Providers that answer over HTTP: a wire format defines how requests are written and answers are read.

This module holds what all APIs share. Each wire format has its own file.

Every API refuses a tool result without its call, and a call without its result; they differ in what may come between
the two. A message that an API would refuse is sent as text in the same position: a result as the user's text, a call as
the assistant's. So no word is lost, and the order stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, structs

from rejoinder.model import ChatMessage, Reply, Request, Usage, WantedBack, estimate_usage
from rejoinder.providers.allowances import retry_after
from rejoinder.providers.base import Pressure, ProviderError
from rejoinder.providers.http1 import HttpAnswer, Listener
from rejoinder.providers.http_client import Transport
from rejoinder.providers.limits import Limiter
from rejoinder.providers.vector_bytes import no_embeddings
from rejoinder.words.numbers import shortened

if TYPE_CHECKING:
    from rejoinder.providers.own_token import TokenSource

RETRYABLE = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses after which a request may succeed if it is sent again."""
ENDS_TARGET = frozenset({401, 402, 404})
"""Statuses that every other request of the target would get too: key, account, model or address are wrong."""
OVERLOADED = frozenset({503, 529})
LONGEST_MESSAGE = 500
LONGEST_QUOTE = 160
"""Maximum characters quoted from a body that cannot be understood."""
MOST_LOOKED_AT = 1 << 16

EMPTY = "(empty)"
"""Replaces an empty text if an API refuses one."""


class Outgoing(Struct, frozen=True):
    """A request ready to be sent."""

    url: str
    body: bytes | None
    method: str = "POST"
    headers: Mapping[str, str] = {}


class ErrorDetails(Struct, frozen=True, kw_only=True):
    """An API's description of a failure, in its own words and types."""

    type: str | None = None
    message: str | None = None
    retry_after_s: float | None = None
    ends_target: bool = False
    final: bool = False
    """Whether a retry is useless, whatever the status is."""
    content_filter: bool = False
    overloaded: bool = False


class Wire(Protocol):
    """A wire format."""

    def write(self, request: Request) -> Outgoing: ...

    def read(self, answer: HttpAnswer) -> Reply:
        """The reply in an answer of status 2xx. Raises msgspec.DecodeError if the body has another form."""
        ...

    def explain(self, answer: HttpAnswer) -> ErrorDetails:
        """The failure that a body describes; empty if it describes none."""
        ...


class JsonWire:
    """The part of a wire format that writes requests as JSON. `fixed`: fields of all requests of a target; `extra`:
    fields that the suite's author adds."""

    def __init__(self, url: str, fixed: Mapping[str, Any], extra: Mapping[str, Any]) -> None:
        self._url = url
        self._fixed = without_none(fixed)
        self._extra = extra
        self._by = f"{url.rpartition('/')[2]} {self._fixed.get('model', '')}".strip()

    def keep(self, content: list[Any]) -> WantedBack:
        """The parts of a reply that the API requires back with its tool calls, verbatim."""
        return WantedBack(self._by, msgspec.json.encode(content).decode())

    def kept(self, message: ChatMessage) -> list[Any] | None:
        """The stored parts of a message of this API; None for another model's message, which this model would not
        understand."""
        kept = message.wanted_back
        return msgspec.json.decode(kept.content) if kept is not None and kept.by == self._by else None

    def outgoing(self, **fields: Any) -> Outgoing:
        body = without_none(fields)
        return Outgoing(self._url, msgspec.json.encode(merged(body, self._extra) if self._extra else body))


def without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def split_system(messages: Sequence[ChatMessage]) -> tuple[str | None, list[ChatMessage]]:
    """The system text, for APIs that have a field for it, and the other messages."""
    system = [message.content for message in messages if message.role == "system"]
    return "\n\n".join(system) if system else None, [message for message in messages if message.role != "system"]


class Wires(Struct, frozen=True):
    """The wire formats of one API: for replies, and for embeddings if it has them."""

    replies: Wire
    embeddings: Wire | None = None


class ApiProvider:
    outside = True
    address = ""
    """The address of its requests, up to the API's path."""
    is_public = False
    """Whether a public LLM API answers there, and not a server that may be the user's own."""

    def __init__(
        self,
        name: str,
        wires: Wires,
        transport: Transport,
        limiter: Limiter,
        headers: Mapping[str, str],
        retry_statuses: frozenset[int] | None = None,
        key_name: str | None = None,
    ) -> None:
        self.limiter = limiter
        self.token: TokenSource | None = None
        """The source of the token of its requests, if a command gives it."""
        self._name = name
        self._wires = wires
        self._transport = transport
        self.headers = headers
        self._key_name = key_name
        self._retry_statuses = RETRYABLE if retry_statuses is None else retry_statuses
        self._insists_on = retry_statuses or frozenset[int]()
        """Statuses that the user wants retried, even if every other call would get them too."""

    async def reply(self, request: Request) -> Reply:
        return await self.reply_within(request, None)

    async def reply_within(self, request: Request, timeout_s: float | None) -> Reply:
        wire = self._wires.replies if request.embed is None else self._wires.embeddings
        if wire is None:
            raise no_embeddings(self._name)
        return await self.reply_by(wire, request, timeout_s)

    async def reply_by(
        self, wire: Wire, request: Request, timeout_s: float | None, listener: Listener | None = None
    ) -> Reply:
        answer = await self.exchange(wire, wire.write(request), request, timeout_s, listener)
        return self.read(wire, answer, request)

    def read(self, wire: Wire, answer: HttpAnswer, request: Request) -> Reply:
        """The reply in an answer. Raises ProviderError if it has none."""
        try:
            reply = wire.read(answer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # JSON may be too deep to read
            raise self._unreadable(answer, str(error)) from None
        reply = structs.replace(reply, usage=_completed(reply, request))
        request_id = answer.request_id
        return structs.replace(reply, request_id=request_id) if request_id else reply

    async def exchange(
        self,
        wire: Wire,
        outgoing: Outgoing,
        request: Request,
        timeout_s: float | None,
        listener: Listener | None = None,
    ) -> HttpAnswer:
        """Send a request and return the answer. Raises ProviderError if it is not a success."""
        # The journal's key of the call is sent along: a call in doubt can be looked up at the provider.
        own = (("x-client-request-id", request.key),)
        sent = self.limiter.sending()
        answer = await self._send(outgoing, own, timeout_s, listener)
        self.limiter.read(answer.headers, sent, failed=answer.status >= 400)
        if not 200 <= answer.status < 300:
            raise self._fault(wire, answer, outgoing)
        return answer

    async def _send(
        self,
        outgoing: Outgoing,
        once: tuple[tuple[str, str], ...],
        timeout_s: float | None,
        listener: Listener | None,
    ) -> HttpAnswer:
        """Send a request. A token that is refused is renewed once; then the answer counts."""
        headers = {**self.headers, **outgoing.headers} if outgoing.headers else self.headers
        way, body = (outgoing.method, outgoing.url), outgoing.body
        if self.token is None:
            return await self._transport.send(*way, headers, body, once, timeout_s, listener)
        token = await self.token.get()
        answer = await self._transport.send(*way, _bearing(token, headers), body, once, timeout_s, listener)
        if answer.status != 401:
            return answer
        token = await self.token.get(refused=token)
        return await self._transport.send(*way, _bearing(token, headers), body, once, timeout_s, listener)

    def write(self, request: Request) -> Outgoing | None:
        """The request that would be sent; None if the API has no such request."""
        wire = self._wires.replies if request.embed is None else self._wires.embeddings
        return None if wire is None else wire.write(request)

    async def close(self) -> None:
        pass  # targets share the transport

    def _fault(self, wire: Wire, answer: HttpAnswer, outgoing: Outgoing) -> ProviderError:
        """The error of an answer, decided by status and type, never by the words of a message."""
        status = answer.status
        try:
            details = wire.explain(answer)
        except (UnicodeDecodeError, RecursionError):
            details = ErrorDetails(ends_target=status in ENDS_TARGET)
        told = {"true": True, "false": False}.get(answer.headers.get("x-should-retry", ""))
        retryable = status in self._retry_statuses if told is None else told
        overloaded = details.overloaded or status in OVERLOADED
        pressure: Pressure | None = "rate" if status == 429 else "overload" if overloaded else None
        ends_target = details.ends_target or status == 401
        ended = ends_target and not (retryable and status in self._insists_on)
        if details.final or ended or details.content_filter:
            retryable, pressure = False, None
        return ProviderError(
            self._sentence(answer, details, outgoing),
            type="content_filter" if details.content_filter else details.type or "status",
            retryable=retryable,
            status=status,
            pressure=pressure if retryable else None,
            retry_after_s=details.retry_after_s if details.retry_after_s is not None else retry_after(answer.headers),
            ends_target=ends_target,
        )

    def _sentence(self, answer: HttpAnswer, details: ErrorDetails, outgoing: Outgoing) -> str:
        text = f"{self._name} answered {answer.status}"
        if details.type:
            text += f" ({details.type})"
        if 300 <= answer.status < 400:
            text += f", a redirection to {answer.headers.get('location', 'nowhere')}; name the address itself"
        elif details.message:
            text += f": {shortened(details.message, LONGEST_MESSAGE)}"
        elif answer.body:
            text += f" with {_described(answer)}"
        if answer.status == 401 and self._key_name:
            text += f" (the key is the {self._key_name})"
        if answer.status == 404:
            text += f" ({outgoing.method} {_without_secrets(outgoing.url)}{self._versionless(outgoing.url)})"
        return text + _request_id(answer)

    def _versionless(self, url: str) -> str:
        """A hint for an address of an OpenAI-compatible server that may lack its version."""
        is_named = self._name == "http" or re.search(r"/v\d", urlsplit(url).path) or "/openai/" in url
        return "" if is_named else "; base URLs usually end in /v1"

    def _unreadable(self, answer: HttpAnswer, reason: str) -> ProviderError:
        reason = reason if answer.body.strip() else "the body is empty"
        message = f"{self._name} answered {answer.status} with {_described(answer)}, which is not a reply: {reason}"
        return ProviderError(message + _request_id(answer), type="bad-response", status=answer.status)


def _bearing(token: str, headers: Mapping[str, str]) -> dict[str, str]:
    return {**headers, "authorization": f"Bearer {token}"}


def merged(body: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The body with more fields; mappings are merged, anything else is replaced."""
    for name, value in more.items():
        known = body.get(name)
        body[name] = merged(dict(known), value) if isinstance(known, dict) and isinstance(value, dict) else value
    return body


def _without_secrets(url: str) -> str:
    """An address without user, password and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _described(answer: HttpAnswer) -> str:
    kind = answer.content_type or "no content type"
    size = f"{len(answer.body):,} bytes of {kind}"
    # White space goes before anything is cut: what is cut has to be seen to be, because it may be cut inside a key.
    said = shortened(answer.body[:MOST_LOOKED_AT].decode("utf-8", "replace"), LONGEST_QUOTE)
    if said and len(answer.body) > MOST_LOOKED_AT and not said.endswith("..."):
        said += "..."
    return f"{size} ({said})" if said else size


def _request_id(answer: HttpAnswer) -> str:
    return f" [request {answer.request_id}]" if answer.request_id else ""


def _completed(reply: Reply, request: Request) -> Usage:
    """The tokens of a reply. A count that the server did not report is estimated, which makes the usage approximate: a
    budget must not take a missing count for an exact 0."""
    usage = reply.usage
    said = reply.text or reply.thinking or reply.tool_calls
    output_told = not usage.approximate and (usage.output_tokens or not said)
    if usage.input_tokens and (output_told or request.embed is not None):
        return structs.replace(usage, approximate=False) if usage.approximate else usage
    asked = sum(message.length for message in request.messages) + len(request.embed or "")
    estimate = estimate_usage(asked, len(reply.text))
    return structs.replace(
        usage,
        input_tokens=usage.input_tokens or estimate.input_tokens,
        output_tokens=usage.output_tokens or estimate.output_tokens,
        approximate=True,
    )


Where: TypeAlias = Literal["next message", "start of next turn", "next turn", "anywhere"]
"""The position in which an API requires the results of calls. Consecutive messages of one role are one turn."""


def pair_calls(messages: Sequence[ChatMessage], where: Where) -> Sequence[ChatMessage]:
    """The messages, with text in place of calls without results and results without calls."""
    for message in messages:
        if message.tool_calls or message.tool_call_id:
            return _paired(messages, where)
    return messages  # as most are


def _paired(messages: Sequence[ChatMessage], where: Where) -> Sequence[ChatMessage]:
    unanswered: dict[str, tuple[int, int]] = {}
    """The calls that can still be answered, each with its position: message and call."""
    answered: set[tuple[int, int]] = set()
    results: set[int] = set()
    follows_assistant = False
    for number, message in enumerate(messages):
        answers = message.role == "tool" and message.tool_call_id in unanswered
        if _is_too_late(message, where, answers=answers, follows_assistant=follows_assistant):
            unanswered.clear()
        if answers:
            answered.add(unanswered.pop(message.tool_call_id))
            results.add(number)
        for place, call in enumerate(message.tool_calls):
            unanswered.setdefault(call.id, (number, place))
        follows_assistant = message.role == "assistant"
    sent = list(messages)
    for number, message in enumerate(messages):
        if message.tool_call_id and number not in results:
            sent[number] = structs.replace(message, tool_call_id="")
        elif message.tool_calls:
            sent[number] = _with_words(message, {place for one, place in answered if one == number})
    return sent


def _is_too_late(message: ChatMessage, where: Where, *, answers: bool, follows_assistant: bool) -> bool:
    """Whether a message ends the time in which earlier calls can be answered."""
    if where == "anywhere":
        return False
    if where == "next message":
        return not answers
    if message.role == "assistant":
        return not follows_assistant  # after a turn of another role
    return where == "start of next turn" and not answers


def _with_words(message: ChatMessage, answered: set[int]) -> ChatMessage:
    """An assistant's message with text in place of its unanswered calls."""
    if len(answered) == len(message.tool_calls):
        return message
    calls = list(enumerate(message.tool_calls))
    words = [message.content, *(f"{call.name}({call.arguments})" for place, call in calls if place not in answered)]
    left = tuple(call for place, call in calls if place in answered)
    content = "\n\n".join(word for word in words if word)
    return structs.replace(message, content=content, tool_calls=left, wanted_back=None)
