"""Steps of a conversation: a turn and the follow-ups that answer back to it; and plans, one step after the other."""

from __future__ import annotations

from msgspec import Struct, structs

from rejoinder.engine.effects import Ask, Grade, Stop
from rejoinder.engine.levels import applicable_follow_ups, check_trouble, level_score, level_state, persistent_items
from rejoinder.engine.talk import (
    Asked,
    Cause,
    Ended,
    Part,
    Rest,
    Stopped,
    Talk,
    broken_off,
    heard,
    to_grade,
    verdicts_of,
)
from rejoinder.model import (
    AskedBy,
    AttachedPicture,
    ChatMessage,
    FollowUp,
    Item,
    Level,
    Plan,
    Quote,
    Reply,
    Step,
    StepResult,
    StepStatus,
    Turn,
    Verdict,
    Words,
    reaches,
    weighted_mean,
)
from rejoinder.model.pictures import Picture

MOST_TURNS_OF_ALL = 20
"""With `followups: all` the tree can be wide, so there is a limit even where the author sets none."""


class _Next(Struct, frozen=True, gc=False):
    """A follow-up that waits to be sent."""

    follow_up: FollowUp
    depth: int
    asked_by: AskedBy


def answer_back(talk: Talk, step: Step, cause: Cause, asked: Asked | None = None) -> Part[Ended]:
    """A turn, and follow-ups until a reply passes or nothing is left to say. `asked`: the turn, if it was taken."""
    opening = talk.opening
    limit = opening.max_turns or (len(talk.turns) + MOST_TURNS_OF_ALL if opening.followups == "all" else None)
    persistent = persistent_items(step.level)
    extracts, level = (), step.level
    if step.extracts:
        extracts = tuple([Item(check) for check in step.extracts])
        level = Level(level.items + extracts, level.threshold)
    waiting: list[_Next] = []
    score: float | None = None
    while True:
        if asked is None:
            ask = talk.next_ask(step.window_size, cause.step)
            reply = yield ask  # without a generator of its own: each costs a twentieth of a conversation
            if isinstance(reply, Stop) and talk.turns:
                return Ended("failed", score, stopped=True)
            asked = heard(talk, ask, reply)
        if asked.failure is not None:
            return broken_off(talk, asked, asked.failure, cause)
        number = asked.number
        checks = tuple([item.check for item in level.items if item.check is not None])
        checks = talk.with_values(checks) if talk.known else checks
        grade = to_grade(talk, asked, checks, step.expected, talk.part_of(cause.step), step.context)
        verdicts = verdicts_of((yield grade)) if checks else ()
        state = level_state(level, checks, verdicts)
        talk.add_turn(asked, cause, state, verdicts)
        asked, score = None, level_score(checks, verdicts)
        if step.extracts or step.name:
            _remember(talk, step, verdicts)
        if state == "error":
            return Ended("error", trouble=check_trouble(verdicts, number))
        found = applicable_follow_ups(level, verdicts, passed=state == "passed")
        applicable = [
            _Next(follow_up, cause.depth + (not follow_up.again), AskedBy(number, check)) for follow_up, check in found
        ]
        if opening.followups == "first":
            waiting = applicable[:1]
        else:
            waiting = applicable + [one for one in waiting if state == "failed" or one.follow_up.ask == "always"]
        if not waiting or (limit is not None and number >= limit):
            return Ended(state, score)
        if number == 1 and state == "failed" and opening.control == "afresh" and opening.fork is None:
            talk.control = yield from _ask_afresh(talk, level, step.expected)
        sent = waiting.pop(0)
        cause = Cause(cause.step, cause.name, sent.depth, sent.asked_by, sent.follow_up)
        prompt = talk.fill(sent.follow_up.prompt, verdicts)
        level = Level(persistent + sent.follow_up.level.items + extracts, sent.follow_up.level.threshold)
        talk.say((ChatMessage("user", prompt),), prompt)


