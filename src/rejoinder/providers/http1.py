"""The part of HTTP/1.1 that a client of JSON APIs needs: it reads the bytes of an answer, however they are split.

It uses neither sockets nor the event loop, so that tests can split an answer in every possible way.

An answer has been paid for, so it is read as liberally as other clients do: lines may end with LF only, a header may be
folded, and a body may be compressed although the request did not ask for it. If two readers could disagree on the end
of an answer, it is refused. A truncated answer is never taken for a complete one.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from gzip import GzipFile
from io import BytesIO
from typing import Protocol

from msgspec import Struct

MOST_HEAD = 64 * 1024
MOST_BODY = 64 * 1024 * 1024
"""Maximum bytes of a body. Replies of language models are thousands of times smaller; a larger one is a mistake or an
attack."""

_STATUS_LINE = re.compile(r"HTTP/1\.([01]) (\d{3})(?: |$)")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FORBIDDEN_IN_VALUE = re.compile(r"[\r\n\0]")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")
_FOLD = re.compile(r"\n[ \t]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")

_PLAIN = frozenset({"", "identity", "none"})
"""Content codings that change nothing."""
_NOT_DECODED = frozenset({"br", "zstd", "compress", "x-compress", "dcb", "dcz", "exi", "pack200-gzip", "aes128gcm"})
"""Content codings that exist and that this client cannot decode."""
_MOST_CODINGS = 5


class NotHttp(Exception):
    """The other side violates HTTP/1.1."""


class TooLarge(Exception):
    """The body is longer than any useful one."""


class HttpAnswer(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    framed: bool = True
    """Whether its end was marked: otherwise the end of the connection was its end."""

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def request_id(self) -> str | None:
        return self.headers.get("x-request-id") or self.headers.get("request-id")


class Listener(Protocol):
    """Hears the body of an answer as it comes."""

    @property
    def is_over(self) -> bool:
        """Whether no more of the body is needed."""
        ...

    def begins(self, status: int, headers: Mapping[str, str]) -> bool:
        """Whether it listens to the answer with this head."""
        ...

    def hear(self, data: bytes) -> None: ...


def write_request(
    method: str, path: str, headers: Mapping[str, str], body: bytes | None, once: tuple[tuple[str, str], ...] = ()
) -> bytes:
    """The bytes of a request; `once`: headers of this request only. Raises ValueError for a header that contains a line
    break."""
    head = _head(method, path, tuple(headers.items()))
    for name, value in once:
        head += _header(name, value)
    if body is None:
        return f"{head}\r\n".encode("latin-1")
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body


@lru_cache(maxsize=64)
def _head(method: str, path: str, headers: tuple[tuple[str, str], ...]) -> str:
    """The head that all requests of a target share."""
    return f"{method} {path} HTTP/1.1\r\n" + "".join(_header(name, value) for name, value in headers)


def _header(name: str, value: str) -> str:
    if _FORBIDDEN_IN_VALUE.search(value) or not _TOKEN.fullmatch(name):
        raise ValueError(f"the header {name!r} cannot be sent")
    return f"{name}: {value}\r\n"


@lru_cache(maxsize=512)
def _read_header(line: str) -> tuple[str, str]:
    """A header's name and value, cached: most are the same in every answer."""
    name, colon, value = line.partition(":")
    if not colon or not _TOKEN.fullmatch(name):
        raise NotHttp(f"it has the header {line[:40]!r}")
    return name.lower(), value.strip(" \t")


