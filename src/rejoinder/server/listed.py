"""Runs as the list of runs shows them: the row of the history, and the figures of its summary, where it is sound."""

from __future__ import annotations

import time

from msgspec import Struct

from rejoinder.errors import RejoinderError
from rejoinder.model.figures import Rate
from rejoinder.model.history import RunRow, seconds_of
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.report import read_run
from rejoinder.server.desk import Desk
from rejoinder.server.errors import ApiError
from rejoinder.views.board import rate_of
from rejoinder.views.run import RunView, title_of_suites, view_run
from rejoinder.words.numbers import ago


class Listed(Struct, frozen=True):
    row: RunRow
    view: RunView | None = None
    """None if there are no figures to show."""
    rate: Rate | None = None
    damage: str = ""

    @property
    def title(self) -> str:
        return title_of_suites(self.row.suites) or self.row.id


def listed(desk: Desk, row: RunRow) -> Listed:
    """A row of the desk's history."""
    if row.is_going:
        return Listed(row)
    try:
        folder = desk.folder(row.id)
        damage = desk.damage.known(folder) or ("its files cannot be read" if row.status == "damaged" else "")
        report = None if damage else read_run(RecordedRun(folder, desk.root))
    except (RejoinderError, ApiError, OSError) as error:
        return Listed(row, damage=str(error))
    if report is None:
        return Listed(row, damage=damage or "it has no summary")
    return Listed(row, view_run(report), rate_of(report.summary))


def age(row: RunRow, now: float | None = None) -> str:
    """`4 min ago`."""
    started = seconds_of(row.started_at)
    if started is None:
        return ""
    return ago((time.time() if now is None else now) - started)


def holds(row: RunRow, wanted: str) -> bool:
    """Do the words stand in what is known of a run?"""
    texts = (row.id, *row.suites, *row.targets, *row.models, *row.tags, row.note, row.outcome)
    return wanted.casefold() in "\n".join(texts).casefold()
