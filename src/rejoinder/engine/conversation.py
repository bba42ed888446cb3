"""The rules of a conversation, and nothing else.

A conversation is a generator: it yields what it needs (`Ask` a provider, `Grade` a reply) and is sent what came of it.
It cannot sleep, read a file or know what a provider is, so it can be run again with recorded answers: resuming and
replaying are this same code with another source of answers.

    Ask    is answered by a Reply, by a Failure, which ends the conversation as `error`, or by Stop
    Grade  is answered by the verdicts on the level's checks, in order

Guarantees: a reply enters the history as it came, an empty one too, and a failed call leaves nothing there; request n
is request 1 and what was said since, never formatted again; the first level whose checks all pass ends it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TypeAlias

from msgspec import Struct, structs

from rejoinder.model import (
    NO_RECORDING,
    And,
    AnyCheck,
    AskedBy,
    ChatMessage,
    Control,
    Failure,
    FollowUp,
    FollowUps,
    Group,
    Item,
    Level,
    Or,
    Outcome,
    Quote,
    Reply,
    State,
    Trouble,
    Turn,
    Verdict,
    reaches,
    weighted_mean,
)

MOST_TURNS_OF_ALL = 20
"""With `followups: all` the tree can be wide, so there is a limit even where the author sets none."""


class Stop(Struct, frozen=True):
    """No answer will come: the conversation ends with the turns that it has."""

    reason: str = ""


class Fork(Struct, frozen=True, kw_only=True):
    """From this turn on the conversation differs: another prompt, or other instructions."""

    turn: int
    prompt: str | None = None
    system: str | None = None
    run: str = ""
    """The run whose conversation is taken up."""
    folder: str = ""
    """Where that run lies."""


class Opening(Struct, frozen=True):
    """How a conversation starts, and the rules it keeps to."""

    question: str
    messages: tuple[ChatMessage, ...]
    level: Level
    followups: FollowUps = "first"
    max_turns: int | None = None
    fork: Fork | None = None
    control: Control | None = None


class Ask(Struct, frozen=True, gc=False):
    turn: int
    messages: tuple[ChatMessage, ...]
    afresh: bool = False
    """Asked beside the conversation, as a control: nothing of it is said in the conversation."""


class Grade(Struct, frozen=True, gc=False):
    turn: int
    checks: tuple[AnyCheck, ...]
    reply: Reply
    messages: tuple[ChatMessage, ...]
    """What the candidate was sent."""
    prompts: tuple[str, ...]
    """What was said to the candidate after the opening, up to this turn."""
    replies: tuple[str, ...]
    """What it answered, this turn's reply last."""


Effect: TypeAlias = Ask | Grade
Answer: TypeAlias = Reply | Failure | Stop | tuple[Verdict, ...]
Conversation: TypeAlias = Generator[Effect, Answer, Outcome]


class _Next(Struct, frozen=True, gc=False):
    """A follow-up that waits to be sent."""

    follow_up: FollowUp
    depth: int
    asked_by: AskedBy


def converse(opening: Opening) -> Conversation:
    """Have a conversation: send, grade, answer back, until a level passes or nothing is left to say. With a control the
    first turn is asked once more, beside the conversation, where a follow-up is sent because it failed."""
    controls: list[Turn] = []
    outcome = yield from _converse(opening, controls)
    return structs.replace(outcome, control=controls[0]) if controls else outcome


