"""Cases by targets and variants: what each of them said, the worst cases first.

`table.grid` with a `td.of` for each column: `a.cell` with a mark, its outcome in words, and the first words of the
reply (`.q`). The script sorts by `data-by`: how much was lost; in the column of cases their places.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import TypeAlias

from msgspec import Struct, field, structs

from rejoinder.report.page.marks import mark, outcome_bar
from rejoinder.report.page.markup import Child, Markup, address, element, table
from rejoinder.views.board import Board, BoardRow, Outcomes, share_of_trials
from rejoinder.views.rows import RowOutcome, RowView
from rejoinder.views.run import RunView
from rejoinder.views.walk import columns_of
from rejoinder.words.numbers import count, shortened

MOST_CASES = 60
MOST_COLUMNS = 24
FITTING = 7
"""A table with more columns, with those at its sides, is wider than the page and is scrolled to the side."""
LONGEST_ERROR = 100

_WORDS: dict[RowOutcome, str] = {
    "first": "passed on the first try",
    "recovered": "recovered",
    "failed": "failed",
    "error": "error",
    "skipped": "not sent",
}


def row_address(row: RowView, prefix: str) -> str:
    """The address of a conversation, behind the prefix of a report (`#`) or of a run in the viewer."""
    return f"{prefix}/c/{_place(row)}"


def pair_address(one: RowView, other: RowView, prefix: str) -> str:
    """The address of two conversations of a case side by side."""
    return f"{prefix}/compare/{_place(one)}/{address(*_parts(other))}"


def _place(row: RowView) -> str:
    return address(row.suite, row.case, *_parts(row))


def _parts(row: RowView) -> tuple[str, str, str]:
    return row.target, row.variant or "-", str(row.trial)


_WORST: tuple[RowOutcome, ...] = ("first", "recovered", "failed", "error")


class Cell(Struct):
    """How a case went in one column."""

    first: RowView
    """The first conversation that did not pass; the first where all did."""
    ways: dict[RowOutcome, int] = field(default_factory=dict[RowOutcome, int])
    """The trials that began, by their outcomes, without those that decide nothing."""

    @property
    def outcomes(self) -> Outcomes:
        first, recovered = self.ways.get("first", 0), self.ways.get("recovered", 0)
        return Outcomes(
            first=first, recovered=recovered, failed=self.ways.get("failed", 0), errors=self.ways.get("error", 0)
        )

    @property
    def passed(self) -> int:
        return self.outcomes.first + self.outcomes.recovered

    @property
    def finished(self) -> int:
        return self.outcomes.total

    @property
    def lost(self) -> int:
        return self.finished - self.passed

    @property
    def rank(self) -> tuple[int, int]:
        """The larger, the worse."""
        return self.lost, self.outcomes.recovered

    @property
    def commonest(self) -> RowOutcome:
        """The outcome of most trials; of equal numbers the worst."""
        return max(reversed(_WORST), key=lambda outcome: self.ways.get(outcome, 0))

    def add(self, row: RowView) -> None:
        if row.aside is not None or row.outcome == "skipped":
            return
        passed = row.outcome in ("first", "recovered")
        if not passed and self.passed == self.finished:
            self.first = row
        elif not self.finished:
            self.first = row  # those before it decide nothing
        self.ways[row.outcome] = self.ways.get(row.outcome, 0) + 1


_Cells: TypeAlias = dict[str, Cell]


class Grid:
    """Collects the rows of a run into cells."""

    def __init__(self, view: RunView) -> None:
        summary = view.summary
        self._by_target, self._by_variant = len(summary.by_target) > 1, len(summary.by_variant) > 1
        self.columns = columns_of(summary) or tuple(summary.by_target)[:1]
        self._cases: dict[tuple[str, str], _Cells] = {}
        self._titles: dict[tuple[str, str], RowView] = {}
        self._says_more = len(self.columns) > 1 or summary.has_repeats

    @property
    def tells_more(self) -> bool:
        """True if it says more than the list."""
        return bool(self._cases)

    def add(self, row: RowView) -> None:
        """Only what a cell shows is kept of the row."""
        if not self._says_more:
            return
        row = structs.replace(row, said="", span=None, clusters=(), used="", time="", cost="")
        key = row.suite, row.case
        cells = self._cases.setdefault(key, {})
        self._titles.setdefault(key, row)
        column = self._column_of(row)
        cells.setdefault(column, Cell(row)).add(row)

    def _column_of(self, row: RowView) -> str:
        parts = [row.target] if self._by_target or not self._by_variant else []
        parts += [row.variant] if row.variant is not None and self._by_variant else []
        return " / ".join(parts)

    def table(self, prefix: str, board: Board) -> Markup:
        """The worst cases, with a link to a conversation in each cell, and what passed of each column and row."""
        numbered = enumerate(self._cases.items())
        worst = nsmallest(MOST_CASES, numbered, key=lambda one: (_better(one[1][1].values()), one[0]))
        columns = self.columns[:MOST_COLUMNS]
        rows = [self._row(place, one, columns, prefix) for place, one in worst]
        boards = {row.name: row for row in board.rows}
        heads = [_head(name, boards.get(name)) for name in columns]
        return grid_table(("Case", *heads, "Passed"), rows, "Table of cases")

    def _row(self, place: int, one: tuple[tuple[str, str], _Cells], columns: Sequence[str], prefix: str) -> Markup:
        key, cells = one
        row = self._titles[key]
        tags = element("span", None, ", ".join(row.tags)) if row.tags else None
        return element(
            "tr",
            None,
            element("th", {"scope": "row", "dir": "auto", "data-by": place}, row.title, tags),
            [grid_cell(cells.get(name), name, prefix) for name in columns],
            _total([cells[name] for name in columns if name in cells], list(cells.values()), prefix),
        )

    def note(self) -> str:
        cases, columns = len(self._cases), len(self.columns)
        shown = f"The {MOST_CASES} worst of {count(cases, 'case')}." if cases > MOST_CASES else "Worst first."
        left = f" {count(columns - MOST_COLUMNS, 'more column')} not shown." if columns > MOST_COLUMNS else ""
        return shown + left


def grid_table(heads: Sequence[Child], rows: Child, label: str) -> Markup:
    """One that fits is never in a box of its own, which would cut rows and keep its heads from staying in sight."""
    if len(heads) <= FITTING:
        return table("grid", heads, rows)
    box = {"class": "gridwrap", "tabindex": 0, "role": "region", "aria-label": label}
    return element("div", box, table("grid wide", heads, rows))


def _better(cells: Iterable[Cell]) -> tuple[int, int]:
    """The smaller, the worse."""
    ranks = [cell.rank for cell in cells]
    return -sum(lost for lost, _ in ranks), -sum(again for _, again in ranks)


def _head(name: str, row: BoardRow | None) -> list[Child]:
    """A column: its name, its rate, and how much passed."""
    if row is None:
        return [name]
    rate = element("b", None, row.share.text) if row.share.text else None
    return [name, element("span", None, rate, " " if rate else None, row.passed)]


def _total(shown: Sequence[Cell], cells: Sequence[Cell], prefix: str) -> Markup:
    """How much of a case passed, and a link that shows its worst conversation beside its best."""
    passed, finished = sum(cell.passed for cell in cells), sum(cell.finished for cell in cells)
    rate = share_of_trials([cell.outcomes for cell in cells])
    ranked = sorted((cell for cell in shown if cell.finished), key=lambda cell: cell.rank)
    beside = _beside(ranked[-1].first, ranked[0].first, prefix) if len(ranked) > 1 else None
    return element(
        "td",
        {"class": "num", "data-by": _by(cells)},
        f"{passed} of {finished} ",
        element("span", None, rate) if rate else None,
        beside,
    )


def _beside(one: RowView, other: RowView, prefix: str) -> Markup:
    names = " and ".join(" / ".join(filter(None, (row.target, row.variant))) for row in (one, other))
    return element("a", {"href": pair_address(one, other, prefix), "aria-label": f"Compare {names}"}, "Compare")


def _by(cells: Sequence[Cell]) -> str:
    lost, again = _better(cells)
    return f"{-lost}.{-again:06}"


def grid_cell(cell: Cell | None, column: str, prefix: str) -> Markup:
    """`data-of` names the column on phones, which have a line for each cell."""
    by = -1 if cell is None or not cell.finished else _by([cell])
    return element("td", {"class": "of", "data-of": column, "data-by": by}, _shown(cell, prefix))


def _shown(cell: Cell | None, prefix: str) -> Markup:
    """One conversation as its mark and what was said; several with how many of them passed."""
    if cell is None:
        return element("span", {"class": "cell"}, element("b", None, "–"), _hidden("not run"))
    row = cell.first
    if not cell.finished:
        return _link(row, prefix, mark("skipped"), "apart" if row.aside is not None else "not sent")
    words = shortened(row.why, LONGEST_ERROR) if row.outcome == "error" else row.reply
    said = element("span", {"class": "q", "dir": "auto"}, words or "no reply")
    if cell.finished == 1:
        turn = f" on turn {row.recovered_on}" if row.outcome == "recovered" else ""
        return _link(row, prefix, mark(row.outcome, row.recovered_on), _hidden(f"{_WORDS[row.outcome]}{turn}: "), said)
    again = cell.outcomes.recovered
    told = [f"{cell.passed} of {cell.finished}", _hidden(f" passed{f' ({again} recovered)' if again else ''}: ")]
    return _link(
        row, prefix, mark(cell.commonest), element("span", {"class": "trials"}, outcome_bar(cell.outcomes), told), said
    )


def _link(row: RowView, prefix: str, *shown: Child) -> Markup:
    return element("a", {"class": "cell", "href": row_address(row, prefix)}, shown)


def _hidden(words: str) -> Markup:
    return element("span", {"class": "sr"}, words)
