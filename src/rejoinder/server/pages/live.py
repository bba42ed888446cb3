"""Live pages: a stream of events that says which rows have come, and when a run has begun, was killed or has ended.

The run's folder is looked at twice a second, so a run that was started in a terminal is live, too. An event has the
rows that are new, the counts of the pills, what is in flight, and how the run stands.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from msgspec import Struct
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import BaseRoute, Route

from rejoinder.model.history import Phase
from rejoinder.server.desk import Desk
from rejoinder.server.errors import ApiError
from rejoinder.server.in_flight import InFlight, Waiting
from rejoinder.server.pages.asked import number_asked
from rejoinder.server.row_store import Query
from rejoinder.server.streams import Streams, event
from rejoinder.views.rows import RowView

PAUSE_S = 0.5
MOST_ROWS = 200
"""Rows of one event."""
WALK_S = 0.2
MOST_IN_FLIGHT = 5
"""Calls that are shown: those that wait the longest."""


class News(Struct, frozen=True, kw_only=True):
    """The content of an event."""

    rows: Sequence[RowView]
    """The new ones."""
    next: int
    """The place of the row after them."""
    total: int
    """The number of rows by now."""
    planned: int
    counts: dict[str, int] | None
    """The count of each pill; None if they have not changed."""
    state: Phase
    mark: str
    verified: bool
    whole: bool
    """Whether all conversations that have ended were read."""
    in_flight: Sequence[InFlight]
    """Calls that wait for an answer, the longest first."""
    waiting: int
    """The number of all such calls."""
    over: bool
    """True if this is the last event."""


class Live:
    def __init__(self, desk: Desk, streams: Streams) -> None:
        self._desk = desk
        self._streams = streams

    async def answer(self, request: Request) -> StreamingResponse:
        run, after = request.path_params["run"], number_asked(request, "after", 0)
        self._streams.refuse_more()
        await run_in_threadpool(self._desk.look, run)
        return self._streams.answer(self.events(run, after), PAUSE_S)

    async def events(self, run: str, after: int) -> AsyncGenerator[bytes | None]:
        last: object = None
        waiting: Waiting | None = None
        while True:
            try:
                waiting = waiting or Waiting(self._desk.folder(run).journal)
                news = await run_in_threadpool(self._news, run, after, waiting)
            except ApiError:
                yield event("gone", {})
                return
            state = news.mark, news.verified, news.whole, news.waiting, [one.place for one in news.in_flight]
            if news.rows or state != last:
                yield event("news", news)
                after, last = news.next, state
            if news.over:
                yield event("over", {})
                return
            if len(news.rows) < MOST_ROWS:
                yield None

    def _news(self, run: str, after: int, waiting: Waiting) -> News:
        look = self._desk.look(run)
        index = self._desk.index(look, WALK_S)
        state = index.state
        after = after if after <= state.rows else 0  # the results were put in order, and are read anew
        rows = index.after(after, MOST_ROWS)
        end = after + len(rows)
        waits = look.is_live or self._desk.is_queued(look) or not look.verified or not state.done
        in_flight = waiting.look() if look.is_live else []
        return News(
            rows=rows,
            next=end,
            total=state.rows,
            planned=0 if look.receipt is None else look.receipt.planned,
            counts=index.find(Query(), 0, 0).counts if rows else None,
            state=look.state,
            mark=look.mark,
            verified=look.verified,
            whole=state.done,
            in_flight=in_flight[:MOST_IN_FLIGHT],
            waiting=len(in_flight),
            over=not waits and end >= state.rows,
        )


def routes(desk: Desk, streams: Streams) -> list[BaseRoute]:
    return [Route("/data/runs/{run}/live", Live(desk, streams).answer, methods=["GET"])]
