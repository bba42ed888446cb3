"""Answers of odd servers: what ours makes of each through the command, beside what other HTTP clients make of it.

The columns of httpx and aiohttp are tried with the installed versions; the one of curl was taken with curl 7.88.1 and
`--compressed --location`. `ok` is the whole reply, `other` a body that is not the reply, `error` a refusal.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
import threading
import zlib
from collections.abc import Iterator
from typing import Literal, NamedTuple

import aiohttp
import httpx
import pytest

from tests.kit import Project

REPLY = {"choices": [{"message": {"role": "assistant", "content": "It is Rome."}, "finish_reason": "stop"}]}
BODY = json.dumps(REPLY).encode()
PATIENCE_S = 30.0
assert len(BODY) == 100
BROTLI = b"\x8b\x31\x80" + BODY + b"\x03"
ZSTD = b"\x28\xb5\x2f\xfd\x20\x64\x21\x03\x00" + BODY
"""Both in the form in which they hold a body as it is."""

Outcome = Literal["ok", "other", "error"]


def head(*headers: bytes, first: bytes = b"HTTP/1.1 200 OK", end: bytes = b"\r\n") -> bytes:
    return b"".join(line + end for line in (first, b"content-type: application/json", *headers, b""))


def plain(body: bytes = BODY, *headers: bytes, first: bytes = b"HTTP/1.1 200 OK", end: bytes = b"\r\n") -> bytes:
    return head(*headers, b"content-length: %d" % len(body), first=first, end=end) + body


def chunks(body: bytes = BODY, size: int = 40, end: bytes = b"\r\n") -> bytes:
    pieces = (body[start : start + size] for start in range(0, len(body), size))
    return b"".join(b"%x%b%b%b" % (len(piece), end, piece, end) for piece in pieces) + b"0" + end


def chunked(*headers: bytes, end: bytes = b"\r\n") -> bytes:
    return head(*headers, b"transfer-encoding: chunked", end=end) + chunks() + b"\r\n"


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


def gzipped(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


class Row(NamedTuple):
    answer: bytes
    ours: Outcome
    words: str
    """In our message where it is an error, or why ours differs from what most others do."""
    httpx: Outcome
    aiohttp: Outcome
    curl: Outcome


def read(answer: bytes, httpx: Outcome = "ok", aiohttp: Outcome = "ok", curl: Outcome = "ok") -> Row:
    return Row(answer, "ok", "", httpx, aiohttp, curl)


def refused(
    answer: bytes, words: str, httpx: Outcome = "error", aiohttp: Outcome = "error", curl: Outcome = "error"
) -> Row:
    return Row(answer, "error", words, httpx, aiohttp, curl)


EARLY = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"

ROWS = {
    # Framing
    "length": read(plain()),
    "chunked": read(chunked()),
    "one-byte chunks": read(head(b"transfer-encoding: chunked") + chunks(size=1) + b"\r\n"),
    "trailers": read(head(b"transfer-encoding: chunked") + chunks() + b"x-sum: 1\r\n\r\n"),
    "`Chunked `": read(head(b"Transfer-Encoding: Chunked ") + chunks() + b"\r\n"),
    # RFC 9112 has chunks win over a length; aiohttp takes both for an attack.
    "chunked and a length": read(chunked(b"content-length: 7"), aiohttp="error"),
    "the same length twice": read(plain(BODY, b"content-length: %d" % len(BODY)), aiohttp="error"),
    # Two readers of it would see two answers.
    "two lengths": refused(plain(BODY, b"content-length: 7"), "it has the length", curl="ok"),
    "no length": read(head() + BODY),
    "HTTP/1.0": read(plain(first=b"HTTP/1.0 200 OK")),
    "no reason phrase": read(plain(first=b"HTTP/1.1 200")),
    "too long a length": refused(head(b"content-length: 999") + BODY, "broke off in the middle of the answer"),
    # httpx and curl take the cut-off text for the whole.
    "too short a length": refused(head(b"content-length: 9") + BODY, "which is not a reply", "other", "error", "other"),
    "cut off in a chunk": refused(chunked()[:-60], "broke off in the middle of the answer"),
    # The connection is not used again.
    "more than was asked for": read(plain() + b"HTTP/1.1 200 OK"),
    # Bodies are not expected to be packed on the way; of the other clients only curl reads them.
    "gzip, chunked": refused(
        head(b"transfer-encoding: gzip, chunked") + chunks(gzipped(BODY)) + b"\r\n", "sent as", "error", "other", "ok"
    ),
    "identity and a length": refused(plain(BODY, b"transfer-encoding: identity"), "sent as", curl="ok"),
    # A proxy may have read only one of the two.
    "chunked twice": refused(chunked(b"transfer-encoding: chunked"), "sent as 'chunked, chunked'", "error", "ok", "ok"),
    # Content encodings
    "gzip": read(plain(gzipped(BODY), b"content-encoding: gzip")),
    "zlib as deflate": read(plain(zlib.compress(BODY), b"content-encoding: deflate")),
    "raw deflate": read(plain(raw_deflate(BODY), b"content-encoding: deflate")),
    "two gzip members": read(
        plain(gzipped(BODY[:50]) + gzipped(BODY[50:]), b"content-encoding: gzip"), httpx="other", curl="error"
    ),
    "gzip in gzip": read(plain(gzipped(gzipped(BODY)), b"content-encoding: gzip, gzip"), aiohttp="other"),
    "empty encoding": read(plain(BODY, b"content-encoding:")),
    "encoding none": read(plain(BODY, b"content-encoding: none")),
    "encoding identity": read(plain(BODY, b"content-encoding: identity")),
    "encoding utf-8": read(plain(BODY, b"content-encoding: utf-8"), curl="error"),
    # They were not asked for, and a body that is not decoded is no reply.
    "br": refused(plain(BROTLI, b"content-encoding: br"), "'br', which was not asked for", "other", "error", "ok"),
    "zstd": refused(plain(ZSTD, b"content-encoding: zstd"), "'zstd', which was not asked for", "other", "error", "ok"),
    # Others give what they have of it, without a check of its end.
    "gzip, cut off": refused(
        plain(gzipped(BODY)[:-6], b"content-encoding: gzip"), "its end is missing", "ok", "ok", "ok"
    ),
    "raw deflate, cut off": refused(
        plain(raw_deflate(BODY)[:-2], b"content-encoding: deflate"), "its end is missing", "other", "error", "other"
    ),
    # Heads
    "100 before": read(b"HTTP/1.1 100 Continue\r\n\r\n" + plain()),
    "103 before": read(EARLY + plain()),
    "10,000 times 103 before": read(EARLY * 10_000 + plain(), curl="error"),
    "LF": read(plain(end=b"\n")),
    "LF, then chunks": read(chunked(end=b"\n")),
    # Some proxies see the end of a chunk elsewhere then.
    "LF between chunks": refused(
        head(b"transfer-encoding: chunked") + chunks(end=b"\n") + b"\n", "does not end in CR LF", curl="ok"
    ),
    "folded header": read(plain(BODY, b"x-note: one\r\n\ttwo")),
    # It could be anything: a header, or more of the reason phrase.
    "folded status line": refused(
        plain(first=b"HTTP/1.1 200 OK\r\n x-note: one"), "it has the header", "error", "ok", "error"
    ),
    # Some proxies see another header in these than others.
    "space before the colon": refused(plain(BODY, b"X-Note : one"), "it has the header", curl="ok"),
    "no name of a header": refused(plain(BODY, b"X(y): 1"), "it has the header", curl="ok"),
    "no colon": refused(plain(BODY, b"note"), "it has the header"),
    "UTF-8 in a header": read(plain(BODY, "x-note: caf\N{LATIN SMALL LETTER E WITH ACUTE}".encode())),
    "empty lines before": refused(b"\r\n\r\n" + plain(), "it begins with ''", aiohttp="ok"),
    "HTTP/2": refused(bytes.fromhex("000012040000000000000300000064000400100000"), "does not begin with HTTP/1."),
    "endless head": refused(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000, "its headers do not end"),
    # The rest
    "nothing": refused(b"", "broke off before the answer"),
    # A key must not go where an answer points.
    "redirection": refused(
        b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /length/chat\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        "a redirection to /length/chat; name the address itself",
        "ok",
        "ok",
        "ok",
    ),
    # A stream was not asked for.
    "a stream of events": refused(
        plain(b"data: {}\n\n").replace(b"application/json", b"text/event-stream"),
        "which is not a reply",
        *("other",) * 3,
    ),
}


class Server:
    """Answers each request with the row that its path names, and closes the connection."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=50)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._names = {path_of(name): name for name in ROWS}
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(PATIENCE_S)
            with connection.makefile("rb") as file:
                path = file.readline().split()[1].decode()
                length = 0
                while line := file.readline().strip():
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                file.read(length)
            connection.sendall(ROWS[self._names[path.split("/")[1]]].answer)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):  # closed with something unread, it would be reset
                pass


