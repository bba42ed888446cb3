"""Connections: how long they may be idle or slow, and whose they are."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from rejoinder.server import serving as bounds
from rejoinder.server.app import make_app
from rejoinder.server.peers import Peers
from tests.kit import Project
from tests.server.kit import Served, serving, settings, wait_until

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
OTHER = 65534


@contextlib.contextmanager
def answering(folder: Path, *, tables: tuple[Path, ...] | None = None) -> Generator[tuple[str, int]]:
    """A server in a thread of this process; where it listens. Without `tables` of sockets, all users are let in."""
    listening = bounds.listen("127.0.0.1", 0, exactly=True)
    place = listening.getsockname()
    app = make_app(settings(folder, port=place[1], read_only=True))
    server = bounds.Server(app, None if tables is None else Peers(listening, tables))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield place
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
    assert not thread.is_alive()


def asked(connection: socket.socket) -> bytes:
    """The status line of an answer; the connection stays open."""
    port = connection.getpeername()[1]
    connection.sendall(f"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    answer = b""
    while not answer.endswith(b"}"):
        part = connection.recv(10_000)
        assert part, answer
        answer += part
    return answer.partition(b"\r\n")[0]


class TestIdle:
    def test_a_request_whose_head_never_ends_is_given_up(self, project: Project, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(bounds, "HEADERS_S", 0.3)
        with answering(project.folder) as place:
            for head in (b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX:"):
                with socket.create_connection(place, timeout=10) as slow:
                    slow.sendall(head)
                    assert slow.recv(100) == b""

    def test_a_head_that_comes_byte_by_byte_is_given_up_too(self, project: Project, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(bounds, "HEADERS_S", 2.0)  # enough for the first head on a busy machine
        with answering(project.folder) as place, socket.create_connection(place, timeout=10) as slow:
            assert asked(slow) == b"HTTP/1.1 200 OK"
            slow.setblocking(False)

            def is_cut() -> bool:
                with contextlib.suppress(OSError):
                    slow.send(b"G")
                try:
                    return slow.recv(100) == b""
                except BlockingIOError:
                    return False
                except ConnectionError:
                    return True

            wait_until(is_cut)

    def test_a_connection_that_is_used_stays(self, project: Project, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(bounds, "HEADERS_S", 2.0)  # enough for a head on a busy machine
        with answering(project.folder) as place, socket.create_connection(place, timeout=10) as busy:
            assert asked(busy) == b"HTTP/1.1 200 OK"
            time.sleep(2.1)  # the time of a head has passed since the connection was made
            assert asked(busy) == b"HTTP/1.1 200 OK"

    def test_a_connection_that_is_idle_after_an_answer_is_ended(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(bounds, "KEEP_ALIVE_S", 1)
        with answering(project.folder) as place, socket.create_connection(place, timeout=10) as idle:
            assert asked(idle) == b"HTTP/1.1 200 OK"
            assert idle.recv(100) == b""


HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def row(local: tuple[str, int], remote: tuple[str, int], uid: int, state: str = "01") -> str:
    """A socket of IPv4 as Linux lists it."""
    places = [
        f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}" for host, port in (local, remote)
    ]
    return (
        f"   7: {places[0]} {places[1]} {state} 00000000:00000000 00:00000000 00000000 {uid:5}        0 123 1 0 100\n"
    )


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="users have numbers on POSIX")
class TestUsers:
    LISTENS = ("127.0.0.1", 8417)
    COMES = ("127.0.0.1", 40000)

    @pytest.fixture
    def listening(self) -> Iterator[socket.socket]:
        with bounds.listen("127.0.0.1", 0, exactly=True) as made:
            yield made

    def peers(self, folder: Path, listening: socket.socket, *rows: str) -> Peers:
        own = row(listening.getsockname(), ("0.0.0.0", 0), os.geteuid(), "0A")
        (folder / "tcp").write_text(HEAD + own + "".join(rows))
        return Peers(listening, (folder / "tcp", folder / "tcp6"))

    def test_a_connection_is_of_the_user_of_its_other_end(self, tmp_path: Path, listening: socket.socket):
        here = listening.getsockname()
        ours = row(here, self.COMES, os.geteuid())
        for uid, is_own in ((os.geteuid(), True), (os.geteuid() + 1, False)):
            peers = self.peers(tmp_path, listening, ours, row(self.COMES, here, uid))
            assert peers.can_tell
            assert peers.is_own(self.COMES, here) is is_own

    def test_a_socket_that_leads_elsewhere_does_not_count(self, tmp_path: Path, listening: socket.socket):
        here = listening.getsockname()
        peers = self.peers(tmp_path, listening, row(self.COMES, ("127.0.0.1", here[1] - 1), os.geteuid()))
        assert not peers.is_own(self.COMES, here), "an end that is not found is of another user"
        assert not peers.is_own(None, here)

    @pytest.mark.parametrize("text", [None, "", HEAD, "\udcff\n\n1 2 3\n   7: 0100007F:20E1\n"])
    def test_tables_without_the_own_socket_tell_nothing(
        self, tmp_path: Path, listening: socket.socket, text: str | None
    ):
        if text is not None:
            (tmp_path / "tcp").write_text(text, errors="surrogateescape")
        assert not Peers(listening, (tmp_path / "tcp", tmp_path / "none")).can_tell

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lists sockets")
    @pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
    def test_own_connections_are_known_by_what_the_machine_says(self, listening: socket.socket, family: int):
        host, port = listening.getsockname()
        peers = Peers(listening)
        assert peers.can_tell
        try:
            calling = socket.socket(family, socket.SOCK_STREAM)
            with calling:
                calling.connect((host if family == socket.AF_INET else f"::ffff:{host}", port))
                with listening.accept()[0] as accepted:
                    assert peers.is_own(accepted.getpeername(), accepted.getsockname())
        except OSError:
            pytest.skip("this machine has no IPv6")

    def test_another_user_is_refused_in_words_on_every_path(self, project: Project, tmp_path: Path):
        with answering(project.folder, tables=(tmp_path / "none",)) as place:
            for path in ("/", "/api/v1/health", "/static/app.js"):
                with socket.create_connection(place, timeout=10) as other:
                    other.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{place[1]}\r\n\r\n".encode())
                    answer = b"".join(iter(lambda: other.recv(10_000), b"")).decode()
                    assert answer.startswith("HTTP/1.1 403")
                    assert "belongs to another user of this machine" in answer
                    assert "content-security-policy" in answer

    @pytest.mark.skipif(not (IS_ROOT and sys.platform.startswith("linux")), reason="only root becomes another user")
    @pytest.mark.slow
    def test_a_real_other_user_is_refused_and_let_in_with_a_token(self, project: Project):
        with serving(project.folder) as served:
            assert served.server.queue() == ()
            assert status_for(OTHER, served) == 403
            assert status_for(0, served) == 200
        with serving(project.folder, "--token", "sesame") as served:
            assert status_for(OTHER, served) == 401
            assert status_for(OTHER, served, token="sesame") == 200


def status_for(uid: int, served: Served, token: str = "") -> int:
    """What a program of a user gets. Once it is that user it may not find any module, so it has all before."""
    host, port = served.url.removeprefix("http://").split(":")
    program = (
        "import os, socket, sys\n"
        "uid, host, port, token = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]\n"
        "head = f'GET /api/v1/queue HTTP/1.1\\r\\nHost: {host}:{port}\\r\\nAuthorization: Bearer {token}\\r\\n\\r\\n'\n"
        "os.setuid(uid)\n"
        "with socket.socket() as asking:\n"
        "    asking.connect((host, port))\n"
        "    asking.sendall(head.encode())\n"
        "    print(asking.recv(1000).split()[1].decode())\n"
    )
    words = [sys.executable, "-c", program, str(uid), host, port, token]
    return int(subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=60).stdout)