def _converse(opening: Opening, controls: list[Turn]) -> Conversation:
    limit = opening.max_turns or (MOST_TURNS_OF_ALL if opening.followups == "all" else None)
    persistent = persistent_items(opening.level)
    history, turns = list(opening.messages), list[Turn]()
    replies, prompts = list[str](), list[str]()
    waiting: list[_Next] = []
    level, prompt, depth, asked_by = opening.level, opening.question, 0, None
    score: float | None = None
    while True:
        number = len(turns) + 1
        if opening.fork is not None and number == opening.fork.turn:
            prompt = _take_fork(history, prompt, opening.fork)
            prompts[-1:] = [prompt] if prompts else []  # judges see what the candidate was sent
        sent = tuple(history)
        reply = yield Ask(number, sent)
        if isinstance(reply, Stop) and turns:
            return Outcome(status="failed", turns=tuple(turns), score=score)
        if isinstance(reply, Stop):
            reply = Failure(NO_RECORDING, reply.reason)
        if isinstance(reply, Failure):
            turn = Turn(turn=number, depth=depth, prompt=prompt, passed=False, messages=sent, asked_by=asked_by)
            turns.append(turn)
            return _error(turns, Trouble(type=reply.type, message=reply.message, status=reply.status, turn=number))
        assert isinstance(reply, Reply)
        replies.append(reply.text)
        checks = tuple([item.check for item in level.items if item.check is not None])
        verdicts = yield Grade(number, checks, reply, sent, tuple(prompts), tuple(replies))
        assert isinstance(verdicts, tuple)
        state = level_state(level, checks, verdicts)
        turns.append(
            Turn(
                turn=number,
                depth=depth,
                prompt=prompt,
                passed=state == "passed",
                reply=reply,
                verdicts=verdicts,
                messages=sent,
                asked_by=asked_by,
            )
        )
        score = level_score(checks, verdicts)
        if state == "passed":
            return Outcome(status="passed", turns=tuple(turns), score=score, succeeded_on_turn=number)
        if state == "error":
            return _error(turns, _check_trouble(verdicts, number))
        applicable = [
            _Next(follow_up, depth + 1, AskedBy(number, check))
            for follow_up, check in applicable_follow_ups(level, verdicts)
        ]
        waiting = applicable[:1] if opening.followups == "first" else applicable + waiting
        if not waiting or (limit is not None and number >= limit):
            return Outcome(status="failed", turns=tuple(turns), score=score)
        if number == 1 and opening.control is not None and opening.fork is None:
            controls += yield from _ask_afresh(opening)
        follow_up, depth, asked_by = waiting[0].follow_up, waiting[0].depth, waiting[0].asked_by
        waiting = waiting[1:]
        prompt = say(follow_up, replies, verdicts)
        level = Level(persistent + follow_up.level.items, follow_up.level.threshold)
        history += [ChatMessage("assistant", reply.text), ChatMessage("user", prompt)]
        prompts.append(prompt)


def _ask_afresh(opening: Opening) -> Generator[Effect, Answer, list[Turn]]:
    """The first turn in a new conversation; empty where no reply came."""
    reply = yield Ask(1, opening.messages, afresh=True)
    if not isinstance(reply, Reply):
        return []
    checks = tuple(item.check for item in opening.level.items if item.check is not None)
    verdicts = yield Grade(1, checks, reply, opening.messages, (), (reply.text,))
    assert isinstance(verdicts, tuple)
    passed = level_state(opening.level, checks, verdicts) == "passed"
    turn = Turn(turn=1, depth=0, prompt=opening.question, passed=passed, reply=reply, verdicts=verdicts)
    return [structs.replace(turn, messages=opening.messages)]


def _take_fork(history: list[ChatMessage], prompt: str, fork: Fork) -> str:
    """Put other words in the place of the last ones, or other instructions in front; what the turn is called by."""
    if fork.system is not None:
        first = ChatMessage("system", fork.system)
        history[:1] = [first] if history[0].role == "system" else [first, history[0]]
    if fork.prompt is None:
        return prompt
    last = max(place for place, message in enumerate(history) if message.role == "user")
    history[last] = ChatMessage("user", fork.prompt)
    return fork.prompt


def level_state(level: Level, checks: tuple[AnyCheck, ...], verdicts: tuple[Verdict, ...]) -> State:
    """All checks have to pass; with a threshold the weighted mean has to reach it and no required one may fail. Checks
    in error make the level one, unless it comes to the same whatever they are worth."""
    if level.threshold is None:
        return _all(verdicts)
    required = tuple(verdict for check, verdict in zip(checks, verdicts, strict=True) if check.required)
    if _all(required) == "failed":
        return "failed"
    least, most = level_score(checks, verdicts, 0.0), level_score(checks, verdicts, 1.0)
    if least is None or most is None or not reaches(most, level.threshold):
        return "failed"
    if all(verdict.state == "error" for verdict in verdicts):
        return "error"  # even where nothing is enough: there would be no score
    return "passed" if reaches(least, level.threshold) and _all(required) == "passed" else "error"


