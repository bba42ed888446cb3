"""A server on a socket: which port it gets, how slow others may be, and how it ends."""

from __future__ import annotations

import asyncio
import errno
import functools
import socket
from types import FrameType
from typing import Any, cast

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from rejoinder.errors import UsageError, reason_of
from rejoinder.server.guard import refuse_stranger
from rejoinder.server.peers import Peers

MOST_TRIED = 50
"""Ports that are tried, one after the other."""
HEADERS_S = 10.0
"""How long the head of a request may take."""
KEEP_ALIVE_S = 30
"""How long a connection may be idle after an answer."""
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
        raise UsageError(f"{host} is not an address of this machine", "Use --host with an address or a name.") from None
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
    """Ends connections whose next head does not arrive in time; uvicorn would wait for ever. Connections of other users
    of this machine get another application."""

    def __init__(self, *arguments: Any, peers: Peers | None, **others: Any) -> None:
        super().__init__(*arguments, **others)
        self._peers = peers
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if self._peers is not None:
            ends = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
            if not self._peers.is_own(*ends):
                self.app = refuse_stranger
        self._time_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._time_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timing()
        super().connection_lost(exc)

    def _time_head(self) -> None:
        """One time for the whole head, from its first byte: a byte now and then does not keep a connection open.
        Between an answer and the next head uvicorn's `timeout_keep_alive` counts."""
        if self.conn.their_state is not h11.IDLE:
            self._stop_timing()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEADERS_S, self._give_up)

    def _stop_timing(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()


class Server(uvicorn.Server):
    """Tells the application when it is to end, so that open event streams end as well."""

    def __init__(self, app: Starlette, peers: Peers | None = None) -> None:
        config = uvicorn.Config(
            app,
            http=cast("Any", functools.partial(BoundedProtocol, peers=peers)),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=ENDING_S,
        )
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if (closing := getattr(self._app.state, "closing", None)) is not None:
            closing.set()
        super().handle_exit(sig, frame)


def serve(app: Starlette, listening: socket.socket, peers: Peers | None) -> None:
    """Until Ctrl-C or SIGTERM. `peers`: refuse the connections of other users."""
    try:
        Server(app, peers).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()
