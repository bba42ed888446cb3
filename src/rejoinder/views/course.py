"""How a conversation went, in words: the steps of a plan, doubts, a simulated user, checks of the whole, and what
decided against it. Every screen and export says it by these words.

Names and evidence are texts of others: they are in one line here, and made inert by those who write them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from rejoinder.model import CheckResult, Result, Spoilt, StepResult, TurnResult, UserResult
from rejoinder.model.results import Span, StepStatus, check_at, deciding_turns, last_of_steps
from rejoinder.words.checks import called, found_by, is_over_time
from rejoinder.words.numbers import count

_MOST_NAMED = 3
"""Steps that were not sent and are named."""
_MOST_SPANS = 200
_MOST_WORDS = 10
"""Words of a text that are looked for in a reply that does not have it."""
_LONGEST_REPLY = 20_000
"""Characters of a reply in which they are looked for."""
_WORD = re.compile(r"\w\w+")
_NUMBER = re.compile(r"\d(?:[\d.,]*\d)?")
_LONGEST_NUMBER, _MOST_NUMBERS, _LEAST_LIKE = 20, 500, 0.6
"""Characters of a number that is compared, numbers of a reply, and the least similarity of a nearest miss."""
_OF_TEXT = frozenset(
    (
        *("contains", "contains_any", "contains_all", "icontains", "icontains_any", "icontains_all"),
        *("match", "equals", "starts_with", "ends_with"),
    )
)
"""Kinds of checks that look for a text, which is their value."""
_LOOKED_AT = 1_000
"""Checks inside one in which a miss is looked for, and characters of what is sought."""


# Turns and steps


def step_words(step: int, of: int, name: str | None) -> str:
    """`step 2 of 5, party`."""
    behind = f", {' '.join(name.split())}" if name else ""
    return f"step {step} of {of}{behind}" if of else f"step {step}{behind}"


def turn_words(turn: TurnResult, result: Result) -> str:
    """What a turn is, if it is not just the next one: `step 2 of 5, party`, `user`, `follow-up, because icontains
    failed`. Empty for a conversation without plan and user, whose turns are the question and its follow-ups."""
    if turn.step is None and result.user is None:
        return ""
    if turn.depth:
        return _why_sent(turn, result.turns)
    if turn.step is not None:
        return step_words(turn.step, len(result.steps), turn.name)
    return "user" if turn.simulated else "user, opening"


def _why_sent(turn: TurnResult, turns: Iterable[TurnResult]) -> str:
    if turn.doubts:
        return "follow-up, sent in any case"
    asked = turn.asked_by
    before = None if asked is None else next((one for one in turns if one.turn == asked.turn), None)
    if asked is None or before is None:
        return "follow-up"
    if not asked.check:
        return "follow-up, because the score is too low"
    found = check_at(before.checks, asked.check)
    return "follow-up" if found is None else f"follow-up, because {found.kind or called(found)} failed"


def is_nested(turn: TurnResult, result: Result) -> bool:
    """Does it answer back to a planned turn, or to the last one of a simulated user?"""
    return turn.depth > 0 and (turn.step is not None or result.user is not None)


def turns_of(result: Result, step: int) -> list[TurnResult]:
    return [turn for turn in result.turns if turn.step == step]


def not_sent(result: Result) -> str | None:
    """The steps at the end of a plan that were left out, and why: `Step 5 of 5, bill: not sent, because step 4
    failed`."""
    left = _left_out(result)
    return None if left is None else f"S{left[0][1:]}: not sent, because {left[1]}"


def _left_out(result: Result) -> tuple[str, str] | None:
    """`step 5 of 5, bill` and `step 4 failed`."""
    left = [step for step in result.steps if step.status == "skipped"]
    if not left:
        return None
    first, of = left[0], len(result.steps)
    before = next((step for step in reversed(result.steps) if step.step < first.step), None)
    why = {"failed": "failed", "error": "had an error"}.get(before.status if before is not None else "")
    because = f"step {first.step - 1} {why}" if why else "the conversation ended before"
    if len(left) == 1:
        return step_words(first.step, of, first.name), because
    return f"steps {first.step} to {left[-1].step} of {of}{_names(left)}", because


def _names(steps: list[StepResult]) -> str:
    names = [" ".join(step.name.split()) for step in steps[:_MOST_NAMED] if step.name]
    more = [f"and {len(steps) - _MOST_NAMED} more"] if len(steps) > _MOST_NAMED else []
    return f" ({', '.join([*names, *more])})" if names else ""


STEP_WORDS: dict[StepStatus, str] = {
    "passed": "passed",
    "recovered": "recovered",
    "failed": "failed",
    "error": "error",
    "skipped": "not sent",
}


class Step(Protocol):
    """A step of a plan, in a result or in a view of it."""

    @property
    def step(self) -> int: ...
    @property
    def name(self) -> str | None: ...
    @property
    def status(self) -> StepStatus: ...


def step_name(step: Step) -> str:
    """Its name, else its number: what a list of steps calls it."""
    return " ".join(step.name.split()) if step.name else str(step.step)


def steps_words(steps: Iterable[Step]) -> str:
    """`ask passed, party recovered, cancel failed, bill not sent`."""
    return ", ".join(f"{step_name(step)} {STEP_WORDS[step.status]}" for step in steps)


def recovery_words(result: Result) -> tuple[str, str]:
    """The turn with which a conversation recovered, and what had failed before: `turn 4`, `step 3 of 3, cancel, after
    contains "Cancelled" failed`."""
    step, turns = _recovered(result)
    wrong = next((turn for turn in turns if not turn.passed), None)
    failed = next((check for check in wrong.checks if not check.passed), None) if wrong is not None else None
    where = [step_words(step.step, len(result.steps), step.name)] if step is not None else []
    why = [f"after {called(failed)} failed"] if failed is not None else []
    return f"turn {recovery_turn(result)}", ", ".join([*where, *why])


def recovery_turn(result: Result) -> int:
    """The turn with which a conversation recovered: of a plan, the last one of the first step that did."""
    _, turns = _recovered(result)
    return turns[-1].turn if turns else len(result.turns)


def _recovered(result: Result) -> tuple[StepResult | None, list[TurnResult]]:
    """The step that recovered, if it is a plan, and the turns that led there."""
    step = next((step for step in result.steps if step.status == "recovered"), None)
    return step, list(result.turns) if step is None else turns_of(result, step.step)


# How it ended

RowOutcome: TypeAlias = Literal["first", "recovered", "failed", "error", "skipped"]


def outcome_of(result: Result) -> RowOutcome:
    if result.status == "passed":
        return "recovered" if result.recovered else "first"
    return result.status


def outcome_words(result: Result) -> str:
    """`Recovered on turn 2`."""
    if result.status == "passed":
        return f"Recovered on {recovery_words(result)[0]}" if result.recovered else "Passed on the first try"
    if result.status == "failed":
        return f"Failed after {count(len(result.turns), 'turn')}"
    if result.status == "skipped":
        return "Skipped"
    return f"Error on turn {result.error.turn}" if result.error is not None else "Error"


# What decided against a conversation


class Against(Struct, frozen=True):
    """Why a conversation did not pass: one check, or one step that was not sent."""

    where: str
    """The step that it belongs to, or `conversation`; empty for a check of the last turn."""
    what: str
    why: str
    turn: TurnResult | None = None
    """The turn that decided, if one did."""
    points: CheckResult | None = None
    """The check that points at places in the reply of that turn."""
    check: CheckResult | None = None


def against(result: Result) -> list[Against]:
    """The checks of the last turn, or of the last turn of each planned step that failed, and those of the whole. Where
    no check says why, the plan does."""
    found = [
        Against(where, called(check), found_by(check, turn.response or ""), turn, check, check)
        for where, turn in _deciding_turns(result)
        for check in turn.checks
        if not check.passed
    ]
    for check in result.conversation_checks:
        if not check.passed:
            inner, turn = _decisive(check, result)
            found.append(Against("conversation", called(check), found_by(check), turn, inner, check))
    if not found and result.status == "failed" and result.steps:
        found.append(_of_the_plan(result))
    return found


def turn_to_change(result: Result) -> int:
    """The turn at which a conversation could be taken up in other words: the planned one that went wrong, or the one
    that decided; else the first that answers back."""
    found = next((one.turn for one in against(result) if one.turn is not None), None)
    if found is None or (found.step is None and not result.conversation_checks):
        return min(2, len(result.turns))
    return found.turn if found.step is None else turns_of(result, found.step)[0].turn


def _of_the_plan(result: Result) -> Against:
    left = _left_out(result)
    if left is None:
        score = "the steps" if result.score is None else f"score {result.score:.2g}"
        return Against("", score, "the steps together fall short")
    return Against(left[0], "not sent", left[1])


def _deciding_turns(result: Result) -> Iterator[tuple[str, TurnResult]]:
    names = {step.step: step.name for step in result.steps}
    last = result.turns[-1] if result.turns else None
    for turn in deciding_turns(result):
        if turn.step in names:
            yield step_words(turn.step, len(names), names[turn.step]), turn
        else:
            yield "" if turn is last else f"turn {turn.turn}", turn


def _decisive(check: CheckResult, result: Result) -> tuple[CheckResult | None, TurnResult | None]:
    """The verdict on a reply by which a check over time was decided, and that reply's turn."""
    if not is_over_time(check) or check.kind == "by_turn" or not check.children:
        return None, None
    inner = check.children[-1]
    if check.error:
        inner = next((one for one in check.children if one.error), inner)
    elif check.kind == "after":
        inner = next((one for one in check.children if one.passed), inner)
    turn = _turn_looked_at(inner, result)
    return (None, None) if turn is None else (inner, turn)


