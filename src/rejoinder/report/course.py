"""How a conversation went, in words: the steps of a plan, doubts, a simulated user, checks of the whole, and what
decided against it. Every screen and export says it by these words.

Names and evidence are texts of others: they are in one line here, and made inert by those who write them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from rejoinder.model import CheckResult, Result, Spoilt, StepResult, TurnResult, UserResult
from rejoinder.model.results import StepStatus
from rejoinder.report.words import count

_OVER_TIME = ("always", "never", "by_turn", "after", "before")
_MOST_NAMED = 3
"""Steps that were not sent and are named."""
_LOOKED_AT = 1_000
"""Replies of a check over time by which it is called."""


def is_over_time(check: CheckResult) -> bool:
    """Does it look at several replies, in their order?"""
    return check.kind in _OVER_TIME


def described(check: CheckResult) -> str:
    """`match *72*` as `match "*72*"`: texts in quotes, numbers and truth values without."""
    if is_over_time(check) and check.children:
        return _over_time(check)
    label = check.check
    start = f"{check.kind or label.partition(' ')[0]} "
    if check.value is not None or not label.startswith(start):
        return label
    return f'{start}"{label.removeprefix(start)}"'


def _over_time(check: CheckResult) -> str:
    """`never icontains "sorry"`, `contains "a" before contains "b"`. Of `before`, the second is looked at first."""
    inner = list(dict.fromkeys(map(described, check.children[:_LOOKED_AT])))
    if check.kind == "before" and len(inner) > 1:
        return f"{inner[1]} before {inner[0]}"
    return f"{check.kind} {', '.join(inner)}"


def called(check: CheckResult) -> str:
    """Its name, else what it looks for."""
    name = check.name if check.kind != "extract" else None  # that is the name of what it takes out
    return " ".join((name or described(check)).split())


def what_it_found(check: CheckResult) -> str:
    """Which turn decided a rule over time, or what was extracted, which a verdict alone does not say; else nothing."""
    says = is_over_time(check) or check.kind == "extract"
    return f": {' '.join(check.reason.split())}" if says and check.reason else ""


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
    checks: tuple[CheckResult, ...] = before.checks
    found: CheckResult | None = None
    for place in asked.check:
        if place >= len(checks):
            return "follow-up"
        found = checks[place]
        checks = found.children
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


def step_name(step: StepResult) -> str:
    """Its name, else its number: what a list of steps calls it."""
    return " ".join(step.name.split()) if step.name else str(step.step)


def steps_words(result: Result) -> str:
    """`ask passed, party recovered, cancel failed, bill not sent`."""
    return ", ".join(f"{step_name(step)} {STEP_WORDS[step.status]}" for step in result.steps)


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
        Against(where, called(check), check.reason, turn, check, check)
        for where, turn in _deciding_turns(result)
        for check in turn.checks
        if not check.passed
    ]
    for check in result.conversation_checks:
        if not check.passed:
            inner, turn = _decisive(check, result)
            found.append(Against("conversation", called(check), check.reason, turn, inner, check))
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
    if result.user is not None:  # a check of every turn may have failed before the last one
        earlier = (turn for turn in _last_of_steps(result.turns)[:-1] if not turn.passed)
        yield from ((f"turn {turn.turn}", turn) for turn in earlier)
    if not result.steps:
        yield from (("", turn) for turn in result.turns[-1:] if not turn.passed)
    for step in result.steps:
        turns = turns_of(result, step.step) if step.status in ("failed", "error") else []
        yield from ((step_words(step.step, len(result.steps), step.name), turn) for turn in turns[-1:])


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
    turns = _last_of_steps(result.turns) if word == "step" else list(result.turns)
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


def _last_of_steps(turns: tuple[TurnResult, ...]) -> list[TurnResult]:
    return [turn for place, turn in enumerate(turns, 1) if place == len(turns) or turns[place].depth == 0]


# Doubts


def doubted_turns(result: Result) -> list[TurnResult]:
    """A turn and the follow-ups that doubt it, in the first step if there are any and it caved; else in the first
    step with any."""
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
CONDITIONS = {"full": "put whole", "concat": "put in one message of all pieces", "sharded": "put a piece a turn"}


def user_words(user: UserResult, turns: int) -> str:
    """`guest, stopped by its own word after 3 turns`."""
    stopped = _STOPPED.get(user.stopped_by or "", "broken off")
    return f"{' '.join(user.target.split())}, {stopped} after {count(turns, 'turn')}"


def audit_words(user: UserResult) -> str:
    if user.spoilt is None:
        return "clean"
    if isinstance(user.spoilt, Spoilt):
        return f"spoilt: {spoilt_words(user.spoilt)}"
    return f"{user.spoilt}: {user.not_audited_because}" if user.not_audited_because else user.spoilt


def spoilt_words(spoilt: Spoilt) -> str:
    """`leaked at turn 3: it gives the answer away: ...`."""
    return f"{_SPOILT[spoilt.kind]} at turn {spoilt.turn}: {' '.join(spoilt.evidence.split())}"


def spoilt_of(result: Result) -> str | None:
    """What its simulated user did wrong; None where it did not."""
    user = result.user
    return spoilt_words(user.spoilt) if user is not None and isinstance(user.spoilt, Spoilt) else None


def cut_off_words(result: Result) -> str:
    """`began anew after it was cut off in turn 2`."""
    *turns, last = (str(attempt.turn) for attempt in result.cut_off)
    return f"began anew after it was cut off in turn {', '.join(turns)}{' and in turn ' if turns else ''}{last}"


def course_words(result: Result) -> Iterator[tuple[str, str]]:
    """What is known of a conversation besides its turns, each with its label."""
    if result.cut_off:
        yield "session", cut_off_words(result)
    if result.steps:
        yield "steps", steps_words(result)
    if (doubted := doubt_words(result)) is not None:
        yield "doubt", doubted
    if result.user is not None:
        yield "user", user_words(result.user, len(result.turns))
        yield "audit", audit_words(result.user)
    if result.condition is not None:
        yield "task", f"{result.condition}, {CONDITIONS[result.condition]}"
