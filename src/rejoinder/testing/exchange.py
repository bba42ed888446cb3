"""One request and what becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
from msgspec import Struct

from rejoinder.testing.api import Api, Refusal
from rejoinder.testing.http1 import Connection
from rejoinder.testing.values import Received


class Response(Struct, frozen=True):
    status: int
    body: bytes
    headers: dict[str, str] = {}
    content_type: str = "application/json"


class Exchange:
    """A request that waits for its answer on its connection."""

    def __init__(
        self,
        connection: Connection,
        received: Received,
        api: Api | None,
        number: int,
        ended: Callable[[Exchange], None],
    ) -> None:
        self.received = received
        self.api = api
        self.number = number
        self.headers: dict[str, str] = {}
        """What every answer to this request carries."""
        self._connection = connection
        self._ended = ended
        self._timer: asyncio.TimerHandle | None = None
        self._open = True
        self._request_id = ""
        if api is not None:
            self._request_id = api.request_id(number)
            if api.request_id_header is not None:
                self.headers[api.request_id_header] = self._request_id

    def refuse(self, refusal: Refusal) -> Response:
        """An error in the words of the API that was asked."""
        headers: dict[str, str] = {}
        if refusal.retry_after is not None:
            headers["retry-after"] = f"{refusal.retry_after:.3f}".rstrip("0").rstrip(".")
        if self.api is None:
            body = msgspec.json.encode({"error": f"no API here has the path {self.received.path}"})
            return Response(404, body)
        return Response(refusal.status, msgspec.json.encode(self.api.error(refusal, self._request_id)), headers)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        if seconds <= 0:
            action()
        else:
            self._timer = asyncio.get_running_loop().call_later(seconds, action)

    # An exchange is counted as ended before its last bytes are written: a client that has the answer finds it counted.

    def send(self, response: Response) -> None:
        self._end()
        self.start(response, response.body)
        self._connection.finish()

    def start(self, response: Response, part: bytes, framing: dict[str, str] | None = None) -> None:
        """The head of an answer and a part of its body. The head promises the whole body unless told otherwise."""
        headers = {"content-type": response.content_type}
        headers |= framing if framing is not None else {"content-length": str(len(response.body))}
        self._connection.start(response.status, headers | self.headers | response.headers, part)

    def write(self, data: bytes) -> None:
        if self._connection.writable:  # a client that does not read must not fill the memory
            self._connection.write(data)

    def finish(self, rest: bytes) -> None:
        self._end()
        self._connection.write(rest)
        self._connection.finish()

    def reset(self) -> None:
        self.abandon()
        self._connection.reset()

    def abandon(self) -> None:
        """The client is gone, or the server stops."""
        if self._timer is not None:
            self._timer.cancel()
        self._end()

    def _end(self) -> None:
        if self._open:
            self._open = False
            self._ended(self)