class AnswerReader:
    """Reads the bytes of one answer. `feed` returns whether it is complete; then `answer` holds it."""

    __slots__ = ("_body", "_headers", "_input", "_listener", "_status", "_tunnel", "answer", "began", "keep_alive")

    def __init__(self, *, most_body: int = MOST_BODY, tunnel: bool = False, listener: Listener | None = None) -> None:
        """`tunnel`: the request is a CONNECT, so the bytes after a successful head belong to the tunnel, not
        to a body."""
        self.answer: HttpAnswer | None = None
        self.keep_alive = False
        """Whether another request may follow on the same connection."""
        self.began = False
        self._tunnel = tunnel
        self._listener = listener
        self._input = _Input()
        self._status = 0
        self._headers: dict[str, str] | None = None
        self._body = _Body(most_body)

    def feed(self, data: bytes) -> bool:
        self.began = True
        self._input.add(data)
        while self._headers is None:
            if not self._read_head():
                return False
        if self._body.read(self._input):
            self._finish()
            return True
        if self._body.listener is None or not self._body.listener.is_over:
            return False
        self._finish()
        self.keep_alive = False
        return True

    def end(self) -> bool:
        """Note that the other side closed the connection; return whether the answer is complete."""
        if self._headers is None or not self._body.ends_with_connection:
            return False
        self._finish(framed=False)
        self.keep_alive = False
        return True

    def _read_head(self) -> bool:
        head = self._input.take_head()
        if head is None:
            return False
        first, *lines = _lines(head)
        found = _STATUS_LINE.match(first)
        if found is None:
            raise NotHttp(f"it begins with {first[:40]!r}")
        self._status = int(found[2])
        headers: dict[str, str] = {}
        for line in lines:
            name, value = _read_header(line)
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        if 100 <= self._status < 200:
            return True  # continue with the one that counts
        connection = headers.get("connection", "").lower()
        self.keep_alive = "close" not in connection if found[1] == "1" else "keep-alive" in connection
        is_empty = self._status in (204, 304) or (self._tunnel and 200 <= self._status < 300)
        self._body.plan({"content-length": "0"} if is_empty else headers)
        self._headers = headers
        if self._listener is not None and self._listener.begins(self._status, headers):
            self._body.listener = self._listener
        return True

    def _finish(self, *, framed: bool = True) -> None:
        assert self._headers is not None
        body = self._body.content(self._headers.get("content-encoding"))
        self.keep_alive = self.keep_alive and self._input.is_read  # what comes after was not asked for
        self.answer = HttpAnswer(self._status, self._headers, body, framed)


class _Input:
    """Received bytes that are not parsed yet."""

    __slots__ = ("_buffer", "_read")

    def __init__(self) -> None:
        self._buffer = b""
        self._read = 0
        """Bytes of the buffer already parsed. The buffer is cut once per received piece, not once per line."""

    @property
    def is_read(self) -> bool:
        return self._read >= len(self._buffer)

    def add(self, data: bytes) -> None:
        self._buffer = data if self.is_read else self._buffer[self._read :] + data
        self._read = 0

    def take_head(self) -> str | None:
        """The lines of a head without the empty line at its end; None while the end is missing."""
        buffer, start = self._buffer, self._read
        end = buffer.find(b"\n\r\n", start)
        bare = buffer.find(b"\n\n", start, end if end >= 0 else len(buffer))
        end, after = (bare, bare + 2) if bare >= 0 else (end, end + 3)
        if (end if end >= 0 else len(buffer) - 2) - start > MOST_HEAD:  # two bytes may belong to the end
            raise NotHttp("its headers do not end")
        if end < 0:
            if not b"HTTP/1.".startswith(buffer[start : start + 7]):
                raise NotHttp("it does not begin with HTTP/1.")
            return None
        self._read = after
        return buffer[start:end].decode("latin-1")

    def take_line(self) -> bytes | None:
        """A line between chunks; None while its end is missing."""
        end = self._buffer.find(b"\n", self._read)
        if (end if end >= 0 else len(self._buffer) - 1) - self._read > MOST_HEAD:
            raise NotHttp("a line between its chunks does not end")
        if end < 0:
            return None
        line = self._buffer[self._read : end]
        self._read = end + 1
        if not line.endswith(b"\r"):  # a proxy before us may see the end of a chunk elsewhere
            raise NotHttp(f"a line between its chunks does not end in CR LF: {line[:40]!r}")
        return line[:-1]

    def take(self, most: int | None) -> bytes:
        piece = self._buffer[self._read : None if most is None else self._read + most]
        self._read += len(piece)
        return piece


