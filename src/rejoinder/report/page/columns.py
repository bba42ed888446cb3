"""The rows of a run in the columns of a report, and the facts of the run for the script.

A column is a third of the size of as many objects.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from rejoinder.views.rows import OUTCOMES, RowView


class RunNames(Struct, frozen=True):
    """Two runs that are compared."""

    a: str
    b: str


class Head(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The facts of the run for the script."""

    run: str
    title: str
    """Its suites."""
    targets: tuple[str, ...]
    variants: tuple[str, ...]
    block: int
    """Conversations of a block."""
    judges: dict[str, str]
    """The facts of each judge in words, by the digest of its instructions."""
    fork: bool = False
    """Whether the command that forks may be offered."""
    version: str
    pair: RunNames | None = None
    """The two runs of a comparison."""


class Case(Struct, frozen=True, array_like=True):
    """A case, as the index lists it."""

    suite: str
    case: str
    title: str
    tags: tuple[str, ...]


class Columns(Struct, frozen=True):
    """All rows of a run, column by column: an entry for each conversation in each."""

    case: list[int]
    target: list[int]
    variant: list[int]
    """-1 without one."""
    trial: list[int]
    outcome: list[int]
    """Places in `OUTCOMES`."""
    word: list[int]
    """A place in the texts of the index, as all columns of texts."""
    length: list[int]
    time: list[int]
    recovered_on: list[int]
    why: list[int]
    said: list[int]
    same: list[int]
    clusters: list[list[int]]
    aside: list[int]
    body: list[int]
    """The place of the conversation in the blocks; -1 if it is left out."""


class Index:
    """Collects the rows of a run into columns. Equal texts of different rows are stored once."""

    def __init__(self) -> None:
        self.cases: list[Case] = []
        self.targets: list[str] = []
        self.variants: list[str] = []
        self.texts: list[str] = []
        self.columns = Columns(*([] for _ in Columns.__struct_fields__))
        self._cases: dict[Case, int] = {}
        self._targets: dict[str, int] = {}
        self._variants: dict[str, int] = {}
        self._texts: dict[str, int] = {}

    def add(self, row: RowView, body: int) -> None:
        """`body`: its place in the blocks, or -1."""
        columns = self.columns
        case = Case(row.suite, row.case, row.title, row.tags)
        columns.case.append(_place(case, self._cases, self.cases))
        columns.target.append(_place(row.target, self._targets, self.targets))
        columns.variant.append(-1 if row.variant is None else _place(row.variant, self._variants, self.variants))
        columns.trial.append(row.trial)
        columns.outcome.append(OUTCOMES.index(row.outcome))
        columns.word.append(self.text(row.word))
        columns.length.append(self.text(row.length))
        columns.time.append(self.text(row.time))
        columns.recovered_on.append(row.recovered_on)
        columns.why.append(self.text(row.why))
        columns.said.append(self.text(row.said))
        columns.same.append(self.text(row.same))
        columns.clusters.append([self.text(name) for name in row.clusters])
        columns.aside.append(self.text(row.aside or ""))
        columns.body.append(body)

    def text(self, words: str) -> int:
        """The place of a text."""
        return _place(words, self._texts, self.texts)

    def document(self, head: Head) -> dict[str, Any]:
        return {
            "head": head,
            "cases": self.cases,
            "targets": self.targets,
            "variants": self.variants,
            "texts": self.texts,
            "columns": self.columns,
        }


def _place(name: Any, places: dict[Any, int], names: list[Any]) -> int:
    place = places.setdefault(name, len(names))
    if place == len(names):
        names.append(name)
    return place
