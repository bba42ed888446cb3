"""Requests that no browser sends, to a real server on a real socket: each is answered or cut off, and the next one is
served."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.kit import Project, run
from tests.server.kit import Served, children_of, scripted, serving, wait_until

pytestmark = pytest.mark.slow
LOGIN = "/etc/passwd"


@pytest.fixture
def served(project: Project) -> Iterator[Served]:
    run(project, scripted(1))
    with serving(project.folder) as found:
        yield found


def place_of(served: Served) -> tuple[str, int]:
    place = urlsplit(served.url)
    return place.hostname or "", place.port or 0


def send(served: Served, request: bytes) -> bytes:
    """All that is answered; nothing where the server hangs up."""
    answer = bytearray()
    with socket.create_connection(place_of(served), timeout=30) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(request)
        while part := connection.recv(1 << 16):
            answer += part
    return bytes(answer)


def status(answer: bytes) -> int:
    return int(answer.split()[1]) if answer else 0


def health(served: Served) -> int:
    return status(send(served, head(served, "GET /api/v1/health")))


def head(served: Served, line: str, *lines: str) -> bytes:
    host, port = place_of(served)
    own = (f"{line} HTTP/1.1", f"Host: {host}:{port}", "Connection: close", *lines)
    return ("\r\n".join(own) + "\r\n\r\n").encode("latin-1")


JSON = "Content-Type: application/json"
REQUESTS = {
    "a huge header": ("GET /", f"X: {'a' * 5_000_000}"),
    "three thousand headers": ("GET /", *(f"X{number}: a" for number in range(3_000))),
    "a long path": (f"GET /{'a' * 60_000}",),
    "a long query": (f"GET /?{'a' * 60_000}",),
    "two hosts": ("GET /", "Host: evil.example"),
    "another host in the line": ("GET http://evil.example/",),
    "a proxy": ("CONNECT evil.example:80",),
    "a trace": ("TRACE /",),
    "two lengths": ("POST /api/v1/runs", JSON, "Content-Length: 2", "Content-Length: 3"),
    "a length below nothing": ("POST /api/v1/runs", JSON, "Content-Length: -1"),
    "a length without end": ("POST /api/v1/runs", JSON, f"Content-Length: {'9' * 20}"),
    "nothing that is HTTP": ("\0\1\2",),
    **{
        f"the path {path}": (f"GET {path}",)
        for path in (
            f"/..{LOGIN}",
            f"/static/../../../..{LOGIN}",
            "/static/..%2f..%2f..%2fetc%2fpasswd",
            "/runs/..%2f..%2fevals.yaml",
            "/api/v1/labels/..%2f..%2fx",
            "/runs/%00",
            "/runs/%ff",
            "/cases/%00/%00",
            "//evil.example/",
            "/\\evil.example",
            "/data/runs/..%2f../rows",
        )
    },
}


def test_each_is_refused_and_the_next_one_is_served(served: Served):
    codes = {name: send(served, head(served, *lines)) for name, lines in REQUESTS.items()}
    assert all(b"root:" not in answer for answer in codes.values())
    served_whole = {"three thousand headers"}
    assert {name for name, answer in codes.items() if status(answer) == 200} <= served_whole
    assert {name for name, answer in codes.items() if status(answer) >= 500} == set()
    assert health(served) == 200


def test_connections_that_say_nothing_are_ended(served: Served):
    with contextlib.ExitStack() as held:
        for _ in range(700):
            held.enter_context(socket.create_connection(place_of(served), timeout=30))
        wait_until(lambda: health(served) == 200)


def test_who_does_not_read_the_answers_holds_up_nobody(served: Served):
    with contextlib.ExitStack() as held:
        for _ in range(50):
            connection = held.enter_context(socket.create_connection(place_of(served), timeout=30))
            connection.sendall(head(served, "GET /").replace(b"Connection: close\r\n", b"") * 50)
        assert health(served) == 200


def test_a_request_that_is_cut_off_starts_nothing(served: Served):
    body = head(served, "POST /api/v1/runs", JSON, "Content-Length: 1000") + b'{"suite": "evals.yaml"}'
    with socket.create_connection(place_of(served), timeout=30) as connection:
        connection.sendall(body)
    assert health(served) == 200
    assert children_of(served.process.pid) == []
    assert served.server.queue() == ()
