"""The reasons of failures that the baseline of a run had."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rejoinder.errors import RejoinderError
from rejoinder.gates.baselines import baselines_by_run
from rejoinder.model.clusters import ClusterKey
from rejoinder.model.history import RunRow
from rejoinder.runs.results import EveryResult
from rejoinder.server.folders import find_folder
from rejoinder.views.clusters import known_clusters

MOST_BYTES = 1 << 25
"""Of the results of a baseline that are read for a page."""


def reasons_of_baseline(root: Path, rows: Sequence[RunRow], run: str) -> frozenset[ClusterKey] | None:
    """The reasons of the newest run of the same suites before this one that is a baseline; None if there is none."""
    baseline = _baseline_of(root, rows, run)
    folder = None if baseline is None else find_folder(root, baseline)
    if folder is not None:
        with suppress(RejoinderError, OSError):
            if folder.results.stat().st_size <= MOST_BYTES:
                return known_clusters(EveryResult(folder.results))
    return None


def _baseline_of(root: Path, rows: Sequence[RunRow], run: str) -> str | None:
    saved = baselines_by_run(root)
    own = next((row for row in rows if row.id == run), None)
    if own is None or not saved:
        return None
    earlier = (row for row in reversed(rows) if row.id < own.id and row.suites == own.suites)
    return next((row.id for row in earlier if row.id in saved), None)
