"""Our own HTTP client: answers read however they are cut, and the transport against real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import re
import resource
import socket
import ssl
import subprocess
import threading
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from rejoinder.providers import http1, http_client
from rejoinder.providers.base import ProviderError
from rejoinder.providers.http1 import AnswerReader, HttpAnswer, NotHttp, TooLarge, write_request
from rejoinder.providers.http_client import Transport
from rejoinder.testing import FakeServer, Fault
from tests.kit import PATIENCE_S, bounded, deaf

T = TypeVar("T")

BODY = b'{"model": "m", "messages": [{"role": "user", "content": "Hello?"}]}'


# Answers as bytes

TOKEN = "!#$%&'*+-.^_`|~0123456789ABCXYZabcxyz"
FRAMING = {"content-length", "transfer-encoding", "content-encoding", "connection"}

FOLD = "\N{EURO SIGN}"
"""Stands for a line break inside of a header's value."""

names = st.text(TOKEN, min_size=1, max_size=12).filter(lambda name: name.lower() not in FRAMING)
values = st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\0"), max_size=30)
header_lists = st.lists(st.tuples(names, values), max_size=6)
extensions = st.text(st.characters(max_codepoint=127, exclude_characters="\r\n"), max_size=8)


class Written(Struct):
    """The bytes of an answer, and what should be read from them."""

    data: bytes
    answer: HttpAnswer
    keep_alive: bool
    until_close: bool


def write_head(first: str, headers: list[tuple[str, str]], end: str = "\r\n") -> bytes:
    """A head whose lines end as they should, or in LF alone. A space at the start of a value may be a fold."""
    lines = [first, *(f"{name}:{value}" for name, value in headers)]
    return "".join(line.replace(FOLD, f"{end} ") + end for line in [*lines, ""]).encode("latin-1")


