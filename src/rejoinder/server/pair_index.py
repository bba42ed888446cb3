"""The conversations of two runs side by side: a row for each pair."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from rejoinder.engine.results import read_result
from rejoinder.model import Result
from rejoinder.report.page.pairs import CHANGES, PairRow, Sides, pair_of
from rejoinder.server.result_lines import placed_results
from rejoinder.server.row_store import Address, Place, RowStore, addressed, columns_of, write_rows
from rejoinder.server.run_index import BATCH

_NAMED = '"case" = ? and suite = ? and target = ?'


class PairIndex(RowStore[PairRow]):
    """The conversations of two runs side by side: a row for each pair. `sources` are B's results and A's."""

    def __init__(self, b: Path, a: Path, place: Path, sides: Sides) -> None:
        super().__init__(place, CHANGES, PairRow, (b, a))
        self._sides = sides

    def fill(self, in_a: Callable[[Result], Any], in_b: Callable[[Result], Any]) -> None:
        """Match the conversations of both by what the functions call them. Raises RunDamaged."""
        b, a = self.sources
        with self.growing, self.opened() as store:
            store.execute("begin")
            for at, offset, size, result in placed_results(a):
                named = (_key(in_a(result)), at, offset, size)
                store.execute("insert or ignore into before values (?, ?, ?, ?, 0)", named)
            store.execute("commit")
            batch: list[tuple[Any, ...]] = []
            at = -1
            for at, offset, size, result in placed_results(b):
                key = _key(in_b(result))
                of = 'select offset, size from before where "key" = ? and not used'
                there = store.execute(of, (key,)).fetchone()
                store.execute('update before set used = 1 where "key" = ?', (key,))
                other = None if there is None else read_result(a, *there)
                batch.append(self._row(pair_of(other, result, at, self._sides), (offset, size), there))
                if len(batch) >= BATCH:
                    write_rows(store, batch)
                    batch = []
            write_rows(store, batch)
            batch = []
            left = store.execute("select offset, size from before where not used order by at").fetchall()
            for number, there in enumerate(left, at + 1):
                pair = pair_of(read_result(a, *there), None, number, self._sides)
                if store.execute(f"select 1 from rows where {_NAMED}", (pair.case, pair.suite, pair.target)).fetchone():
                    pair = structs.replace(pair, suite=f"{pair.suite} (A)")  # another case of B has the name
                batch.append(self._row(pair, (None, None), there))
            write_rows(store, batch)

    def _row(self, pair: PairRow, here: Place, there: Place | None) -> tuple[Any, ...]:
        return columns_of(pair, CHANGES.index(pair.change), here, there or (None, None))

    def results(self, address: Address) -> tuple[Result | None, Result | None] | None:
        """The conversations of a pair, A's before B's; None where there is no such pair."""
        of = addressed(address)
        if self.row(address) is None:
            return None
        return self.read(1, "before, before_size", *of), self.read(0, "offset, size", *of)


def _key(name: Any) -> str:
    return msgspec.json.encode(name).decode()