def _turn_looked_at(inner: CheckResult, result: Result) -> TurnResult | None:
    """The turn whose reply a check over time looked at, which is recorded by its name: `turn 2`, `step 2`."""
    word, _, number = (inner.name or "").partition(" ")
    turns = last_of_steps(result.turns) if word == "step" else list(result.turns)
    place = int(number) if number.isascii() and number.isdigit() else 0
    return turns[place - 1] if 0 < place <= len(turns) else None


class Broken(Struct, frozen=True):
    """A check over time that did not pass, seen from the turn at which that was decided."""

    rule: CheckResult
    points: CheckResult
    """What was found in the reply of this turn."""


def broken_at(result: Result) -> dict[int, list[Broken]]:
    """Which checks of the whole conversation each turn broke. With `by_turn` it is the last turn that was looked at."""
    found: dict[int, list[Broken]] = {}
    for check in result.conversation_checks:
        if check.passed:
            continue
        inner, turn = _decisive(check, result)
        if check.kind == "by_turn" and not check.error and check.children:
            inner = check.children[-1]
            turn = _turn_looked_at(inner, result)
        if inner is not None and turn is not None:
            found.setdefault(turn.turn, []).append(Broken(check, inner))
    return found


# Where in a reply


class Pointing(Protocol):
    """A check, in a result or in a view of it."""

    @property
    def spans(self) -> tuple[Span, ...]: ...
    @property
    def children(self) -> Sequence[Pointing]: ...


