"""`/compare/A/B` and what is below it: two runs side by side. Figures and verdict are those of `compare`."""

from __future__ import annotations

from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rejoinder._version import __version__
from rejoinder.report.page.columns import Head, RunNames
from rejoinder.report.page.comparison import comparison_overview, window_title_of_both
from rejoinder.report.page.markup import Markup, element
from rejoinder.report.page.overview import why_of_pairs
from rejoinder.report.page.shell import BOTH, MOST_PLAIN, plain_table
from rejoinder.server.desk import Desk
from rejoinder.server.errors import ApiError
from rejoinder.server.pages.asked import address_asked, address_in, pieces, query_asked
from rejoinder.server.pages.data import FIRST_ROWS, ListData, list_routes
from rejoinder.server.pages.frame import Top, page, refused, trouble
from rejoinder.server.pair_index import PairIndex
from rejoinder.server.pairings import Pairing, Pairings
from rejoinder.server.row_store import Address, Query
from rejoinder.views.judges import reliability_of
from rejoinder.views.run import view_run


class ComparisonData(ListData, frozen=True, kw_only=True, tag="compare"):
    """That of two runs."""


def routes(desk: Desk) -> list[BaseRoute]:
    pairings = Pairings(desk)
    return [
        *list_routes("/data/compare/{a}/{b}", partial(_rows, pairings), partial(_conversation, pairings)),
        Route("/compare/{a}/{b}", partial(_show, pairings), methods=["GET"]),
        Route("/compare/{a}/{b}/{rest:path}", partial(_show, pairings), methods=["GET"]),
    ]


def _asked(pairings: Pairings, request: Request) -> Pairing:
    return pairings.of(request.path_params["a"], request.path_params["b"])


def _rows(pairings: Pairings, request: Request) -> PairIndex:
    return _asked(pairings, request).index


def _conversation(pairings: Pairings, request: Request) -> Any:
    return _asked(pairings, request).conversation(address_asked(request), request.query_params.get("side", "b"))


def _show(pairings: Pairings, request: Request) -> Response:
    try:
        found = _asked(pairings, request)
        address = _address(pieces(request)[3:])
    except ApiError as error:
        return refused("These runs cannot be compared", error)
    if address is not None and found.index.row(address) is None:
        return trouble("No such conversation", "Neither run has a conversation of that name.", 404)
    a, b, view = found.a.run, found.b.run, view_run(found.b)
    query = query_asked(request)
    judges = (*found.a.summary.judges, *found.b.summary.judges)
    targets = dict.fromkeys((*found.b.summary.by_target, *found.a.summary.by_target))
    head = Head(
        run=f"{a.id}..{b.id}",
        title=view.title,
        targets=tuple(targets),
        variants=tuple(dict.fromkeys((*found.b.summary.by_variant, *found.a.summary.by_variant))),
        block=0,
        judges=reliability_of(judges),
        version=__version__,
        pair=RunNames(a.id, b.id),
    )
    first = found.index.find(query, 0, FIRST_ROWS)
    data = ComparisonData(head=head, tags=found.index.tags(), query=query, found=first)
    worse = found.index.find(Query(show="worse"), 0, MOST_PLAIN)
    plain = plain_table("Passed in A and not in B", worse.rows, worse.total, prefix=f"/runs/{b.id}")
    at = f"/compare/{a.id}/{b.id}"
    why, acts = why_of_pairs(view, at, found.reasons), _links(a.id, b.id)
    overview = comparison_overview(found.found, at, why=why, acts=acts)
    top = Top(window=window_title_of_both(found.found, head.title))
    return page(head.title, overview, data, run=BOTH.join((a.id, b.id)), at=at, top=top, plain=plain)


def _links(a: str, b: str) -> Markup:
    links = [
        element("a", {"class": "btn", "href": f"/runs/{a}"}, "Run A"),
        element("a", {"class": "btn", "href": f"/runs/{b}"}, "Run B"),
        element("a", {"class": "btn", "href": f"/compare/{b}/{a}"}, "Swap"),
    ]
    return element("p", {"class": "acts"}, links)


def _address(names: list[str]) -> Address | None:
    kind, *rest = names or [""]
    if kind == "" and not rest:
        return None
    if kind in ("c", "a", "b"):
        return address_in(rest)
    raise ApiError(404, "there is nothing at this address")
