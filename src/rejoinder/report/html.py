"""A run, or two runs side by side, as one HTML file that needs nothing else.

Results are read once, one at a time. Rows go into the index; conversations are packed in blocks, which wait in a file
until the header, which needs the last row, is written. So memory grows by a row for each conversation, and never by
what was said. Nothing of the time of writing is in the file: the same run gives the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import msgspec
from msgspec import Struct, structs

from rejoinder.errors import RejoinderError
from rejoinder.model import Result
from rejoinder.model.comparisons import RunComparison
from rejoinder.model.results import CaseName
from rejoinder.report.page.columns import Head, Index, RunNames
from rejoinder.report.page.comparison import comparison_overview, window_title_of_both
from rejoinder.report.page.grid import Grid
from rejoinder.report.page.markup import Markup
from rejoinder.report.page.overview import (
    damaged_overview,
    outcome_counts,
    run_overview,
    why_of_pairs,
)
from rejoinder.report.page.pairs import Matching, PairIndex, PairRow, Sides, pair_row
from rejoinder.report.page.shell import BOTH, MOST_PLAIN, Page, document, inlined, made_by, packed, plain_table
from rejoinder.run_files import write_whole
from rejoinder.views.cases import Prompts, Run, prompts_of
from rejoinder.views.clusters import known_clusters
from rejoinder.views.conversation import view_conversation
from rejoinder.views.flips import SinceBaseline
from rejoinder.views.judges import reliability_of
from rejoinder.views.rows import OUTCOMES, RowOutcome, RowView, frame_of, row_of
from rejoinder.views.run import RunView, view_run
from rejoinder.words.inert import to_bytes

BLOCK = 64
"""Conversations that are packed together; the browser unpacks a block to show one of them."""
MOST_WHOLE = 5_000
"""Conversations up to which a report has all of them. Of more it has all that did not pass at once, and"""
MOST_PASSED = 200
"""so many of those that did, for each target."""
_PLAIN = "Conversations can be opened with JavaScript switched on. All of it is in this file."
LARGE = 50_000_000
"""Size in bytes above which a report opens slowly."""


class UnequalFigures(RejoinderError):
    """The rows of a report do not add up to the figures of its header."""

    exit_code = 3

    def __init__(self, wrong: str) -> None:
        super().__init__(
            f"the summary of the run disagrees with its results: {wrong}", "`rejoinder verify` says all that differs."
        )


class _Stored:
    """Bytes that wait on the disk."""

    def __init__(self) -> None:
        self._file: IO[bytes] = TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._end = 0
        self.close = self._file.close

    def add(self, content: bytes) -> tuple[int, int]:
        """Where it lies: its beginning and its length."""
        self._file.seek(self._end)
        self._file.write(content)
        start, self._end = self._end, self._end + len(content)
        return start, len(content)

    def read(self, start: int, size: int) -> bytes:
        self._file.seek(start)
        return self._file.read(size)


class _Blocks:
    """Packs bodies as they come, and gives the blocks back in their order."""

    def __init__(self, stored: _Stored) -> None:
        self._stored = stored
        self._waiting: list[bytes] = []
        self._places: list[tuple[int, int]] = []
        self._number = 0

    def add(self, body: bytes) -> int:
        """The place of the body in the blocks."""
        self._waiting.append(body)
        self._number += 1
        if len(self._waiting) == BLOCK:
            self._pack()
        return self._number - 1

    def _pack(self) -> None:
        if self._waiting:
            block = packed(f"b{len(self._places)}", b"[" + b",".join(self._waiting) + b"]")
            self._places.append(self._stored.add(block.html.encode()))
            self._waiting = []

    def elements(self) -> Iterator[Markup]:
        self._pack()
        return (Markup(self._stored.read(*place).decode()) for place in self._places)


class _Choice:
    """Which conversations, or pairs of them, a report holds whole."""

    def __init__(self, total: int, *, full: bool) -> None:
        self._all = full or total <= MOST_WHOLE
        self._passed = Counter[str]()
        self._kept = self._left = 0

    def takes(self, row: RowView) -> bool:
        is_changed = isinstance(row, PairRow) and row.change in ("worse", "better")
        taken = self._all or is_changed or row.outcome in ("recovered", "failed", "error")
        if not taken and row.outcome == "first":
            self._passed[row.target] += 1
            taken = self._passed[row.target] <= MOST_PASSED
        self._kept += taken
        self._left += not taken
        return taken

    @property
    def words(self) -> str:
        """The sentence at the foot where some are left out."""
        if not self._left:
            return ""
        return (
            f"It lists all {self._kept + self._left:,} conversations and holds {self._kept:,} of them whole: "
            f"those that did not pass at once, and up to {MOST_PASSED} others of each target; --full writes all."
        )


class _Seen:
    """What the page says of all rows together."""

    def __init__(self) -> None:
        self.bad: list[RowView] = []
        self.lost = 0
        self._counts = Counter[RowOutcome]()
        self._total = 0

    def add(self, row: RowView) -> None:
        self._total += 1
        if row.aside is None:
            self._counts[row.outcome] += 1
        if row.outcome in ("failed", "error"):
            self.lost += 1
            if len(self.bad) < MOST_PLAIN:
                self.bad.append(row)

    def check(self, view: RunView) -> None:
        """Raises UnequalFigures where rows and summary disagree: a page must not say two things."""
        summary = view.summary
        told = {**outcome_counts(view), "conversations": summary.total - summary.unfinished}
        counted = {**{name: self._counts[name] for name in OUTCOMES}, "conversations": self._total}
        for name, number in told.items():
            if counted[name] != number:
                raise UnequalFigures(f"{name} {number:,}, and {counted[name]:,} in the results")


def write(run: Run, *, full: bool = False, since: SinceBaseline | None = None) -> Iterator[str]:
    """The file of one run, piece by piece. `full`: with all conversations, however many they are. `since`: the run
    against its baseline."""
    with closing(_Stored()) as stored:
        yield from _write(run, _Blocks(stored), _Choice(run.summary.total, full=full), since)


def _write(run: Run, blocks: _Blocks, choice: _Choice, since: SinceBaseline | None) -> Iterator[str]:
    view = view_run(run)
    frame, index, grid, seen = frame_of(run.run), Index(), Grid(view), _Seen()
    prompts = prompts_of(run)
    for at, result in enumerate(run.results):
        row = row_of(result, at, frame)
        body = blocks.add(to_bytes(view_conversation(result, row, prompts.of(result)))) if choice.takes(row) else -1
        index.add(row, body)
        grid.add(row)
        seen.add(row)
    seen.check(view)
    head = Head(
        run=run.run.id,
        title=view.title,
        targets=tuple(index.targets),
        variants=tuple(index.variants),
        block=BLOCK,
        judges=reliability_of(run.summary.judges),
        fork=True,
        version=run.run.version,
    )
    page = Page(
        title=view.in_short,
        crumb=head.title,
        run=head.run,
        overview=run_overview(view, grid, known=None if since is None else since.known, since=since),
        plain=plain_table("Not passed", seen.bad, seen.lost, note=_PLAIN),
        foot=made_by(head.version, head.run, choice.words),
    )
    yield from document(page, inlined(), _data(index, head, blocks))


def _data(index: Index, head: Head, blocks: _Blocks) -> Iterator[Markup]:
    yield packed("index", to_bytes(index.document(head)))
    yield from blocks.elements()


# Two runs


class _Earlier:
    """Conversations of A, which wait on the disk until those of B are read."""

    def __init__(self, run: Run, matching: Matching, stored: _Stored) -> None:
        self._stored = stored
        self._places = {matching.in_a(result): stored.add(to_bytes(result)) for result in run.results}
        self._decode = msgspec.json.Decoder(Result).decode

    def take(self, key: tuple[CaseName, int]) -> Result | None:
        """The conversation of A that belongs to one of B; each is given once."""
        place = self._places.pop(key, None)
        return None if place is None else self._decode(self._stored.read(*place))

    def rest(self) -> Iterator[Result]:
        """Those that B does not have, in the order of A."""
        return (self._decode(self._stored.read(*place)) for place in self._places.values())


def write_pair(a: Run, b: Run, comparison: RunComparison, *, full: bool = False) -> Iterator[str]:
    """The file of two runs side by side, piece by piece."""
    matching = Matching(a, b, comparison)
    choice = _Choice(max(a.summary.total, b.summary.total), full=full)
    with closing(_Stored()) as stored, closing(_Stored()) as of_a:
        pairs = _pairs(_Earlier(a, matching, of_a), b, matching, Sides(frame_of(a.run), frame_of(b.run)))
        yield from _write_pairs((a, b), comparison, pairs, _Blocks(stored), choice)


def _write_pairs(
    runs: tuple[Run, Run], comparison: RunComparison, pairs: Iterable[_Pair], blocks: _Blocks, choice: _Choice
) -> Iterator[str]:
    (a, b), index, broke = runs, PairIndex(), _Seen()
    view, prompts = view_run(b), (prompts_of(a), prompts_of(b))
    for pair in pairs:
        index.add(pair.row, blocks.add(pair.body(prompts)) if choice.takes(pair.row) else -1)
        if pair.row.change == "worse":
            broke.add(pair.row)
    names = RunNames(a.run.id, b.run.id)
    head = Head(
        run=f"{names.a}..{names.b}",
        title=view.title,
        targets=tuple(index.targets),
        variants=tuple(index.variants),
        block=BLOCK,
        judges=reliability_of((*a.summary.judges, *b.summary.judges)),
        version=b.run.version,
        pair=names,
    )
    page = Page(
        title=window_title_of_both(comparison, head.title),
        crumb=head.title,
        run=BOTH.join((names.a, names.b)),
        overview=comparison_overview(comparison, why=why_of_pairs(view, "#", known_clusters(a.results))),
        plain=plain_table("Passed in A and not in B", broke.bad, broke.lost, note=_PLAIN),
        foot=made_by(head.version, BOTH.join((names.a, names.b)), choice.words),
    )
    yield from document(page, inlined(), _data(index, head, blocks))


class _Pair(Struct, frozen=True):
    """Two conversations of a case, of which one may be missing, each with its row."""

    row: PairRow
    a: tuple[Result, RowView] | None
    b: tuple[Result, RowView] | None

    def body(self, prompts: tuple[Prompts, Prompts]) -> bytes:
        sides = zip((self.a, self.b), prompts, strict=True)
        return to_bytes([None if side is None else view_conversation(*side, told.of(side[0])) for side, told in sides])


def _pairs(earlier: _Earlier, b: Run, matching: Matching, sides: Sides) -> Iterator[_Pair]:
    """Every pair in B's order, then what only A has."""
    names, number = set[tuple[str, ...]](), 0
    for result in b.results:
        other = earlier.take(matching.in_b(result))
        row = row_of(result, number, sides.b)
        before = None if other is None else (other, row_of(other, number, sides.a))
        names.add((row.suite, row.case, row.target))
        number += 1
        yield _Pair(pair_row(row, before, (result, row)), before, (result, row))
    for result in earlier.rest():
        row = row_of(result, number, sides.a)
        number += 1
        is_taken = (row.suite, row.case, row.target) in names  # by another case of B
        shown = structs.replace(row, suite=f"{row.suite} (A)") if is_taken else row
        yield _Pair(pair_row(shown, (result, row), None), (result, row), None)


# Damaged runs


def write_damaged(run: str, wrong: list[str], more: int = 0) -> Iterator[str]:
    """The file of a run that is not what it was: what is wrong, and no figures."""
    page = Page(
        title=f"{run}: damaged",
        crumb="Damaged run",
        run=run,
        overview=damaged_overview(run, wrong, more),
        foot=made_by("", run),
    )
    return document(page, inlined())


def write_to(path: Path, pieces: Iterable[str]) -> int:
    """Write a file; its size in bytes. What cannot be written is known with the first piece, and leaves the file as it
    was. Raises OSError."""
    waiting = iter(pieces)
    first = next(waiting, "")
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(path) as stream:
        return sum(stream.write(piece.encode()) for piece in chain((first,), waiting))
