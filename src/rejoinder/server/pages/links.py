"""Links from one page to another."""

from __future__ import annotations

from collections.abc import Iterable

from rejoinder.model.history import RunRow
from rejoinder.report.page.markup import Markup, element


def comparison_link(rows: Iterable[RunRow], run: RunRow, origin: str | None) -> Markup | None:
    """Of rows, the newest first: the way to a comparison with the run that this one was made from, else with the one
    of the same suites before it."""
    if origin is None:
        words, other = "Compare with the one before", (row for row in rows if row.id < run.id and _is_alike(row, run))
    else:
        words, other = "Compare with its run", (row for row in rows if row.id == origin)
    found = next(other, None)
    return None if found is None else element("a", {"class": "btn", "href": f"/compare/{found.id}/{run.id}"}, words)


def _is_alike(row: RunRow, last: RunRow) -> bool:
    return row.is_whole and row.part == last.part and row.suites == last.suites
