"""HTTP/1.1 on a connection: the part that clients of these APIs use, and means to break it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import sys
from collections.abc import Mapping
from http import HTTPStatus
from typing import Protocol, cast

from msgspec import Struct

_LINGER = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)


class Request(Struct, frozen=True):
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Hub(Protocol):
    """Receives the events of connections."""

    def opened(self, connection: Connection) -> None: ...

    def arrived(self, connection: Connection, request: Request) -> None: ...

    def closed(self, connection: Connection) -> None: ...


class _Malformed(Exception):
    pass


class Connection(asyncio.Protocol):
    """Reads requests one after the other; the next is read after the previous one was answered."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._busy = False
        self._invited = False
        self._keep_alive = True
        self.writable = True

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._hub.opened(self)
        self._read()  # under TLS the first bytes can be here before

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._read()

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio passes it by this name
        self._transport = None
        self._buffer.clear()
        self._hub.closed(self)

    # What the server calls.

    def start(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send the head of an answer, with the start of its body in the same packet."""
        lines = [f"HTTP/1.1 {status} {_phrase(status)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if not self._keep_alive:
            lines.append("connection: close")
        self.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def finish(self) -> None:
        """Complete the answer."""
        self._busy = False
        if self._transport is None:
            return
        if not self._keep_alive:
            self._transport.close()
        elif self._buffer:
            asyncio.get_running_loop().call_soon(self._read)

    def reset(self) -> None:
        """Break off the connection so that the other side sees a reset instead of an orderly end."""
        if self._transport is not None:
            peer: socket.socket = self._transport.get_extra_info("socket")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
            self._transport.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _read(self) -> None:
        if self._busy or self._transport is None or self._transport.is_closing():
            return
        try:
            request = self._take_request()
        except _Malformed as problem:
            self._keep_alive = False
            body = str(problem).encode()
            self.start(400, {"content-type": "text/plain", "content-length": str(len(body))}, body)
            self.finish()
            return
        if request is not None:
            self._busy = True
            self._hub.arrived(self, request)

    def _take_request(self) -> Request | None:
        """Take the first request out of the buffer if it is complete."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        line, *rest = self._buffer[:end].decode("latin-1").split("\r\n")
        words = line.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise _Malformed("this is no HTTP/1.1 request")
        headers = _headers(rest)
        start = end + 4
        if "chunked" in headers.get("transfer-encoding", "").lower():
            framed = _chunks(self._buffer, start)
        else:
            framed = _counted(self._buffer, start, headers.get("content-length", "0"))
        if framed is None:
            self._invite(headers)
            return None
        body, end = framed
        del self._buffer[:end]
        self._invited = False
        persistent = "keep-alive" if words[2] == "HTTP/1.1" else "close"
        self._keep_alive = headers.get("connection", persistent).lower() != "close"
        return Request(words[0], words[1], headers, body)

    def _invite(self, headers: dict[str, str]) -> None:
        if not self._invited and headers.get("expect", "").lower() == "100-continue":
            self._invited = True
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise _Malformed("a header has no colon")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _counted(buffer: bytearray, start: int, length: str) -> tuple[bytes, int] | None:
    if not length.isdecimal():
        raise _Malformed("the content-length is no number")
    end = start + int(length)
    return None if len(buffer) < end else (bytes(buffer[start:end]), end)


def _chunks(buffer: bytearray, start: int) -> tuple[bytes, int] | None:
    body = bytearray()
    while True:
        line_end = buffer.find(b"\r\n", start)
        if line_end < 0:
            return None
        try:
            size = int(buffer[start:line_end].partition(b";")[0], 16)
        except ValueError:
            raise _Malformed("the size of a chunk is no number") from None
        end = line_end + 2 + size + 2
        if len(buffer) < end:
            return None
        if size == 0:
            return bytes(body), end
        body += buffer[line_end + 2 : end - 2]
        start = end


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


class TlsDoor(asyncio.Protocol):
    """Brings a connection through the TLS handshake before it is served.

    The loop's own TLS server hides connections until their handshake has succeeded; here they are known from the start,
    so that a server that stops can close those in the middle of one.
    """

    def __init__(self, hub: Hub, context: ssl.SSLContext, doors: set[TlsDoor]) -> None:
        self._hub = hub
        self._context = context
        self._doors = doors
        self._transport: asyncio.Transport | None = None
        self._handshake: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.pause_reading()
        self._handshake = asyncio.get_running_loop().create_task(self._shake_hands(self._transport))
        self._doors.add(self)
        self._handshake.add_done_callback(lambda _: self._doors.discard(self))

    def abort(self) -> None:
        if self._transport is not None and self._handshake is not None:
            self._transport.abort()
            self._handshake.cancel()

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        connection = Connection(self._hub)
        loop = asyncio.get_running_loop()
        try:
            secure = await loop.start_tls(transport, connection, self._context, server_side=True)
        except OSError:  # the client did not like the certificate, or went away
            return
        if secure is not None and not secure.is_closing():
            connection.connection_made(secure)
