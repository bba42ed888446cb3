"""The HTTP API as a table: each row is a request that can be made. Routes and the OpenAPI document are made from it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from rejoinder.errors import MissingKey, RejoinderError, SuiteError, decoding_reason
from rejoinder.run_files import RunDamaged
from rejoinder.runs.folder import RunBusy
from rejoinder.server.damage import Damage
from rejoinder.server.errors import ApiError
from rejoinder.server.known import Known
from rejoinder.server.queue import InQueue, Queue, QueueFull
from rejoinder.server.settings import Settings
from rejoinder.server.streams import Streams
from rejoinder.server.supervisor import Supervisor
from rejoinder.spelling import did_you_mean

PREFIX = "/api/v1"
MOST_COUNTED = 100
"""Files of results of which is remembered how many they have."""


class Api:
    """What the handlers work with."""

    def __init__(self, settings: Settings, damage: Damage) -> None:
        self.settings = settings
        self.damage = damage
        self.queue = Queue(settings.root, settings.limits.queued)
        self.supervisor = Supervisor(self.queue, settings.jobs)
        self.closing = asyncio.Event()
        self.counted: Known[Path, tuple[int, int]] = Known(MOST_COUNTED)
        """Of files of results: how far they were counted, and how many there were."""
        self.streams = Streams(settings.limits.streams, self.closing)
        self.loading = threading.Lock()
        """Suites are loaded one at a time: which files they read is recorded for the whole process."""


class Call(Struct, frozen=True):
    """A request that fits its row of the table."""

    path: dict[str, str]
    query: Any
    body: Any
    headers: Any


Handler = Callable[[Api, Call], Awaitable[Any]]


class Route(Struct, frozen=True, kw_only=True):
    """`answer`: a type, or a kind of content that is not JSON."""

    method: str
    path: str
    handler: Handler
    summary: str
    answer: Any
    status: int = 200
    query: type[Struct] | None = None
    body: type[Struct] | None = None
    errors: tuple[int, ...] = ()

    @property
    def changes(self) -> bool:
        return self.method not in ("GET", "HEAD")

    def as_endpoint(self, api: Api) -> StarletteRoute:
        async def endpoint(request: Request) -> Response:
            if self.changes and api.settings.read_only:
                raise ApiError(403, "this server shows runs and changes nothing (--read-only)", code="read-only")
            call = Call(
                dict(request.path_params),
                None if self.query is None else read_query(request, self.query),
                None if self.body is None else read_body(await request.body(), self.body),
                request.headers,
            )
            try:
                answer = await self.handler(api, call)
            except RejoinderError as error:
                raise as_api_error(error) from None
            if isinstance(answer, Response):
                return answer
            return Response(encode(answer), self.status, media_type="application/json")

        return StarletteRoute(f"{PREFIX}{self.path}", endpoint, methods=[self.method])


def encode(answer: Any) -> bytes:
    return msgspec.json.encode(answer)


def read_body(content: bytes, kind: type[Struct]) -> Any:
    try:
        return msgspec.json.decode(content or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise ApiError(422, f"the request is not as it has to be: {error}", code="invalid") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ApiError(400, f"the request is not JSON: {decoding_reason(error)}", code="not-json") from None


def read_query(request: Request, kind: type[Struct]) -> Any:
    """The parameters of an address; those that take several values are given several times, or with commas."""
    hints = get_type_hints(kind, include_extras=True)
    if unknown := next((name[:100] for name in request.query_params if name not in hints), None):
        raise ApiError(422, f"there is no parameter {unknown!r} here{did_you_mean(unknown, hints)}", code="invalid")
    values: dict[str, Any] = {}
    for name, hint in hints.items():
        if name not in request.query_params:
            continue
        given = request.query_params.getlist(name)
        if takes_several(hint):
            values[name] = [word.strip() for one in given for word in one.split(",") if word.strip()]
        else:
            values[name] = given[-1]
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ApiError(422, f"the address is not as it has to be: {error}", code="invalid") from None


def takes_several(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return takes_several(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return any(takes_several(one) for one in get_args(hint))
    return get_origin(hint) in (tuple, list)


_STATUSES: tuple[tuple[type[RejoinderError], int, str], ...] = (
    (QueueFull, 429, "queue-full"),
    (InQueue, 409, "in-queue"),
    (RunBusy, 409, "busy"),
    (RunDamaged, 409, "damaged"),
    (MissingKey, 422, "missing-key"),
    (SuiteError, 422, "suite"),
    (RejoinderError, 422, "refused"),
)


def as_api_error(error: RejoinderError) -> ApiError:
    status, code = next((status, code) for kind, status, code in _STATUSES if isinstance(error, kind))
    details: Any = None if error.hint is None else {"hint": error.hint}
    if isinstance(error, SuiteError):
        details = [
            {"code": one.code, "message": one.message, "path": one.path, "line": one.line, "column": one.column}
            for one in error.problems
            if one.severity == "error"
        ]
    headers = {"retry-after": "5"} if status == 429 else None
    return ApiError(status, error.message, code=code, details=details, headers=headers)