def merge(headers: list[tuple[str, str]]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for written, value in headers:
        name, plain = written.lower(), value.replace(FOLD, " ").strip(" \t")
        merged[name] = f"{merged[name]}, {plain}" if name in merged else plain
    return merged


@st.composite
def chunked(draw: st.DrawFn, body: bytes) -> bytes:
    places = sorted(draw(st.sets(st.integers(1, max(1, len(body) - 1)), max_size=4)))
    data = b""
    for start, end in zip([0, *places], [*places, len(body)], strict=True):
        piece = body[start:end]
        if piece:
            size = draw(st.sampled_from(["{:x}", "{:X}", "00{:x}"])).format(len(piece))
            extension = draw(st.none() | extensions)
            line = size if extension is None else f"{size};{extension}"
            data += line.encode() + b"\r\n" + piece + b"\r\n"
    end = draw(st.sampled_from([b"0", b"000", b"0;done"])) + b"\r\n"
    trailers = b"".join(f"{name}:{value}\r\n".encode("latin-1") for name, value in draw(header_lists))
    return data + end + trailers + b"\r\n"


def deflated(body: bytes) -> bytes:
    """In the raw format, without zlib's head and checksum."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda body: gzip.compress(body, mtime=0),
    "x-gzip": lambda body: gzip.compress(body[:7], mtime=0) + gzip.compress(body[7:], mtime=0),
    "deflate": zlib.compress,
    "DEFLATE": deflated,
    "gzip, deflate": lambda body: deflated(gzip.compress(body, mtime=0)),
    "GZip, none": lambda body: gzip.compress(body, mtime=0),
}
"""Content encodings, and bodies as they are sent with them."""


@st.composite
def answers(draw: st.DrawFn) -> Written:
    version = draw(st.sampled_from(["1.1", "1.1", "1.0"]))
    status = draw(st.integers(200, 599))
    reason = draw(st.sampled_from(["", " ", " OK", " Pas trouv\xe9 du tout"]))
    headers = draw(header_lists)
    body = draw(st.binary(max_size=60))
    coding = draw(st.sampled_from([None, None, "identity", "none", "", *PACKED]))
    framing = draw(st.sampled_from(["length", "chunked", "close"]))
    connection = draw(st.sampled_from([None, "close", "Close", "keep-alive", "Keep-Alive"]))
    if status in (204, 304):
        body, coding, framing = b"", None, "none"
    sent = PACKED.get(coding or "", bytes)(body)
    if coding is not None:
        headers.append(("Content-Encoding", coding))
    if connection is not None:
        headers.append(("Connection", connection))
    if draw(st.booleans()):
        headers.append(("Folded", f"{FOLD}one{FOLD}two {FOLD}"))
    data = sent
    if framing == "length":
        length = draw(st.sampled_from([" {}", "{}  ", " {0}, {0}", FOLD + "{}"]))
        headers.append(("Content-Length", length.format(len(sent))))
    elif framing == "chunked":
        headers.append((draw(st.sampled_from(["Transfer-Encoding", "transfer-encoding"])), " Chunked"))
        data = draw(chunked(sent))
    interim = b""
    for _ in range(draw(st.integers(0, 2))):
        first = f"HTTP/1.1 {draw(st.sampled_from([100, 102, 103]))} Wait"
        interim += write_head(first, draw(header_lists))
    headers = draw(st.permutations(headers))
    asked = (connection or "").lower()
    keep_alive = framing != "close" and (asked != "close" if version == "1.1" else asked == "keep-alive")
    head = write_head(f"HTTP/{version} {status}{reason}", headers, draw(st.sampled_from(["\r\n", "\n"])))
    answer = HttpAnswer(status, merge(headers), body, framed=framing != "close")
    return Written(interim + head + data, answer, keep_alive, framing == "close")


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(ends)]


cuts = st.lists(st.integers(0, 10_000), max_size=12)


def read(pieces: list[bytes], most_body: int = http1.MOST_BODY) -> HttpAnswer | str:
    """The answer, or in one word what became of it. The connection is closed after the last piece."""
    reader = AnswerReader(most_body=most_body)
    try:
        done = any(reader.feed(piece) for piece in pieces) or reader.end()
    except NotHttp as problem:
        assert str(problem)
        return "not http"
    except TooLarge:
        return "too large"
    if not done:
        assert reader.answer is None
        return "incomplete"
    assert reader.answer is not None
    return reader.answer


@pytest.mark.slow
@given(answers(), cuts)
@bounded(200)
def test_an_answer_reads_the_same_however_it_is_cut(written: Written, places: list[int]) -> None:
    reader = AnswerReader()
    *pieces, last = cut(written.data, places)
    assert not any(reader.feed(piece) for piece in pieces)
    assert reader.feed(last) is not written.until_close
    if written.until_close:
        assert reader.answer is None
        assert reader.end()
    assert reader.answer == written.answer
    assert reader.keep_alive is written.keep_alive


@pytest.mark.slow
@given(answers())
@bounded(50)
def test_an_answer_reads_the_same_byte_by_byte(written: Written) -> None:
    assert read([bytes([byte]) for byte in written.data]) == written.answer


@pytest.mark.slow
@given(answers(), st.data())
@bounded(150)
def test_an_answer_that_is_cut_off_is_never_taken_for_whole(written: Written, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(written.data) - 1))
    outcome = read([written.data[:end]])
    if written.until_close and isinstance(outcome, HttpAnswer):  # nothing says how much there should be
        assert written.answer.body.startswith(outcome.body)
    elif written.until_close:  # only what is packed can tell that its end is missing
        assert outcome in ("incomplete", "not http")
    else:
        assert outcome == "incomplete"


@pytest.mark.slow
@given(answers(), st.binary(min_size=1, max_size=20))
@bounded(100)
def test_an_unrequested_answer_ends_the_connection(written: Written, more: bytes) -> None:
    if written.until_close:
        return
    reader = AnswerReader()
    assert reader.feed(written.data + more)
    assert reader.answer == written.answer
    assert not reader.keep_alive


# Anything at all

first_lines = st.sampled_from(
    [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200\r\n", b"HTTP/1.1 204 \r\n", b"HTTP/2 200\r\n", b"HTTP/1.1 100 \r\n\r\n"]
)
pieces_of_http = st.sampled_from(
    [
        *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 \r\n\r\n"),
        *(b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"Content-Length: \xb2\r\n", b"Content-Length: 1e3\r\n"),
        *(b"Content-Length: 5, 6\r\n", b"Content-Length:\r\n", b"Content-Length: " + b"9" * 5000 + b"\r\n"),
        *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"Content-Encoding: gzip\r\n"),
        *(b"Content-Encoding: br\r\n", b"Content-Encoding: deflate\r\n", b"Connection: close\r\n", b"no colon\r\n"),
        *(
            b": no name\r\n",
            b"a b: c\r\n",
            b"\r\n",
            b"\n",
            b"\r",
            b"5\r\nhello\r\n",
            b"0\r\n\r\n",
            b"ffffffffffffffff\r\n",
        ),
        *(b"fffffffffffffff\r\n", b"5;x=y\r\n", b"-5\r\n", b"0x5\r\n", b"5 \r\nhello\r\n", b"hello", b"HTTP/1.", b"\0"),
        *(gzip.compress(b"hello", mtime=0), zlib.compress(b"hello"), gzip.compress(bytes(5000), mtime=0), b"\x1f\x8b"),
    ]
)
nonsense = (
    st.binary(max_size=80)
    | st.lists(pieces_of_http, max_size=8).map(b"".join)
    | st.tuples(first_lines, st.lists(pieces_of_http, max_size=8).map(b"".join)).map(b"".join)
)


@pytest.mark.slow
@given(nonsense, cuts)
@bounded(300)
def test_whatever_comes_is_read_or_refused_and_cuts_do_not_matter(data: bytes, places: list[int]) -> None:
    assert read(cut(data, places), most_body=1000) == read([data], most_body=1000)


@pytest.mark.slow
@given(answers(), st.binary(max_size=4), st.integers(0, 10_000), st.integers(0, 6), cuts)
@bounded(200)
def test_a_damaged_answer_is_read_or_refused(
    written: Written, patch: bytes, at: int, length: int, places: list[int]
) -> None:
    at %= len(written.data)
    damaged = written.data[:at] + patch + written.data[at + length :]
    assert read(cut(damaged, places)) == read([damaged])


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "does not begin with HTTP/1."),
        (b"HTTP/2 200\r\n\r\n", "begins with 'HTTP/2 200'"),
        (b"HTTP/1.1 abc OK\r\n\r\n", "begins with 'HTTP/1.1 abc OK'"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "begins with"),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "the header 'no colon'"),
        (b"HTTP/1.1 200 OK\r\nspace : x\r\n\r\n", "the header 'space : x'"),
        (b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n", "the header ' folded: x'"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5, 6\r\n\r\n", "the length '5, 6'"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n", "the length '-5'"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: \xb2\r\n\r\n", "the length"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n", "sent as 'gzip, chunked'"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "the chunk size b'zz'"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n", "the chunk size b'-1'"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc\r\n", "longer than it says"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 1\r\n\r\nx",
            "encoding 'br'",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-encoding: lz4\r\ncontent-length: 2\r\n\r\n\x04\xff",
            "encoding 'lz4'",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-encoding: lz4\r\ncontent-length: 2\r\n\r\n\x04a",
            "encoding 'lz4'",
        ),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding:,,,,,\r\ncontent-length: 1\r\n\r\nx", "6 content encodings"),
        (b"HTTP/1.1 200 OK\ntransfer-encoding: chunked\n\n1\na\n0\n\n", "does not end in CR LF: b'1'"),
        (b"HTTP/1.1 200 OK\r\nconnection\r\n : close\r\n\r\n", "the header 'connection : close'"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nabcd", "cannot be decoded"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 12\r\n\r\n"
            + gzip.compress(b"x", mtime=0)[:12],
            "end",
        ),
    ],
)
def test_what_is_not_http_is_named(data: bytes, problem: str) -> None:
    with pytest.raises(NotHttp, match=re.escape(problem)):
        AnswerReader().feed(data)


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(b"hello", mtime=0) + b"more"),
        ("gzip", gzip.compress(b"hello", mtime=0) * 2 + b"more"),
        ("deflate", zlib.compress(b"hello") + b"more"),
        ("deflate", deflated(b"hello") + b"more"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"hello", mtime=0) + b"more", mtime=0)),
    ],
    ids=["gzip", "two-members", "zlib", "raw", "gzip-in-gzip"],
)
def test_compressed_bodies_that_are_followed_by_something_are_refused(coding: str, body: bytes) -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: {coding}\r\ncontent-length: {len(body)}\r\n\r\n"
    with pytest.raises(NotHttp, match="cannot be decoded"):
        AnswerReader().feed(head.encode() + body)


@given(st.sampled_from(sorted(PACKED)), st.binary(min_size=1, max_size=200), st.data())
def test_a_compressed_body_that_is_cut_off_is_never_taken_for_whole(
    coding: str, body: bytes, data: st.DataObject
) -> None:
    whole = PACKED[coding](body)
    part = whole[: data.draw(st.integers(1, len(whole) - 1))]
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: {coding}\r\ncontent-length: {len(part)}\r\n\r\n"
    outcome = read([head.encode() + part])
    if coding == "x-gzip" and isinstance(outcome, HttpAnswer):
        assert outcome.body == body[:7]  # the first of two members; nothing says that there was another
    else:
        assert outcome == "not http"


# Limits


@pytest.mark.slow
@pytest.mark.parametrize("size", [7, 1000, 10_000_000])
def test_a_head_has_a_limit_however_it_is_cut(size: int) -> None:
    head = b"HTTP/1.1 200 OK\r\nx: " + b"y" * http1.MOST_HEAD + b"\r\ncontent-length: 0\r\n\r\n"
    reader = AnswerReader()
    with pytest.raises(NotHttp, match="headers do not end"):
        for start in range(0, len(head), size):
            reader.feed(head[start : start + size])


def test_a_long_head_within_the_limit_is_read() -> None:
    value = b"y" * (http1.MOST_HEAD - 100)
    answer = read([b"HTTP/1.1 200 OK\r\nx: " + value + b"\r\ncontent-length: 0\r\n\r\n"])
    assert isinstance(answer, HttpAnswer)
    assert len(answer.headers["x"]) == len(value)


class Counted(bytes):
    """Counts the bytes that are copied out of it."""

    copied: list[int]

    def __getitem__(self, key: Any) -> Any:
        piece = super().__getitem__(key)
        if isinstance(piece, int):
            return piece
        self.copied.append(len(piece))
        counted = Counted(piece)
        counted.copied = self.copied
        return counted


@pytest.mark.parametrize("unit", [b"1\r\na\r\n", b"HTTP/1.1 103 Wait\r\n\r\n"], ids=["chunks", "interim-answers"])
def test_each_byte_is_copied_once(unit: bytes) -> None:
    """However small the pieces are in which an answer is framed."""
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    data = Counted(head + unit * 10_000 if unit.startswith(b"1") else unit * 10_000)
    data.copied = []
    assert not AnswerReader().feed(data)
    assert sum(data.copied) <= 2 * len(data)


def test_a_line_between_chunks_has_a_limit() -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    assert read([head, b"5;" + b"x" * 2 * http1.MOST_HEAD]) == "not http"
    assert read([head, b"0\r\nx: " + b"x" * 2 * http1.MOST_HEAD]) == "not http"


def framed(body: bytes, framing: str) -> bytes:
    if framing == "length":
        return b"content-length: %d\r\n\r\n" % len(body) + body
    if framing == "chunked":
        middle = len(body) // 2
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(half), half) for half in (body[:middle], body[middle:]) if half)
        return b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    return b"\r\n" + body


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
@pytest.mark.parametrize("coding", [None, *PACKED])
def test_a_body_has_a_limit(framing: str, coding: str | None) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + (f"content-encoding: {coding}\r\n".encode() if coding else b"")
    for size, outcome in ((1000, "read"), (1001, "too large")):
        body = PACKED[coding](bytes(size)) if coding else bytes(size)
        data = head + framed(body, framing)
        for pieces in ([data], cut(data, list(range(0, len(data), 100)))):
            answer = read(pieces, most_body=1000)
            assert (answer if isinstance(answer, str) else "read") == outcome


@pytest.mark.parametrize("length", ["1001", "9" * 30, "9" * 5000, "0" * 5000])
def test_a_length_beyond_the_limit_is_refused_before_the_body(length: str) -> None:
    with pytest.raises(TooLarge):
        AnswerReader(most_body=1000).feed(f"HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n".encode())


@pytest.mark.slow
def test_a_bomb_is_not_unpacked() -> None:
    """A hundred megabytes of nothing, packed twice as small as its limit."""
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(bytes(1_000_000)) for _ in range(100)) + packer.flush()
    assert len(bomb) < 200_000
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: deflate\r\ncontent-length: %d\r\n\r\n" % len(bomb)
    assert read([head, bomb], most_body=200_000) == "too large"


# Keep-alive


@pytest.mark.parametrize(
    ("first", "headers", "keep_alive"),
    [
        ("HTTP/1.1 200 OK", "content-length: 0", True),
        ("HTTP/1.1 200 OK", "content-length: 0\r\nconnection: keep-alive", True),
        ("HTTP/1.1 200 OK", "content-length: 0\r\nconnection: close", False),
        ("HTTP/1.1 200 OK", "content-length: 0\r\nConnection: Foo, CLOSE", False),
        ("HTTP/1.1 500 No", "content-length: 0", True),
        ("HTTP/1.1 204 No Content", "x: y", True),
        ("HTTP/1.1 204 No Content", "content-length: 7", True),
        ("HTTP/1.1 304 Not Modified", "transfer-encoding: chunked", True),
        ("HTTP/1.0 200 OK", "content-length: 0", False),
        ("HTTP/1.0 200 OK", "content-length: 0\r\nconnection: Keep-Alive", True),
    ],
)
def test_keep_alive(first: str, headers: str, keep_alive: bool) -> None:
    reader = AnswerReader()
    assert reader.feed(f"{first}\r\n{headers}\r\n\r\n".encode())
    assert reader.keep_alive is keep_alive


# Requests


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=8) | names, st.text(max_size=12) | values, max_size=5), st.none() | st.binary())
@bounded(200)
def test_headers_arrive_as_they_are_or_are_refused(headers: dict[str, str], body: bytes | None) -> None:
    try:
        data = write_request("POST", "/v1", headers, body)
    except (ValueError, UnicodeEncodeError):
        assert not all(_can_be_sent(name, value) for name, value in headers.items())
        return
    head, _, rest = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    expected = [f"{name}: {value}" for name, value in headers.items()]
    assert first == "POST /v1 HTTP/1.1"
    assert lines == expected + ([] if body is None else [f"Content-Length: {len(body)}"])
    assert rest == (body or b"")
    assert all(_can_be_sent(name, value) for name, value in headers.items())


def _can_be_sent(name: str, value: str) -> bool:
    return (
        re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) is not None
        and not set(value) & set("\r\n\0")
        and all(ord(character) < 256 for character in value)
    )


@pytest.mark.parametrize("value", ["a\r\nInjected: yes", "a\nb", "a\rb", "a\0b", "x\r\n\r\nGET / HTTP/1.1"])
@pytest.mark.parametrize("in_name", [True, False])
def test_a_header_cannot_break_out_of_its_line(value: str, in_name: bool) -> None:
    headers = {value: "x"} if in_name else {"x-test": value}
    for _ in range(2):  # what is refused once is not remembered as good
        with pytest.raises(ValueError, match="cannot be sent"):
            write_request("POST", "/", headers, b"")


# The transport: helpers


def go(work: Coroutine[Any, Any, T]) -> T:
    """Run in an event loop whose complaints fail the test."""

    async def watched() -> T:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with asyncio.timeout(PATIENCE_S):
            result = await work
        assert complaints == []
        return result

    return asyncio.run(watched())


@contextlib.asynccontextmanager
async def opened(environment: dict[str, str] | None = None, **more: Any) -> AsyncIterator[Transport]:
    one = Transport(environment or {}, **more)
    try:
        yield one
    finally:
        await one.close()


async def post(client: Transport, url: str, **headers: str) -> HttpAnswer:
    return await client.send("POST", url, headers, BODY)


async def fail(client: Transport, url: str) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await post(client, url)
    return caught.value


def ask(url: str, environment: dict[str, str] | None = None, **more: Any) -> HttpAnswer:
    """One request of a client that was never used before."""

    async def work() -> HttpAnswer:
        async with opened(environment, **more) as client:
            return await post(client, url)

    return go(work())


def refused(url: str, environment: dict[str, str] | None = None, **more: Any) -> ProviderError:
    async def work() -> ProviderError:
        async with opened(environment, **more) as client:
            return await fail(client, url)

    return go(work())


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def listening(talk: Talk, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server that talks as it is told to; its port. Connections are closed when the talk is over."""
    talks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talks.add(task)
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client is gone, or the test is over
        finally:
            talks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, host, 0, ssl=tls, backlog=2048)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(talks):
            task.cancel()
        while talks:
            await asyncio.sleep(0)
        await server.wait_closed()


