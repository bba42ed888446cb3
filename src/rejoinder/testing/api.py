"""What the server needs to know of an API, and how its requests are picked apart."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeAlias, cast

from msgspec import Struct

from rejoinder.testing.values import Answer, Embed, Received

Json: TypeAlias = dict[str, Any]


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


class Endpoint(Struct, frozen=True):
    """One thing that can be asked of an API."""

    check: Callable[[Received, Collection[str]], None]
    """Raises Refusal. The names are top-level fields to accept although the API has none such."""
    body: Callable[[Received, Answer, int], Json]
    """The answer in the API's words. The number is of this request alone, for ids."""
    asks: bool = True
    """Does a model answer? Otherwise the script is not asked."""
    method: str = "POST"


class Embedding(Struct, frozen=True):
    """An endpoint that turns texts into vectors. The script has no say in it."""

    check: Callable[[Received, Collection[str]], None]
    body: Callable[[Received, Embed | None], Json]
    """The vectors in the API's words, made by the test's function or, without one, of the texts' words."""
    asks: bool = False
    method: str = "POST"


class Api(Struct, frozen=True):
    """A wire format."""

    name: str
    owns: Callable[[str], bool]
    """Is the path one of this API's?"""
    find: Callable[[Received], Endpoint | Embedding | None]
    check_key: Callable[[Received, str], None]
    """Raises Refusal unless the request has this key."""
    error: Callable[[Refusal, str], Json]
    """The body of an error. The text is the request's id."""
    request_id: Callable[[int], str]
    request_id_header: str | None


def require_object(received: Received, message: str) -> Json:
    """The body of a request, which has to be a JSON object."""
    if not isinstance(received.body, dict):
        raise Refusal(400, message)
    return cast(Json, received.body)


def as_list(value: Any) -> list[Any]:
    """The value if it is a list, otherwise none of its items."""
    return cast(list[Any], value) if isinstance(value, list) else []


def as_object(value: Any) -> Json:
    return cast(Json, value) if isinstance(value, dict) else {}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def bearer(received: Received) -> str:
    """The key after `Bearer`, or nothing."""
    scheme, _, key = received.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""
