"""The viewer's pages, their data and its files.

A page is a full document with its first data in it. Lists and conversations ask for more under `/data`. Pages change
nothing: what they offer to do goes through the HTTP API.
"""

from __future__ import annotations

from starlette.routing import BaseRoute

from rejoinder.server.desk import Desk
from rejoinder.server.pages import (
    case_page,
    compare_page,
    copies,
    data,
    judge_page,
    label_page,
    live,
    run_page,
    runs_page,
    statics,
)
from rejoinder.server.streams import Streams


def routes(desk: Desk, streams: Streams) -> list[BaseRoute]:
    return [
        *statics.routes(),
        *data.routes(desk),
        *live.routes(desk, streams),
        *copies.routes(desk),
        *runs_page.routes(desk),
        *run_page.routes(desk),
        *compare_page.routes(desk),
        *case_page.routes(desk),
        *judge_page.routes(desk),
        *label_page.routes(desk),
    ]