def level_score(
    checks: tuple[AnyCheck, ...], verdicts: tuple[Verdict, ...], unknown: float | None = None
) -> float | None:
    """The weighted mean of the scores that there are; those that are not there may be worth something, too."""
    scores = [unknown if verdict.score is None else verdict.score for verdict in verdicts]
    return weighted_mean(
        [(check.weight, score) for check, score in zip(checks, scores, strict=True) if score is not None]
    )


CheckPath: TypeAlias = tuple[int, ...]
"""The place of a check among a turn's checks, as an index path."""


def applicable_follow_ups(level: Level, verdicts: tuple[Verdict, ...]) -> list[tuple[FollowUp, CheckPath]]:
    """The follow-ups of a failed level that may be sent, in document order, each with the check whose failure sends it:
    its own check, or the first failed one of its list; the list itself where only its threshold failed."""
    return list(_collect(level.items, verdicts, ()))


def _collect(
    items: tuple[Item, ...], verdicts: tuple[Verdict, ...], path: CheckPath
) -> Iterator[tuple[FollowUp, CheckPath]]:
    """`items` are those of a list that failed; a follow-up without a check of its own applies to the whole list."""
    first = next(((*path, place) for place, verdict in enumerate(verdicts) if verdict.state == "failed"), path)
    position = -1
    for item in items:
        check, place = item.check, first
        if check is not None:
            position += 1
            place = *path, position
            verdict = verdicts[position]
            if verdict.state != "failed":
                continue
            if isinstance(check, Or | And | Group):
                yield from _collect(check.items, verdict.children, (*path, position))
        if item.follow_up is not None:
            yield item.follow_up, place


def persistent_items(level: Level) -> tuple[Item, ...]:
    """Checks of every turn go along without their follow-ups, which belong to the first level."""
    checks = (item.check for item in level.items if item.check is not None and item.check.every_turn)
    return tuple(Item(_without_follow_ups(check)) for check in checks)


def _without_follow_ups(check: AnyCheck) -> AnyCheck:
    if not isinstance(check, Or | And | Group):
        return check
    inner = tuple(Item(_without_follow_ups(item.check)) for item in check.items if item.check is not None)
    return structs.replace(check, items=inner)


def say(follow_up: FollowUp, replies: list[str], verdicts: tuple[Verdict, ...]) -> str:
    """The words of a follow-up, with what it quotes."""
    pieces = follow_up.prompt
    if len(pieces) == 1 and isinstance(pieces[0], str):
        return pieces[0]
    return "".join(piece if isinstance(piece, str) else _quoted(piece, replies, verdicts) for piece in pieces)


def _quoted(quote: Quote, replies: list[str], verdicts: tuple[Verdict, ...]) -> str:
    if quote.what == "failed":
        return "\n".join(_reasons(verdicts))
    if quote.turn is None:
        return replies[-1]
    return replies[quote.turn - 1] if 1 <= quote.turn <= len(replies) else ""


def _reasons(verdicts: tuple[Verdict, ...]) -> Iterator[str]:
    for verdict in verdicts:
        if verdict.state == "failed":
            yield f"{verdict.name or verdict.check}: {verdict.reason}"


def _all(verdicts: tuple[Verdict, ...]) -> State:
    """A list: one that failed decides; else one in error does."""
    state: State = "passed"
    for verdict in verdicts:
        if verdict.state == "failed":
            return "failed"
        if verdict.state == "error":
            state = "error"
    return state


def _check_trouble(verdicts: tuple[Verdict, ...], turn: int) -> Trouble:
    verdict = next(verdict for verdict in verdicts if verdict.state == "error")
    return Trouble(type="check", message=f"{verdict.check}: {verdict.reason}", turn=turn)


def _error(turns: list[Turn], trouble: Trouble) -> Outcome:
    return Outcome(status="error", turns=tuple(turns), error=trouble)
