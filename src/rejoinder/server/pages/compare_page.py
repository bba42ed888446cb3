"""`/compare/A/B` and what is below it: two runs side by side. Figures and verdict are those of `compare`."""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rejoinder._version import __version__
from rejoinder.engine.run import sound_run
from rejoinder.errors import RejoinderError
from rejoinder.model.clusters import ClusterKey
from rejoinder.model.comparisons import RunComparison
from rejoinder.report.page.columns import Head, RunNames
from rejoinder.report.page.comparison import comparison_overview, window_title_of_both
from rejoinder.report.page.markup import Markup, element
from rejoinder.report.page.overview import judge_words, title_of, why_of_pairs
from rejoinder.report.page.pairs import Matching, Sides
from rejoinder.report.page.shell import BOTH, MOST_PLAIN, plain_table
from rejoinder.runs.comparing import compare_reports
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.report import RunReport
from rejoinder.runs.system_prompts import SystemPrompts
from rejoinder.server.damage import stamp_of
from rejoinder.server.errors import ApiError
from rejoinder.server.folders import too_large
from rejoinder.server.known import Known
from rejoinder.server.pages.asked import address_asked, address_in, pieces, query_asked
from rejoinder.server.pages.data import FIRST_ROWS, ListData, list_routes
from rejoinder.server.pages.desk import Desk
from rejoinder.server.pages.frame import Top, page, refused, trouble
from rejoinder.server.pair_index import PairIndex
from rejoinder.server.row_store import Address, Query
from rejoinder.views.clusters import known_clusters
from rejoinder.views.conversation import ConversationView, view_conversation
from rejoinder.views.rows import frame_of, row_of

MOST_KEPT = 4
"""Comparisons that are kept."""


class ComparisonData(ListData, frozen=True, kw_only=True, tag="compare"):
    """That of two runs."""


class Pairing(Struct, frozen=True):
    """Two runs that were compared."""

    a: RunReport
    b: RunReport
    found: RunComparison
    index: PairIndex
    sides: Sides
    reasons: frozenset[ClusterKey] | None
    """Why conversations of A did not pass."""

    def conversation(self, address: Address, side: str) -> ConversationView | None:
        both = self.index.results(address)
        if both is None:
            return None
        result, frame = (both[0], self.sides.a) if side == "a" else (both[1], self.sides.b)
        if result is None:
            return None
        folder = (self.a if side == "a" else self.b).folder
        return view_conversation(result, row_of(result, 0, frame), SystemPrompts(folder, result).of(result))


class Pairings:
    """Comparisons that were made. Each is made once, by one request; others wait for it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._lock = Lock()
        self._kept: Known[tuple[str, ...], Pairing] = Known(MOST_KEPT)

    def of(self, a: str, b: str) -> Pairing:
        """Raises ApiError for a run that is not there, has not ended, or is damaged."""
        folders = [self._desk.folder(run) for run in (a, b)]
        key = tuple(f"{folder.path} {stamp_of(folder.path)}" for folder in folders)
        with self._lock:
            known = self._kept.get(key)
            if known is not None:
                return known
            try:
                made = self._made(a, b)
            except RejoinderError as error:
                raise ApiError(409, error.message, code="damaged") from None
            for old in self._kept.put(key, made):
                old.index.close()
            return made

    def _made(self, a: str, b: str) -> Pairing:
        reports: list[RunReport] = []
        for run in (a, b):
            look = self._desk.look(run)
            if look.state in ("running", "killed"):
                raise ApiError(409, f"run {run} has not ended, so it cannot be compared yet", code="busy")
            if words := look.damage or too_large(look.folder.path):
                raise ApiError(409, f"run {run} is damaged: {words}", code="damaged")
            reports.append(sound_run(RecordedRun(look.folder, self._desk.root)))
        one, other = reports
        found = compare_reports(one, other)
        sides, matching = Sides(frame_of(one.run), frame_of(other.run)), Matching(one, other, found)
        index = PairIndex(other.folder.results, one.folder.results, self._desk.new_file(), sides)
        index.fill(matching.in_a, matching.in_b)
        return Pairing(one, other, found, index, sides, known_clusters(one.results))


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
    a, b = found.a.run, found.b.run
    query = query_asked(request)
    judges = (*found.a.summary.judges, *found.b.summary.judges)
    targets = dict.fromkeys((*found.b.summary.by_target, *found.a.summary.by_target))
    head = Head(
        run=f"{a.id}..{b.id}",
        title=title_of(b),
        targets=tuple(targets),
        variants=tuple(dict.fromkeys((*found.b.summary.by_variant, *found.a.summary.by_variant))),
        block=0,
        judges={judge.digest: judge_words(judge) for judge in judges},
        version=__version__,
        pair=RunNames(a.id, b.id),
    )
    first = found.index.find(query, 0, FIRST_ROWS)
    data = ComparisonData(head=head, tags=found.index.tags(), query=query, found=first)
    worse = found.index.find(Query(show="worse"), 0, MOST_PLAIN)
    plain = plain_table("Passed in A and not in B", worse.rows, worse.total, prefix=f"/runs/{b.id}")
    at = f"/compare/{a.id}/{b.id}"
    why, acts = why_of_pairs(found.b.summary, at, found.reasons), _links(a.id, b.id)
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
