"""The one HTTP transport of a run: connections, timeouts, proxies, certificates.

A request goes out, a status with headers and a body comes back, or a ProviderError that says what is wrong with the
way there. What statuses and bodies mean is for the wire formats to say.

It is our own, on asyncio's sockets, because the client is what a run of many short calls spends its time on:
docs/design/providers.md has the measurements.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from itertools import zip_longest
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from rejoinder._version import __version__
from rejoinder.providers.base import ProviderError
from rejoinder.providers.http1 import MOST_BODY, AnswerReader, HttpAnswer, NotHttp, TooLarge, write_request

CONNECT_TIMEOUT_S = 30.0
ADDRESS_TIMEOUT_S = 8.0
"""For one of several addresses of a host, so that a dead one does not keep us from the next."""
IDLE_S = 50.0
"""Most servers close what was idle for a minute; a request must not meet them at it."""
WARY_S = 2.0
"""How long no connection is used again where one was closed behind our back: longer than a first retry waits, so that
a call whose server hangs up after each answer meets that once, and not until its retries are used up."""
REMEMBER_ADDRESSES_S = 60.0

_CERTIFICATE_FILES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")

Resolver = Callable[[str, int], Awaitable[list[str]]]
"""From a host and a port to addresses. Raises OSError where there are none."""


class Transport:
    """Opens connections in the event loop that uses it, when they are needed, and keeps them for the next request."""

    def __init__(
        self,
        environment: Mapping[str, str],
        resolver: Resolver | None = None,
        on_first_request: Callable[[], None] | None = None,
    ) -> None:
        self._on_first_request = on_first_request
        self._environment = environment
        self._resolve = resolver or _resolve
        self._routes: dict[str, _Route] = {}
        self._idle: dict[_Place, list[_Connection]] = {}
        self._wary_until: dict[_Place, float] = {}
        self._addresses: dict[tuple[str, int], tuple[float, asyncio.Future[list[str]]]] = {}
        self._trusted: ssl.SSLContext | None = None

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        once: tuple[tuple[str, str], ...] = (),
    ) -> HttpAnswer:
        """One request and its answer; `once` are headers that differ from request to request.

        It is never sent twice from here: whether it may be is for the caller to say.
        """
        route = self._routes.get(url) or self._route(url)
        try:
            request = write_request(method, route.path, {**route.headers, **headers}, body, once)
        except (ValueError, UnicodeEncodeError) as error:
            raise ProviderError(f"the request cannot be sent: {error}", type="request") from None
        used = self._take(route.place)
        connection = used or await self._connect(route.place)
        if self._on_first_request is not None:
            # Called as soon as we wait for the answer, and so after the request was written.
            asyncio.get_running_loop().call_soon(self._on_first_request)
            self._on_first_request = None
        try:
            answer = await connection.exchange(request)
        except BaseException as error:
            connection.close()
            if isinstance(error, ProviderError) and error.type == "broken":
                self._drop_idle(route.place)  # what else was idle there is likely to be dead as well
                if used is not None:
                    self._wary_until[route.place] = time.monotonic() + WARY_S
            raise
        if self._is_wary(route.place):
            connection.close()
        elif connection.is_reusable():
            self._idle.setdefault(route.place, []).append(connection)
        return answer

    async def close(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()
        await asyncio.sleep(0)  # sockets are closed by the loop's next turn

    def _is_wary(self, place: _Place) -> bool:
        return bool(self._wary_until) and time.monotonic() < self._wary_until.get(place, 0.0)

    def _drop_idle(self, place: _Place) -> None:
        for connection in self._idle.pop(place, []):
            connection.close()

    def _take(self, place: _Place) -> _Connection | None:
        idle = self._idle.get(place)
        while idle:
            connection = idle.pop()
            if connection.is_fresh():
                return connection
            connection.close()
        return None

    async def _connect(self, place: _Place) -> _Connection:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                if place.proxy is None:
                    tls = self._certificates() if place.tls else None
                    return await self._dial(place.host, place.port, tls)
                return await self._connect_by_proxy(place, place.proxy)
        except TimeoutError:
            message = f"no connection to {place} within {CONNECT_TIMEOUT_S:g} s"
            raise ProviderError(message, type="timeout", retryable=True) from None

    async def _connect_by_proxy(self, place: _Place, proxy: _Proxy) -> _Connection:
        try:
            tls = self._certificates() if proxy.tls else None
            connection = await self._dial(proxy.host, proxy.port, tls)
        except ProviderError as error:
            error.message = f"the proxy cannot be used: {error.message}"
            raise
        if not place.tls:
            return connection
        try:
            await connection.open_tunnel(str(place), proxy.headers)
            await connection.secure(self._certificates(), place.host)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _dial(self, host: str, port: int, tls: ssl.SSLContext | None) -> _Connection:
        """A connection to the first address that takes one."""
        loop = asyncio.get_running_loop()
        place = _authority(host, port)
        known = await self._find(host, port)
        addresses = list(known)
        share = min(ADDRESS_TIMEOUT_S, CONNECT_TIMEOUT_S / len(addresses))
        for address in addresses:
            last = address is addresses[-1]
            try:
                async with asyncio.timeout(None if last else share):
                    _, connection = await loop.create_connection(
                        lambda: _Connection(place),
                        address,
                        port,
                        ssl=tls,
                        server_hostname=host if tls else None,
                        ssl_handshake_timeout=CONNECT_TIMEOUT_S if tls else None,
                    )
                if known[0] != address and address in known:
                    known.remove(address)
                    known.insert(0, address)  # the next one need not try the dead ones again
                return connection
            except (OSError, TimeoutError) as error:
                if last or isinstance(error, ssl.SSLError):
                    raise _explain(error, place) from None
        raise AssertionError("a host has at least one address")

    async def _find(self, host: str, port: int) -> list[str]:
        """The addresses of a host, looked up once for all who ask at the same time."""
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

    def _certificates(self) -> ssl.SSLContext:
        if self._trusted is None:
            self._trusted = trusted_certificates(self._environment)
        return self._trusted

    def _route(self, url: str) -> _Route:
        route = _route(url, self._environment)
        if len(self._routes) < 1000:  # addresses of the generic provider may differ from call to call
            self._routes[url] = route
        return route


class _Proxy(Struct, frozen=True):
    host: str
    port: int
    tls: bool
    headers: tuple[tuple[str, str], ...]


class _Place(Struct, frozen=True):
    """Where a connection leads."""

    host: str
    port: int
    tls: bool
    proxy: _Proxy | None = None

    def __str__(self) -> str:
        return _authority(self.host, self.port)


class _Route(Struct, frozen=True):
    place: _Place
    path: str
    headers: dict[str, str]


class _Connection(asyncio.Protocol):
    """One connection, one exchange at a time."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._transport: asyncio.Transport | None = None
        self._reader: AnswerReader | None = None
        self._waiter: asyncio.Future[HttpAnswer] | None = None
        self._keep_alive = False
        self._idle_since = 0.0
        self._news: select.poll | None = None
        """Tells whether there is something to be read; None where the system has no such thing."""

    async def exchange(self, request: bytes, *, tunnel: bool = False) -> HttpAnswer:
        assert self._transport is not None
        self._reader = AnswerReader(most_body=MOST_BODY, tunnel=tunnel)
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._waiter

    async def open_tunnel(self, target: str, headers: tuple[tuple[str, str], ...]) -> None:
        request = write_request("CONNECT", target, {"host": target, **dict(headers)}, None)
        answer = await self.exchange(request, tunnel=True)
        if not 200 <= answer.status < 300:
            message = f"the proxy answered {answer.status} when asked for {target}"
            kind = "proxy" if answer.status < 500 else "connection"
            raise ProviderError(message, type=kind, status=answer.status, retryable=answer.status >= 500)

    async def secure(self, tls: ssl.SSLContext, host: str) -> None:
        """Go on in secret."""
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(self._transport, self, tls, server_hostname=host)
        except (OSError, TimeoutError) as error:
            raise _explain(error, host) from None
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
        # afterwards nobody could say whether it was.
        return self._news is None or not self._news.poll(0)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # What asyncio tells us.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if hasattr(select, "poll"):
            self._news = select.poll()
            self._news.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        reader, waiter = self._reader, self._waiter
        if reader is None or waiter is None or waiter.done():
            self._keep_alive = False  # nobody asked for this
            self.close()
            return
        try:
            if not reader.feed(data):
                return
        except (NotHttp, TooLarge) as problem:
            self._fail(self._refusal(problem))
            return
        self._succeed(reader, waiter)

    def eof_received(self) -> None:
        pass  # connection_lost follows

    def connection_lost(self, exc: Exception | None) -> None:
        self._keep_alive = False
        reader, waiter = self._reader, self._waiter
        if reader is None or waiter is None or waiter.done():
            return
        if exc is None:
            try:
                if reader.end():
                    self._succeed(reader, waiter)
                    return
            except (NotHttp, TooLarge) as problem:
                self._fail(self._refusal(problem))
                return
        where = "in the middle of the answer" if reader.began else "before the answer"
        self._fail(ProviderError(f"the connection to {self._place} broke off {where}", type="broken", retryable=True))

    def _refusal(self, problem: NotHttp | TooLarge) -> ProviderError:
        """What is wrong with an answer that came and cannot be used."""
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


