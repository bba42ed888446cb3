"""Tables on a terminal: columns that leave in a named order if there is too little room. No cell is wrapped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from msgspec import Struct

from rejoinder.report.styled import Form, Line, Piece, cut, fitted, width_of_line

WIDE_GAP, NARROW_GAP = 3, 2
LEAST_ROOM = 8
"""Columns that a cell is left if it has to be cut."""


class Column(Struct, frozen=True, kw_only=True, dict=True):
    title: str
    cells: Sequence[Line]
    """One for each row."""
    right: bool = False
    leaves: int = 0
    """Which column goes first where a line is too long, and with it others of the same number; 0 stays."""

    @cached_property
    def sizes(self) -> list[int]:
        """Of the cells."""
        return list(map(width_of_line, self.cells))

    @cached_property
    def width(self) -> int:
        return max(len(self.title), max(self.sizes, default=0))

    def padded(self) -> Iterator[Line]:
        """The title and the cells, all as wide as the widest."""
        yield self._fill((Piece(self.title, "quiet"),), len(self.title))
        for cell, size in zip(self.cells, self.sizes, strict=True):
            yield self._fill(cell, size)

    def _fill(self, cell: Line, size: int) -> Line:
        if size == self.width:
            return cell
        space = Piece(" " * (self.width - size))
        return (space, *cell) if self.right else (*cell, space)

    @property
    def is_empty(self) -> bool:
        return not any(piece.text for cell in self.cells for piece in cell)


def write_table(columns: Sequence[Column], form: Form) -> Iterator[Line]:
    """The titles, then the rows. Columns with nothing in them are left out."""
    listed = [column for column in columns if not column.is_empty]
    is_wide = form.width is None or (not form.is_narrow and _total(listed, WIDE_GAP) <= form.width)
    gap = WIDE_GAP if is_wide else NARROW_GAP
    kept = _fitting(listed, form.width, gap)
    between = Piece(" " * gap)
    for cells in zip(*(column.padded() for column in kept), strict=True):
        row = _joined(cells, between)
        yield row if form.width is None else fitted(row, form.width)


def least_width(columns: Sequence[Column]) -> int:
    """The width of a table without the columns that leave."""
    return _total([column for column in columns if not column.leaves and not column.is_empty], NARROW_GAP)


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


def _joined(cells: Sequence[Line], between: Piece) -> Line:
    """Without blanks at its end."""
    pieces: list[Piece] = []
    for cell in cells:
        pieces += cell
        pieces.append(between)
    while pieces and not pieces[-1].text.strip():
        pieces.pop()
    return tuple(pieces)
