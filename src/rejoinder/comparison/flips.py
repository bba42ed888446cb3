"""Where the conversations of flipped cases part. Replies are read a second time, and only a few are kept."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from rejoinder.comparison.counts import Counts, Names, Side
from rejoinder.comparison.matching import Match
from rejoinder.model.comparisons import CaseName, CaseState, Differs, Flip, Moment
from rejoinder.model.figures import CaseChange
from rejoinder.model.results import CheckResult, Result, TurnResult

LONGEST_TEXT = 4000
"""Characters that are kept of a prompt or reply, and"""
MOST_TURNS = 100
"""turns that are kept of a conversation which is shown."""
MOST_CHECKS, LONGEST_CHECK = 3, 200


class Told(Struct, frozen=True):
    """What is kept of one conversation."""

    steps: bytes
    """Three numbers for each turn: digests of prompt and reply, and whether it passed."""
    succeeded_on: int | None
    shown: Shown | None


class Shown(Struct, frozen=True):
    """The words of a conversation that is shown."""

    title: str
    texts: tuple[tuple[str, str | None], ...]
    """Prompts and replies."""
    fails: tuple[str, ...]


class Parting(Struct, frozen=True):
    """Where two conversations part."""

    turn: int
    differs: Differs | None
    passed_on: int | None
    moment: Moment | None


Change = tuple[Match, CaseChange]


def find_flips(
    sides: tuple[Side, Side], counts: tuple[Counts, Counts], names: Names, changes: Sequence[Change], shown: int
) -> tuple[Flip, ...]:
    """Every case that changed, in order; with replies for the first `shown` that broke and as many that were fixed."""
    broke = [match for match, change in changes if _has_dropped(change)]
    fixed = [match for match, change in changes if not _has_dropped(change)]
    whole = {*broke[:shown], *fixed[:shown]}
    passes = {match.a: True for match in broke} | {match.a: False for match in fixed}
    in_a = dict(_read(sides[0], names, passes, {match.a for match in whole}))
    before = {match.b: match.a for match, _ in changes}
    passes = {match.b: False for match in broke} | {match.b: True for match in fixed}
    in_b = _read(sides[1], names, passes, {match.b for match in whole})
    partings = {number: _part(told, other) for number, other in in_b if (told := in_a.pop(before[number], None))}
    return tuple(
        _flip(
            named(names.names[match.b], sides[1]),
            (counts[0].verdicts.state(match.a), counts[1].verdicts.state(match.b)),
            change,
            partings.get(match.b),
        )
        for match, change in changes
    )


def named(name: CaseName, side: Side) -> CaseName:
    """The case with its target and variant, where it was matched without."""
    target = name.target if side.target is None else side.target
    return name._replace(target=target, variant=name.variant if side.variant is None else side.variant)


def _has_dropped(change: CaseChange) -> bool:
    return change.b[0] * change.a[1] < change.a[0] * change.b[1]


def _read(side: Side, names: Names, passes: Mapping[int, bool], whole: set[int]) -> Iterator[tuple[int, Told]]:
    """The first trial of each case that passed, or did not, as is wanted."""
    waiting = dict(passes)
    if not waiting:
        return
    for result in side.counted():
        number = names.number(result, side)
        if waiting.get(number) is result.passed and result.status != "skipped":
            del waiting[number]
            yield number, _told(result, number in whole)
        if not waiting:
            return


def _told(result: Result, is_shown: bool) -> Told:
    numbers = (number for turn in result.turns for number in (hash(turn.prompt), hash(turn.response), turn.passed))
    steps = array("q", numbers).tobytes()
    return Told(steps, result.succeeded_on_turn, _shown(result) if is_shown else None)


def _shown(result: Result) -> Shown:
    fails = () if result.passed else tuple(_failed(result))
    return Shown(cut(result.title), tuple(map(_text, result.turns[:MOST_TURNS])), fails)


def _text(turn: TurnResult) -> tuple[str, str | None]:
    return cut(turn.prompt), None if turn.response is None else cut(turn.response)


def cut(text: str, most: int = LONGEST_TEXT) -> str:
    """A long text by its beginning and its end."""
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end]} [... {len(text) - most:,} characters left out ...] {text[-end:]}"


def _failed(result: Result) -> Iterable[str]:
    """What a conversation failed: its error, or the first checks of its last turn."""
    if result.error is not None:
        yield cut(f"{result.error.type} error: {result.error.message}", LONGEST_CHECK)
        return
    failed = [check for check in result.deciding_checks if not check.passed]
    for check in failed[:MOST_CHECKS]:
        yield cut(_title(check), LONGEST_CHECK)


def _title(check: CheckResult) -> str:
    return check.name or check.check


def _flip(name: CaseName, states: tuple[CaseState, CaseState], change: CaseChange, parting: Parting | None) -> Flip:
    return Flip(
        file=name.file,
        id=name.id,
        target=name.target,
        variant=name.variant or None,
        before=states[0],
        after=states[1],
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
    turn, differs = _first_difference(_steps(a), _steps(b))
    passed_on = a.succeeded_on if a.succeeded_on is not None else b.succeeded_on
    moment = None if a.shown is None or b.shown is None else _moment(turn, a.shown, b.shown)
    return Parting(turn, differs, passed_on, moment)


def _steps(told: Told) -> list[tuple[int, int, int]]:
    numbers = array("q", told.steps)
    return list(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True))


def _first_difference(
    a: Sequence[tuple[int, int, int]], b: Sequence[tuple[int, int, int]]
) -> tuple[int, Differs | None]:
    """The first turn whose words differ; else the first that is graded differently, else the first that one of them
    does not have, else the last."""
    both = list(zip(a, b, strict=False))
    for turn, (one, other) in enumerate(both, 1):
        if one[0] != other[0]:
            return turn, "prompt"
        if one[1] != other[1]:
            return turn, "reply"
    graded = next((turn for turn, (one, other) in enumerate(both, 1) if one[2] != other[2]), None)
    if graded is not None:
        return graded, "verdict"
    return (len(both) + 1, "reply") if len(a) != len(b) else (max(1, len(both)), "verdict" if both else None)


def _moment(turn: int, a: Shown, b: Shown) -> Moment | None:
    if turn > MOST_TURNS:
        return None
    here = [shown.texts[turn - 1] if turn <= len(shown.texts) else None for shown in (a, b)]
    prompt = next((text[0] for text in reversed(here) if text is not None), "")
    before, after = (None if text is None else text[1] for text in here)
    return Moment(b.title, prompt, (before, after), a.fails or b.fails)