class Heard(Struct):
    """The head of a request."""

    line: str
    headers: dict[str, str]
    body: bytes


async def hear(reader: asyncio.StreamReader) -> Heard:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *lines = head.rstrip("\r\n").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
    return Heard(line, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def saying(data: bytes, heard: list[Heard] | None = None) -> Talk:
    """Answers every request with the same bytes."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await hear(reader)
            if heard is not None:
                heard.append(request)
            writer.write(data)

    return talk


@pytest.fixture
def bundle(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


def chat(server: FakeServer) -> str:
    return f"{server.openai_url}/chat/completions"


# Connections


def test_a_connection_is_used_again() -> None:
    async def work(server: FakeServer) -> None:
        async with opened() as client:
            for _ in range(5):
                assert (await post(client, chat(server))).status == 200
            assert server.connections == 1
            await asyncio.gather(*(post(client, chat(server)) for _ in range(8)))
            assert 2 <= server.connections <= 8
            before = server.connections
            await asyncio.gather(*(post(client, chat(server)) for _ in range(before)))
            assert server.connections == before

    with FakeServer(latency_s=0.05) as server:
        go(work(server))


@pytest.mark.parametrize("status", [400, 429, 500])
def test_a_refusal_keeps_its_connection(status: int) -> None:
    async def work(server: FakeServer) -> None:
        async with opened() as client:
            assert [(await post(client, chat(server))).status for _ in range(3)] == [status, status, 200]

    with FakeServer(faults=[Fault("status", status=status)] * 2) as server:
        go(work(server))
        assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        OK + b"and more",
    ],
    ids=["close", "http-1.0", "more-than-asked"],
)
def test_a_connection_is_not_used_again_when_the_server_says_so(answer: bytes) -> None:
    connections: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        await saying(answer)(reader, writer)

    async def work() -> None:
        async with listening(talk) as port, opened() as client:
            for _ in range(3):
                assert (await post(client, f"http://127.0.0.1:{port}/")).body == b"ok"

    go(work())
    assert len(connections) == 3


def test_an_idle_connection_that_the_server_closes_is_not_used_again() -> None:
    connections: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        await hear(reader)
        writer.write(OK)  # and then it hangs up without a word

    async def work() -> None:
        async with listening(talk) as port, opened() as client:
            for _ in range(3):
                assert (await post(client, f"http://127.0.0.1:{port}/")).body == b"ok"
                await asyncio.sleep(0.1)

    go(work())
    assert len(connections) == 3


def test_nothing_is_written_where_the_server_has_hung_up_before_the_event_loop_knows() -> None:
    """It might be lost, with no way to tell."""
    heard: list[bytes] = []
    hung_up = threading.Event()

    def serve(listener: socket.socket) -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                heard.append(connection.recv(65536))
                connection.sendall(OK)
            hung_up.set()

    async def work(port: int) -> None:
        async with opened() as client:
            for _ in range(2):
                assert (await post(client, f"http://127.0.0.1:{port}/")).body == b"ok"
                hung_up.wait(PATIENCE_S)  # the event loop waits as well, and so hears of nothing

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        go(work(listener.getsockname()[1]))
        thread.join(PATIENCE_S)
    assert len(heard) == 2


def test_a_connection_that_was_idle_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "IDLE_S", 0.0)

    async def work(server: FakeServer) -> None:
        async with opened() as client:
            for _ in range(3):
                assert (await post(client, chat(server))).status == 200

    with FakeServer() as server:
        go(work(server))
        assert server.connections == 3


def test_what_comes_without_being_asked_for_closes_an_idle_connection() -> None:
    """Otherwise it would be read as the answer to the next request."""
    connections: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        await hear(reader)
        writer.write(OK)
        await asyncio.sleep(0.05)
        writer.write(OK.replace(b"ok", b"no"))
        await reader.read()

    async def work() -> None:
        async with listening(talk) as port, opened() as client:
            for _ in range(2):
                assert (await post(client, f"http://127.0.0.1:{port}/")).body == b"ok"
                await asyncio.sleep(0.2)

    go(work())
    assert len(connections) == 2


def test_cancelling_closes_the_connection() -> None:
    async def work() -> None:
        arrived, gone = asyncio.Event(), asyncio.Event()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await hear(reader)
            writer.write(OK[:-1])  # all but the last byte
            arrived.set()
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            gone.set()

        async with listening(talk) as port, opened() as client:
            call = asyncio.ensure_future(post(client, f"http://127.0.0.1:{port}/"))
            await arrived.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await gone.wait()

    go(work())


@pytest.mark.slow
def test_a_thousand_requests_in_flight() -> None:
    count = 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 3 * count:
        pytest.skip(f"only {hard} files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3 * count), hard))

    async def work() -> None:
        arrived: list[str] = []
        everybody = asyncio.Event()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            request = await hear(reader)
            arrived.append(request.headers["x-number"])
            if len(arrived) == count:
                everybody.set()
            await everybody.wait()
            number = request.headers["x-number"].encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(number), number))
            await reader.read()

        async with listening(talk) as port, opened() as client:
            url = f"http://127.0.0.1:{port}/"
            answers = await asyncio.gather(
                *(client.send("POST", url, {"x-number": str(number)}, BODY) for number in range(count))
            )
            assert [answer.body for answer in answers] == [str(number).encode() for number in range(count)]
            assert len(arrived) == count

    go(work())


# What goes wrong on the way


def test_a_refused_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    error = refused(f"http://127.0.0.1:{port}/v1")
    assert (error.type, error.retryable, error.ends_target) == ("connection", True, False)
    assert error.message == f"no connection to 127.0.0.1:{port}: connection refused"


@pytest.mark.parametrize(
    ("said", "where"),
    [
        (b"", "before the answer"),
        (b"HTTP/1.1 2", "in the middle of the answer"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", "in the middle of the answer"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n", "in the middle of the answer"),
    ],
)
def test_a_connection_that_breaks_off(said: bytes, where: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        writer.write(said)

    async def work() -> None:
        async with listening(talk) as port, opened() as client:
            error = await fail(client, f"http://127.0.0.1:{port}/")
            assert (error.type, error.retryable) == ("broken", True)
            assert error.message == f"the connection to 127.0.0.1:{port} broke off {where}"

    go(work())


@pytest.mark.parametrize("kind", ["reset_before_headers", "reset_in_body"])
def test_a_connection_that_is_reset(kind: Any) -> None:
    with FakeServer(faults=[Fault(kind)]) as server:
        error = refused(chat(server))
    assert (error.type, error.retryable) == ("broken", True)


def test_an_answer_that_ends_with_the_connection() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")

    async def work() -> None:
        async with listening(talk) as port, opened() as client:
            assert (await post(client, f"http://127.0.0.1:{port}/")).body == b"all of it"

    go(work())


@pytest.mark.parametrize("framing", ["length", "close"])
@pytest.mark.parametrize(
    ("body", "kind"),
    [(gzip.compress(bytes(5000), mtime=0), "too-large"), (b"this is not packed", "bad-response")],
    ids=["bomb", "broken"],
)
def test_an_answer_that_cannot_be_used_is_not_asked_for_again(
    framing: str, body: bytes, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "MOST_BODY", 2000)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n" + framed(body, framing))

    async def work() -> None:
        async with listening(talk) as port, opened() as client:
            error = await fail(client, f"http://127.0.0.1:{port}/")
            assert (error.type, error.retryable) == (kind, False)

    go(work())


def test_another_protocol_is_named() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.test ESMTP\r\n")
        await reader.read()

    async def work() -> None:
        async with listening(talk) as port, opened() as client:
            # It may speak before it is asked, or at the same time.
            error = await fail(client, f"http://127.0.0.1:{port}/")
            assert (error.type, error.retryable) in (("bad-response", False), ("connection", False))
            assert "HTTP: " in error.message

    go(work())


def test_a_connection_that_is_not_accepted(monkeypatch: pytest.MonkeyPatch, server_tls: ssl.SSLContext) -> None:
    """A server that listens and says nothing cannot be told from a dead host; TLS shows it without a real one."""
    monkeypatch.setattr(http_client, "CONNECT_TIMEOUT_S", 0.3)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def work() -> None:
        async with listening(talk) as port, opened() as client:
            error = await fail(client, f"https://127.0.0.1:{port}/")
            assert (error.type, error.retryable) == ("connection", True)  # nothing was sent
            assert error.message == f"no connection to 127.0.0.1:{port} within 0.3 s"

    go(work())


# Addresses


@pytest.mark.parametrize(
    "url",
    [
        *("", "models.test/v1", "ftp://models.test/v1", "http://", "http:///v1", "https:models.test", "http://[::1/v1"),
        *(
            "http://models.test:port/v1",
            "http://models.test:99999/v1",
            f"http://{'x' * 70}.test/",
            "file:///etc/passwd",
        ),
    ],
)
def test_what_is_not_an_address(url: str) -> None:
    error = refused(url)
    assert (error.type, error.retryable, error.ends_target) == ("address", False, True)
    assert "is not an address" in error.message


@pytest.mark.parametrize(
    "url", ["http//user:pa55word@host/", "ftp://user:pa55word@host", "http://user:pa55/word@host/"]
)
def test_a_wrong_address_is_told_without_its_password(url: str) -> None:
    error = refused(url)
    assert error.type == "address"
    assert "pa55" not in error.message
    assert "word@" not in error.message


def heard_at(path: str) -> Heard:
    """The request as it arrives."""
    heard: list[Heard] = []

    async def work() -> None:
        async with listening(saying(OK, heard)) as port, opened() as client:
            await post(client, path.replace("HOST", f"127.0.0.1:{port}"), **{"x-client-request-id": "abc"})
            heard[0].headers["port"] = str(port)

    go(work())
    return heard[0]


def test_a_request_as_it_arrives() -> None:
    request = heard_at("http://HOST/v1/chat/completions?a=b#part")
    assert request.line == "POST /v1/chat/completions?a=b HTTP/1.1"
    assert request.headers["host"] == f"127.0.0.1:{request.headers['port']}"
    assert request.headers["user-agent"].startswith("rejoinder/")
    assert request.headers["x-client-request-id"] == "abc"
    assert request.body == BODY


@pytest.mark.parametrize(
    ("path", "line"),
    [("", "/"), ("?a=b", "/?a=b"), ("/a b", "/a%20b"), ("/ü?ö=\x7f", "/%C3%BC?%C3%B6=%7F"), ("/a%20b", "/a%20b")],
)
def test_paths_are_quoted(path: str, line: str) -> None:
    assert heard_at(f"http://HOST{path}").line == f"POST {line} HTTP/1.1"


@pytest.mark.parametrize("break_", ["\r\n", "\n", "\r"])
def test_a_path_cannot_break_out_of_its_line(break_: str) -> None:
    request = heard_at(f"http://HOST/a{break_}Injected: yes")
    assert "injected" not in request.headers
    assert len(request.line.split(" ")) == 3


@pytest.mark.parametrize(
    ("userinfo", "pair"),
    [("user:pass", "user:pass"), ("user", "user:"), (":pass", ":pass"), ("us%40er:p%3Ass%20%C3%BC", "us@er:p:ss ü")],
)
def test_user_and_password_in_an_address(userinfo: str, pair: str) -> None:
    request = heard_at(f"http://{userinfo}@HOST/v1")
    assert request.headers["authorization"] == f"Basic {b64encode(pair.encode()).decode()}"
    assert request.headers["host"] == f"127.0.0.1:{request.headers['port']}"
    assert request.line == "POST /v1 HTTP/1.1"


@pytest.mark.parametrize("headers", [{"x-test": "a\r\nb: c"}, {"x-test": "\N{EURO SIGN}"}, {"a b": "c"}])
def test_headers_that_cannot_be_sent(headers: dict[str, str]) -> None:
    async def work(server: FakeServer) -> None:
        async with opened() as client:
            with pytest.raises(ProviderError, match="cannot be sent") as caught:
                await client.send("POST", chat(server), headers, BODY)
            assert (caught.value.type, caught.value.retryable) == ("request", False)

    with FakeServer() as server:
        go(work(server))
        assert server.requests == []


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="there is no IPv6 here")


@needs_ipv6
def test_ipv6() -> None:
    heard: list[Heard] = []

    async def work() -> None:
        async with listening(saying(OK, heard), "::1") as port, opened() as client:
            assert (await post(client, f"http://[::1]:{port}/v1")).body == b"ok"
            assert heard[0].headers["host"] == f"[::1]:{port}"

    go(work())


# Names


def test_a_host_that_cannot_be_found() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    error = refused("http://models.test/v1", resolver=resolve)
    assert (error.type, error.retryable) == ("dns", True)
    assert error.message == "the host `models.test` cannot be found"


def test_the_system_resolver_says_that_a_host_cannot_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    error = refused("http://models.invalid/v1")
    assert error.type == "dns"
    assert "models.invalid" in error.message


def test_a_failed_lookup_is_not_remembered() -> None:
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        if len(asked) == 1:
            raise OSError("the network is down")
        return ["127.0.0.1"]

    async def work() -> None:
        async with listening(saying(OK)) as port, opened(resolver=resolve) as client:
            await fail(client, f"http://models.test:{port}/")
            assert (await post(client, f"http://models.test:{port}/")).body == b"ok"

    go(work())
    assert asked == ["models.test"] * 2


def test_many_requests_look_a_host_up_once() -> None:
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        await asyncio.sleep(0.05)
        return ["127.0.0.1"]

    async def work() -> None:
        async with listening(saying(OK)) as port, opened(resolver=resolve) as client:
            await asyncio.gather(*(post(client, f"http://models.test:{port}/") for _ in range(20)))

    go(work())
    assert asked == ["models.test"]


def test_one_who_gives_up_does_not_end_the_lookup_for_others() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        await asyncio.sleep(0.1)
        return ["127.0.0.1"]

    async def work() -> None:
        async with listening(saying(OK)) as port, opened(resolver=resolve) as client:
            url = f"http://models.test:{port}/"
            first = asyncio.ensure_future(post(client, url))
            second = asyncio.ensure_future(post(client, url))
            await asyncio.sleep(0.01)
            first.cancel()
            assert (await second).body == b"ok"
            assert first.cancelled()

    go(work())


def at(*addresses: str) -> Callable[[str, int], Awaitable[list[str]]]:
    async def resolve(host: str, port: int) -> list[str]:
        return list(addresses)

    return resolve


def test_a_dead_address_is_passed_over() -> None:
    heard: list[Heard] = []

    async def work() -> None:
        # No server listens at 127.0.0.2.
        async with listening(saying(OK, heard)) as port, opened(resolver=at("127.0.0.2", "127.0.0.1")) as client:
            assert (await post(client, f"http://models.test:{port}/")).body == b"ok"
            assert heard[0].headers["host"] == f"models.test:{port}"
            error = await fail(client, "http://models.test:1/")
            assert error.type == "connection"

    go(work())


def test_an_address_that_does_not_answer_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not waited for: there is no time for that before the connection has to stand."""
    monkeypatch.setattr(http_client, "CONNECT_TIMEOUT_S", 7.0)

    async def work(port: int) -> None:
        with deaf(port, "127.0.0.2"):
            async with opened(resolver=at("127.0.0.2", "127.0.0.1")) as client:
                url = f"http://models.test:{port}/v1/chat/completions"
                assert (await post(client, url)).status == 200
                # The next connection begins with the address that has answered.
                monkeypatch.setattr(http_client, "NEXT_ADDRESS_S", 100.0)
                both = await asyncio.gather(post(client, url), post(client, url))
                assert [answer.status for answer in both] == [200, 200]

    with FakeServer(latency_s=0.05) as server:
        go(work(int(server.url.rpartition(":")[2])))
        assert server.connections == 2


# Certificates


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_an_authority_of_ones_own(variable: str, server_tls: ssl.SSLContext, bundle: Path) -> None:
    with FakeServer(tls=server_tls) as server:
        assert ask(chat(server), {variable: str(bundle)}).status == 200


@pytest.mark.parametrize("variable", ["SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"])
def test_a_folder_of_authorities(variable: str, server_tls: ssl.SSLContext, bundle: Path, tmp_path: Path) -> None:
    try:
        shown = subprocess.run(["openssl", "x509", "-hash", "-noout", "-in", bundle], capture_output=True, check=True)
    except FileNotFoundError:
        pytest.skip("OpenSSL's command names the files of such a folder, and is not here")
    folder = tmp_path / "authorities"
    folder.mkdir()
    (folder / f"{shown.stdout.decode().strip()}.0").write_bytes(bundle.read_bytes())
    with FakeServer(tls=server_tls) as server:
        assert ask(chat(server), {variable: str(folder)}).status == 200


def test_a_certificate_that_is_not_trusted(server_tls: ssl.SSLContext) -> None:
    with FakeServer(tls=server_tls) as server:
        error = refused(chat(server))
        place = server.url.removeprefix("https://")
        assert server.requests == []
    assert (error.type, error.retryable) == ("tls", False)
    assert error.message.startswith(f"the certificate of {place} is not trusted: ")
    assert "SSL_CERT_FILE" in error.message


def test_a_certificate_of_another_host(server_tls: ssl.SSLContext, bundle: Path) -> None:
    with FakeServer(tls=server_tls) as server:
        port = server.url.rpartition(":")[2]
        environment = {"SSL_CERT_FILE": str(bundle)}
        url = f"https://other.test:{port}/v1/chat/completions"
        error = refused(url, environment, resolver=at("127.0.0.1"))
    assert error.type == "tls"
    assert f"the certificate of other.test:{port} is not trusted" in error.message
    assert "other.test" in error.message


def test_plain_http_where_https_is_expected() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        await reader.read()

    async def work() -> None:
        async with listening(talk) as port, opened() as client:
            error = await fail(client, f"https://127.0.0.1:{port}/")
            assert (error.type, error.retryable) == ("tls", False)
            assert error.message.startswith(f"no secure connection to 127.0.0.1:{port}: ")
            assert "http://" in error.message

    go(work())


def test_https_where_plain_http_is_expected(server_tls: ssl.SSLContext) -> None:
    with FakeServer(tls=server_tls) as server:
        error = refused(chat(server).replace("https://", "http://"))
    assert error.type in ("broken", "bad-response")


@pytest.mark.parametrize("content", [None, "this is no certificate"])
def test_certificates_that_cannot_be_read(content: str | None, tmp_path: Path, server_tls: ssl.SSLContext) -> None:
    path = tmp_path / "certificates.pem"
    if content is not None:
        path.write_text(content)
    with FakeServer(tls=server_tls) as server:
        error = refused(chat(server), {"SSL_CERT_FILE": str(path)})
    assert (error.type, error.retryable, error.ends_target) == ("tls", False, True)
    assert f"the certificates in {path} cannot be read" in error.message
    assert "SSL_CERT_FILE" in error.message


# Proxies


class Proxy:
    """Passes requests on, in whichever of the two ways it is asked to."""

    def __init__(self, *, credentials: str | None = None, established: bytes = b"", refuse: int | None = None) -> None:
        self.heard: list[Heard] = []
        self._credentials = credentials
        self._established = established or b"HTTP/1.1 200 Connection established\r\n\r\n"
        self._refuse = refuse

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await hear(reader)
            self.heard.append(request)
            given = request.headers.get("proxy-authorization")
            if self._credentials is not None and given != f"Basic {b64encode(self._credentials.encode()).decode()}":
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
            elif self._refuse is not None:
                writer.write(b"HTTP/1.1 %d No\r\ncontent-length: 4\r\n\r\nnope" % self._refuse)
            elif request.line.startswith("CONNECT "):
                await self._tunnel(request.line.split(" ")[1], reader, writer)
                return
            else:
                writer.write(OK)

    async def _tunnel(self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = int(target.rpartition(":")[2])
        host = "::1" if target.startswith("[") else "127.0.0.1"
        there, back = await asyncio.open_connection(host, port)
        writer.write(self._established)
        one, other = asyncio.ensure_future(_pass_on(reader, back)), asyncio.ensure_future(_pass_on(there, writer))
        try:
            await asyncio.wait((one, other), return_when=asyncio.FIRST_COMPLETED)
        finally:
            one.cancel()
            other.cancel()
            await asyncio.gather(one, other, return_exceptions=True)
            back.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)


def through(
    proxy: Proxy,
    url: str,
    variable: str,
    *,
    userinfo: str = "",
    scheme: str = "http",
    tls: ssl.SSLContext | None = None,
    times: int = 1,
    **more: str,
) -> list[HttpAnswer]:
    """Requests by way of a proxy."""

    async def work() -> list[HttpAnswer]:
        async with listening(proxy.talk, tls=tls) as port:
            environment = {variable: f"{scheme}://{userinfo}127.0.0.1:{port}", **more}
            async with opened(environment, resolver=at("127.0.0.1")) as client:
                return [await post(client, url) for _ in range(times)]

    return go(work())


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_a_proxy_is_asked_for_the_whole_address(variable: str) -> None:
    proxy = Proxy()
    answers_ = through(proxy, "http://models.test/v1?a=b", variable, times=2)
    assert [answer.body for answer in answers_] == [b"ok", b"ok"]
    assert [request.line for request in proxy.heard] == ["POST http://models.test/v1?a=b HTTP/1.1"] * 2
    assert proxy.heard[0].headers["host"] == "models.test"
    assert "proxy-authorization" not in proxy.heard[0].headers


@pytest.mark.parametrize("userinfo", ["user:p%40ss@", "user:p@ss@"])
def test_a_proxy_with_credentials(userinfo: str) -> None:
    proxy = Proxy(credentials="user:p@ss")
    [answer] = through(proxy, "http://models.test/", "HTTP_PROXY", userinfo=userinfo)
    assert answer.status == 200
    [answer] = through(Proxy(credentials="user:other"), "http://models.test/", "HTTP_PROXY", userinfo=userinfo)
    assert answer.status == 407


@pytest.mark.parametrize("established", [b"", b"HTTP/1.0 200 OK\r\nvia: test\r\n\r\n"])
@pytest.mark.parametrize("credentials", [None, "user:pass"])
@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "all_proxy"])
def test_a_tunnel(
    variable: str, credentials: str | None, established: bytes, server_tls: ssl.SSLContext, bundle: Path
) -> None:
    proxy = Proxy(credentials=credentials, established=established)
    with FakeServer(tls=server_tls) as server:
        port = server.url.rpartition(":")[2]
        userinfo = f"{credentials}@" if credentials else ""
        url = f"https://models.test:{port}/v1/chat/completions"
        answers_ = through(proxy, url, variable, userinfo=userinfo, times=3, SSL_CERT_FILE=str(bundle))
        assert [answer.status for answer in answers_] == [200, 200, 200]
        assert len(server.requests) == 3
        # What is for the proxy goes no further.
        assert all("proxy-authorization" not in request.headers for request in server.requests)
        assert server.requests[0].headers["host"] == f"models.test:{port}"
        assert server.connections == 1
    [request] = proxy.heard
    assert request.line == f"CONNECT models.test:{port} HTTP/1.1"
    assert request.headers["host"] == f"models.test:{port}"


