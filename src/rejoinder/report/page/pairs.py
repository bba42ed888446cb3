"""Two conversations of a case, one of each of two runs: what changed, and from which turn on.

A pair stands in the list as a row of B's conversation, and of A's where B has none. What counts as the first difference
is what `compare` says of flips.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from rejoinder.model import Result
from rejoinder.model.cases import lone_names
from rejoinder.model.comparisons import RunComparison, first_difference
from rejoinder.model.results import CaseName
from rejoinder.report.page.columns import Columns, Index
from rejoinder.views.cases import Run
from rejoinder.views.rows import OUTCOMES, PLAIN, Frame, RowOutcome, RowView, row_of

Change: TypeAlias = Literal["worse", "better", "words", "same", "only"]
"""`worse`: passed in A and not in B. `words`: the same verdict in other words. `only`: in one of the runs."""
CHANGES: tuple[Change, ...] = get_args(Change)
"""In the order that columns number them by."""


class Before(Struct, frozen=True, gc=False):
    """How A's conversation ended."""

    outcome: RowOutcome
    word: str


class PairRow(RowView, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A pair in the list: B's row, or A's where B has none, and what changed."""

    change: Change
    before: Before | None = None
    """None where A has none."""
    differs: int = 0
    """The first turn that differs; 0 if none does, or where there is only one."""


class PairColumns(Columns, frozen=True):
    change: list[int]
    """Places in `CHANGES`."""
    before: list[int]
    """Places in the outcomes, or -1."""
    before_word: list[int]
    """Places in the texts."""
    differs: list[int]


class PairIndex(Index):
    """Collects pairs into columns."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs = PairColumns(*([] for _ in PairColumns.__struct_fields__))
        self.columns = self.pairs

    def add(self, row: RowView, body: int) -> None:
        super().add(row, body)
        if isinstance(row, PairRow):
            before = row.before
            self.pairs.change.append(CHANGES.index(row.change))
            self.pairs.before.append(-1 if before is None else OUTCOMES.index(before.outcome))
            self.pairs.before_word.append(self.text("" if before is None else before.word))
            self.pairs.differs.append(row.differs)


class Sides(Struct, frozen=True):
    """The two runs' frames, A before B."""

    a: Frame = PLAIN
    b: Frame = PLAIN


BOTH_PLAIN = Sides()


def pair_of(a: Result | None, b: Result | None, at: int = 0, sides: Sides = BOTH_PLAIN) -> PairRow:
    """The row of a pair, of which one may be missing."""
    of_a = None if a is None else (a, row_of(a, at, sides.a))
    of_b = None if b is None else (b, row_of(b, at, sides.b))
    shown = of_b or of_a
    if shown is None:
        raise ValueError("a pair has one conversation at least")
    return pair_row(shown[1], of_a, of_b)


def pair_row(row: RowView, a: tuple[Result, RowView] | None, b: tuple[Result, RowView] | None) -> PairRow:
    """The same of rows that are there already. `row` is what the list shows."""
    change, differs = _change(a, b)
    known = {name: getattr(row, name) for name in RowView.__struct_fields__}
    before = None if a is None else Before(a[1].outcome, a[1].word)
    if change == "better" and not row.said:
        known["said"] = row.reply
    return PairRow(**known, change=change, before=before, differs=differs)


def _change(a: tuple[Result, RowView] | None, b: tuple[Result, RowView] | None) -> tuple[Change, int]:
    if a is None or b is None or (a[1].outcome == "skipped") != (b[1].outcome == "skipped"):
        return "only", 0
    differs = differs_from(a[0], b[0])
    counts = a[1].aside is None and b[1].aside is None  # what decides nothing flips nothing
    if counts and a[0].passed != b[0].passed:
        return ("worse" if a[0].passed else "better"), differs
    return ("words" if differs else "same"), differs


def differs_from(a: Result, b: Result) -> int:
    """The first turn in which two conversations differ, in words or verdict; 0 if they are the same."""
    one, other = (
        [(hash(turn.prompt), hash(turn.response), int(turn.passed)) for turn in result.turns] for result in (a, b)
    )
    return 0 if one == other else first_difference(one, other)[0]


class Matching:
    """Which conversation of A is which of B: by case, target, variant and trial, as `compare` matches cases."""

    def __init__(self, a: Run, b: Run, comparison: RunComparison) -> None:
        targets = lone_names(list(a.summary.by_target), list(b.summary.by_target))
        variants = lone_names(list(a.summary.by_variant) or [""], list(b.summary.by_variant) or [""])
        self._is_lone = targets[0] is not None, variants[0] is not None
        self._renamed = {self._bare(one.a): self._bare(one.b) for one in comparison.renamed}

    def in_a(self, result: Result) -> tuple[CaseName, int]:
        name = self._bare(result.case)
        return self._renamed.get(name, name), result.trial

    def in_b(self, result: Result) -> tuple[CaseName, int]:
        return self._bare(result.case), result.trial

    def _bare(self, name: CaseName) -> CaseName:
        """Without a target or variant that is the only one of its run, and compared with another."""
        lone_target, lone_variant = self._is_lone
        return name._replace(target="" if lone_target else name.target, variant="" if lone_variant else name.variant)
