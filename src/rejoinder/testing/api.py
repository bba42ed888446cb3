"""The server's description of an API, and the reading of its requests."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, cast

from msgspec import Struct

from rejoinder.testing.values import Answer, Embed, Json, Received, Tokens, as_object, count_tokens, embed


class Refusal(Exception):
    """The API answers with an error. An empty message means the API's usual words."""

    def __init__(
        self,
        status: int,
        message: str = "",
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.retry_after = retry_after


class Asked(Struct, frozen=True):
    """All data that the body of an answer is made from."""

    received: Received
    answer: Answer
    number: int
    """The number of this request, for ids."""
    embed: Embed | None
    """The test's own function from a text to its vector."""

    @property
    def body(self) -> Json:
        return as_object(self.received.body)

    @property
    def tokens(self) -> Tokens:
        return count_tokens(self.received, self.answer)

    def vector(self, text: str, dimensions: int | None) -> list[float]:
        return [float(number) for number in (self.embed(text) if self.embed else embed(text, dimensions))]


class Endpoint(Struct, frozen=True):
    """One endpoint of an API."""

    check: Callable[[Received, Collection[str]], None]
    """Checks a request; raises Refusal. The names are extra top-level fields to accept."""
    body: Callable[[Asked], Json]
    """Makes the answer in the API's format."""
    asks: bool = True
    """Whether a model answers. Otherwise the script is not asked."""
    method: str = "POST"


class Api(Struct, frozen=True):
    """A wire format."""

    name: str
    owns: Callable[[str], bool]
    """Whether the path belongs to this API."""
    find: Callable[[Received], Endpoint | None]
    check_key: Callable[[Received, str], None]
    """Raises Refusal unless the request has this key."""
    error: Callable[[Refusal, str], Json]
    """Makes the body of an error. The text is the request's id."""
    request_id: Callable[[int], str]
    request_id_header: str | None


def require(condition: object, message: str, **more: Any) -> None:
    """Refuse a request if the condition is false."""
    if not condition:
        raise Refusal(400, message, **more)


def require_object(received: Received, message: str) -> Json:
    """The body of a request, which must be a JSON object."""
    require(isinstance(received.body, dict), message)
    return cast(Json, received.body)


def bearer(received: Received) -> str:
    """The key after `Bearer`; empty if missing."""
    scheme, _, key = received.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""