@needs_ipv6
def test_a_tunnel_to_an_ipv6_address(server_tls: ssl.SSLContext, bundle: Path) -> None:
    proxy = Proxy()

    async def work() -> None:
        async with listening(saying(OK), "::1", server_tls) as port, listening(proxy.talk) as way:
            environment = {"HTTPS_PROXY": f"http://127.0.0.1:{way}", "SSL_CERT_FILE": str(bundle)}
            async with opened(environment) as client:
                assert (await post(client, f"https://[::1]:{port}/")).body == b"ok"
            assert proxy.heard[0].line == f"CONNECT [::1]:{port} HTTP/1.1"

    go(work())


def test_a_tunnel_through_a_proxy_that_is_spoken_to_in_secret(server_tls: ssl.SSLContext, bundle: Path) -> None:
    proxy = Proxy()
    with FakeServer(tls=server_tls) as server:
        more = {"SSL_CERT_FILE": str(bundle)}
        [answer] = through(proxy, chat(server), "HTTPS_PROXY", scheme="https", tls=server_tls, **more)
        assert answer.status == 200
    assert proxy.heard[0].line.startswith("CONNECT 127.0.0.1:")


def test_the_certificate_at_the_end_of_a_tunnel_is_looked_at(server_tls: ssl.SSLContext) -> None:
    async def work(url: str) -> None:
        async with listening(Proxy().talk) as port, opened({"HTTPS_PROXY": f"http://127.0.0.1:{port}"}) as client:
            error = await fail(client, url)
            assert error.type == "tls"
            assert "is not trusted" in error.message

    with FakeServer(tls=server_tls) as server:
        go(work(chat(server)))
        assert server.requests == []