def _route(url: str, environment: Mapping[str, str]) -> _Route:
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("idna").decode() if parts.hostname else ""
    except (ValueError, UnicodeError):
        parts, port, host = SplitResult("", "", "", "", ""), None, ""
    tls = parts.scheme == "https"
    if parts.scheme not in ("http", "https") or not host:
        shown = f"...@{url.rpartition('@')[2]}" if "@" in url else url  # before it may stand a password
        message = f"`{shown}` is not an address; it has to begin with http:// or https:// and name a host"
        raise ProviderError(message, type="address", ends_target=True)
    port = port or (443 if tls else 80)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    authority = _authority(host, None if port == (443 if tls else 80) else port)
    headers = {"host": authority, "user-agent": f"rejoinder/{__version__}", "accept": "application/json"}
    if parts.username is not None:
        headers["authorization"] = _basic(parts)
    proxy = _proxy(parts.scheme, host, port, environment)
    if proxy is not None and not tls:  # a proxy is asked for the whole address; with TLS it only passes bytes on
        path = f"http://{authority}{path}"
        headers |= dict(proxy.headers)
    return _Route(_Place(host, port, tls, proxy), _quoted(path), headers)


def _authority(host: str, port: int | None) -> str:
    """Host and port as they stand in addresses."""
    shown = f"[{host}]" if ":" in host else host
    return shown if port is None else f"{shown}:{port}"


