"""Matching the cases of A with the cases of B."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from rejoinder.comparison.sides import Side, Tally
from rejoinder.comparison.table import NAME, TALLY, Listed, Row, Table, read_name
from rejoinder.model.comparisons import Renamed
from rejoinder.model.results import CaseName, task_of

_NAME, _TALLY = NAME.split(", "), TALLY.split(", ")


def _of(side: str, columns: list[str]) -> str:
    return ", ".join(f"{side}.{name}" for name in columns)


_BY_NAME = f"""
INSERT INTO pairs SELECT a.number, b.number, 0 FROM cases AS a
CROSS JOIN cases AS b ON b.side = 1 AND ({_of("b", _NAME)}) = ({_of("a", _NAME)}) WHERE a.side = 0
"""
_LONE = """
SELECT min(number) AS number, question, target, variant, {id} AS id FROM cases
WHERE side = {side} AND question AND number NOT IN (SELECT {letter} FROM pairs)
GROUP BY 2, 3, 4, 5 HAVING count(*) = 1
"""
_BY_QUESTION = """
INSERT INTO pairs SELECT a.number, b.number, 1 FROM ({a}) AS a JOIN ({b}) AS b USING (question, target, variant, id)
"""
_IN_ORDER = f"({_of('a', _NAME)}) <= ({_of('b', _NAME)})"
_FIRST = [f"CASE WHEN {_IN_ORDER} THEN a.{name} ELSE b.{name} END AS {name}" for name in _NAME]
_SECOND = [f"CASE WHEN {_IN_ORDER} THEN b.{name} ELSE a.{name} END AS other_{name}" for name in _NAME]
_ORDERED = f"""
INSERT INTO matches (a, b, renamed) SELECT a, b, renamed FROM (
    SELECT pairs.a, pairs.b, renamed, min(a.place, b.place) AS place, {", ".join(_FIRST + _SECOND)}
    FROM pairs CROSS JOIN cases AS a ON a.number = pairs.a CROSS JOIN cases AS b ON b.number = pairs.b
    WHERE a.trials AND b.trials
) ORDER BY file, place, id, target, variant, {", ".join(f"other_{name}" for name in _NAME)}
"""


Group = tuple[str, str]
"""A group with its own rate: a target, and a condition of sharded tasks, or no condition."""


class Match(NamedTuple):
    """A case in both runs. Its names differ if it was renamed."""

    place: int
    a: Tally
    b: Tally
    in_a: CaseName
    in_b: CaseName

    @property
    def group(self) -> Group:
        """The group of a match. A variant of a prompt counts as another target."""
        return ", ".join(filter(None, (self.in_b.target, self.in_b.variant))), self.b.condition

    @property
    def task(self) -> tuple[str, str]:
        """The task of a match. Its conditions are one case, like replies of several targets to one question."""
        return self.in_b.file, task_of(self.in_b.id, self.b.condition)


_ENDS = [1 + len(_TALLY), 1 + 2 * len(_TALLY), 1 + 2 * len(_TALLY) + len(_NAME)]


def match_of(row: Row) -> Match:
    """A row of `matched_rows` as a match; additional columns are ignored."""
    tallies, names, end = _ENDS
    a, b = Tally(*row[1:tallies]), Tally(*row[tallies:names])
    return Match(row[0], a, b, read_name(row[names:end]), read_name(row[end : end + len(_NAME)]))


def matched_rows(where: str = "1", *, further: str = "", joined: str = "") -> str:
    """A query for matches, in the order of files and documents, which is the same from both sides."""
    columns = f"{_of('a', _TALLY)}, {_of('b', _TALLY)}, {_of('a', _NAME)}, {_of('b', _NAME)}{further}"
    return f"""
    SELECT matches.place, {columns} FROM matches
    CROSS JOIN cases AS a ON a.number = matches.a CROSS JOIN cases AS b ON b.number = matches.b {joined}
    WHERE {where} ORDER BY matches.place
    """


_PAIRED = "pairs CROSS JOIN cases AS a ON a.number = pairs.a CROSS JOIN cases AS b ON b.number = pairs.b"
_PUT = "(a.trials OR a.spoilt) AND (b.trials OR b.spoilt)"
T = TypeVar("T")


class Matching:
    """Matches cases by file, id, target and variant. Of the cases that only one run has, a pair with the same question
    and the same checks is one case under two names, unless several pairs are possible."""

    def __init__(self, table: Table, a: Side, b: Side) -> None:
        self._table = table
        self._sides = a, b
        table.change(_BY_NAME)
        for name in ("id", "''"):  # first those that kept their id and moved to another file
            alone = [_LONE.format(id=name, side=side, letter=letter) for side, letter in enumerate("ab")]
            table.change(_BY_QUESTION.format(a=alone[0], b=alone[1]))
        table.change(_ORDERED)

    def matched(self, make: Callable[[Match], T], where: str = "1") -> Listed[T]:
        return Listed(self._table, matched_rows(where), lambda row: make(match_of(row)))

    def renamed(self) -> Listed[Renamed]:
        """Matched cases with another name in B."""
        a, b = self._sides
        return self.matched(lambda one: Renamed(a.named(one.in_a), b.named(one.in_b)), "renamed")

    def only_in(self, side: int) -> Listed[CaseName]:
        lone = f"side = {side} AND number NOT IN (SELECT {'ab'[side]} FROM pairs)"
        return self._names(side, f"FROM cases WHERE {lone} ORDER BY file, place, {NAME}")

    def left_out(self) -> Listed[CaseName]:
        """Cases in both runs that never began in one of them."""
        never = f"number IN (SELECT pairs.a FROM {_PAIRED} WHERE NOT ({_PUT}))"
        return self._names(0, f"FROM cases WHERE side = 0 AND {never} ORDER BY {NAME}")

    def unmeasured(self) -> Iterator[Match]:
        """Cases in both runs that are entirely invalid in one of them."""
        columns = f"{_of('a', _TALLY)}, {_of('b', _TALLY)}, {_of('a', _NAME)}, {_of('b', _NAME)}"
        query = f"SELECT 0, {columns} FROM {_PAIRED} WHERE {_PUT} AND NOT (a.trials AND b.trials)"
        return map(
            match_of, self._table.rows(f"{query} ORDER BY {_of('b', ['file', 'place', 'id', 'target', 'variant'])}")
        )

    def _names(self, side: int, rest: str) -> Listed[CaseName]:
        named = self._sides[side].named
        return Listed(self._table, f"SELECT {NAME} {rest}", lambda row: named(read_name(row)))
