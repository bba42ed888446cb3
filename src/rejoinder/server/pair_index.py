"""The conversations of two runs side by side: a row for each pair."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from rejoinder.model import Result
from rejoinder.report.page.pairs import CHANGES, PairRow, Sides, pair_of
from rejoinder.runs.results import read_result
from rejoinder.server.result_lines import Placed, placed_results
from rejoinder.server.row_store import NOWHERE, Address, RowStore, RowWriter, addressed

_NAMED_IN_B = 'select 1 from rows where "case" = ? and suite = ? and target = ? and offset is not null'


class PairIndex(RowStore[PairRow]):
    """The conversations of two runs side by side: a row for each pair. `sources` are B's results and A's."""

    def __init__(self, b: Path, a: Path, place: Path, sides: Sides) -> None:
        super().__init__(place, CHANGES, PairRow, (b, a))
        self._sides = sides

    def fill(self, in_a: Callable[[Result], Any], in_b: Callable[[Result], Any]) -> None:
        """Match the conversations of both by what the functions call them. Raises RunDamaged."""
        with self.growing, self.opened() as store:
            self._note_a(store, in_a)
            writer, number = RowWriter(store), 0
            for placed in placed_results(self.sources[0]):
                self._add_b(store, writer, placed, _key(in_b(placed.result)))
                number = placed.at + 1
            writer.write()
            self._add_rest_of_a(store, writer, number)
            writer.write()

    def _note_a(self, store: sqlite3.Connection, in_a: Callable[[Result], Any]) -> None:
        """Where the conversations of A lie, by what they are called."""
        noted = "insert or ignore into before values (?, ?, ?, ?, 0)"
        store.execute("begin")
        for at, offset, size, result in placed_results(self.sources[1]):
            store.execute(noted, (_key(in_a(result)), at, offset, size))
        store.execute("commit")

    def _add_b(self, store: sqlite3.Connection, writer: RowWriter, placed: Placed, key: str) -> None:
        """A conversation of B, with that of A of the same name; each of A is taken once."""
        of = 'select offset, size from before where "key" = ? and not used'
        there = store.execute(of, (key,)).fetchone()
        store.execute('update before set used = 1 where "key" = ?', (key,))
        other = None if there is None else read_result(self.sources[1], *there)
        pair = pair_of(other, placed.result, placed.at, self._sides)
        writer.add(pair, CHANGES.index(pair.change), (placed.offset, placed.size), there or NOWHERE)

    def _add_rest_of_a(self, store: sqlite3.Connection, writer: RowWriter, number: int) -> None:
        """The conversations that only A has, behind those of B. `number`: how many those are."""
        left = store.execute("select offset, size from before where not used order by at").fetchall()
        for at, there in enumerate(left, number):
            pair = pair_of(read_result(self.sources[1], *there), None, at, self._sides)
            if store.execute(_NAMED_IN_B, (pair.case, pair.suite, pair.target)).fetchone():
                pair = structs.replace(pair, suite=f"{pair.suite} (A)")  # another case of B has the name
            writer.add(pair, CHANGES.index(pair.change), NOWHERE, there)

    def results(self, address: Address) -> tuple[Result | None, Result | None] | None:
        """The conversations of a pair, A's before B's; None where there is no such pair."""
        of = addressed(address)
        if self.row(address) is None:
            return None
        return self.read(1, "before, before_size", *of), self.read(0, "offset, size", *of)


def _key(name: Any) -> str:
    return msgspec.json.encode(name).decode()
