"""A service on loopback that sends given bytes, piece by piece: whole streams, cut ones and garbage."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

SSE = "text/event-stream"
NDJSON = "application/x-ndjson"


class Service:
    """Answers each connection with the same pieces; `asked` holds the heads and bodies of its requests."""

    def __init__(self, pieces: Iterable[bytes | float], *, cut: bool) -> None:
        self._pieces = list(pieces)
        self._cut = cut
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/chat"
        self._threads = [threading.Thread(target=self._serve, daemon=True)]
        self._stopped = threading.Event()
        self._threads[0].start()

    def close(self) -> None:
        self._stopped.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(30)

    def _serve(self) -> None:
        while not self._stopped.is_set():
            try:
                taken, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._answer, args=(taken,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _answer(self, taken: socket.socket) -> None:
        with taken, suppress(OSError):
            taken.settimeout(30)
            self.asked.append(_request(taken))
            for piece in self._pieces:
                if isinstance(piece, float):
                    if piece < 0:  # for ever
                        while not self._stopped.is_set():
                            taken.sendall(chunk(b": ping\n\n"))
                            time.sleep(0.02)
                        return
                    time.sleep(piece)
                else:
                    taken.sendall(piece)
            if not self._cut:
                with suppress(OSError):
                    taken.recv(1)  # until the other side closes


def _request(taken: socket.socket) -> str:
    data = b""
    while b"\r\n\r\n" not in data:
        data += taken.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(
        next(line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    )
    while len(body) < length:
        body += taken.recv(65536)
    return (head + b"\r\n\r\n" + body).decode()


def head(content_type: str = SSE, *, framing: str = "transfer-encoding: chunked\r\n", more: str = "") -> bytes:
    return f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\n{framing}{more}\r\n".encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


END = b"0\r\n\r\n"


@contextmanager
def serving(*pieces: bytes | float, cut: bool = False) -> Iterator[Service]:
    service = Service(pieces, cut=cut)
    try:
        yield service
    finally:
        service.close()


def target(service: Service, **more: Any) -> dict[str, Any]:
    return {"name": "bot", "provider": "http", "url": service.url, "max_retries": 0, **more}
