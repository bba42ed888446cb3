"""Errors of the HTTP API: one form for all of them."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from rejoinder.client import ErrorAnswer, ErrorBody

if TYPE_CHECKING:
    from starlette.responses import Response

CODES = {
    400: "bad-request",
    401: "no-token",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    408: "too-slow",
    409: "conflict",
    411: "bad-request",
    413: "too-large",
    415: "not-json",
    421: "wrong-host",
    422: "refused",
    429: "too-many",
    500: "internal",
    503: "busy",
}
"""The code of an error that has no other, by its status."""


class ApiError(Exception):
    """A request cannot be carried out."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        details: Any = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code or CODES.get(status, "error")
        self.details = details
        self.headers = headers or {}

    def response(self) -> Response:
        from starlette.responses import Response

        body = ErrorBody(code=self.code, message=self.message, details=self.details)
        return Response(msgspec.json.encode(ErrorAnswer(body)), self.status, self.headers, "application/json")


def no_run(run: str) -> ApiError:
    return ApiError(404, f"there is no run {run[:60]!r}", code="no-run")


def of_status(status: int, detail: str = "", headers: dict[str, str] | None = None) -> ApiError:
    """An error that Starlette found: no such page, or another method."""
    words = detail if detail and detail != HTTPStatus(status).phrase else _WORDS.get(status, HTTPStatus(status).phrase)
    return ApiError(status, words, headers=headers)


_WORDS = {
    404: "there is nothing at this address",
    405: "this address does not take that method",
    500: "the server made a mistake; its log says more",
}