def _quoted(path: str) -> str:
    """The path as it can stand in a request line."""
    return "".join(c if "!" <= c <= "~" else "".join(f"%{byte:02X}" for byte in c.encode()) for c in path)


def _basic(parts: SplitResult) -> str:
    pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(pair.encode()).decode()}"


def _proxy(scheme: str, host: str, port: int, environment: Mapping[str, str]) -> _Proxy | None:
    """The proxy that the environment names for an address."""
    found = {name.lower(): value for name, value in environment.items() if name.lower().endswith("_proxy") and value}
    address = found.get(f"{scheme}_proxy") or found.get("all_proxy")
    if not address or any(_is_exempt(host, port, entry.strip()) for entry in found.get("no_proxy", "").split(",")):
        return None
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        tls, proxy_host, proxy_port = parts.scheme == "https", parts.hostname, parts.port
    except ValueError:
        parts, tls, proxy_host, proxy_port = SplitResult("", "", "", "", ""), False, None, None
    if parts.scheme not in ("http", "https") or not proxy_host:
        message = f"the proxy that the environment names for {scheme} cannot be used; it has to begin with http://"
        hint = f"; look at {scheme.upper()}_PROXY and ALL_PROXY"
        raise ProviderError(message + hint, type="proxy", ends_target=True)
    headers = (("proxy-authorization", _basic(parts)),) if parts.username is not None else ()
    return _Proxy(proxy_host, proxy_port or (443 if tls else 80), tls, headers)


def _is_exempt(host: str, port: int, entry: str) -> bool:
    """Does an entry of NO_PROXY name the address? A domain stands for the hosts in it; `*` for all."""
    name, _, only_port = entry.lower().partition(":") if entry.count(":") == 1 else (entry.lower(), "", "")
    name = name.removeprefix("*").lstrip(".").strip("[]") or name
    if not name or (only_port and only_port != str(port)):
        return False
    return name == "*" or host.lower() == name or host.lower().endswith(f".{name}")


def trusted_certificates(environment: Mapping[str, str]) -> ssl.SSLContext:
    """The certificates to trust: the system's, or those that the environment names."""
    file = next((environment[name] for name in _CERTIFICATE_FILES if environment.get(name)), None)
    folder = environment.get("SSL_CERT_DIR") or None
    if file and Path(file).is_dir():
        file, folder = None, file
    try:
        return ssl.create_default_context(cafile=file, capath=folder)
    except (OSError, ssl.SSLError) as error:
        message = f"the certificates in {file or folder} cannot be read: {error}"
        hint = f"; look at {', '.join(_CERTIFICATE_FILES)} and SSL_CERT_DIR"
        raise ProviderError(message + hint, type="tls", ends_target=True) from None


async def _resolve(host: str, port: int) -> list[str]:
    with contextlib.suppress(ValueError):
        from ipaddress import ip_address  # noqa: PLC0415

        return [str(ip_address(host))]  # nothing to look up
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    by_family: dict[int, list[str]] = {}
    for family, _, _, _, address in found:
        by_family.setdefault(family, []).append(str(address[0]))
    # By turns, so that a network where one family leads nowhere costs one attempt.
    return list(dict.fromkeys(one for turn in zip_longest(*by_family.values()) for one in turn if one is not None))


def _explain(error: Exception, place: str) -> ProviderError:
    """What went wrong on the way, in words that name the place."""
    if isinstance(error, ssl.SSLCertVerificationError):
        message = f"the certificate of {place} is not trusted: {error.verify_message}; SSL_CERT_FILE can name others"
        return ProviderError(message, type="tls")
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            reason = "it does not speak TLS; perhaps its address begins with http://"
        return ProviderError(f"no secure connection to {place}: {reason}", type="tls")
    if isinstance(error, TimeoutError):
        return ProviderError(f"no connection to {place}: it does not answer", type="connection", retryable=True)
    # asyncio puts the address into the words of the error; its number says what happened.
    number = getattr(error, "errno", None)
    reason = (os.strerror(number) if number else str(error)).lower()
    return ProviderError(f"no connection to {place}: {reason}", type="connection", retryable=True)