def path_of(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name).strip("-")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    one = Server()
    yield one
    one.close()


rows = pytest.mark.parametrize("name", ROWS, ids=path_of)


@rows
def test_ours(name: str, server: Server, project: Project) -> None:
    row = ROWS[name]
    target = {"name": "model", "provider": "openai", "model": "m", "base_url": f"{server.url}/{path_of(name)}"}
    target |= {"max_retries": 0, "timeout_seconds": PATIENCE_S}
    case = {"prompt": "What is the capital of Italy?", "checks": [{"match": "It is Rome."}]}
    project.write("evals.yaml", {"targets": [target], "evals": [case]})
    document = project.run_json("run", code=0 if row.ours == "ok" else 3)
    [result] = document["results"]
    if row.ours == "ok":
        assert (result["status"], result["turns"][0]["response"]) == ("passed", "It is Rome.")
    else:
        assert row.words in result["error"]["message"]
        assert result["error"]["type"] != "timeout"  # it is refused at once


def outcome(body: bytes) -> Outcome:
    return "ok" if body == BODY else "other"


@rows
def test_httpx(name: str, server: Server) -> None:
    with httpx.Client(trust_env=False, timeout=PATIENCE_S, follow_redirects=True) as client:
        try:
            found = outcome(client.post(f"{server.url}/{path_of(name)}/chat", content=b"{}").content)
        except httpx.HTTPError:
            found = "error"
    assert found == ROWS[name].httpx


@rows
def test_aiohttp(name: str, server: Server) -> None:
    async def ask() -> Outcome:
        limit = aiohttp.ClientTimeout(PATIENCE_S)
        async with aiohttp.ClientSession(timeout=limit) as session:
            try:
                async with session.post(f"{server.url}/{path_of(name)}/chat", data=b"{}") as answer:
                    return outcome(await answer.read())
            except aiohttp.ClientError:
                return "error"

    assert asyncio.run(ask()) == ROWS[name].aiohttp


def test_the_table_says_where_ours_stands_alone() -> None:
    """Where two of the others read an answer that ours refuses, a reason stands in the table above."""
    alone = {name for name, row in ROWS.items() if row.ours == "error" and [*row[3:]].count("ok") >= 2}
    assert alone == {"chunked twice", "gzip, cut off", "redirection"}
