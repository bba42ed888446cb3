"""The cases of both runs, in a table on disk: memory does not grow with them, in whatever order they come.

The table is a private database of SQLite without a name. It stays within a small cache in memory, uses a temporary file
if that is full, and is deleted with the last value that reads from it.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, Generic, TypeVar, overload
from weakref import finalize

from rejoinder.comparison.sides import KEPT, Side, Tally, tally_of, votes_of
from rejoinder.errors import RejoinderError
from rejoinder.model.results import CaseName, Result

NAME = ", ".join(CaseName._fields)
TALLY = ", ".join(Tally._fields)
_KEEPS = {
    "place": "CASE WHEN excluded.trials THEN excluded.place ELSE place END",
    "question": "CASE WHEN question THEN question ELSE excluded.question END",
    "said": f"(said + excluded.said) & {KEPT}",
    "tags": "CASE WHEN tags = excluded.tags THEN tags ELSE tags || excluded.tags END",
    "passing": "coalesce(passing, excluded.passing)",
    "failing": "coalesce(failing, excluded.failing)",
    "condition": "condition",
}
"""The fields that another trial changes in special ways; all other fields are summed."""
_REAL = ("cost", "seconds")
SCHEMA = f"""
CREATE TABLE cases (
    number INTEGER PRIMARY KEY, side, {NAME},
    {", ".join(f"{name} REAL" if name in _REAL else name for name in Tally._fields)},
    UNIQUE (side, {NAME})
);
CREATE TABLE votes (side, {NAME}, asked, scores);
CREATE TABLE pairs (a INTEGER PRIMARY KEY, b UNIQUE, renamed);
CREATE TABLE matches (place INTEGER PRIMARY KEY, a, b, renamed);
CREATE TABLE spent (kind, a REAL, b REAL);
CREATE TABLE flips (place INTEGER PRIMARY KEY, in_a, in_b, is_shown, told, parting);
"""
_ADD = f"""
INSERT INTO cases (side, {NAME}, {TALLY})
VALUES ({", ".join("?" * (1 + len(CaseName._fields) + len(Tally._fields)))})
ON CONFLICT (side, {NAME}) DO UPDATE
SET {", ".join(f"{name} = {_KEEPS.get(name, f'{name} + excluded.{name}')}" for name in Tally._fields)}
"""

Row = tuple[Any, ...]


class NoRoom(RejoinderError):
    """The table cannot be written because the disk is full."""

    exit_code = 3

    def __init__(self, reason: object) -> None:
        super().__init__(
            f"the runs cannot be compared: {reason}",
            "Cases are kept in a temporary file while they are compared. TMPDIR can name a folder with more room.",
        )


class Table:
    def __init__(self) -> None:
        # Python's API compares in a thread of its own and hands the lists to another.
        self._rows = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._close = finalize(self, self._rows.close)
        self._rows.execute("PRAGMA journal_mode = OFF")
        self._rows.execute("PRAGMA temp_store = FILE")
        self._rows.executescript(SCHEMA)
        self._rows.execute("BEGIN")  # and never ended: nothing is to be kept

    def rows(self, query: str, *values: Any) -> Iterator[Row]:
        return self._rows.execute(query, values)

    def change(self, query: str, *values: Any) -> None:
        self._rows.execute(query, values)

    def number(self, query: str, *values: Any) -> int:
        return self._rows.execute(query, values).fetchone()[0]

    def add(self, place: int, side: Side, result: Result, number: int) -> None:
        """Add a result. `place`: 0 for A, 1 for B. `number`: its position among its side's results."""
        name = [text.encode("utf-8", "surrogatepass") for text in side.name_of(result)]
        self._rows.execute(_ADD, (place, *name, *tally_of(result, number)))
        if result.status != "skipped" and result.turns:
            for check, votes in votes_of(result.turns[0].checks):
                scores = array("d", votes).tobytes()
                given = (place, *name, hash(check), scores)
                self._rows.execute("INSERT INTO votes VALUES (?, ?, ?, ?, ?, ?, ?)", given)


def read_name(columns: Iterable[bytes]) -> CaseName:
    """A name from its columns. It may contain an unpaired surrogate; its bytes sort like its characters."""
    return CaseName(*(text.decode("utf-8", "surrogatepass") for text in columns))


class Votes:
    """The votes of judges on first replies, by case and check; one list for each trial."""

    def __init__(self, table: Table, side: int) -> None:
        self._table = table
        self._side = side

    def __iter__(self) -> Iterator[list[array[float]]]:
        rows = self._table.rows(
            f"SELECT {NAME}, asked, scores FROM votes WHERE side = ? ORDER BY {NAME}, asked, rowid", self._side
        )
        for _, trials in groupby(rows, key=lambda row: row[:-1]):
            yield [_numbers(scores) for *_, scores in trials]

    def __bool__(self) -> bool:
        return any(True for _ in self._table.rows("SELECT 1 FROM votes WHERE side = ? LIMIT 1", self._side))


def _numbers(content: bytes) -> array[float]:
    return array("d", content)


class Spent:
    """The cost of the matched cases in both runs, in dollars, seconds or tokens."""

    def __init__(self, table: Table, kind: int) -> None:
        self._table = table
        self._kind = kind

    def __iter__(self) -> Iterator[tuple[float, float]]:
        return (
            (before, after) for before, after in self._table.rows("SELECT a, b FROM spent WHERE kind = ?", self._kind)
        )

    def differences(self) -> Sequence[float]:
        return self._ordered("b - a")

    def changes(self) -> Sequence[float]:
        return self._ordered("b / a - 1")

    def _ordered(self, value: str) -> Sequence[float]:
        query = f"SELECT {value} AS value FROM spent WHERE kind = {self._kind} ORDER BY value"
        return Listed(self._table, query, _value)


def _value(row: Row) -> float:
    return float("nan") if row[0] is None else row[0]


T_co = TypeVar("T_co", covariant=True)


class Listed(Sequence[T_co], Generic[T_co]):
    """The results of a query, read from disk: one at a time during iteration."""

    def __init__(self, table: Table, query: str, make: Callable[[Row], T_co]) -> None:
        self._table = table
        self._query = query
        self._make = make
        self._length: int | None = None

    def __iter__(self) -> Iterator[T_co]:
        return map(self._make, self._table.rows(self._query))

    def __len__(self) -> int:
        if self._length is None:
            self._length = self._table.number(f"SELECT count(*) FROM ({self._query})")
        return self._length

    @overload
    def __getitem__(self, index: int) -> T_co: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[T_co, ...]: ...

    def __getitem__(self, index: int | slice) -> T_co | tuple[T_co, ...]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step < 1:
                return tuple(self)[index]
            return tuple(map(self._make, islice(self._table.rows(self._query), start, stop, step)))
        place = index + len(self) if index < 0 else index
        row = next(self._table.rows(f"{self._query} LIMIT 1 OFFSET ?", place), None) if place >= 0 else None
        if row is None:
            raise IndexError(index)
        return self._make(row)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return repr(tuple(self))
