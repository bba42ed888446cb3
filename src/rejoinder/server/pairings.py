"""Two runs that are compared, with their conversations side by side."""

from __future__ import annotations

from threading import Lock

from msgspec import Struct

from rejoinder.errors import RejoinderError
from rejoinder.model.clusters import ClusterKey
from rejoinder.model.comparisons import RunComparison
from rejoinder.report.page.pairs import Matching, Sides
from rejoinder.runs.comparing import compare_reports
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.report import RunReport
from rejoinder.runs.system_prompts import SystemPrompts
from rejoinder.runs.verify import sound_report
from rejoinder.server.damage import stamp_of
from rejoinder.server.desk import Desk
from rejoinder.server.errors import ApiError
from rejoinder.server.folders import too_large
from rejoinder.server.known import Known
from rejoinder.server.pair_index import PairIndex
from rejoinder.server.row_store import Address
from rejoinder.views.clusters import known_clusters
from rejoinder.views.conversation import ConversationView, view_conversation
from rejoinder.views.rows import frame_of, row_of

MOST_KEPT = 4
"""Comparisons that are kept."""


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
            reports.append(sound_report(RecordedRun(look.folder, self._desk.root)))
        one, other = reports
        found = compare_reports(one, other)
        sides, matching = Sides(frame_of(one.run), frame_of(other.run)), Matching(one, other, found)
        index = PairIndex(other.folder.results, one.folder.results, self._desk.new_file(), sides)
        index.fill(matching.in_a, matching.in_b)
        return Pairing(one, other, found, index, sides, known_clusters(one.results))
