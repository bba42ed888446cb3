"""The server: it runs on a thread of its own, on loopback, and answers for all APIs at once."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import ssl
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec

from rejoinder.testing import anthropic, gemini, openai
from rejoinder.testing.api import Api, Asked, Endpoint, Refusal
from rejoinder.testing.exchange import Exchange, Response, play
from rejoinder.testing.http1 import Connection, Request, TlsDoor
from rejoinder.testing.limits import RateLimit, keep, limit_headers
from rejoinder.testing.values import Answer, Embed, Fault, Received, Reply, Script

_APIS: tuple[Api, ...] = (openai.AZURE, anthropic.API, gemini.API, openai.API)
"""The first that owns a path is asked; OpenAI's is the widest and comes last."""

_BACKLOG = 2048
_PATIENCE_S = 30.0


class FakeServer:
    """Language models on loopback. Use it as a context manager, or call `start` and `stop`.

    - `reply`: what every model answers, or a function of the request that says so. The function is called on the
      server's thread and must not block. What it raises is told to the client as status 500, and raised again when
      the server stops.
    - `latency_s`: how long a model thinks. Errors come at once.
    - `key`: requests with another one, or without, get the API's own error.
    - `rate_limit`: requests beyond it get the API's own error 429.
    - `tls`: a server's context; the addresses then begin with https.
    - `faults`: one a request, in order of arrival, instead of the usual answer; None lets a request through. They
      strike before keys and limits are looked at.
    - `extra_headers`: sent with every answer.
    - `extra_fields`: top-level fields of requests to accept although the API has none such, as servers do that
      resemble it.
    - `embed`: a function from a text to the numbers of its vector, called on the server's thread like `reply`.
      Without one, `rejoinder.testing.embed` does it: texts of the same words have the same vector, texts with words
      in common similar ones, and others hardly any likeness.
    """

    def __init__(  # noqa: PLR0913 - options, all but the first by name
        self,
        reply: Reply | Script = "OK",
        *,
        latency_s: float = 0.0,
        key: str | None = None,
        rate_limit: RateLimit | None = None,
        tls: ssl.SSLContext | None = None,
        faults: Iterable[Fault | None] = (),
        extra_headers: Mapping[str, str] | None = None,
        extra_fields: Collection[str] = (),
        embed: Embed | None = None,
    ) -> None:
        self._reply = reply
        self._latency_s = latency_s
        self._key = key
        self._limit = rate_limit
        self._take = keep(rate_limit) if rate_limit is not None else None
        self._tls = tls
        self._faults: Iterator[Fault | None] = iter(faults)
        self._extra_headers = dict(extra_headers or {})
        self._extra_fields = frozenset(extra_fields)
        self._embed = embed

        self._lock = threading.Lock()
        self._requests: list[Received] = []
        self._number = 0
        self._errors: list[Exception] = []
        self.connections = 0
        """How many connections were opened."""
        self.accepted = 0
        """How many requests passed key and rate limit."""
        self.refused = 0
        """How many requests the rate limit refused."""
        self.in_flight = 0
        """How many requests wait for their answers."""
        self.peak_in_flight = 0
        """How many have waited at once, at most."""

        self._arriving: set[asyncio.Task[Any]] = set()
        self._open: set[Connection] = set()
        self._doors: set[TlsDoor] = set()
        self._exchanges: dict[Connection, Exchange] = {}
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._port = 0

    # Starting and stopping.

    def __enter__(self) -> FakeServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._halt()
        if kind is None:
            self._raise_errors()

    def start(self) -> FakeServer:
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
        return self

    def stop(self) -> None:
        """Close every connection and end the thread. Raises what a function given to it raised, if one did."""
        self._halt()
        self._raise_errors()

    def _halt(self) -> None:
        if self._thread is None or self._loop is None or self._stopping is None:
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            raise RuntimeError("the fake server does not stop: its reply function blocks")
        self._thread = None

    def _raise_errors(self) -> None:
        if self._errors:
            raise self._errors.pop()

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
        for one in (*self._open, *self._doors):
            one.abort()
        async with asyncio.timeout(_PATIENCE_S):
            while self._open or self._doors:
                await asyncio.sleep(0)

    def _accept(self, loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
        """Take all connections that wait.

        The loop's own server loses a connection, and leaves its socket open, that it accepts while it is closed.
        """
        with contextlib.suppress(OSError):  # the client has gone
            while True:
                peer, _ = listener.accept()
                peer.setblocking(False)
                arriving = loop.create_task(loop.connect_accepted_socket(self._greet, peer))
                self._arriving.add(arriving)
                arriving.add_done_callback(self._arriving.discard)

    def _greet(self) -> asyncio.Protocol:
        return Connection(self) if self._tls is None else TlsDoor(self, self._tls, self._doors)

    # Where it is.

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self._port}"

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    anthropic_url = gemini_url = azure_url = url

    # What it has seen.

    @property
    def requests(self) -> list[Received]:
        """The requests so far, in order of arrival; a list of your own."""
        with self._lock:
            return list(self._requests)

    def reset(self) -> None:
        """Forget what was received and counted. Faults, limits and connections stay as they are."""
        with self._lock:
            self._requests.clear()
            self.connections = self.accepted = self.refused = 0
            self.peak_in_flight = self.in_flight

    # What connections tell; all of it on the server's thread.

    def opened(self, connection: Connection) -> None:
        self._open.add(connection)
        with self._lock:
            self.connections += 1

    def closed(self, connection: Connection) -> None:
        self._open.discard(connection)
        exchange = self._exchanges.pop(connection, None)
        if exchange is not None:
            exchange.abandon()

    def arrived(self, connection: Connection, request: Request) -> None:
        path, _, query = request.target.partition("?")
        path = unquote(path)
        api = next((api for api in _APIS if api.owns(path)), None)
        received = Received(
            api="" if api is None else api.name,
            method=request.method,
            path=path,
            query=dict(parse_qsl(query, keep_blank_values=True)),
            headers=request.headers,
            body=_decoded(request.body),
            raw=request.body,
            at=time.monotonic(),
        )
        self._number += 1
        exchange = Exchange(connection, received, api, self._number, lambda one: self._ended(connection, one))
        exchange.headers |= self._extra_headers
        self._exchanges[connection] = exchange
        with self._lock:
            self._requests.append(received)
            self.in_flight += 1
            self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        self._answer(exchange)

    def _ended(self, connection: Connection, exchange: Exchange) -> None:
        if self._exchanges.get(connection) is exchange:
            del self._exchanges[connection]
        with self._lock:
            self.in_flight -= 1

    # How it answers.

    def _answer(self, exchange: Exchange) -> None:
        fault = next(self._faults, None)
        if fault is not None:
            play(exchange, fault, lambda: self._without_fault(exchange, self._decide(exchange)))
            return
        outcome = self._decide(exchange)
        if isinstance(outcome, Fault):
            play(exchange, outcome, lambda: self._without_fault(exchange, outcome))
        else:
            exchange.after(self._latency_s if outcome.status == 200 else 0, lambda: exchange.send(outcome))

    def _without_fault(self, exchange: Exchange, outcome: Response | Fault) -> Response:
        if isinstance(outcome, Response):
            return outcome
        return self._worded(exchange, Answer("OK"))

    def _decide(self, exchange: Exchange) -> Response | Fault:
        """The answer or error that the request deserves, or the fault that the script wants instead."""
        try:
            endpoint = self._admit(exchange)
            endpoint.check(exchange.received, self._extra_fields)
            script = self._reply if endpoint.asks else Answer()
            reply = script(exchange.received) if callable(script) else script
            if isinstance(reply, Fault):
                return reply
            return self._worded(exchange, Answer(reply) if isinstance(reply, str) else reply)
        except Refusal as refusal:
            return exchange.refuse(refusal)
        except Exception as error:  # a mistake in the script: the test that wrote it has to hear of it
            self._errors.append(error)
            told = f"a function given to the fake server raised {type(error).__name__}: {error}"
            return exchange.refuse(Refusal(500, told))

    def _admit(self, exchange: Exchange) -> Endpoint:
        received, api = exchange.received, exchange.api
        if api is None:
            raise Refusal(404)
        if self._key is not None:
            api.check_key(received, self._key)
        self._take_from_limit(exchange)
        endpoint = api.find(received)
        if endpoint is None:
            raise Refusal(404, f"Invalid URL ({received.method} {received.path})")
        if endpoint.method != received.method:
            raise Refusal(405, f"Not allowed to {received.method} on {received.path}.")
        return endpoint

    def _take_from_limit(self, exchange: Exchange) -> None:
        if self._limit is not None and self._take is not None:
            taken = self._take(time.monotonic())
            exchange.headers |= limit_headers(self._limit, taken)
            if not taken.allowed:
                with self._lock:
                    self.refused += 1
                raise Refusal(429, retry_after=max(1, math.ceil(taken.wait)) if self._limit.retry_after else None)
        with self._lock:
            self.accepted += 1

    def _worded(self, exchange: Exchange, answer: Answer) -> Response:
        endpoint = exchange.api.find(exchange.received) if exchange.api is not None else None
        if endpoint is None:
            return exchange.refuse(Refusal(404))
        asked = Asked(exchange.received, answer, exchange.number, self._embed)
        return Response(200, msgspec.json.encode(endpoint.body(asked)))


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
