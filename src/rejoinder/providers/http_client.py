"""The only HTTP transport of a run: connections, timeouts, proxies, certificates.

It sends a request and returns a status with headers and a body, or raises a ProviderError that says what went wrong on
the way. Wire formats decide what statuses and bodies mean.

It is our own, on asyncio's sockets, because a run of many short calls spends most of its time in the client:
docs/design/providers.md has the measurements.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from aiohappyeyeballs import start_connection
from msgspec import Struct

from rejoinder.open_files import ConnectionRoom
from rejoinder.providers.base import ProviderError
from rejoinder.providers.http1 import MOST_BODY, AnswerReader, HttpAnswer, Listener, NotHttp, TooLarge, write_request
from rejoinder.providers.routes import Place, Proxy, Route, authority, find_route, read_network
from rejoinder.providers.tls import (
    PERHAPS_CERTIFICATE,
    ClientCertificate,
    bound_buffers,
    explain,
    is_about_client_certificate,
    make_context,
)
from rejoinder.words.numbers import in_seconds

CONNECT_TIMEOUT_S = 30.0
NEXT_ADDRESS_S = 0.25
"""Seconds for which one address of a host is tried before the next is tried in parallel."""
READ_ON_S = 2.0
"""Extra seconds for an answer that is arriving when its time is up. A process that was suspended for a while wakes
after the deadline and finds the answer, which is paid for, in the socket."""
ARRIVING_S = 0.05
"""An answer is arriving as long as its bytes have no longer gaps, in seconds."""
IDLE_S = 50.0
"""Most servers close connections that are idle for a minute; a request must not coincide with that."""
WARY_S = 2.0
"""Seconds for which no connection is reused after one was closed unexpectedly. That is longer than the first retry
waits, so that a server that hangs up after each answer costs a call one retry, not all of them."""
REMEMBER_ADDRESSES_S = 60.0

Resolver = Callable[[str, int], Awaitable[list[str]]]
"""Resolves a host and a port to addresses. Raises OSError if there are none."""


class Transport:
    """Opens connections when they are needed, in the event loop that uses it, and keeps them for later requests."""

    def __init__(
        self,
        environment: Mapping[str, str],
        resolver: Resolver | None = None,
        client_certificate: ClientCertificate | None = None,
        room: ConnectionRoom | None = None,
    ) -> None:
        self._network = read_network(environment)
        self._client_certificate = client_certificate
        self._resolve = resolver or _resolve
        self._routes: dict[str, Route] = {}
        self._idle: dict[Place, list[_Connection]] = {}
        self._wary_until: dict[Place, float] = {}
        self._addresses: dict[tuple[str, int], tuple[float, asyncio.Future[list[str]]]] = {}
        self._context: ssl.SSLContext | None = None
        self._answered: set[Place] = set()
        self._room = room or ConnectionRoom()
        self._room.close_idle.append(self._close_idle)

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        once: tuple[tuple[str, str], ...] = (),
        timeout_s: float | None = None,
        listener: Listener | None = None,
    ) -> HttpAnswer:
        """Send one request and return its answer; `once`: headers that differ from request to request; `listener`
        hears the answer as it comes.

        It never retries: the caller decides. If the time is up before the request was sent, the error has the type
        `connection`, afterwards `timeout`.
        """
        route = self._routes.get(url) or self._route(url)
        try:
            request = write_request(method, route.path, {**route.headers, **headers}, body, once)
        except (ValueError, UnicodeEncodeError) as error:
            raise ProviderError(f"the request cannot be sent: {error}", type="request") from None
        while (used := self._take(route.place)) is None and not self._room.enter():
            await self._room.wait()
        limit = None if timeout_s is None else _Limit(timeout_s, asyncio.get_running_loop().time() + timeout_s)
        connection = used or await self._connect(route.place, limit)
        try:
            answer = await connection.exchange(request, limit, listener)
        except BaseException as error:
            connection.close()
            if isinstance(error, ProviderError) and error.type == "broken":
                self._drop_idle(route.place)  # what else was idle there is likely to be dead as well
                if used is not None:
                    self._wary_until[route.place] = time.monotonic() + WARY_S
                self._suspect(error, route.place)
            raise
        self._answered.add(route.place)
        if self._is_wary(route.place):
            connection.close()
        elif connection.is_reusable():
            self._idle.setdefault(route.place, []).append(connection)
            self._room.wake()
        return answer

    async def close(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()
        await asyncio.sleep(0)  # sockets are closed by the loop's next turn

    def _suspect(self, error: ProviderError, place: Place) -> None:
        """Add a possible cause to the failure of a server that has never answered."""
        if place.tls and self._client_certificate is None and place not in self._answered:
            error.message += f"; {PERHAPS_CERTIFICATE}"

    def _is_wary(self, place: Place) -> bool:
        return bool(self._wary_until) and time.monotonic() < self._wary_until.get(place, 0.0)

    def _close_idle(self) -> bool:
        """Close one idle connection. False if none is idle."""
        for connections in self._idle.values():
            if connections:
                connections.pop(0).close()
                return True
        return False

    def _drop_idle(self, place: Place) -> None:
        for connection in self._idle.pop(place, []):
            connection.close()

    def _take(self, place: Place) -> _Connection | None:
        idle = self._idle.get(place)
        while idle:
            connection = idle.pop()
            if connection.is_fresh():
                return connection
            connection.close()
        return None

    async def _connect(self, place: Place, limit: _Limit | None) -> _Connection:
        """Open a connection when a slot is free; the slot is released when the connection closes or cannot be made."""
        try:
            connection = await self._connect_within(place, limit)
        except BaseException:
            self._room.leave()
            raise
        connection.when_lost(self._room.leave)
        return connection

    async def _connect_within(self, place: Place, limit: _Limit | None) -> _Connection:
        seconds = CONNECT_TIMEOUT_S if limit is None else min(CONNECT_TIMEOUT_S, limit.seconds)
        try:
            async with asyncio.timeout(seconds):
                if place.proxy is None:
                    return await self._dial(place.host, place.port, tls=place.tls)
                return await self._connect_by_proxy(place, place.proxy)
        except TimeoutError:
            # Nothing was sent, so this says nothing about the call.
            message = f"no connection to {place} within {in_seconds(seconds)}"
            raise ProviderError(message, type="connection", retryable=True) from None

    async def _connect_by_proxy(self, place: Place, proxy: Proxy) -> _Connection:
        try:
            connection = await self._dial(proxy.host, proxy.port, tls=proxy.tls)
        except ProviderError as error:
            error.message = f"the proxy cannot be used: {error.message}"
            raise
        if not place.tls:
            return connection
        try:
            await _open_tunnel(connection, str(place), proxy.headers)
            await connection.secure(self._tls(), place.host)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _dial(self, host: str, port: int, *, tls: bool) -> _Connection:
        """A connection to the first address that accepts one."""
        place = authority(host, port)
        context = self._tls() if tls else None
        known = await self._find(host, port)
        try:
            taken = await start_connection(
                [_address_info(address, port) for address in known], happy_eyeballs_delay=NEXT_ADDRESS_S
            )
            _put_first(known, taken)
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: _Connection(place),
                sock=taken,
                ssl=context,
                server_hostname=host if tls else None,
                ssl_handshake_timeout=CONNECT_TIMEOUT_S if tls else None,
            )
        except (OSError, TimeoutError) as error:
            raise explain(error, place) from None
        return connection

    async def _find(self, host: str, port: int) -> list[str]:
        """The addresses of a host; simultaneous callers share one lookup."""
        known = self._addresses.get((host, port))
        if known is None or (known[1].done() and time.monotonic() > known[0]):
            lookup = asyncio.ensure_future(self._resolve(host, port))
            known = (time.monotonic() + REMEMBER_ADDRESSES_S, lookup)
            self._addresses[host, port] = known
        try:
            return await asyncio.shield(known[1])
        except (OSError, UnicodeError):
            self._addresses.pop((host, port), None)
            raise ProviderError(f"the host `{host}` cannot be found", type="dns", retryable=True) from None

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            bound_buffers()
            self._context = make_context(self._network)
            if self._client_certificate is not None:
                self._client_certificate.show(self._context)
        return self._context

    def _route(self, url: str) -> Route:
        route = find_route(url, self._network)
        if len(self._routes) < 1000:  # addresses of the generic provider may differ from call to call
            self._routes[url] = route
        return route


class _Limit(Struct, frozen=True):
    """The time limit of a call."""

    seconds: float
    at: float
    """The deadline, by the event loop's clock."""


