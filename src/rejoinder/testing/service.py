"""The handling of requests: counting them, and finding the answer, error or fault for each."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Struct

from rejoinder.testing import anthropic, gemini, openai
from rejoinder.testing.api import Api, Asked, Endpoint, Refusal
from rejoinder.testing.exchange import Exchange, Response, play
from rejoinder.testing.http1 import Connection, Request
from rejoinder.testing.limits import RateLimit, keep, limit_headers
from rejoinder.testing.values import Answer, Embed, Fault, Received, Reply, Script

_APIS: tuple[Api, ...] = (openai.AZURE, anthropic.API, gemini.API, openai.API)
"""The first API that owns a path is used; OpenAI's is the widest and comes last."""


class Options(Struct, frozen=True):
    """The options of answers; `FakeServer` describes each."""

    reply: Reply | Script
    latency_s: float
    key: str | None
    rate_limit: RateLimit | None
    embed: Embed | None
    extra_headers: Mapping[str, str] | None = None
    extra_fields: Collection[str] = ()


class Tally:
    """The received and counted requests. Written on the server's thread, read on others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: list[Received] = []
        self.connections = 0
        """Connections opened."""
        self.accepted = 0
        """Requests that passed key and rate limit."""
        self.refused = 0
        """Requests refused by the rate limit."""
        self.in_flight = 0
        """Requests that wait for their answers."""
        self.peak_in_flight = 0
        """Maximum requests that waited at once."""

    @property
    def requests(self) -> list[Received]:
        """The requests so far, in order of arrival, as a new list."""
        with self._lock:
            return list(self._requests)

    def reset(self) -> None:
        """Forget the received and counted requests. Faults, limits and connections stay unchanged."""
        with self._lock:
            self._requests.clear()
            self.connections = self.accepted = self.refused = 0
            self.peak_in_flight = self.in_flight

    def count_connection(self) -> None:
        with self._lock:
            self.connections += 1

    def count_request(self, received: Received) -> None:
        with self._lock:
            self._requests.append(received)
            self.in_flight += 1
            self.peak_in_flight = max(self.peak_in_flight, self.in_flight)

    def count_verdict(self, *, accepted: bool) -> None:
        with self._lock:
            self.accepted += accepted
            self.refused += not accepted

    def count_end(self) -> None:
        with self._lock:
            self.in_flight -= 1


class Service:
    """Receives the events of connections, all on the server's thread, and has their requests answered."""

    def __init__(self, options: Options, faults: Iterable[Fault | None], tally: Tally) -> None:
        self.open: set[Connection] = set()
        self.errors: list[Exception] = []
        """Exceptions raised by functions given to the server."""
        self._extra_headers = dict(options.extra_headers or {})
        self._faults: Iterator[Fault | None] = iter(faults)
        self._latency_s = options.latency_s
        self._answers = _Answers(options, tally, self.errors)
        self._tally = tally
        self._exchanges: dict[Connection, Exchange] = {}
        self._number = 0

    def opened(self, connection: Connection) -> None:
        self.open.add(connection)
        self._tally.count_connection()

    def closed(self, connection: Connection) -> None:
        self.open.discard(connection)
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
        exchange = Exchange(connection, received, api, self._number, lambda exchange: self._ended(connection, exchange))
        exchange.headers |= self._extra_headers
        self._exchanges[connection] = exchange
        self._tally.count_request(received)
        self._answer(exchange)

    def _ended(self, connection: Connection, exchange: Exchange) -> None:
        if self._exchanges.get(connection) is exchange:
            del self._exchanges[connection]
        self._tally.count_end()

    def _answer(self, exchange: Exchange) -> None:
        fault = next(self._faults, None)
        if fault is not None:
            play(exchange, fault, lambda: self._answers.without_fault(exchange, self._answers.decide(exchange)))
            return
        outcome = self._answers.decide(exchange)
        if isinstance(outcome, Fault):
            play(exchange, outcome, lambda: self._answers.without_fault(exchange, outcome))
        else:
            exchange.after(self._latency_s if outcome.status == 200 else 0, lambda: exchange.send(outcome))


class _Answers:
    """Decides the answer to a request from the server's options."""

    def __init__(self, options: Options, tally: Tally, errors: list[Exception]) -> None:
        self._options = options
        self._extra_fields = frozenset(options.extra_fields)
        self._take = keep(options.rate_limit) if options.rate_limit is not None else None
        self._tally = tally
        self._errors = errors

    def without_fault(self, exchange: Exchange, outcome: Response | Fault) -> Response:
        if isinstance(outcome, Response):
            return outcome
        return self._worded(exchange, Answer("OK"))

    def decide(self, exchange: Exchange) -> Response | Fault:
        """The answer or error that the request gets, or the fault from the script."""
        try:
            endpoint = self._admit(exchange)
            endpoint.check(exchange.received, self._extra_fields)
            script = self._options.reply if endpoint.asks else Answer()
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
        if self._options.key is not None:
            api.check_key(received, self._options.key)
        self._take_from_limit(exchange)
        endpoint = api.find(received)
        if endpoint is None:
            raise Refusal(404, f"Invalid URL ({received.method} {received.path})")
        if endpoint.method != received.method:
            raise Refusal(405, f"Not allowed to {received.method} on {received.path}.")
        return endpoint

    def _take_from_limit(self, exchange: Exchange) -> None:
        limit = self._options.rate_limit
        if limit is not None and self._take is not None:
            taken = self._take(time.monotonic())
            exchange.headers |= limit_headers(limit, taken)
            if not taken.allowed:
                self._tally.count_verdict(accepted=False)
                raise Refusal(429, retry_after=max(1, math.ceil(taken.wait)) if limit.retry_after else None)
        self._tally.count_verdict(accepted=True)

    def _worded(self, exchange: Exchange, answer: Answer) -> Response:
        endpoint = exchange.api.find(exchange.received) if exchange.api is not None else None
        if endpoint is None:
            return exchange.refuse(Refusal(404))
        asked = Asked(exchange.received, answer, exchange.number, self._options.embed)
        return Response(200, msgspec.json.encode(endpoint.body(asked)))


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
