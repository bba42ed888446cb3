"""What the script asks for after a page is there: rows, places, conversations. Not the public API."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rejoinder.report.page.columns import Head
from rejoinder.server.desk import Desk, Look, conversation_at
from rejoinder.server.errors import ApiError
from rejoinder.server.pages.asked import LISTED, address_asked, number_asked, query_asked
from rejoinder.server.pages.frame import PageData
from rejoinder.server.row_store import Found, Query, RowStore
from rejoinder.server.run_index import RunIndex
from rejoinder.words.inert import to_bytes

PATIENCE_S = 5.0
"""How long an answer waits for the index of a large run; the page is told when there is more."""
FIRST_ROWS = 60
"""Rows that are in the page itself."""


class ListData(PageData, frozen=True, kw_only=True):
    """What a page with a list begins with."""

    head: Head
    tags: list[str]
    """Of all cases, to choose from."""
    query: Query
    found: Found
    """The first rows under the query."""


class Place(Struct, frozen=True):
    place: int


def json_of(value: object) -> Response:
    return Response(to_bytes(value), media_type="application/json")


def sound(desk: Desk, run: str) -> Look:
    """A run that can be shown. Raises ApiError for one that is not there, or that is damaged."""
    look = desk.look(run)
    if look.is_damaged:
        raise ApiError(409, f"run {look.id} is damaged: {look.damage}", code="damaged")
    return look


def indexed(desk: Desk, request: Request) -> RunIndex:
    return desk.index(sound(desk, request.path_params["run"]), PATIENCE_S)


def _rows(store: RowStore[Any], request: Request) -> Any:
    start, count = number_asked(request, "from", 0), number_asked(request, "count", FIRST_ROWS)
    return store.find(query_asked(request), start, count)


def _place(store: RowStore[Any], request: Request) -> Any:
    return Place(store.place(address_asked(request), query_asked(request, LISTED)))


def _siblings(store: RowStore[Any], request: Request) -> Any:
    address = address_asked(request)
    return store.siblings(address.suite, address.case)


_OF_A_LIST: dict[str, Callable[[RowStore[Any], Request], Any]] = {
    "rows": _rows,
    "place": _place,
    "siblings": _siblings,
}


def list_routes(
    path: str, rows: Callable[[Request], RowStore[Any]], conversation: Callable[[Request], Any]
) -> list[BaseRoute]:
    """What the script asks of a list, below an address. `rows`: those that a request is about."""
    answers = {name: partial(_answer_of, answer, rows) for name, answer in _OF_A_LIST.items()}
    return [
        Route(f"{path}/{name}", answering(answer), methods=["GET"])
        for name, answer in {**answers, "conversation": conversation}.items()
    ]


def _answer_of(
    answer: Callable[[RowStore[Any], Request], Any], rows: Callable[[Request], RowStore[Any]], request: Request
) -> Any:
    return answer(rows(request), request)


def routes(desk: Desk) -> list[BaseRoute]:
    return list_routes("/data/runs/{run}", partial(indexed, desk), partial(_conversation, desk))


def _conversation(desk: Desk, request: Request) -> Any:
    return conversation_at(indexed(desk, request), address_asked(request))


def answering(answer: Callable[[Request], Any]) -> Callable[[Request], Response]:
    """A handler that answers in JSON; Starlette calls it in a thread."""

    def handle(request: Request) -> Response:
        return json_of(answer(request))

    return handle
