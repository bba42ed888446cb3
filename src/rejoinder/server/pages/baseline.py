"""The reasons of failures that the baseline of a run had."""

from __future__ import annotations

from contextlib import suppress

from rejoinder.errors import RejoinderError
from rejoinder.gates.baselines import baselines_by_run
from rejoinder.model.clusters import ClusterKey
from rejoinder.runs.results import EveryResult
from rejoinder.server.errors import ApiError
from rejoinder.server.pages.desk import Desk, Look
from rejoinder.views.clusters import known_clusters

MOST_BYTES = 1 << 25
"""Of the results of a baseline that are read for a page."""


def reasons_of_baseline(desk: Desk, look: Look) -> frozenset[ClusterKey] | None:
    """The reasons of the newest run of the same suites before this one that is a baseline; None if there is none."""
    run = _baseline_of(desk, look)
    if run is None:
        return None
    with suppress(ApiError, RejoinderError, OSError):
        results = desk.folder(run).results
        if results.stat().st_size <= MOST_BYTES:
            return known_clusters(EveryResult(results))
    return None


def _baseline_of(desk: Desk, look: Look) -> str | None:
    saved = baselines_by_run(desk.root)
    if not saved:
        return None
    rows = desk.damage.history().history.rows
    own = next((row for row in rows if row.id == look.id), None)
    earlier = (row for row in reversed(rows) if own is not None and row.id < own.id and row.suites == own.suites)
    return next((row.id for row in earlier if row.id in saved), None)
