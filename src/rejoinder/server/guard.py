"""The guard: what stands before every page, file and request.

A server on this machine can be reached by every web page that is open in a browser. So a request counts only if its
`Host` is an address that the server listens on (a foreign name could be made to lead here), if its `Origin`, where a
browser sends one, is the server's own, and, where it changes something, if it is JSON: no form can send that without
asking first, and the question is refused. Another address than loopback needs a token besides; on loopback, without a
token, the connections of other users are refused (`peers`).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rejoinder.runs.seal import code_of
from rejoinder.server.errors import ApiError, of_status
from rejoinder.server.log import log_mistake
from rejoinder.server.settings import LOOPBACK, WILDCARDS, Limits, Settings, as_authority
from rejoinder.words.numbers import in_seconds

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
MOST_ADDRESSES = 1000
"""Addresses whose wrong tokens are counted; the one that is quiet for longest is forgotten."""
MOST_FIELDS = 100
_OWN_SITE = ("same-origin", "none")


class Bucket:
    """So many at once, and so many a second from then on."""

    def __init__(self, size: int, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._size, self._per_s, self._clock = size, per_s, clock
        self._level, self._at = float(size), clock()

    def wait(self) -> float:
        """0 where there is one left, else the seconds until there is."""
        now = self._clock()
        self._level = min(self._size, self._level + (now - self._at) * self._per_s)
        self._at = now
        return 0.0 if self._level >= 1 else (1 - self._level) / self._per_s

    def take(self) -> float:
        """Like `wait`; one that is left is taken."""
        wait = self.wait()
        if wait == 0:
            self._level -= 1
        return wait


class WrongTokens:
    """Slows down those who try tokens, by address. The bucket of an address is asked before a token is compared: while
    it is empty no token counts, so that one more try tells nothing."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def compare(self, address: str, given: str, wanted: str) -> None:
        """Raises ApiError for a token that is wrong, or that comes too soon after wrong ones."""
        place = _network_of(address)
        bucket = self._buckets.get(place)
        if bucket is not None and (wait := bucket.wait()) > 0:
            raise _too_many("there were too many wrong tokens from your address", wait)
        if _is_equal(given, wanted):
            return
        if bucket is None:
            bucket = Bucket(self._limits.wrong_tokens, self._limits.wrong_tokens_per_s, self._clock)
            self._buckets[place] = bucket
        self._buckets.move_to_end(place)
        if len(self._buckets) > MOST_ADDRESSES:
            self._buckets.popitem(last=False)
        bucket.take()
        raise _no_token("the token is not this server's")


class Guard:
    """A plain ASGI application around another one."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._hosts = known_hosts(settings)
        self._changes = Bucket(settings.limits.changes, settings.limits.changes_per_s)
        self._wrong = WrongTokens(settings.limits)
        self._cookie = f"rejoinder-{settings.port}"
        self._pass = "" if settings.token is None else _pass_for(settings.token, self._cookie)

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
        address = (scope.get("client") or ("",))[0]
        given = _bearer(headers)
        if given is not None:
            return self._wrong.compare(address, given, token)
        try:
            written = scope["query_string"].decode("latin-1")
            query = parse_qsl(written, keep_blank_values=True, max_num_fields=MOST_FIELDS)
        except ValueError:
            raise ApiError(400, f"the address has more than {MOST_FIELDS} fields after the `?`") from None
        asked = dict(query).get(TOKEN)
        if asked is not None and scope["method"] == "GET":
            self._wrong.compare(address, asked, token)
            rest = urlencode([(name, value) for name, value in query if name != TOKEN])
            # A path with two slashes at its beginning would lead to another host.
            path = "/" + scope["path"].lstrip("/\\")
            redirect = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
            redirect.set_cookie(self._cookie, self._pass, path="/", httponly=True, samesite="strict")
            return redirect
        known = _cookie_of(headers, self._cookie)
        # A pass cannot be guessed, so wrong ones are not counted: a browser with an old one would lock itself out.
        if known is not None and _is_equal(known, self._pass):
            return None
        programs = "programs send `Authorization: Bearer TOKEN`"
        raise _no_token(f"this server needs its token: add `?token=TOKEN` to the address once; {programs}")

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
            raise ApiError(408, f"the request took longer than {in_seconds(limits.body_s)}") from None
        whole: list[Message] = [{"type": "http.request", "body": b"".join(parts), "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        return replay


async def refuse_stranger(scope: Scope, receive: Receive, send: Send) -> None:
    """The application for connections of other users of this machine."""
    if scope["type"] == "http":
        message = "this viewer belongs to another user of this machine; a viewer with --token lets others in"
        error = ApiError(403, message, code="foreign-user")
        await _shown(error, scope)(scope, receive, _Answer(send, is_read=False))


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


def _is_equal(given: str, wanted: str) -> bool:
    """Takes as long for any text."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode("utf-8", "surrogatepass"))


def _pass_for(token: str, cookie: str) -> str:
    """What the cookie holds. A browser sends it to other ports of the host as well, so it is not the token; nor can it
    be made from a token that is guessed, because it needs a key that stays on this machine."""
    content = f"{cookie} {token}".encode("utf-8", "surrogatepass")
    code = code_of(content)
    if code is None:  # without a key, browsers give the token again to the next server
        code = hmac.new(secrets.token_bytes(32), content, hashlib.sha256).hexdigest().encode()
    return code.decode()


def _network_of(address: str) -> str:
    """Who tries tokens: of IPv6 the network, because one machine has all addresses of its own."""
    try:
        number = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(number, ipaddress.IPv6Address) and number.ipv4_mapped is None:
        return str(ipaddress.ip_network((number, 64), strict=False))
    return str(getattr(number, "ipv4_mapped", None) or number)


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
