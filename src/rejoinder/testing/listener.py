"""The server's thread: it accepts connections on a loopback port, and closes them all when it stops."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from concurrent.futures import Future
from typing import Any

from rejoinder.testing.http1 import Connection, TlsDoor
from rejoinder.testing.service import Service

_BACKLOG = 2048
_PATIENCE_S = 30.0


class Listener:
    def __init__(self, service: Service, tls: ssl.SSLContext | None) -> None:
        self._service = service
        self._tls = tls
        self._arriving: set[asyncio.Task[Any]] = set()
        self._doors: set[TlsDoor] = set()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self._port}"

    def start(self) -> None:
        if self._thread is not None:
            raise RuntimeError("the fake server is running already")
        started: Future[int] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="rejoinder-fake-server", daemon=True)
        self._thread.start()
        try:
            self._port = started.result(_PATIENCE_S)
        except BaseException:
            self._thread = None
            raise

    def stop(self) -> None:
        if self._thread is None or self._loop is None or self._stopping is None:
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            raise RuntimeError("the fake server does not stop: its reply function blocks")
        self._thread = None

    def _run(self, started: Future[int]) -> None:
        try:
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(self._serve(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _serve(self, started: Future[int]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        with socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG) as listener:
            listener.setblocking(False)
            self._loop.add_reader(listener, self._accept, self._loop, listener)
            started.set_result(listener.getsockname()[1])
            await self._stopping.wait()
            self._loop.remove_reader(listener)
        await asyncio.gather(*self._arriving, return_exceptions=True)
        for connection in (*self._service.open, *self._doors):
            connection.abort()
        async with asyncio.timeout(_PATIENCE_S):
            while self._service.open or self._doors:
                await asyncio.sleep(0)

    def _accept(self, loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
        """Accept all waiting connections.

        The loop's own server loses a connection that it accepts while it is being closed, and leaves its socket open.
        """
        with contextlib.suppress(OSError):  # the client has gone
            while True:
                peer, _ = listener.accept()
                peer.setblocking(False)
                arriving = loop.create_task(loop.connect_accepted_socket(self._greet, peer))
                self._arriving.add(arriving)
                arriving.add_done_callback(self._arriving.discard)

    def _greet(self) -> asyncio.Protocol:
        return Connection(self._service) if self._tls is None else TlsDoor(self._service, self._tls, self._doors)
