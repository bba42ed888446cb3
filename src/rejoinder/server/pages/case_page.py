"""`/cases/SUITE/CASE`: one case over time and targets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rejoinder.report.page.grid import Cell, grid_cell, grid_table
from rejoinder.report.page.markup import Child, Markup, element
from rejoinder.run_files import RunDamaged
from rejoinder.server.desk import Desk
from rejoinder.server.errors import ApiError
from rejoinder.server.listed import Listed, age, listed
from rejoinder.server.pages.asked import pieces
from rejoinder.server.pages.frame import page, refused, trouble
from rejoinder.server.result_lines import placed_results
from rejoinder.views.rows import Frame, RowView, frame_of, row_of
from rejoinder.words.numbers import count, shortened, when

MOST_RUNS = 40
MOST_BYTES = 1 << 29
"""Of results that are looked through for one page."""
MOST_COLUMNS = 12
MOST_ROWS = 1_000


class Past(Struct, frozen=True):
    """The conversations of the case in one run."""

    listed: Listed
    rows: list[RowView]

    @property
    def cells(self) -> dict[str, Cell]:
        """By their column. Conversations that decide nothing are not counted."""
        cells: dict[str, Cell] = {}
        for row in self.rows:
            cells.setdefault(_column(row), Cell(row)).add(row)
        return cells


def routes(desk: Desk) -> list[BaseRoute]:
    return [Route("/cases/{rest:path}", partial(_show, desk), methods=["GET"])]


def _show(desk: Desk, request: Request) -> Response:
    try:
        names = pieces(request)[1:]
        if len(names) != 2:
            raise ApiError(404, "a case is named by its suite and its id")
    except ApiError as error:
        return refused("No such case", error)
    suite, case = names
    found = list(_history(desk, suite, case))
    if not found:
        words = f"None of the last runs of {shortened(suite, 80)} has a case {shortened(case, 80)}."
        return trouble("No such case", words, 404)
    title = found[0].rows[0].title
    main = element(
        "section",
        {"id": "overview", "class": "overview casepage", "aria-labelledby": "h-run"},
        element("h1", {"id": "h-run", "dir": "auto"}, title),
        element("p", {"class": "say", "dir": "auto"}, f"{case}, of {suite}. {_sum(found)}"),
        _table(found),
    )
    return page(shortened(title, 80), main)


def _history(desk: Desk, suite: str, case: str) -> Iterator[Past]:
    """Runs that have the case, the newest first."""
    looked, left = 0, MOST_BYTES
    for row in reversed(desk.damage.history().history.rows):
        if row.is_aside or not row.has_ended:
            continue
        if row.suites and not any(suite == name or suite.startswith(f"{name} (") for name in row.suites):
            continue
        looked += 1
        one = listed(desk, row)
        if one.view is None:
            continue
        path = desk.folder(row.id).results
        left -= path.stat().st_size if path.exists() else 0
        if looked > MOST_RUNS or left < 0:
            return
        rows = list(find_case(path, suite, case, frame_of(one.view.receipt)))
        if rows:
            yield Past(one, rows)


def find_case(path: Path, suite: str, case: str, frame: Frame) -> Iterator[RowView]:
    """The rows of a case. Only lines that hold its id are read."""
    needle = b'"id":' + msgspec.json.encode(case)
    rows = (row_of(one.result, one.at, frame) for one in placed_results(path, needle))
    with suppress(OSError, RunDamaged):
        yield from islice((row for row in rows if (row.case, row.suite) == (case, suite)), MOST_ROWS)


def _sum(found: list[Past]) -> str:
    cells = [cell for past in found for cell in past.cells.values()]
    passed, finished = sum(cell.passed for cell in cells), sum(cell.finished for cell in cells)
    return f"{passed:,} of {count(finished, 'conversation')} passed, in {count(len(found), 'run')}."


def _table(found: list[Past]) -> Markup:
    columns = list(dict.fromkeys(_column(row) for past in found for row in past.rows))[:MOST_COLUMNS]
    return grid_table(("Run", *columns), [_row(past, columns) for past in found], "The case in each run")


def _row(past: Past, columns: list[str]) -> Markup:
    cells, prefix = past.cells, f"/runs/{past.listed.row.id}"
    shown = [grid_cell(cells.get(one), one, prefix) for one in columns]
    return element("tr", None, element("th", {"scope": "row"}, _run(past.listed)), shown)


def _column(row: RowView) -> str:
    return f"{row.target} / {row.variant}" if row.variant else row.target


def _run(one: Listed) -> list[Child]:
    address = f"/runs/{one.row.id}"
    about = f"{one.row.id}, {age(one.row)}"
    return [
        element("a", {"href": address}, when(one.row.started_at) or one.row.id),
        element("span", {"class": "about"}, about),
    ]
