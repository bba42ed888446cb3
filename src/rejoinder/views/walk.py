"""What the end of a run shows of its cases, and how many there are: one walk through the results, few of them kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct, field

from rejoinder.model import Result, Summary
from rejoinder.model.runs import TargetSummary
from rejoinder.views.cases import Run, SameError, Tried, tried_cases

_T = TypeVar("_T")

MOST_FAILED = 50
MOST_RECOVERED = 10
MOST_STRIPS = 30
MOST_ROWS = 20
"""Cases of a grid, and errors of different words."""
MOST_IDS = 5
"""Cases that are named where many ended in the same error."""

Way: TypeAlias = Literal["passed", "recovered", "failed", "error", "skipped", "apart", "spoilt"]
"""How a case went on one target or variant."""


class Cell(Struct, frozen=True):
    """How a case went in one column of the grid."""

    way: Way
    turns: int
    passed: int
    trials: int
    """Without those that were skipped."""
    recovered: int = 0
    """Trials that passed after a follow-up."""


class Alike(Struct):
    """Errors of the same words."""

    first: Result
    ids: list[str]
    number: int = 0
    """Conversations."""
    cases: int = 0


class Errors(Struct):
    alike: dict[str, Alike]
    """By their words."""
    others: int = 0
    """Those beyond `MOST_ROWS` different ones."""


class Listed(Generic[_T]):
    """The first of many, and how many there are."""

    def __init__(self, most: int) -> None:
        self.shown: list[_T] = []
        self.number = 0
        self._most = most

    def add(self, one: _T) -> None:
        self.number += 1
        if self.number <= self._most:
            self.shown.append(one)

    @property
    def left(self) -> int:
        """How many are not shown."""
        return self.number - len(self.shown)


Row: TypeAlias = dict[str, Cell]


class Found(Struct):
    columns: tuple[str, ...] = ()
    """Targets, variants, or pairs of both, if there are several to compare."""
    are_variants: bool = False
    """Are the columns variants of one suite, where the first is what the others change?"""
    recovered: Listed[Result] = field(default_factory=lambda: Listed(MOST_RECOVERED))
    spoilt: Listed[Result] = field(default_factory=lambda: Listed(MOST_RECOVERED))
    """Conversations that a simulated user has spoilt: they count nothing, and are told all the same."""
    failed: Listed[Tried] = field(default_factory=lambda: Listed(MOST_FAILED))
    uneven: Listed[Tried] = field(default_factory=lambda: Listed(MOST_STRIPS))
    """Cases of several trials that did not all pass."""
    errors: Errors = field(default_factory=lambda: Errors({}))
    always: int = 0
    """Failed cases that passed in no trial."""
    flaky: int = 0
    """Cases that passed together, and failed in some trials."""
    steady: int = 0
    """Cases of several trials that all passed."""
    steady_recovered: int = 0
    """Steady cases with a trial that passed after a follow-up."""
    grid: dict[tuple[str, str], Row] = field(default_factory=dict[tuple[str, str], Row])
    """How each of the first cases went in each column, but for those that passed at once in all of them."""
    others: int = 0
    """Cases that are not in the grid."""


def groups_of(summary: Summary) -> dict[str, TargetSummary]:
    """What a run compares: its targets, or else its variants, if there are several."""
    for groups in (summary.by_target, summary.by_variant):
        if len(groups) > 1:
            return groups
    return {}


def column_of(result: Result, summary: Summary) -> str:
    parts = [result.target] if len(summary.by_target) > 1 else []
    parts += [result.variant] if result.variant is not None and len(summary.by_variant) > 1 else []
    return " / ".join(parts)


def look_through(run: Run) -> Found:
    summary = run.summary
    found = Found(columns=columns_of(summary), are_variants=len(summary.by_target) < 2)
    if not found.columns and summary.passed_at_once == summary.by_case.passed == summary.total:
        return found  # each case has one trial, which passed at once: there is nothing to find
    rows = _Rows(found)
    for case in tried_cases(run):
        if found.columns:
            rows.add(case, column_of(case.first, summary))
        if case.spoilt is not None:
            found.spoilt.add(case.spoilt)
        if case.status == "passed" and case.trials == 1 and case.first.recovered:
            found.recovered.add(case.first)
        if case.trials > 1 and case.status not in ("apart", "spoilt"):
            if case.passed < case.finished:
                found.uneven.add(case)
            else:
                found.steady += case.finished > 0
                found.steady_recovered += case.recovered > 0
        if case.status not in ("apart", "spoilt"):
            for message, same in case.errors.items():
                _add_error(found, message, same)
        if case.status == "failed":
            found.failed.add(case)
            found.always += not case.passed
        found.flaky += case.status == "passed" and case.is_flaky
    rows.close()
    return found


def columns_of(summary: Summary) -> tuple[str, ...]:
    several = [tuple(groups) for groups in (summary.by_target, summary.by_variant) if len(groups) > 1]
    if len(several) < 2:
        return several[0] if several else ()
    targets, variants = several
    return tuple(f"{target} / {variant}" for target in targets for variant in variants)


def _add_error(found: Found, message: str, same: SameError) -> None:
    errors = found.errors
    if message not in errors.alike and len(errors.alike) >= MOST_ROWS:
        errors.others += same.number
        return
    group = errors.alike.setdefault(message, Alike(same.first, []))
    group.number += same.number
    group.cases += 1
    if len(group.ids) < MOST_IDS:
        group.ids.append(same.first.id)


class _Rows:
    """Rows of the grid, one after the other: the results of a case stand side by side in a run."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._key = "", ""
        self._row: Row = {}

    def add(self, case: Tried, column: str) -> None:
        key = case.first.case_file, case.first.id
        if key != self._key:
            self.close()
            self._key, self._row = key, {}
        self._row[column] = Cell(_way(case), len(case.first.turns), case.passed, case.finished, case.recovered)

    def close(self) -> None:
        """Keep the row of the last case, unless it says nothing or there are enough."""
        found, row = self._found, self._row
        if not row:
            return
        says_nothing = len(row) == len(found.columns) and is_smooth(row.values())
        if says_nothing or len(found.grid) == MOST_ROWS:
            found.others += 1
        else:
            found.grid[self._key] = row


def is_smooth(cells: Iterable[Cell]) -> bool:
    return all(cell.way == "passed" and cell.passed == cell.trials and not cell.recovered for cell in cells)


def _way(case: Tried) -> Way:
    return "recovered" if case.status == "passed" and case.trials == 1 and case.first.recovered else case.status
