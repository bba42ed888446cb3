"""The first difference between the conversations of changed cases. Replies are read a second time, and only a few are
kept.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from rejoinder.comparison.matching import Match, match_of, matched_rows
from rejoinder.comparison.sides import Side
from rejoinder.comparison.table import Listed, Row, Table
from rejoinder.model.comparisons import Differs, Flip, Moment, first_difference
from rejoinder.model.figures import CaseChange
from rejoinder.model.results import CaseName, CheckResult, Result, TurnResult, answered_back
from rejoinder.stats.comparison import Pair
from rejoinder.words.numbers import both_ends

LONGEST_TEXT = 4000
"""Maximum characters kept of a prompt or reply, and"""
MOST_TURNS = 100
"""maximum turns kept of a conversation that is shown."""
MOST_CHECKS, LONGEST_CHECK = 3, 200


class Told(Struct, frozen=True):
    """The kept part of one conversation."""

    steps: bytes
    """Three numbers for each turn: digests of prompt and reply, and whether it passed."""
    succeeded_on: int | None
    shown: Shown | None


class Shown(Struct, frozen=True):
    """The words of a conversation that is shown."""

    title: str
    texts: tuple[tuple[str, str | None], ...]
    """Prompts and replies, in pairs."""
    fails: tuple[str, ...]


class Parting(Struct, frozen=True):
    """The first difference between two conversations."""

    turn: int
    differs: Differs | None
    passed_on: int | None
    moment: Moment | None


FLIPPED = "a.passed * b.trials <> b.passed * a.trials"
_PART = ", flips.parting"
_JOINED = "JOIN flips ON flips.place = matches.place"


def find_flips(
    sides: tuple[Side, Side], table: Table, changes: Mapping[Pair, CaseChange], shown: int
) -> Sequence[Flip]:
    """Every case that changed, in order; with replies for the first `shown` broken and the first `shown` fixed
    cases."""
    left = {True: shown, False: shown}
    for row in table.rows(matched_rows(FLIPPED)):
        match = match_of(row)
        broke = changes[match.a.eventual, match.b.eventual].broke
        in_a, in_b = (match.a.passing, match.b.failing) if broke else (match.a.failing, match.b.passing)
        table.change("INSERT INTO flips VALUES (?, ?, ?, ?, NULL, NULL)", match.place, in_a, in_b, left[broke] > 0)
        left[broke] -= 1
    _find_partings(sides, table)

    def flip(row: Row) -> Flip:
        match, parting = match_of(row), None if row[-1] is None else _unpacked(row[-1], Parting)
        return _flip(match, sides[1].named(match.in_b), changes[match.a.eventual, match.b.eventual], parting)

    return Listed(table, matched_rows(further=_PART, joined=_JOINED), flip)


def _find_partings(sides: tuple[Side, Side], table: Table) -> None:
    """Find, for each changed case, the first difference between a trial that passed in one run and one that did not in
    the other."""
    wanted = table.rows("SELECT in_a, place, is_shown FROM flips ORDER BY in_a")
    for (_, place, is_shown), result in _read(sides[0], wanted):
        told = _packed(_told(result, bool(is_shown)))
        table.change("UPDATE flips SET told = ? WHERE place = ?", told, place)
    wanted = table.rows("SELECT in_b, place, is_shown, told FROM flips WHERE told IS NOT NULL ORDER BY in_b")
    for (_, place, is_shown, told), result in _read(sides[1], wanted):
        parting = _packed(_part(_unpacked(told, Told), _told(result, bool(is_shown))))
        table.change("UPDATE flips SET told = NULL, parting = ? WHERE place = ?", parting, place)


T = TypeVar("T")


def _packed(value: Struct) -> str:
    """A value as JSON by the standard library, which can also write unpaired surrogates."""
    return json.dumps(msgspec.to_builtins(value))


def _unpacked(text: str, kind: type[T]) -> T:
    return msgspec.convert(json.loads(text), kind)


def _read(side: Side, wanted: Iterator[Row]) -> Iterator[tuple[Row, Result]]:
    """The results at the wanted positions, in order."""
    row = next(wanted, None)
    for number, result in enumerate(side.counted() if row is not None else ()):
        if row is None:
            return
        if number == row[0]:
            yield row, result
            row = next(wanted, None)


def _told(result: Result, is_shown: bool) -> Told:
    numbers = (number for turn in result.turns for number in (hash(turn.prompt), hash(turn.response), turn.passed))
    steps = array("q", numbers).tobytes()
    return Told(steps, result.succeeded_on_turn, _shown(result) if is_shown else None)


def _shown(result: Result) -> Shown:
    fails = () if result.passed else tuple(_failed(result))
    return Shown(both_ends(result.title, LONGEST_TEXT), tuple(map(_text, result.turns[:MOST_TURNS])), fails)


def _text(turn: TurnResult) -> tuple[str, str | None]:
    return both_ends(turn.prompt, LONGEST_TEXT), None if turn.response is None else both_ends(
        turn.response, LONGEST_TEXT
    )


def _failed(result: Result) -> Iterable[str]:
    """The failures of a conversation: its error, or the first failed checks of its last turn and of the whole; if these
    passed, the failed checks of earlier planned turns."""
    if result.error is not None:
        yield both_ends(f"{result.error.type} error: {result.error.message}", LONGEST_CHECK)
        return
    failed = [check for check in result.deciding_checks if not check.passed]
    if not failed:
        lasts = (turns[-1] for turns in answered_back(result.turns))
        failed = [check for turn in lasts if not turn.passed for check in turn.checks if not check.passed]
    for check in failed[:MOST_CHECKS]:
        yield both_ends(_title(check), LONGEST_CHECK)


def _title(check: CheckResult) -> str:
    return check.name or check.check


def _flip(match: Match, name: CaseName, change: CaseChange, parting: Parting | None) -> Flip:
    return Flip(
        file=name.file,
        id=name.id,
        target=name.target,
        variant=name.variant or None,
        before=match.a.state,
        after=match.b.state,
        turn=None if parting is None else parting.turn,
        differs=None if parting is None else parting.differs,
        passed_on=None if parting is None else parting.passed_on,
        a=change.a,
        b=change.b,
        p_value=change.p_value,
        verdict=change.verdict,
        moment=None if parting is None else parting.moment,
    )


def _part(a: Told, b: Told) -> Parting:
    turn, differs = first_difference(_steps(a), _steps(b))
    passed_on = a.succeeded_on if a.succeeded_on is not None else b.succeeded_on
    moment = None if a.shown is None or b.shown is None else _moment(turn, a.shown, b.shown)
    return Parting(turn, differs, passed_on, moment)


def _steps(told: Told) -> list[tuple[int, int, int]]:
    numbers = array("q", told.steps)
    return list(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True))


def _moment(turn: int, a: Shown, b: Shown) -> Moment | None:
    if turn > MOST_TURNS:
        return None
    here = [shown.texts[turn - 1] if turn <= len(shown.texts) else None for shown in (a, b)]
    prompt = next((text[0] for text in reversed(here) if text is not None), "")
    before, after = (None if text is None else text[1] for text in here)
    return Moment(b.title, prompt, (before, after), a.fails or b.fails)
