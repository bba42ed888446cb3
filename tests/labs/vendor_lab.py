"""Vendors' own addresses, answered on this machine: a proxy on loopback leads each of them to a fake server."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Generator
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from urllib.parse import urlsplit

import trustme

from rejoinder.testing import FakeServer
from rejoinder.testing.values import Reply, Script

HOSTS = ("api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com", "eu.api.openai.com")
KEYS = {f"{vendor}_API_KEY": "a-fake-key" for vendor in ("OPENAI", "ANTHROPIC", "GEMINI")}


@contextlib.contextmanager
def vendors(folder: Path, reply: Reply | Script) -> Generator[tuple[FakeServer, dict[str, str]]]:
    """A server that answers at the vendors' addresses, and the environment that leads there. The folder gets a file
    with its certificate."""
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*HOSTS).configure_cert(context)
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    with FakeServer(reply, tls=context) as server, _proxy(urlsplit(server.url).port or 0) as port:
        yield (
            server,
            {
                "HTTPS_PROXY": f"http://127.0.0.1:{port}",
                "SSL_CERT_FILE": str(folder / "authority.pem"),
                **KEYS,
            },
        )


@contextlib.contextmanager
def _proxy(port: int) -> Generator[int]:
    """The port of a proxy that connects to this one, whatever it is asked for."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            with socket.create_connection(("127.0.0.1", port)) as other:
                back = threading.Thread(target=_pass_on, args=(other, self.connection))
                back.start()
                _pass_on(self.connection, other)
                back.join()

    class Server(ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def _pass_on(source: socket.socket, to: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            to.sendall(piece)
    with contextlib.suppress(OSError):
        to.shutdown(socket.SHUT_WR)