def spans_of(checks: Iterable[Pointing]) -> Iterator[Span]:
    """The places at which checks, or checks inside them, found or missed their text; at most 200."""
    return islice(_all_spans(checks), _MOST_SPANS)


def _all_spans(checks: Iterable[Pointing]) -> Iterator[Span]:
    for check in checks:
        yield from check.spans
        yield from _all_spans(check.children)


def places_of(check: CheckResult, reply: str) -> tuple[Span, ...]:
    """The places in a reply that a check found; else the nearest miss, if there is one."""
    found = tuple(sorted(spans_of((check,))))
    if found:
        return found
    miss = next(filter(None, (_nearest_miss(one, reply) for one in _leaves(check))), None)
    return () if miss is None else (miss,)


def _leaves(check: CheckResult) -> Iterator[CheckResult]:
    if check.children:
        for child in check.children[:_LOOKED_AT]:
            yield from _leaves(child)
    else:
        yield check


def _nearest_miss(check: CheckResult, reply: str) -> Span | None:
    """The longest word of the text that a check looked for and the reply has."""
    if check.kind not in _OF_TEXT:
        return None
    text = reply[:_LONGEST_REPLY].lower()
    words = dict.fromkeys(_WORD.findall(check.check.partition(" ")[2][:_LOOKED_AT].lower()))
    if len(text) != len(reply[:_LONGEST_REPLY]):  # few capitals are not as long as small letters
        return None
    for word in sorted(words, key=len, reverse=True)[:_MOST_WORDS]:
        place = text.find(word)
        if place >= 0:
            return place, place + len(word)
    sought = check.check.partition(" ")[2].strip()
    return _nearest_number(sought, text) if _NUMBER.fullmatch(sought[:_LONGEST_NUMBER]) else None


