"""What the server needs to know of an API, and how its requests are picked apart."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, cast

from msgspec import Struct

from rejoinder.testing.values import Answer, Embed, Json, Received, Tokens, as_object, count_tokens, embed


class Refusal(Exception):
    """The API answers with an error. An empty message stands for the API's usual words."""

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
    """All that the body of an answer is made of."""

    received: Received
    answer: Answer
    number: int
    """Of this request alone, for ids."""
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
    """One thing that can be asked of an API."""

    check: Callable[[Received, Collection[str]], None]
    """Raises Refusal. The names are top-level fields to accept although the API has none such."""
    body: Callable[[Asked], Json]
    """The answer in the API's words."""
    asks: bool = True
    """Does a model answer? Otherwise the script is not asked."""
    method: str = "POST"


class Api(Struct, frozen=True):
    """A wire format."""

    name: str
    owns: Callable[[str], bool]
    """Is the path one of this API's?"""
    find: Callable[[Received], Endpoint | None]
    check_key: Callable[[Received, str], None]
    """Raises Refusal unless the request has this key."""
    error: Callable[[Refusal, str], Json]
    """The body of an error. The text is the request's id."""
    request_id: Callable[[int], str]
    request_id_header: str | None


def require(condition: object, message: str, **more: Any) -> None:
    """Refuse a request of which this is not true."""
    if not condition:
        raise Refusal(400, message, **more)


def require_object(received: Received, message: str) -> Json:
    """The body of a request, which has to be a JSON object."""
    require(isinstance(received.body, dict), message)
    return cast(Json, received.body)


def bearer(received: Received) -> str:
    """The key after `Bearer`, or nothing."""
    scheme, _, key = received.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""