def _remember(talk: Talk, step: Step, verdicts: tuple[Verdict, ...]) -> None:
    """What later turns may quote."""
    for verdict in verdicts:
        if verdict.found is not None and verdict.name:
            talk.known[Quote("extracted", name=verdict.name)] = verdict.found
    if step.name:
        talk.known[Quote("response", name=step.name)] = talk.replies[-1]


def _ask_afresh(talk: Talk, level: Level, expected: str | None) -> Part[Turn | None]:
    """The first turn in a new conversation; None where no reply came."""
    first = talk.turns[0]
    reply = yield Ask(1, first.messages, afresh=True, step=first.step)
    if not isinstance(reply, Reply):
        return None
    checks = tuple(item.check for item in level.items if item.check is not None)
    said: tuple[tuple[str, ...], tuple[str, ...]] = (), (reply.text,)
    part = talk.part_of(first.step)
    verdicts = verdicts_of(
        (
            yield Grade(
                *(1, checks, reply, first.messages, *said, expected, talk.opened, part, (reply,)),
                context=talk.context_of(first.step),
            )
        )
    )
    passed = level_state(level, checks, verdicts) == "passed"
    turn = Turn(turn=1, depth=0, prompt=first.prompt, passed=passed, reply=reply, verdicts=verdicts)
    return structs.replace(turn, messages=first.messages)


def by_plan(talk: Talk, plan: Plan, rest: Rest) -> Part[Ended]:
    """One planned turn after the other."""
    results: list[StepResult] = []
    ended, limit = Ended("passed"), talk.opening.max_turns
    try:
        for number, step in enumerate(plan.steps, 1):
            if limit is not None and len(talk.turns) >= limit:
                break
            if not talk.has_all(step.needs):
                results.append(_skipped(number, step))
                continue
            if number > 1:
                messages = [_message(talk, words) for words in step.says]
                talk.say(messages, "\n\n".join(message.content for message in messages))
            before = len(talk.turns)
            ended = yield from answer_back(talk, step, Cause(number, step.name or None))
            if ended.stopped and len(talk.turns) == before:
                break
            results.append(StepResult(number, step.name or None, _status(ended, talk.turns[before:]), ended.score))
            if ended.status == "error" or (ended.status == "failed" and (ended.stopped or plan.on_failure == "stop")):
                break
    except Stopped:
        ended = Ended("failed", stopped=True)
    results += [_skipped(number, step) for number, step in enumerate(plan.steps, 1) if number > len(results)]
    rest["steps"] = tuple(results)
    if ended.status == "error":
        return ended
    score = _aggregate(plan, results)
    if plan.pass_steps == "aggregate" and score is not None:
        passed = reaches(score, plan.threshold)
    else:
        passed = all(one.status in ("passed", "recovered") for one in results)
    return Ended("passed" if passed and not ended.stopped else "failed", score)


def _skipped(number: int, step: Step) -> StepResult:
    """A step that was not said: after the end, or without a value that it needs."""
    has_checks = bool(step.level.items or step.extracts)
    return StepResult(number, step.name or None, "skipped", 0.0 if has_checks else None)


def _message(talk: Talk, words: Words) -> ChatMessage:
    """The message of a planned turn, with pictures in the places of their references."""
    content, pictures = "", list[Picture]()
    for piece in words.pieces:
        if isinstance(piece, AttachedPicture):
            place = len(content), len(content) + len(piece.reference)
            pictures.append(structs.replace(piece.picture, at=place))
            content += piece.reference
        elif isinstance(piece, str | Quote):
            content += talk.fill((piece,))
    return ChatMessage(words.role, content, pictures=tuple(pictures))


def _status(ended: Ended, turns: list[Turn]) -> StepStatus:
    return "recovered" if ended.status == "passed" and not turns[0].passed else ended.status


def _aggregate(plan: Plan, results: list[StepResult]) -> float | None:
    """The score of a plan, from those of the steps that have checks."""
    scores = [float(one.score) for one in results if one.score is not None]
    if not scores:
        return None
    if plan.aggregation == "mean":
        return weighted_mean([(1.0, score) for score in scores])
    return min(scores) if plan.aggregation == "min" else max(scores)
