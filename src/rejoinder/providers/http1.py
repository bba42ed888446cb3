"""HTTP/1.1, as much of it as a client of JSON APIs needs: the bytes of an answer, whichever way they come in.

It knows neither sockets nor the event loop, so that every way of cutting an answer into pieces can be tried. Nothing
is guessed: an answer that breaks the rules is refused.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

MOST_HEAD = 64 * 1024
MOST_BODY = 64 * 1024 * 1024
"""A reply of a language model is thousands of times smaller; what is larger is a mistake or an attack."""

_STATUS_LINE = re.compile(r"HTTP/1\.([01]) (\d{3})(?: |$)")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FORBIDDEN_IN_VALUE = re.compile(r"[\r\n\0]")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")


class NotHttp(Exception):
    """The other side does not speak HTTP/1.1 as it should."""


class TooLarge(Exception):
    """The body is longer than anybody can want."""


class HttpAnswer(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def request_id(self) -> str | None:
        return self.headers.get("x-request-id") or self.headers.get("request-id")


def write_request(
    method: str, path: str, headers: Mapping[str, str], body: bytes | None, once: tuple[tuple[str, str], ...] = ()
) -> bytes:
    """A request; `once` are headers that no other has. Raises ValueError for one that would break out of its line."""
    head = _head(method, path, tuple(headers.items()))
    for name, value in once:
        head += _header(name, value)
    if body is None:
        return f"{head}\r\n".encode("latin-1")
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body


@lru_cache(maxsize=64)
def _head(method: str, path: str, headers: tuple[tuple[str, str], ...]) -> str:
    """What the requests of a target have in common."""
    return f"{method} {path} HTTP/1.1\r\n" + "".join(_header(name, value) for name, value in headers)


def _header(name: str, value: str) -> str:
    if _FORBIDDEN_IN_VALUE.search(value) or not _TOKEN.fullmatch(name):
        raise ValueError(f"the header {name!r} cannot be sent")
    return f"{name}: {value}\r\n"


@lru_cache(maxsize=512)
def _read_header(line: str) -> tuple[str, str]:
    """A header's name and value. Most are the same in every answer."""
    name, colon, value = line.partition(":")
    if not colon or not _TOKEN.fullmatch(name):
        raise NotHttp(f"it has the header {line[:40]!r}")
    return name.lower(), value.strip(" \t")


class AnswerReader:
    """Takes the bytes of one answer. `feed` says whether it is complete; then `answer` holds it."""

    __slots__ = (
        "_buffer",
        "_chunked",
        "_headers",
        "_in_trailer",
        "_left",
        "_most",
        "_pieces",
        "_size",
        "_status",
        "_tunnel",
        "answer",
        "began",
        "keep_alive",
    )

    def __init__(self, *, most_body: int = MOST_BODY, tunnel: bool = False) -> None:
        """`tunnel`: the request is a CONNECT, and what follows a good head is no body but what goes through it."""
        self.answer: HttpAnswer | None = None
        self.keep_alive = False
        """May another request follow on the same connection?"""
        self.began = False
        self._most = most_body
        self._tunnel = tunnel
        self._buffer = b""
        self._status = 0
        self._headers: dict[str, str] | None = None
        self._left: int | None = None
        """Bytes that are still to come, where the head says how many; None: until the connection closes."""
        self._chunked = False
        self._in_trailer = False
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> bool:
        self.began = True
        self._buffer = self._buffer + data if self._buffer else data
        while self._headers is None:
            if not self._read_head():
                return False
        if self._chunked:
            return self._read_chunks()
        if self._left is None:
            self._keep(self._buffer)
            self._buffer = b""
            return False
        if len(self._buffer) < self._left:
            self._left -= len(self._buffer)
            self._keep(self._buffer)
            self._buffer = b""
            return False
        self._keep(self._buffer[: self._left])
        self._finish(self._buffer[self._left :])
        return True

    def end(self) -> bool:
        """The connection was closed by the other side: is the answer complete?"""
        if self._headers is None or self._chunked or self._left is not None:
            return False
        self._finish(b"")
        self.keep_alive = False
        return True

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end > MOST_HEAD or (end < 0 and len(self._buffer) > MOST_HEAD + 3):  # three bytes may belong to the end
            raise NotHttp("its headers do not end")
        if end < 0:
            if not b"HTTP/1.".startswith(self._buffer[:7]):
                raise NotHttp("it does not begin with HTTP/1.")
            return False
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        found = _STATUS_LINE.match(first)
        if found is None:
            raise NotHttp(f"it begins with {first[:40]!r}")
        self._buffer = self._buffer[end + 4 :]
        self._status = int(found[2])
        headers: dict[str, str] = {}
        for line in lines:
            name, value = _read_header(line)
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        if 100 <= self._status < 200:
            return True  # go on with the one that counts
        connection = headers.get("connection", "").lower()
        self.keep_alive = "close" not in connection if found[1] == "1" else "keep-alive" in connection
        self._plan_body(headers)
        self._headers = headers
        return True

    def _plan_body(self, headers: dict[str, str]) -> None:
        encodings = headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length")
        if self._status in (204, 304) or (self._tunnel and 200 <= self._status < 300):
            self._left = 0
        elif encodings:
            if encodings != "chunked":
                raise NotHttp(f"it is sent as {encodings!r}")
            self._chunked = True
        elif length is not None:
            parts = {part.strip() for part in length.split(",")}  # some repeat themselves
            if len(parts) != 1 or not (text := parts.pop()).isascii() or not text.isdigit():
                raise NotHttp(f"it has the length {length[:40]!r}")
            if len(text) > 20 or int(text) > self._most:  # Python refuses to read thousands of digits
                raise TooLarge
            self._left = int(text)

    def _read_chunks(self) -> bool:
        while True:
            if self._left is not None and self._left > 0:
                piece = self._buffer[: self._left]
                self._keep(piece)
                self._buffer = self._buffer[len(piece) :]
                self._left -= len(piece)
                if self._left:
                    return False
            end = self._buffer.find(b"\r\n")
            if end < 0:
                if len(self._buffer) > MOST_HEAD:
                    raise NotHttp("a line between its chunks does not end")
                return False
            line, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
            if self._in_trailer:
                if not line:
                    self._finish(self._buffer)
                    return True
            elif self._left == 0:
                if line:
                    raise NotHttp("a chunk is longer than it says")
                self._left = None
            else:
                found = _CHUNK_SIZE.fullmatch(line)
                if found is None:
                    raise NotHttp(f"it has the chunk size {line[:40]!r}")
                self._left = int(found[1], 16)
                self._in_trailer = self._left == 0

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._most:
            raise TooLarge
        if piece:
            self._pieces.append(piece)

    def _finish(self, rest: bytes) -> None:
        assert self._headers is not None
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        encoding = self._headers.get("content-encoding", "identity").lower()
        if encoding != "identity" and body:
            body = _unpacked(body, encoding, self._most)
        self.keep_alive = self.keep_alive and not rest  # nobody asked for what comes after
        self.answer = HttpAnswer(self._status, self._headers, body)


def _unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """We do not ask for compression; some send it all the same."""
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise NotHttp(f"it is packed as {encoding!r}, which nobody asked for")
    try:
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
        unpacked = unpacker.decompress(body, most + 1)
    except zlib.error as error:
        raise NotHttp(f"it cannot be unpacked: {error}") from None
    if len(unpacked) > most:
        raise TooLarge
    if not unpacker.eof:
        raise NotHttp("it is packed, and its end is missing")
    if unpacker.unused_data:
        raise NotHttp("it is packed, and something follows its end")
    return unpacked
