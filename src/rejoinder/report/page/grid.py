"""Cases by targets and variants: a cell for each, the worst cases first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nsmallest

from msgspec import Struct, field, structs

from rejoinder.model import Summary
from rejoinder.report.page.marks import mark, outcome_bar
from rejoinder.report.page.markup import Markup, address, element, table
from rejoinder.views.board import Board, Outcomes
from rejoinder.views.rows import RowOutcome, RowView
from rejoinder.views.walk import columns_of
from rejoinder.words.numbers import count

MOST_CASES = 60
MOST_COLUMNS = 24

_WORDS: dict[RowOutcome, str] = {
    "first": "passed on the first try",
    "recovered": "recovered",
    "failed": "failed",
    "error": "error",
    "skipped": "not sent",
}


def row_address(row: RowView, prefix: str) -> str:
    """Where a conversation is found, behind the prefix of a report (`#`) or of a run in the viewer."""
    return f"{prefix}/c/{address(row.suite, row.case, row.target, row.variant or '-', str(row.trial))}"


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


class Grid:
    """Collects the rows of a run into cells."""

    def __init__(self, summary: Summary) -> None:
        self._by_target, self._by_variant = len(summary.by_target) > 1, len(summary.by_variant) > 1
        self.columns = columns_of(summary) or tuple(summary.by_target)[:1]
        self.is_of_variants = self._by_variant and not self._by_target
        self._cases: dict[tuple[str, str], dict[str, Cell]] = {}
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
        row = structs.replace(row, why="", said="", span=None, clusters=(), used="", time="", cost="")
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
        """The worst cases, with a link to a conversation in each cell, and the pass rate of each column."""
        numbered = enumerate(self._cases.items())
        worst = nsmallest(MOST_CASES, numbered, key=lambda one: (-_lost(one[1][1]), one[0]))
        columns = self.columns[:MOST_COLUMNS]
        rows = [self._row(key, cells, columns, prefix) for _, (key, cells) in worst]
        shares = {row.name: row.share for row in board.rows}
        totals = [shares[name].text or "no rate" if name in shares else "" for name in columns]
        last = element(
            "tr", {"class": "totals"}, element("th", {"scope": "row"}, "Pass rate"), [_total(one) for one in totals]
        )
        return table("matrix", ("Case", *columns, "Passed"), [*rows, last if any(totals) else None])

    def _row(self, key: tuple[str, str], cells: dict[str, Cell], columns: Sequence[str], prefix: str) -> Markup:
        row = self._titles[key]
        tags = element("span", None, ", ".join(row.tags)) if row.tags else None
        return element(
            "tr",
            None,
            element("th", {"scope": "row"}, element("div", {"class": "nm", "dir": "auto"}, row.title, " ", tags)),
            [element("td", None, shown_cell(cells.get(name), name, prefix)) for name in columns],
            _total(f"{sum(cell.passed for cell in cells.values())}/{sum(cell.finished for cell in cells.values())}"),
        )

    def note(self) -> str:
        cases, columns = len(self._cases), len(self.columns)
        shown = f"The {MOST_CASES} worst of {count(cases, 'case')}." if cases > MOST_CASES else "Worst first."
        left = f" {count(columns - MOST_COLUMNS, 'more column')} not shown." if columns > MOST_COLUMNS else ""
        return shown + left


def _total(words: str) -> Markup:
    return element("td", {"class": "num"}, words)


def _lost(cells: dict[str, Cell]) -> int:
    return sum(cell.lost for cell in cells.values())


def shown_cell(cell: Cell | None, column: str, prefix: str) -> Markup:
    """One conversation as its mark and a word; several as how many of them passed."""
    if cell is None:
        return element("span", {"class": "cell"}, "–", _hidden("not run"))
    row = cell.first
    if not cell.finished:
        word = "apart" if row.aside is not None else "not sent"
        return _link(cell, column, prefix, [mark("skipped"), element("em", None, word)], word)
    if cell.finished > 1:
        told, again = f"{cell.passed} of {cell.finished} passed", cell.ways.get("recovered", 0)
        shown = [mark(cell.commonest), outcome_bar(cell.outcomes), f"{cell.passed}/{cell.finished}"]
        return _link(cell, column, prefix, shown, f"{told} ({again} recovered)" if again else told)
    turn = f"turn {row.recovered_on}" if row.outcome == "recovered" else ""
    shown = {"recovered": turn, "failed": "failed", "error": "error"}.get(row.outcome, "")
    told = f"recovered on {turn}" if turn else _WORDS[row.outcome]
    return _link(cell, column, prefix, [mark(row.outcome, row.recovered_on), element("em", None, shown)], told)


def _link(cell: Cell, column: str, prefix: str, shown: Iterable[Markup | str], told: str) -> Markup:
    row = cell.first
    label = f"{row.title}, {column}: {told}"
    return element("a", {"class": "cell", "href": row_address(row, prefix), "aria-label": label}, shown)


def _hidden(words: str) -> Markup:
    return element("span", {"class": "sr"}, words)
