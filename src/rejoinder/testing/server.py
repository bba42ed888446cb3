"""The server: it runs on its own thread, on loopback, and answers for all APIs at once."""

from __future__ import annotations

import ssl
from collections.abc import Collection, Iterable, Mapping
from types import TracebackType
from typing import TypedDict, Unpack

from rejoinder.testing.limits import RateLimit
from rejoinder.testing.listener import Listener
from rejoinder.testing.service import Options, Service, Tally
from rejoinder.testing.values import Embed, Fault, Reply, Script


class Extra(TypedDict, total=False):
    """Additions to the requests and answers that the APIs define."""

    extra_headers: Mapping[str, str] | None
    extra_fields: Collection[str]


class FakeServer(Tally):
    """Language models on loopback. Use it as a context manager, or call `start` and `stop`.

    - `reply`: the answer of every model, or a function of the request that returns it. The function is called on the
      server's thread and must not block. If it raises, the client gets status 500, and the exception is raised again
      when the server stops.
    - `latency_s`: the thinking time of a model. Errors come at once.
    - `key`: requests with another key, or without one, get the API's own error.
    - `rate_limit`: requests beyond it get the API's own error 429.
    - `tls`: a server's context; the addresses then begin with https.
    - `faults`: one per request, in order of arrival, instead of the usual answer; None lets a request through. They
      apply before keys and limits are checked.
    - `extra_headers`: sent with every answer.
    - `extra_fields`: unknown top-level fields to accept in requests, as compatible servers do.
    - `embed`: a function from a text to the numbers of its vector, called on the server's thread like `reply`.
      Without one, `rejoinder.testing.embed` is used: texts of the same words have the same vector, texts with words
      in common similar ones, and others hardly any similarity.
    """

    def __init__(
        self,
        reply: Reply | Script = "OK",
        *,
        latency_s: float = 0.0,
        key: str | None = None,
        rate_limit: RateLimit | None = None,
        tls: ssl.SSLContext | None = None,
        faults: Iterable[Fault | None] = (),
        embed: Embed | None = None,
        **extra: Unpack[Extra],
    ) -> None:
        super().__init__()
        self._service = Service(Options(reply, latency_s, key, rate_limit, embed, **extra), faults, self)
        self._listener = Listener(self._service, tls)

    def __enter__(self) -> FakeServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.stop()
        if kind is None:
            self._raise_errors()

    def start(self) -> FakeServer:
        self._listener.start()
        return self

    def stop(self) -> None:
        """Close every connection and end the thread. Raises an exception that a given function raised, if any."""
        self._listener.stop()
        self._raise_errors()

    def _raise_errors(self) -> None:
        if self._service.errors:
            raise self._service.errors.pop()

    @property
    def url(self) -> str:
        return self._listener.url

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    anthropic_url = gemini_url = azure_url = url