@pytest.mark.parametrize(
    ("proxy", "kind", "status", "retryable"),
    [
        (Proxy(credentials="user:pass"), "proxy", 407, False),
        (Proxy(refuse=403), "proxy", 403, False),
        (Proxy(refuse=502), "connection", 502, True),
    ],
    ids=["407", "403", "502"],
)
def test_a_proxy_that_refuses_a_tunnel(proxy: Proxy, kind: str, status: int, retryable: bool) -> None:
    async def work() -> None:
        async with listening(proxy.talk) as port:
            environment = {"HTTPS_PROXY": f"http://user:wr0ng@127.0.0.1:{port}"}
            async with opened(environment) as client:
                error = await fail(client, "https://models.test/v1")
        assert (error.type, error.status, error.retryable) == (kind, status, retryable)
        assert error.message == f"the proxy answered {status} when asked for models.test:443"

    go(work())


def test_a_proxy_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    error = refused("http://models.test/", {"HTTP_PROXY": f"http://user:pa55word@127.0.0.1:{port}"})
    assert (error.type, error.retryable) == ("connection", True)
    assert error.message.startswith("the proxy cannot be used: no connection to 127.0.0.1")
    assert "pa55word" not in error.message


@pytest.mark.parametrize("address", ["socks5://user:pa55word@127.0.0.1:1", "http://", "http://127.0.0.1:pa55word"])
def test_a_proxy_that_cannot_be_used(address: str) -> None:
    error = refused("http://models.test/", {"HTTP_PROXY": address})
    assert (error.type, error.retryable, error.ends_target) == ("proxy", False, True)
    assert "HTTP_PROXY" in error.message
    assert "pa55word" not in error.message