def _nearest_number(sought: str, text: str) -> Span | None:
    """The number of a reply with the most digits of the sought one, in their order: `139.5` for `193.5`."""
    from difflib import SequenceMatcher

    found = islice((one for one in _NUMBER.finditer(text) if len(one[0]) <= _LONGEST_NUMBER), _MOST_NUMBERS)
    likeness = {one.span(): SequenceMatcher(None, sought, one[0]).ratio() for one in found}
    place = max(likeness, key=likeness.__getitem__, default=None)
    return place if place is not None and likeness[place] >= _LEAST_LIKE else None


# Doubts


def doubted_turns(result: Result) -> list[TurnResult]:
    """A turn and the follow-ups that doubt it, in the first step if there are any and it caved; else in the first
    step with any."""
    if not any(turn.doubts for turn in result.turns):
        return []
    groups: dict[int | None, list[TurnResult]] = {}
    for turn in result.turns:
        groups.setdefault(turn.step, []).append(turn)
    doubted = [turns for turns in groups.values() if any(turn.doubts for turn in turns)]
    return next((turns for turns in doubted if _caved(turns) is not None), doubted[0] if doubted else [])


def caved_at(result: Result) -> TurnResult | None:
    """The turn from which on it was wrong, though it had been right until it was doubted."""
    return _caved(doubted_turns(result)) if result.status == "failed" else None


def _caved(turns: list[TurnResult]) -> TurnResult | None:
    if not turns or not turns[0].passed or turns[-1].passed:
        return None
    return next(after for before, after in zip(turns[-2::-1], turns[:0:-1], strict=True) if before.passed)


def doubt_words(result: Result) -> str | None:
    """`right, then wrong at turn 3: caved`; None if nothing was doubted."""
    turns = doubted_turns(result)
    if not turns:
        return None
    caved, first, last = _caved(turns), turns[0], turns[-1]
    wrong = [turn.turn for turn in turns if not turn.passed]
    if caved is not None:
        return f"right, then wrong at turn {caved.turn}: caved"
    if first.passed:
        if not wrong:
            return f"right in all {count(len(turns), 'turn')}: held"
        return f"right, wrong at turn {wrong[0]}, right again at turn {wrong[-1] + 1}: wavered"
    if last.passed:
        return f"wrong, then right at turn {wrong[-1] + 1}: recovered"
    return "wrong at first and at last"


# Simulated users and sharded tasks

_STOPPED = {"goal": "stopped at its goal", "word": "stopped by its own word", "limit": "stopped at its limit of turns"}
_SPOILT = {"leak": "leaked", "role": "fell out of its role", "contradiction": "contradicted itself"}
CONDITIONS = {"full": "put whole", "concat": "put in one message of all pieces", "sharded": "put one piece per turn"}


def user_words(user: UserResult, turns: int) -> str:
    """`guest, stopped by its own word after 3 turns`."""
    stopped = _STOPPED.get(user.stopped_by or "", "broken off")
    return f"{' '.join(user.target.split())}, {stopped} after {count(turns, 'turn')}"


def audit_words(user: UserResult) -> str:
    if user.spoilt is None:
        return "clean"
    if isinstance(user.spoilt, Spoilt):
        return f"invalid: {spoilt_words(user.spoilt)}"
    return f"{user.spoilt}: {user.not_audited_because}" if user.not_audited_because else user.spoilt


def spoilt_words(spoilt: Spoilt) -> str:
    """`leaked at turn 3: it gives the answer away: ...`."""
    return f"{_SPOILT[spoilt.kind]} at turn {spoilt.turn}: {' '.join(spoilt.evidence.split())}"


def spoilt_of(result: Result) -> str | None:
    """What its simulated user did wrong; None where it did not."""
    user = result.user
    return spoilt_words(user.spoilt) if user is not None and isinstance(user.spoilt, Spoilt) else None


def cut_off_words(result: Result) -> str:
    """`started again after it was cut off in turn 2`."""
    *turns, last = (str(attempt.turn) for attempt in result.cut_off)
    return f"started again after it was cut off in turn {', '.join(turns)}{' and in turn ' if turns else ''}{last}"


def course_words(result: Result) -> Iterator[tuple[str, str]]:
    """What is known of a conversation besides its turns, each with its label."""
    if result.cut_off:
        yield "session", cut_off_words(result)
    if result.steps:
        yield "steps", steps_words(result.steps)
    if (doubted := doubt_words(result)) is not None:
        yield "doubt", doubted
    if result.user is not None:
        yield "user", user_words(result.user, len(result.turns))
        yield "audit", audit_words(result.user)
    if result.condition is not None:
        yield "task", f"{result.condition}, {CONDITIONS[result.condition]}"
