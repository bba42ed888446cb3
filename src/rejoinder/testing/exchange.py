"""One request and its answer, and the playing of faults on its connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from rejoinder.testing.api import Api, Refusal
from rejoinder.testing.http1 import Connection
from rejoinder.testing.values import Fault, Received


class Response(Struct, frozen=True):
    status: int
    body: bytes
    headers: dict[str, str] = {}
    content_type: str = "application/json"


class Exchange:
    """A request that waits for its answer on its connection."""

    def __init__(
        self,
        connection: Connection,
        received: Received,
        api: Api | None,
        number: int,
        ended: Callable[[Exchange], None],
    ) -> None:
        self.received = received
        self.api = api
        self.number = number
        self.headers: dict[str, str] = {}
        """Headers of every answer to this request."""
        self._connection = connection
        self._ended = ended
        self._timer: asyncio.TimerHandle | None = None
        self._open = True
        self._request_id = ""
        if api is not None:
            self._request_id = api.request_id(number)
            if api.request_id_header is not None:
                self.headers[api.request_id_header] = self._request_id

    def refuse(self, refusal: Refusal) -> Response:
        """An error in the format of the requested API."""
        headers: dict[str, str] = {}
        if refusal.retry_after is not None:
            headers["retry-after"] = f"{refusal.retry_after:.3f}".rstrip("0").rstrip(".")
        if self.api is None:
            body = msgspec.json.encode({"error": f"no API here has the path {self.received.path}"})
            return Response(404, body)
        return Response(refusal.status, msgspec.json.encode(self.api.error(refusal, self._request_id)), headers)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        if seconds <= 0:
            action()
        else:
            self._timer = asyncio.get_running_loop().call_later(seconds, action)

    # An exchange is counted as ended before its last bytes are written: a client that has the answer finds it counted.

    def send(self, response: Response) -> None:
        self._end()
        self.start(response, response.body)
        self._connection.finish()

    def start(self, response: Response, part: bytes, framing: dict[str, str] | None = None) -> None:
        """Send the head of an answer and a part of its body. The head promises the whole body unless `framing` replaces
        it."""
        headers = {"content-type": response.content_type}
        headers |= framing if framing is not None else {"content-length": str(len(response.body))}
        self._connection.start(response.status, headers | self.headers | response.headers, part)

    def write(self, data: bytes) -> None:
        if self._connection.writable:  # a client that does not read must not fill the memory
            self._connection.write(data)

    def finish(self, rest: bytes) -> None:
        self._end()
        self._connection.write(rest)
        self._connection.finish()

    def reset(self) -> None:
        self.abandon()
        self._connection.reset()

    def abandon(self) -> None:
        """End the exchange: the client is gone, or the server stops."""
        if self._timer is not None:
            self._timer.cancel()
        self._end()

    def _end(self) -> None:
        if self._open:
            self._open = False
            self._ended(self)


Usual = Callable[[], Response]
"""Makes the usual answer, without the fault."""

_PAUSE_S = 0.02
"""Seconds before a reset, so that the client has received what was sent: a reset discards unread bytes."""

_TRICKLE_S = 0.01
_TRICKLE = b"400\r\n" + b" " * 0x400 + b"\r\n"
"""Blanks before a JSON value are legal, so nothing but patience or a limit on size ends such a body."""


_INVALID = Response(200, b'{"id": "broken", "choices": [{"message": undefined}], }')
_SIGN_IN = Response(
    200,
    b"<!doctype html><html><head><title>Sign in</title></head><body>Please sign in to the network.</body></html>",
    content_type="text/html; charset=utf-8",
)


def play(exchange: Exchange, fault: Fault, usual: Usual) -> None:
    exchange.headers |= fault.headers
    _PLAYS[fault.kind](exchange, fault, usual)


def _status(exchange: Exchange, fault: Fault, _: Usual) -> None:
    refusal = exchange.refuse(Refusal(fault.status, code=fault.code, retry_after=fault.retry_after))
    if fault.body is None:
        exchange.send(refusal)
    else:
        exchange.send(Response(fault.status, _encoded(fault.body), refusal.headers))


def _reset_in_body(exchange: Exchange, _: Fault, usual: Usual) -> None:
    response = usual()
    exchange.start(response, _first_half(response))
    exchange.after(_PAUSE_S, exchange.reset)


def _slow_headers(exchange: Exchange, fault: Fault, usual: Usual) -> None:
    response = usual()
    exchange.after(fault.seconds, lambda: exchange.send(response))


def _stall_in_body(exchange: Exchange, fault: Fault, usual: Usual) -> None:
    response = usual()
    begun = _first_half(response)
    exchange.start(response, begun)
    exchange.after(fault.seconds, lambda: exchange.finish(response.body[len(begun) :]))


def _endless_body(exchange: Exchange, _: Fault, __: Usual) -> None:
    def trickle() -> None:
        exchange.write(_TRICKLE)
        exchange.after(_TRICKLE_S, trickle)

    exchange.start(Response(200, b""), b"", {"transfer-encoding": "chunked"})
    trickle()


def _truncated_json(exchange: Exchange, _: Fault, usual: Usual) -> None:
    response = usual()
    exchange.send(msgspec.structs.replace(response, body=_first_half(response)))


def _first_half(response: Response) -> bytes:
    return response.body[: len(response.body) // 2]


def _encoded(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else msgspec.json.encode(body)


_PLAYS: dict[str, Callable[[Exchange, Fault, Usual], None]] = {
    "status": _status,
    "reset_before_headers": lambda exchange, _, __: exchange.reset(),
    "reset_in_body": _reset_in_body,
    "slow_headers": _slow_headers,
    "stall_in_body": _stall_in_body,
    "endless_body": _endless_body,
    "invalid_json": lambda exchange, _, __: exchange.send(_INVALID),
    "truncated_json": _truncated_json,
    "wrong_content_type": lambda exchange, _, __: exchange.send(_SIGN_IN),
    "empty_body": lambda exchange, _, __: exchange.send(Response(200, b"")),
}