class _Body:
    """The body of an answer: its framing, and what has arrived."""

    __slots__ = ("_chunked", "_in_trailer", "_left", "_most", "_pieces", "_size", "listener")

    def __init__(self, most: int) -> None:
        self._most = most
        self._left: int | None = None
        """Bytes still to come, if the head gives a length; None: until the connection closes."""
        self._chunked = False
        self._in_trailer = False
        self._pieces: list[bytes] = []
        self._size = 0
        self.listener: Listener | None = None

    @property
    def ends_with_connection(self) -> bool:
        return not self._chunked and self._left is None

    def plan(self, headers: dict[str, str]) -> None:
        encodings = headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length")
        if encodings:
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

    def read(self, source: _Input) -> bool:
        """Take bytes of the body; return whether it is complete."""
        if self._chunked:
            return self._read_chunks(source)
        self._left = self._take(source, self._left)
        return self._left == 0

    def _read_chunks(self, source: _Input) -> bool:
        while True:
            if self._left:
                self._left = self._take(source, self._left)
                if self._left:
                    return False
            line = source.take_line()
            if line is None:
                return False
            if self._in_trailer:
                if not line:
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

    def _take(self, source: _Input, most: int | None) -> int | None:
        """Take up to `most` bytes of the body; return how many are still to come."""
        piece = source.take(most)
        self._size += len(piece)
        if self._size > self._most:
            raise TooLarge
        if piece:
            self._pieces.append(piece)
            if self.listener is not None:
                self.listener.hear(piece)
        return None if most is None else most - len(piece)

    def content(self, coding: str | None) -> bytes:
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        return _decoded(body, coding.lower(), self._most) if coding and body else body


def _lines(head: str) -> list[str]:
    """The lines of a head, with folded ones in one piece."""
    lines = head.replace("\r\n", "\n").removesuffix("\r")
    if ("\n " in lines or "\n\t" in lines) and not lines.partition("\n")[2].startswith((" ", "\t")):
        lines = _FOLD.sub(" ", lines)
    return lines.split("\n")


def _decoded(body: bytes, codings: str, most: int) -> bytes:
    """The body without its content codings; the last one named was applied last."""
    names = [name.strip() for name in codings.split(",")]
    if len(names) > _MOST_CODINGS:
        raise NotHttp(f"it has {len(names)} content encodings")
    for name in reversed(names):
        if body and name not in _PLAIN:
            body = _decode(body, name, most)
    return body


def _decode(body: bytes, coding: str, most: int) -> bytes:
    decode = _DECODERS.get(coding)
    if decode is None:
        if coding in _NOT_DECODED or not _is_text(body):
            raise NotHttp(f"it has the content encoding {coding[:40]!r}, which was not asked for and is not supported")
        return body  # some name a charset there, or the type of the content
    try:
        decoded = decode(body, most)
    except (zlib.error, OSError) as error:  # of the gzip module
        raise NotHttp(f"its content encoding is {coding!r}, and it cannot be decoded: {error}") from None
    except EOFError:
        raise NotHttp(f"its content encoding is {coding!r}, and its end is missing") from None
    if len(decoded) > most:
        raise TooLarge
    return decoded


def _gunzip(body: bytes, most: int) -> bytes:
    """Decompress one or more members, up to one byte more than the limit."""
    with GzipFile(fileobj=BytesIO(body)) as file:
        return file.read(most + 1)


def _inflate(body: bytes, most: int) -> bytes:
    """Decompress `deflate`: zlib's format by the standard, but the raw format in answers of some servers."""
    try:
        return _inflate_as(zlib.MAX_WBITS, body, most)
    except zlib.error as error:
        try:
            return _inflate_as(-zlib.MAX_WBITS, body, most)
        except zlib.error:
            raise error from None


def _inflate_as(format: int, body: bytes, most: int) -> bytes:
    inflater = zlib.decompressobj(format)
    inflated = inflater.decompress(body, most + 1)
    if len(inflated) <= most and not inflater.eof:
        raise EOFError
    if inflater.unused_data:
        raise zlib.error("data follows its end")
    return inflated


_DECODERS: Mapping[str, Callable[[bytes, int], bytes]] = {"gzip": _gunzip, "x-gzip": _gunzip, "deflate": _inflate}


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return not _CONTROL.search(body)
