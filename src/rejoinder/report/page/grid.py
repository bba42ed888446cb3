"""Cases by targets and variants: a cell for each, the worst cases first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nsmallest

from msgspec import Struct

from rejoinder.model import Summary
from rejoinder.report.found import columns_of
from rejoinder.report.page.markup import Markup, address, element, table
from rejoinder.report.page.rows import Row, RowOutcome
from rejoinder.report.words import count

MOST_CASES = 60
MOST_COLUMNS = 24

MARKS: dict[RowOutcome, str] = {
    "first": "first",
    "recovered": "rec",
    "failed": "fail",
    "error": "err",
    "skipped": "skip",
}
"""The class of an outcome's mark, which gives its colour and its shape."""
_WORDS: dict[RowOutcome, str] = {
    "first": "passed on the first try",
    "recovered": "recovered",
    "failed": "failed",
    "error": "error",
    "skipped": "not sent",
}


def row_address(row: Row, prefix: str) -> str:
    """Where a conversation is found, behind the prefix of a report (`#`) or of a run in the viewer."""
    return f"{prefix}/c/{address(row.suite, row.case, row.target, row.variant or '-', str(row.trial))}"


class Cell(Struct):
    """How a case went in one column."""

    first: Row
    """The first conversation that did not pass; the first where all did."""
    passed: int = 0
    finished: int = 0
    """Trials that began, without those that decide nothing."""

    @property
    def lost(self) -> int:
        return self.finished - self.passed

    def add(self, row: Row) -> None:
        if row.aside is not None or row.outcome == "skipped":
            return
        passed = row.outcome in ("first", "recovered")
        if not passed and self.passed == self.finished:
            self.first = row
        elif not self.finished:
            self.first = row  # those before it decide nothing
        self.finished += 1
        self.passed += passed


class Grid:
    """Collects the rows of a run into cells."""

    def __init__(self, summary: Summary) -> None:
        self._by_target, self._by_variant = len(summary.by_target) > 1, len(summary.by_variant) > 1
        self.columns = columns_of(summary) or tuple(summary.by_target)[:1]
        self.is_of_variants = self._by_variant and not self._by_target
        self._cases: dict[tuple[str, str], dict[str, Cell]] = {}
        self._titles: dict[tuple[str, str], Row] = {}
        self.has_repeats = summary.has_repeats

    @property
    def tells_more(self) -> bool:
        """Does it say more than the list?"""
        return bool(self._cases) and (len(self.columns) > 1 or self.has_repeats)

    def add(self, row: Row) -> None:
        key = row.suite, row.case
        cells = self._cases.setdefault(key, {})
        self._titles.setdefault(key, row)
        column = self._column_of(row)
        cells.setdefault(column, Cell(row)).add(row)

    def _column_of(self, row: Row) -> str:
        parts = [row.target] if self._by_target or not self._by_variant else []
        parts += [row.variant] if row.variant is not None and self._by_variant else []
        return " / ".join(parts)

    def table(self, prefix: str) -> Markup:
        """The worst cases, with a link to a conversation in each cell."""
        numbered = enumerate(self._cases.items())
        worst = nsmallest(MOST_CASES, numbered, key=lambda one: (-_lost(one[1][1]), one[0]))
        columns = self.columns[:MOST_COLUMNS]
        rows = [self._row(key, cells, columns, prefix) for _, (key, cells) in worst]
        return table("matrix", ("Case", *columns), rows)

    def _row(self, key: tuple[str, str], cells: dict[str, Cell], columns: Sequence[str], prefix: str) -> Markup:
        row = self._titles[key]
        tags = element("span", None, ", ".join(row.tags)) if row.tags else None
        return element(
            "tr",
            None,
            element("th", {"scope": "row"}, element("div", {"class": "nm", "dir": "auto"}, row.title, " ", tags)),
            [element("td", None, shown_cell(cells.get(name), name, prefix)) for name in columns],
        )

    def note(self) -> str:
        cases, columns = len(self._cases), len(self.columns)
        shown = f"The {MOST_CASES} worst of {count(cases, 'case')}." if cases > MOST_CASES else "Worst first."
        left = f" {count(columns - MOST_COLUMNS, 'more column')} not shown." if columns > MOST_COLUMNS else ""
        return shown + left


def _lost(cells: dict[str, Cell]) -> int:
    return sum(cell.lost for cell in cells.values())


def mark(outcome: RowOutcome, turns: int | None = None) -> Markup:
    """The mark of an outcome; words stand beside it. One that recovered has the number of its turn."""
    turn = turns if outcome == "recovered" else None
    return element("b", {"class": f"mark {MARKS[outcome]}", "data-t": turn, "aria-hidden": "true"})


def shown_cell(cell: Cell | None, column: str, prefix: str) -> Markup:
    """One conversation as its mark and a word; several as how many of them passed."""
    if cell is None:
        return element("span", {"class": "cell"}, "–", _hidden("not run"))
    row = cell.first
    if not cell.finished:
        word = "apart" if row.aside is not None else "not sent"
        return _link(cell, column, prefix, [mark("skipped"), element("em", None, word)], word)
    if cell.finished > 1:
        outcome: RowOutcome = "first" if not cell.lost else "failed"
        told = f"{cell.passed}/{cell.finished}"
        return _link(cell, column, prefix, [mark(outcome), told], f"{cell.passed} of {cell.finished} passed")
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
