"""Sends the spans of a run to a collector, over HTTP as OTLP/JSON.

The protocol is one POST for each batch, so the standard library is enough, and no part of the OpenTelemetry SDK is
needed. Address and headers may come from the variables that all OpenTelemetry exporters read.
"""

from __future__ import annotations

import gzip
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from http.client import HTTPException
from threading import Thread
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

import msgspec
from msgspec import Struct

from rejoinder.errors import RejoinderError, UsageError
from rejoinder.exports.otlp import requests
from rejoinder.views.cases import Run
from rejoinder.words.inert import one_line
from rejoinder.words.numbers import both_ends, in_seconds

TIMEOUT_S = 10.0
ATTEMPTS = 5
LONGEST_WAIT_S = 30.0
_PATH = "/v1/traces"
_MOST_READ = 1 << 16
_REFUSED = 300
_AGAIN = frozenset((429, 502, 503, 504))
"""What the protocol wants to be tried again."""


class ExportError(RejoinderError):
    """A collector did not take the spans."""

    exit_code = 3


class Endpoint(Struct, frozen=True):
    url: str
    headers: dict[str, str] = {}
    timeout_s: float = TIMEOUT_S
    """For a request and its whole answer."""


class Sent(Struct, frozen=True):
    spans: int
    rejected: int = 0
    message: str = ""
    """What the collector says about those that it rejected."""


def find_endpoint(environment: Mapping[str, str], url: str | None = None) -> Endpoint:
    """The collector by its address, else by the variables of OpenTelemetry. An address without a path gets the usual
    one. Raises UsageError."""
    traces, base = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), environment.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    found = url or traces or (base and base.rstrip("/") + _PATH)
    if not found:
        raise UsageError(
            "no collector is named", "Give its address, or set OTEL_EXPORTER_OTLP_ENDPOINT, as http://localhost:4318."
        )
    _check(found)
    found = found.rstrip("/") + _PATH if urlsplit(found).path in ("", "/") else found
    written = environment.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS") or environment.get("OTEL_EXPORTER_OTLP_HEADERS", "")
    return Endpoint(found, _read_headers(written))


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        has_password = parts.username is not None
    except ValueError:
        is_usable, has_password = False, False
    if has_password:
        raise UsageError(
            "the collector's address holds a user name or password", "Put them into OTEL_EXPORTER_OTLP_HEADERS instead."
        )
    if not is_usable or not url.isascii() or any(sign.isspace() for sign in url):
        raise UsageError(
            f"{one_line(both_ends(url, 200))} is not the address of a collector", "Write it as http://HOST:4318."
        )


def _read_headers(written: str) -> dict[str, str]:
    """`name=value` pairs between commas; values may be percent-encoded."""
    headers: dict[str, str] = {}
    for pair in filter(None, map(str.strip, written.split(","))):
        name, equals, value = pair.partition("=")
        name, value = name.strip(), unquote(value.strip())
        if not equals or not name.replace("-", "").replace("_", "").isalnum() or not value.isprintable():
            raise UsageError(
                "OTEL_EXPORTER_OTLP_HEADERS has a part that is not a header", "Write it as name=value,name=value."
            )
        headers[name] = value
    return headers


def send(run: Run, endpoint: Endpoint, *, content: bool = False, wait: Callable[[float], None] = time.sleep) -> Sent:
    """Send all spans. `content`: also what was said, which the conventions leave out unless it is asked for. Raises
    ExportError."""
    opener = build_opener(_NoRedirect(), HTTPSHandler(context=_tls()))
    spans = rejected = 0
    message = ""
    for document, count in requests(run, content=content):
        answer = _post(opener, endpoint, document, wait)
        spans += count
        rejected += answer.rejected
        message = message or answer.message
    return Sent(spans, rejected, message)


class _NoRedirect(HTTPRedirectHandler):
    """A key in a header is for the named collector alone."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _tls() -> ssl.SSLContext:
    if sys.platform in ("darwin", "win32"):
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return ssl.create_default_context()


def _post(opener: OpenerDirector, endpoint: Endpoint, document: str, wait: Callable[[float], None]) -> Sent:
    body = gzip.compress(document.encode(), 6, mtime=0)
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip", "User-Agent": "rejoinder"}
    reason, pause = "", 0.0
    for attempt in range(ATTEMPTS):
        if attempt:
            wait(pause)
        request = Request(endpoint.url, body, {**headers, **endpoint.headers}, method="POST")
        pause = min(2.0**attempt, LONGEST_WAIT_S)
        try:
            answer = _within(endpoint.timeout_s, partial(_ask, opener, request, endpoint.timeout_s))
            if answer.status < _REFUSED:
                return _read_answer(answer.body)
            reason = f"it answers HTTP {answer.status}: {_shown(answer.body)}".rstrip(": ")
            if answer.status not in _AGAIN:
                break
            pause = _asked_for(answer.retry_after) or pause
        except (URLError, HTTPException, TimeoutError, OSError) as error:
            cause = error.reason if isinstance(error, URLError) else error
            reason = one_line(both_ends(str(cause) or type(cause).__name__, 300))
            if isinstance(cause, ssl.SSLCertVerificationError):
                break
    raise ExportError(
        f"the collector at {endpoint.url} did not take the spans: {reason}",
        "Check its address and that it takes OTLP/HTTP.",
    )


class _HttpAnswer(Struct, frozen=True):
    status: int
    body: bytes
    retry_after: str | None = None


def _ask(opener: OpenerDirector, request: Request, timeout_s: float) -> _HttpAnswer:
    try:
        with opener.open(request, timeout=timeout_s) as response:
            return _HttpAnswer(response.status, response.read(_MOST_READ))
    except HTTPError as error:
        with error:
            return _HttpAnswer(error.code, error.read(_MOST_READ), error.headers.get("Retry-After"))


def _within(seconds: float, work: Callable[[], _HttpAnswer]) -> _HttpAnswer:
    """What the work gives; TimeoutError where it takes longer as a whole. The time limit of a socket begins anew with
    every byte, so a collector that sends one now and then would never be given up. The thread ends with the process."""
    ended: Future[_HttpAnswer] = Future()

    def run() -> None:
        try:
            ended.set_result(work())
        except BaseException as error:
            ended.set_exception(error)

    Thread(target=run, daemon=True).start()
    try:
        return ended.result(seconds)
    except TimeoutError:
        raise TimeoutError(f"it did not answer within {in_seconds(seconds)}") from None


def _shown(answer: bytes) -> str:
    return one_line(both_ends(answer.decode("utf-8", "replace"), 300))


def _asked_for(seconds: str | None) -> float | None:
    return min(float(seconds), LONGEST_WAIT_S) if seconds is not None and seconds.strip().isdecimal() else None


class _Partial(Struct, rename="camel"):
    rejected_spans: str | int = 0
    error_message: str = ""


class _Answer(Struct, rename="camel"):
    partial_success: _Partial | None = None


def _read_answer(body: bytes) -> Sent:
    """What was rejected. An answer that is no JSON says nothing: the status was a success."""
    try:
        partial = msgspec.json.decode(body or b"{}", type=_Answer).partial_success or _Partial()
        return Sent(0, max(0, int(partial.rejected_spans)), one_line(both_ends(partial.error_message, 300)))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return Sent(0)
