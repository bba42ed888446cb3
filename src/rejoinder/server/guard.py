"""The guard: what stands before every page, file and request.

A server on this machine can be reached by every web page that is open in a browser. So a request counts only if its
`Host` is an address that the server listens on (a foreign name could be made to lead here), if its `Origin`, where a
browser sends one, is the server's own, and, where it changes something, if it is JSON: no form can send that without
asking first, and the question is refused. Another address than loopback needs a token besides.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import socket
import time
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rejoinder.server.errors import ApiError, of_status
from rejoinder.server.log import log_mistake
from rejoinder.server.settings import LOOPBACK, WILDCARDS, Settings, as_authority

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""On every answer. Its `Cache-Control` is `no-store` where a handler says nothing else."""
READING = ("GET", "HEAD")
TOKEN = "token"
"""The parameter of an address that gives the token once."""
LONGEST_QUERY = 8192
MOST_FIELDS = 100
_OWN_SITE = ("same-origin", "none")


class Bucket:
    """So many at once, and so many a second from then on."""

    def __init__(self, size: int, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._size, self._per_s, self._clock = size, per_s, clock
        self._level, self._at = float(size), clock()

    def take(self) -> float:
        """0 where there is one left, else the seconds until there is."""
        now = self._clock()
        self._level = min(self._size, self._level + (now - self._at) * self._per_s)
        self._at = now
        if self._level < 1:
            return (1 - self._level) / self._per_s
        self._level -= 1
        return 0.0


class Guard:
    """A plain ASGI application around another one."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._hosts = known_hosts(settings)
        self._changes = Bucket(settings.limits.changes, settings.limits.changes_per_s)
        self._failures = Bucket(settings.limits.changes, settings.limits.changes_per_s)
        self._cookie = f"rejoinder-{settings.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # there are no web sockets
        answer = _Answer(send, is_read=not _has_body(scope))
        try:
            early = self._refuse(scope)
            if early is None:
                body = await self._whole_body(scope, receive)
                answer.is_read |= scope["method"] not in READING
                await self._app(scope, body, answer)
                return
        except ApiError as error:
            early = _shown(error, scope)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log_mistake(f"{scope['method']} {scope['path']}", error)
            if answer.begun:
                return  # the server below sees that it is not whole, and ends the connection
            early = _shown(of_status(500), scope)
        await early(scope, receive, answer)

    def _refuse(self, scope: Scope) -> Response | None:
        """Raises ApiError for a request that does not count. An answer where the guard has one itself."""
        headers = Headers(scope=scope)
        method: str = scope["method"]
        self._check_host(headers)
        self._check_origin(headers, method)
        if len(scope["query_string"]) > LONGEST_QUERY:
            raise ApiError(413, f"the address has more than {LONGEST_QUERY} characters after the `?`")
        if (redirect := self._check_token(scope, headers)) is not None:
            return redirect
        if method in READING:
            return None
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise ApiError(415, "a request that changes something has `Content-Type: application/json`")
        if (wait := self._changes.take()) > 0:
            raise _too_many("there are too many changes at once", wait)
        return None

    def _check_host(self, headers: Headers) -> None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._hosts(hosts[0].lower()):
            raise ApiError(421, "this server does not answer for that `Host`; use the address that it printed")

    def _check_origin(self, headers: Headers, method: str) -> None:
        own = f"http://{headers['host'].lower()}"
        if any(origin.lower() != own for origin in headers.getlist("origin")):
            raise ApiError(403, "another page may not ask this server", code="foreign-origin")
        site = headers.get("sec-fetch-site", "none")
        opened = (
            method == "GET"
            and headers.get("sec-fetch-mode") == "navigate"
            and headers.get("sec-fetch-dest") == "document"
        )
        if site not in _OWN_SITE and not opened:
            raise ApiError(403, "another page may not ask this server", code="foreign-origin")

    def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        token = self._settings.token
        if token is None:
            return None
        given = _bearer(headers)
        if given is not None:
            return self._compare(given, token)
        try:
            written = scope["query_string"].decode("latin-1")
            query = parse_qsl(written, keep_blank_values=True, max_num_fields=MOST_FIELDS)
        except ValueError:
            raise ApiError(400, f"the address has more than {MOST_FIELDS} fields after the `?`") from None
        asked = dict(query).get(TOKEN)
        if asked is not None and scope["method"] == "GET":
            self._compare(asked, token)
            rest = urlencode([(name, value) for name, value in query if name != TOKEN])
            # A path with two slashes at its beginning would lead to another host.
            path = "/" + scope["path"].lstrip("/\\")
            redirect = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
            redirect.set_cookie(self._cookie, self._pass_of(token), path="/", httponly=True, samesite="strict")
            return redirect
        known = _cookie_of(headers, self._cookie)
        if known is not None:
            return self._compare(known, self._pass_of(token))
        programs = "programs send `Authorization: Bearer TOKEN`"
        raise _no_token(f"this server needs its token: add `?token=TOKEN` to the address once; {programs}")

    def _compare(self, given: str, wanted: str) -> None:
        if hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode("utf-8", "surrogatepass")):
            return
        if (wait := self._failures.take()) > 0:
            raise _too_many("there were too many wrong tokens", wait)
        raise _no_token("the token is not this server's")

    def _pass_of(self, token: str) -> str:
        """What the cookie holds. A browser sends it to other ports of the host as well, so it is not the token."""
        return hmac.new(token.encode("utf-8", "surrogatepass"), self._cookie.encode(), hashlib.sha256).hexdigest()

    async def _whole_body(self, scope: Scope, receive: Receive) -> Receive:
        """A changing request is read whole before anything is done; the bytes that come are counted, not those that
        are promised."""
        if scope["method"] in READING:
            return receive
        limits, parts, size = self._settings.limits, list[bytes](), 0
        too_large = ApiError(413, f"the request has more than {limits.body_bytes:,} bytes")
        promised = Headers(scope=scope).get("content-length", "")
        if promised.isdecimal() and int(promised[:20]) > limits.body_bytes:
            raise too_large
        try:
            async with asyncio.timeout(limits.body_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ApiError(400, "the request ended early")
                    part = message.get("body", b"")
                    size += len(part)
                    if size > limits.body_bytes:
                        raise too_large
                    parts.append(part)
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise ApiError(408, f"the request took longer than {limits.body_s:.0f} s") from None
        whole: list[Message] = [{"type": "http.request", "body": b"".join(parts), "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        return replay


class _Answer:
    """Adds the headers that every answer has. `is_read`: was all of the request read? What was not would be waited for
    and thrown away, so the connection ends instead."""

    def __init__(self, send: Send, *, is_read: bool) -> None:
        self._send = send
        self.is_read = is_read
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
            if not self.is_read:
                headers["connection"] = "close"
        await self._send(message)


def _has_body(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def known_hosts(settings: Settings) -> Callable[[str], bool]:
    """Is a `Host` an address that the server listens on?"""
    names = {*LOOPBACK, settings.host.lower()}
    every = settings.host in WILDCARDS
    if every:
        names.add(socket.gethostname().lower())
    ports = (f":{settings.port}", *([""] if settings.port == 80 else []))
    known = {f"{as_authority(name)}{port}" for name in names for port in ports}

    def is_known(host: str) -> bool:
        if host in known:
            return True
        name, colon, port = host.rpartition(":")
        # A number cannot be made to lead elsewhere, as a name can.
        return every and colon == ":" and port == str(settings.port) and _is_number(name)

    return is_known


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _bearer(headers: Headers) -> str | None:
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def _cookie_of(headers: Headers, name: str) -> str | None:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return None
    return None if found is None else found.value


def _no_token(message: str) -> ApiError:
    return ApiError(401, message, headers={"www-authenticate": "Bearer"})


def _too_many(message: str, wait: float) -> ApiError:
    return ApiError(429, message, headers={"retry-after": str(max(1, round(wait + 0.5)))})


def _shown(error: ApiError, scope: Scope) -> Response:
    """For people, words are enough; programs get JSON."""
    accept = Headers(scope=scope).get("accept", "")
    if "text/html" in accept and not scope["path"].startswith(("/api/", "/data/")):
        return PlainTextResponse(f"{error.message}\n", error.status, error.headers)
    return error.response()