@pytest.mark.parametrize(
    ("entries", "url", "exempt"),
    [
        ("models.test", "http://models.test:PORT/", True),
        ("MODELS.test", "http://models.TEST:PORT/", True),
        ("other.test, models.test", "http://models.test:PORT/", True),
        ("test", "http://models.test:PORT/", True),
        (".test", "http://models.test:PORT/", True),
        ("*.test", "http://models.test:PORT/", True),
        ("*", "http://models.test:PORT/", True),
        ("models.test:PORT", "http://models.test:PORT/", True),
        ("127.0.0.1", "http://127.0.0.1:PORT/", True),
        ("127.0.0.0/8", "http://127.0.0.1:PORT/", True),
        ("127.0.0.77/8", "http://127.0.0.1:PORT/", True),
        ("127.0.0.2/31", "http://127.0.0.1:PORT/", False),
        ("127.0.0.0/8", "http://models.test:PORT/", False),
        ("::/0", "http://127.0.0.1:PORT/", False),
        ("127.0.0.0/99", "http://127.0.0.1:PORT/", False),
        ("models.test:1", "http://models.test:PORT/", False),
        ("dels.test", "http://models.test:PORT/", False),
        ("models.test.example", "http://models.test:PORT/", False),
        ("", "http://models.test:PORT/", False),
        (" , ", "http://models.test:PORT/", False),
    ],
)
@pytest.mark.parametrize("variable", ["NO_PROXY", "no_proxy"])
def test_hosts_without_a_proxy(variable: str, entries: str, url: str, exempt: bool) -> None:
    proxy, heard = Proxy(), list[Heard]()

    async def work() -> None:
        async with listening(proxy.talk) as way, listening(saying(OK, heard)) as port:
            no_proxy = {variable: entries.replace("PORT", str(port))}
            environment = {"HTTP_PROXY": f"http://127.0.0.1:{way}", **no_proxy}
            async with opened(environment, resolver=at("127.0.0.1")) as client:
                await post(client, url.replace("PORT", str(port)))

    go(work())
    assert (len(heard), len(proxy.heard)) == ((1, 0) if exempt else (0, 1))


@needs_ipv6
@pytest.mark.parametrize("entry", ["::1", "[::1]", "::1/128", "::/64", "[::]/64", "0:0:0:0:0:0:0:1"])
def test_an_ipv6_address_without_a_proxy(entry: str) -> None:
    async def work() -> None:
        environment = {"HTTP_PROXY": "http://127.0.0.1:1", "NO_PROXY": entry}
        async with listening(saying(OK), "::1") as port, opened(environment) as client:
            assert (await post(client, f"http://[::1]:{port}/")).body == b"ok"

    go(work())


def test_a_proxy_for_one_scheme_is_not_used_for_the_other() -> None:
    with FakeServer() as server:
        assert ask(chat(server), {"HTTPS_PROXY": "http://127.0.0.1:1"}).status == 200
