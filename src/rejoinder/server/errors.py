"""Errors of the HTTP API: one form for all of them."""

from __future__ import annotations

import os
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

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

    def inside(self, root: Path) -> ApiError:
        """The same error, which does not tell where the project lies."""
        message, details = without_places(self.message, root), without_places(self.details, root)
        return ApiError(self.status, message, code=self.code, details=details, headers=self.headers)

    def response(self) -> Response:
        from starlette.responses import Response

        body = ErrorBody(code=self.code, message=self.message, details=self.details)
        return Response(msgspec.json.encode(ErrorAnswer(body)), self.status, self.headers, "application/json")


def without_places(told: Any, root: Path) -> Any:
    """A text that the server tells, or several: what lies in the project by its path from there, what lies in the home
    of its user with `~`. Where these are is not for those who ask."""
    if isinstance(told, str):
        for place, name in _places(root):
            told = told.replace(f"{place}{os.sep}", f"{name}{os.sep}" if name else "").replace(place, name or ".")
        return told
    if isinstance(told, dict):
        return {key: without_places(one, root) for key, one in cast("dict[Any, Any]", told).items()}
    if isinstance(told, list | tuple):
        return [without_places(one, root) for one in cast("list[Any]", told)]
    return told


def _places(root: Path) -> list[tuple[str, str]]:
    with suppress(OSError, RuntimeError):
        places = {str(root.absolute()): "", str(root.resolve()): "", str(Path.home()): "~"}
        return sorted(((place, name) for place, name in places.items() if len(Path(place).parts) > 1), reverse=True)
    return []


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