class _Connection(asyncio.Protocol):
    """One connection, one exchange at a time."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._transport: asyncio.Transport | None = None
        self._reader: AnswerReader | None = None
        self._waiter: asyncio.Future[HttpAnswer] | None = None
        self._keep_alive = False
        self._idle_since = 0.0
        self._heard_at = 0.0
        self._is_new = True
        self._ended: ProviderError | None = None
        """Why the other side closed the connection."""
        self._news: select.poll | None = None
        """Reports whether data can be read; None if the system has no poll."""
        self._is_lost = False
        self._on_lost: Callable[[], None] | None = None

    async def exchange(
        self, request: bytes, limit: _Limit | None = None, listener: Listener | None = None, *, tunnel: bool = False
    ) -> HttpAnswer:
        assert self._transport is not None
        if self._is_new and self._has_news():
            # With TLS 1.3, a server refuses a client after the handshake. What is written then is lost, and the reason
            # with it: a connection that is reset is not read any more. The loop reads in its turn after the next.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        self._is_new = False
        if self._ended is not None:
            raise self._ended
        loop = asyncio.get_running_loop()
        self._reader = AnswerReader(most_body=MOST_BODY, tunnel=tunnel, listener=listener)
        waiter = self._waiter = loop.create_future()
        self._transport.write(request)
        if limit is None:
            return await waiter
        clock = loop.call_at(limit.at, self._time_is_up, waiter, limit.seconds)
        try:
            return await waiter
        finally:
            clock.cancel()

    def _time_is_up(self, waiter: asyncio.Future[HttpAnswer], seconds: float, since: float | None = None) -> None:
        """End an exchange, unless its answer is arriving."""
        if waiter.done():
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        since = now if since is None else since
        is_arriving = self._has_news() or now - self._heard_at < ARRIVING_S
        if is_arriving and now - since < READ_ON_S:
            loop.call_later(ARRIVING_S / 5, self._time_is_up, waiter, seconds, since)
            return
        self._fail(ProviderError(f"no answer within {in_seconds(seconds)}", type="timeout", retryable=True))

    async def secure(self, tls: ssl.SSLContext, host: str) -> None:
        """Continue over TLS."""
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(self._transport, self, tls, server_hostname=host)
        except (OSError, TimeoutError) as error:
            raise explain(error, host) from None
        assert secured is not None
        self._transport = secured

    def is_reusable(self) -> bool:
        if not self._keep_alive or self._transport is None or self._transport.is_closing():
            self.close()
            return False
        self._idle_since = time.monotonic()
        return True

    def is_fresh(self) -> bool:
        open_still = self._transport is not None and not self._transport.is_closing()
        if not open_still or not self._keep_alive or time.monotonic() - self._idle_since >= IDLE_S:
            return False
        # The other side may have closed it, and the event loop not have told us yet. What is written then is lost, and
        # afterwards there is no telling whether it was.
        return not self._has_news()

    def _has_news(self) -> bool:
        return self._news is not None and bool(self._news.poll(0))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def when_lost(self, call: Callable[[], None]) -> None:
        """Register a function that is called once when the connection closes."""
        if self._is_lost:
            call()
        else:
            self._on_lost = call

    # What asyncio tells us.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass
        if hasattr(select, "poll"):
            self._news = select.poll()
            self._news.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        self._heard_at = time.monotonic()
        reader, waiter = self._reader, self._waiter
        if reader is None or waiter is None or waiter.done():
            self._keep_alive = False  # bytes that no request asked for
            if self._is_new:
                message = f"{self._place} does not speak HTTP: before any request it sent {data[:40]!r}"
                self._ended = ProviderError(message, type="connection")
            self.close()
            return
        try:
            if not reader.feed(data):
                return
        except (NotHttp, TooLarge) as problem:
            self._fail(self._refusal(problem))
            return
        self._succeed(reader, waiter)

    def connection_lost(self, exc: Exception | None) -> None:
        self._keep_alive = False
        self._is_lost = True
        if self._on_lost is not None:
            self._on_lost()
        reader, waiter = self._reader, self._waiter
        if reader is None or waiter is None or waiter.done():
            self._ended = self._ended or _not_sent(self._broken_off(exc, "before the request was sent"))
            return
        if exc is None:
            try:
                if reader.end():
                    self._succeed(reader, waiter)
                    return
            except (NotHttp, TooLarge) as problem:
                self._fail(self._refusal(problem))
                return
        self._fail(self._broken_off(exc, "in the middle of the answer" if reader.began else "before the answer"))

    def _broken_off(self, exc: Exception | None, where: str) -> ProviderError:
        if exc is not None and is_about_client_certificate(exc):
            return explain(exc, self._place)  # with TLS 1.3, a server says so after the handshake
        return ProviderError(f"the connection to {self._place} broke off {where}", type="broken", retryable=True)

    def _refusal(self, problem: NotHttp | TooLarge) -> ProviderError:
        """The error of an answer that arrived and cannot be used."""
        if isinstance(problem, TooLarge):
            message = f"the answer of {self._place} is longer than {MOST_BODY // (1024 * 1024)} MiB"
            return ProviderError(message, type="too-large")
        return ProviderError(f"{self._place} does not answer in HTTP: {problem}", type="bad-response")

    def _succeed(self, reader: AnswerReader, waiter: asyncio.Future[HttpAnswer]) -> None:
        assert reader.answer is not None
        self._keep_alive = reader.keep_alive
        self._reader = self._waiter = None
        waiter.set_result(reader.answer)

    def _fail(self, error: ProviderError) -> None:
        waiter, self._reader, self._waiter = self._waiter, None, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
        self.close()


async def _open_tunnel(connection: _Connection, target: str, headers: tuple[tuple[str, str], ...]) -> None:
    request = write_request("CONNECT", target, {"host": target, **dict(headers)}, None)
    try:
        answer = await connection.exchange(request, tunnel=True)
    except ProviderError as error:
        error.message = f"the proxy cannot be used: {error.message}"
        raise _not_sent(error) from None
    if not 200 <= answer.status < 300:
        message = f"the proxy answered {answer.status} when asked for {target}"
        kind = "proxy" if answer.status < 500 else "connection"
        raise ProviderError(message, type=kind, status=answer.status, retryable=answer.status >= 500)


def _not_sent(error: ProviderError) -> ProviderError:
    """The error of a connection that broke before the call was sent, and so says nothing about the call."""
    error.type = "connection" if error.type == "broken" else error.type
    return error


async def _resolve(host: str, port: int) -> list[str]:
    with contextlib.suppress(ValueError):
        from ipaddress import ip_address

        return [str(ip_address(host))]  # nothing to look up
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _address_info(address: str, port: int) -> Any:
    """A socket's form of an address; nothing is looked up."""
    return socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)[0]


def _put_first(addresses: list[str], taken: socket.socket) -> None:
    """Put an address that accepted a connection first, so that no dead one is tried before it."""
    if len(addresses) > 1:
        with contextlib.suppress(OSError, ValueError):  # it may be closed already, or fail differently
            address = str(taken.getpeername()[0])
            addresses.remove(address)
            addresses.insert(0, address)
