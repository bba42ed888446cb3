"""A server on a socket: which port it gets, how slow others may be, and how it ends."""

from __future__ import annotations

import errno
import socket
from types import FrameType
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from rejoinder.errors import UsageError, reason_of

MOST_TRIED = 50
"""Ports that are tried, one after the other."""
HEADERS_S = 10.0
"""How long the head of a request may take."""
ENDING_S = 2
MOST_CONNECTIONS = 512


def listen(host: str, port: int, *, exactly: bool) -> socket.socket:
    """A socket at the port, or, unless it has to be this one, at the next that is free. Raises UsageError."""
    numbers = range(port, port + (1 if exactly or port == 0 else MOST_TRIED))
    for number in numbers:
        try:
            return _bind(host, number)
        except OverflowError:
            break
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise UsageError(f"{host} port {number} cannot be used: {reason_of(error)}") from None
    hint = "Give another one with --port, or leave it out to get one that is free."
    raise UsageError(f"port {port} is taken" if exactly else f"ports {port} to {numbers[-1]} are taken", hint)


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except socket.gaierror:
        raise UsageError(f"{host} is no address of this machine", "Use --host with an address or a name.") from None
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if hasattr(socket, "SO_REUSEADDR") and not hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
        made.listen(128)
    except BaseException:
        made.close()
        raise
    return made


class BoundedProtocol(H11Protocol):
    """Ends connections whose next request does not arrive in time; uvicorn would wait for ever."""

    _watching = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def _watch(self) -> None:
        if not self._watching and self._is_waiting():
            self._watching = True
            self.loop.call_later(HEADERS_S, self._look)

    def _look(self) -> None:
        self._watching = False
        if self._is_waiting() and not self.transport.is_closing():
            self.transport.close()

    def _is_waiting(self) -> bool:
        return self.conn.their_state is h11.IDLE


class Server(uvicorn.Server):
    """Tells the application when it is to end, so that open event streams end as well."""

    def __init__(self, app: Starlette) -> None:
        config = uvicorn.Config(
            app,
            http=BoundedProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=ENDING_S,
        )
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if (closing := getattr(self._app.state, "closing", None)) is not None:
            closing.set()
        super().handle_exit(sig, frame)


def serve(app: Starlette, listening: socket.socket) -> None:
    """Until Ctrl-C or SIGTERM."""
    try:
        Server(app).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()
