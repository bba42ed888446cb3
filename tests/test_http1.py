"""Our own HTTP client: answers read however they are cut, and the transport against real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import re
import resource
import socket
import ssl
import subprocess
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from rejoinder.errors import RejoinderError
from rejoinder.providers import ProviderError, http1, transport
from rejoinder.providers.http1 import AnswerReader, HttpAnswer, NotHttp, TooLarge, write_request
from rejoinder.providers.transport import Transport
from rejoinder.testing import FakeServer, Fault

T = TypeVar("T")

BODY = b'{"model": "m", "messages": [{"role": "user", "content": "Hello?"}]}'
PATIENCE_S = 60.0
"""No test waits so long, unless something hangs."""


# Answers as bytes

TOKEN = "!#$%&'*+-.^_`|~0123456789ABCXYZabcxyz"
FRAMING = {"content-length", "transfer-encoding", "content-encoding", "connection"}

names = st.text(TOKEN, min_size=1, max_size=12).filter(lambda name: name.lower() not in FRAMING)
values = st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=30)
header_lists = st.lists(st.tuples(names, values), max_size=6)
extensions = st.text(st.characters(codec="ascii", exclude_characters="\r\n"), max_size=8)


class Written(Struct):
    """The bytes of an answer, and what should be read from them."""

    data: bytes
    answer: HttpAnswer
    keep_alive: bool
    until_close: bool


def write_head(first: str, headers: list[tuple[str, str]]) -> bytes:
    lines = [first, *(f"{name}:{value}" for name, value in headers)]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def merge(headers: list[tuple[str, str]]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for name, value in headers:
        name, value = name.lower(), value.strip(" \t")
        merged[name] = f"{merged[name]}, {value}" if name in merged else value
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


def packed(body: bytes, coding: str) -> bytes:
    return gzip.compress(body) if "gzip" in coding else zlib.compress(body)


@st.composite
def answers(draw: st.DrawFn) -> Written:
    version = draw(st.sampled_from(["1.1", "1.1", "1.0"]))
    status = draw(st.integers(200, 599))
    reason = draw(st.sampled_from(["", " ", " OK", " Pas trouv\xe9 du tout"]))
    headers = draw(header_lists)
    body = draw(st.binary(max_size=60))
    coding = draw(st.sampled_from([None, None, "identity", "gzip", "x-gzip", "deflate", "GZip"]))
    framing = draw(st.sampled_from(["length", "chunked", "close"]))
    connection = draw(st.sampled_from([None, "close", "Close", "keep-alive", "Keep-Alive"]))
    if status in (204, 304):
        body, coding, framing = b"", None, "none"
    sent = packed(body, coding.lower()) if coding not in (None, "identity") else body
    if coding is not None:
        headers.append(("Content-Encoding", coding))
    if connection is not None:
        headers.append(("Connection", connection))
    data = sent
    if framing == "length":
        headers.append(("Content-Length", draw(st.sampled_from([" {}", "{}  ", " {0}, {0}"])).format(len(sent))))
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
    head = write_head(f"HTTP/{version} {status}{reason}", headers)
    answer = HttpAnswer(status, merge(headers), body)
    return Written(interim + head + data, answer, keep_alive, framing == "close")


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in zip(ends, ends[1:], strict=False)]


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


@given(answers(), cuts)
@settings(max_examples=300, deadline=None)
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


@given(answers())
@settings(max_examples=50, deadline=None)
def test_an_answer_reads_the_same_byte_by_byte(written: Written) -> None:
    assert read([bytes([byte]) for byte in written.data]) == written.answer


@given(answers(), st.data())
@settings(max_examples=150, deadline=None)
def test_an_answer_that_is_cut_off_is_never_taken_for_whole(written: Written, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(written.data) - 1))
    outcome = read([written.data[:end]])
    if written.until_close:  # only what is packed can tell that its end is missing
        head = written.data.rindex(b"\r\n\r\n", 0, len(written.data)) if b"\r\n\r\n" in written.data[:end] else -1
        assert outcome in ("incomplete", "not http") or head >= 0
    else:
        assert outcome == "incomplete"


@given(answers(), st.binary(min_size=1, max_size=20))
@settings(max_examples=100, deadline=None)
def test_what_nobody_asked_for_ends_the_connection(written: Written, more: bytes) -> None:
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
        *(b": no name\r\n", b"a b: c\r\n", b"\r\n", b"\n", b"\r", b"5\r\nhello\r\n", b"0\r\n\r\n", b"ffffffffffffffff\r\n"),
        *(b"fffffffffffffff\r\n", b"5;x=y\r\n", b"-5\r\n", b"0x5\r\n", b"5 \r\nhello\r\n", b"hello", b"HTTP/1.", b"\0"),
        *(gzip.compress(b"hello"), zlib.compress(b"hello"), gzip.compress(bytes(5000)), b"\x1f\x8b"),
    ]
)
nonsense = (
    st.binary(max_size=80)
    | st.lists(pieces_of_http, max_size=8).map(b"".join)
    | st.tuples(first_lines, st.lists(pieces_of_http, max_size=8).map(b"".join)).map(b"".join)
)


@given(nonsense, cuts)
@settings(max_examples=500, deadline=None)
def test_whatever_comes_is_read_or_refused_and_cuts_do_not_matter(data: bytes, places: list[int]) -> None:
    assert read(cut(data, places), most_body=1000) == read([data], most_body=1000)


@given(answers(), st.binary(max_size=4), st.integers(0, 10_000), st.integers(0, 6), cuts)
@settings(max_examples=300, deadline=None)
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
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 1\r\n\r\nx", "packed as 'br'"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nabcd", "cannot be unpacked"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 12\r\n\r\n" + gzip.compress(b"x")[:12], "end"),
    ],
)
def test_what_is_not_http_is_named(data: bytes, problem: str) -> None:
    with pytest.raises(NotHttp, match=re.escape(problem)):
        AnswerReader().feed(data)


def test_packed_bodies_that_are_followed_by_something_are_refused() -> None:
    body = gzip.compress(b"hello") + gzip.compress(b" world")
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(body)
    with pytest.raises(NotHttp, match="follows"):
        AnswerReader().feed(head + body)


# Limits


@pytest.mark.parametrize("size", [7, 1000, 10_000_000])
def test_a_head_has_a_limit_however_it_is_cut(size: int) -> None:
    head = b"HTTP/1.1 200 OK\r\nx: " + b"y" * http1.MOST_HEAD + b"\r\ncontent-length: 0\r\n\r\n"
    reader = AnswerReader()
    with pytest.raises(NotHttp, match="headers do not end"):
        for start in range(0, len(head), size):
            reader.feed(head[start : start + size])


def test_a_long_head_within_the_limit_is_read() -> None:
    value = b"y" * (http1.MOST_HEAD - 100)
    [*_, answer] = [read([b"HTTP/1.1 200 OK\r\nx: " + value + b"\r\ncontent-length: 0\r\n\r\n"])]
    assert isinstance(answer, HttpAnswer)
    assert len(answer.headers["x"]) == len(value)


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
@pytest.mark.parametrize("coding", [None, "gzip", "deflate"])
def test_a_body_has_a_limit(framing: str, coding: str | None) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + (f"content-encoding: {coding}\r\n".encode() if coding else b"")
    for size, outcome in ((1000, "read"), (1001, "too large")):
        body = packed(bytes(size), coding) if coding else bytes(size)
        data = head + framed(body, framing)
        for pieces in ([data], cut(data, list(range(0, len(data), 100)))):
            answer = read(pieces, most_body=1000)
            assert (answer if isinstance(answer, str) else "read") == outcome


@pytest.mark.parametrize("length", ["1001", "9" * 30, "9" * 5000, "0" * 5000])
def test_a_length_beyond_the_limit_is_refused_before_the_body(length: str) -> None:
    with pytest.raises(TooLarge):
        AnswerReader(most_body=1000).feed(f"HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n".encode())


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


@given(
    st.dictionaries(st.text(max_size=8) | names, st.text(max_size=12) | values, max_size=5), st.none() | st.binary()
)
@settings(max_examples=300, deadline=None)
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
