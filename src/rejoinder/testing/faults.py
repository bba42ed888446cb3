"""How each fault is played on a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from rejoinder.testing.api import Refusal
from rejoinder.testing.exchange import Exchange, Response
from rejoinder.testing.values import Fault

Usual = Callable[[], Response]
"""Gives the answer that there would be without the fault."""

_PAUSE_S = 0.02
"""Before a reset, so that the client has what was sent: a reset overtakes bytes that are not read yet."""

_TRICKLE_S = 0.01
_TRICKLE = b"400\r\n" + b" " * 0x400 + b"\r\n"
"""Blanks before a JSON value are legal, so nothing but patience or a limit on size ends such a body."""


def play(exchange: Exchange, fault: Fault, usual: Usual) -> None:
    exchange.headers |= fault.headers
    _PLAYS[fault.kind](exchange, fault, usual)


def _status(exchange: Exchange, fault: Fault, _: Usual) -> None:
    refusal = exchange.refuse(Refusal(fault.status, code=fault.code, retry_after=fault.retry_after))
    if fault.body is None:
        exchange.send(refusal)
    else:
        exchange.send(Response(fault.status, _encoded(fault.body), refusal.headers))


def _reset_before_headers(exchange: Exchange, _: Fault, __: Usual) -> None:
    exchange.reset()


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


def _invalid_json(exchange: Exchange, _: Fault, __: Usual) -> None:
    exchange.send(Response(200, b'{"id": "broken", "choices": [{"message": undefined}], }'))


def _truncated_json(exchange: Exchange, _: Fault, usual: Usual) -> None:
    response = usual()
    exchange.send(msgspec.structs.replace(response, body=_first_half(response)))


def _wrong_content_type(exchange: Exchange, _: Fault, __: Usual) -> None:
    page = b"<!doctype html><html><head><title>Sign in</title></head><body>Please sign in to the network.</body></html>"
    exchange.send(Response(200, page, content_type="text/html; charset=utf-8"))


def _empty_body(exchange: Exchange, _: Fault, __: Usual) -> None:
    exchange.send(Response(200, b""))


def _first_half(response: Response) -> bytes:
    return response.body[: len(response.body) // 2]


def _encoded(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else msgspec.json.encode(body)


_PLAYS: dict[str, Callable[[Exchange, Fault, Usual], None]] = {
    "status": _status,
    "reset_before_headers": _reset_before_headers,
    "reset_in_body": _reset_in_body,
    "slow_headers": _slow_headers,
    "stall_in_body": _stall_in_body,
    "endless_body": _endless_body,
    "invalid_json": _invalid_json,
    "truncated_json": _truncated_json,
    "wrong_content_type": _wrong_content_type,
    "empty_body": _empty_body,
}
