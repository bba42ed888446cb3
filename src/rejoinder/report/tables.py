"""Tables on a terminal: columns that leave in a named order where there is too little room. No cell is wrapped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from msgspec import Struct

from rejoinder.report.styled import Form, Line, Piece, cut, fitted, width_of_line

WIDE_GAP, NARROW_GAP = 3, 2
LEAST_ROOM = 8
"""Columns that a cell is left where it has to be cut."""


class Column(Struct, frozen=True, kw_only=True, dict=True):
    title: str
    cells: Sequence[Line]
    """One for each row."""
    right: bool = False
    leaves: int = 0
    """Which column goes first where a line is too long, and with it others of the same number; 0 stays."""

    @cached_property
    def width(self) -> int:
        return max(len(self.title), max(map(width_of_line, self.cells), default=0))

    @property
    def is_empty(self) -> bool:
        return not any(piece.text for cell in self.cells for piece in cell)


def write_table(columns: Sequence[Column], form: Form) -> Iterator[Line]:
    """The titles, then the rows. Columns with nothing in them are left out."""
    listed = [column for column in columns if not column.is_empty]
    is_wide = form.width is None or (not form.is_narrow and _total(listed, WIDE_GAP) <= form.width)
    gap = WIDE_GAP if is_wide else NARROW_GAP
    kept = _fitting(listed, form.width, gap)
    titles: list[Line] = [(Piece(column.title, "quiet"),) for column in kept]
    for cells in (titles, *zip(*(column.cells for column in kept), strict=True)):
        yield from _row(cells, kept, form.width, gap)


def _fitting(columns: list[Column], width: int | None, gap: int) -> list[Column]:
    while width is not None and _total(columns, gap) > width:
        first = min((column.leaves for column in columns if column.leaves), default=None)
        if first is None:
            return _cut(columns, width, gap)
        columns = [column for column in columns if column.leaves != first]
    return columns


def _total(columns: Sequence[Column], gap: int) -> int:
    return sum(column.width for column in columns) + gap * (len(columns) - 1)


def _cut(columns: list[Column], width: int, gap: int) -> list[Column]:
    """With the texts of the widest column of words cut to what is left for it."""
    widest = max((column for column in columns if not column.right), key=lambda column: column.width)
    room = max(LEAST_ROOM, widest.width - (_total(columns, gap) - width))
    cells = [fitted(cell, room) for cell in widest.cells]
    cut_one = Column(title=cut(widest.title, room), cells=cells)
    return [cut_one if column is widest else column for column in columns]


def _row(cells: Sequence[Line], columns: Sequence[Column], width: int | None, gap: int) -> Iterator[Line]:
    pieces: list[Piece] = []
    for place, (cell, column) in enumerate(zip(cells, columns, strict=True)):
        space = Piece(" " * (column.width - width_of_line(cell)))
        between = [Piece(" " * gap)] if place else []
        pieces += [*between, space, *cell] if column.right else [*between, *cell, space]
    while pieces and not pieces[-1].text.strip():
        pieces.pop()
    row = tuple(piece for piece in pieces if piece.text)
    yield row if width is None else fitted(row, width)
