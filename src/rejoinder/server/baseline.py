"""Comparisons of runs with their baselines: once for each state of a run, and behind the page if a run is large."""

from __future__ import annotations

from pathlib import Path
from threading import Lock, Thread

from msgspec import Struct

from rejoinder.gates.baselines import baselines_folder
from rejoinder.model.clusters import ClusterKey
from rejoinder.runs.folder import RunFolder
from rejoinder.runs.report import RunReport
from rejoinder.server.damage import stamp_of
from rejoinder.server.known import Known
from rejoinder.views.flips import SinceBaseline
from rejoinder.views.since import baselines_before, known_reasons, since_baseline

MOST_AT_ONCE = 2_000
"""Conversations of a run that a page waits for; of more it says nothing until it is opened again."""
MOST_KEPT = 64


class BaselineComparison(Struct, frozen=True):
    since: SinceBaseline | None = None
    """None if there is no baseline, or if a large run is still being compared."""
    known: frozenset[ClusterKey] | None = None
    """The reasons of failures that the baseline had."""


class Baselines:
    """Of a project. Requests ask in threads of their own."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = Lock()
        self._kept: Known[str, BaselineComparison] = Known(MOST_KEPT)
        self._finding: set[str] = set()

    def of(self, folder: RunFolder, report: RunReport) -> BaselineComparison:
        key = f"{folder.path} {stamp_of(folder.path)} {self._stamp()}"
        found = self._kept.get(key)
        if found is None and report.summary.total <= MOST_AT_ONCE:
            return self._find(key, report)
        if found is None:
            self._find_behind(key, report)
            return self._first_look(report)
        return found

    def _find(self, key: str, report: RunReport) -> BaselineComparison:
        since = since_baseline(self._root, report)
        found = BaselineComparison(since, None if since is None else since.known)
        self._kept.put(key, found)
        return found

    def _find_behind(self, key: str, report: RunReport) -> None:
        with self._lock:
            begun = key in self._finding
            self._finding.add(key)
        if not begun:
            Thread(target=self._find_and_forget, args=(key, report), daemon=True).start()

    def _find_and_forget(self, key: str, report: RunReport) -> None:
        try:
            self._find(key, report)
        finally:
            with self._lock:
                self._finding.discard(key)

    def _first_look(self, report: RunReport) -> BaselineComparison:
        """Only the reasons: they take a tenth of a second for 20,000 conversations."""
        newest = next(baselines_before(self._root, report.run), None)
        return BaselineComparison(known=None if newest is None else known_reasons(self._root, newest[1].run))

    def _stamp(self) -> str:
        """Changes when a baseline does."""
        parts: list[str] = []
        try:
            for path in sorted(baselines_folder(self._root).glob("*.json")):
                found = path.lstat()
                parts.append(f"{path.name}.{found.st_mtime_ns}.{found.st_size}")
        except OSError:
            return ""
        return " ".join(parts)
