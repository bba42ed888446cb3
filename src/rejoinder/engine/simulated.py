"""Simulated users: they think of the next words, end the conversation, and are held to their role."""

from __future__ import annotations

from rejoinder.engine.effects import Simulate, Stop
from rejoinder.engine.levels import all_of, check_trouble, level_state, persistent_items
from rejoinder.engine.steps import answer_back
from rejoinder.engine.talk import Asked, Cause, Ended, Part, Rest, Talk, broken_off, grade_by, heard, trouble_of
from rejoinder.model import (
    NO_RECORDING,
    NOT_AUDITED,
    AnyCheck,
    ChatMessage,
    Failure,
    Level,
    Reply,
    Spoilt,
    Step,
    StoppedBy,
    User,
    UserAudit,
    UserOutcome,
    Verdict,
    answers_in,
)
from rejoinder.words.numbers import beginning


def with_user(talk: Talk, user: User, rest: Rest) -> Part[Ended]:
    """The user and the candidate take turns, until the goal is reached, the user says its word, or the limit is."""
    told = _Told()
    try:
        ended = yield from _take_turns(talk, user, told)
        if told.spoilt is None and ended.status != "error":
            yield from _audit(talk, user, told)
    finally:
        spoilt = NOT_AUDITED if told.spoilt is None and not _is_audited(told) else told.spoilt
        rest["user"] = UserOutcome(tuple(told.words), told.stopped_by, spoilt, told.audit, tuple(told.goal))
    return ended


class _Told:
    """What a simulated user said, and what is found about it."""

    def __init__(self) -> None:
        self.words: list[Reply] = []
        self.stopped_by: StoppedBy | None = None
        self.spoilt: Spoilt | None = None
        self.audit: tuple[Verdict, ...] = ()
        self.goal: list[Verdict] = []
        """Whether its goal is reached, for each turn."""


def _take_turns(talk: Talk, user: User, told: _Told) -> Part[Ended]:
    opening, kept = talk.opening, Level(persistent_items(talk.opening.level))
    checks = tuple(item.check for item in kept.items if item.check is not None)
    limit = min(user.max_turns, opening.max_turns or user.max_turns)
    words: Reply | Failure | Stop | None = None
    is_broken = False
    """Has a reply before the last one failed a check of every turn?"""
    if not user.opening:
        words = yield from _simulate(talk, user, told)
        if told.stopped_by is not None:
            told.stopped_by, words = None, Failure("user", "it ended before it said anything")
        if not isinstance(words, Reply):
            failure = words if isinstance(words, Failure) else Failure(NO_RECORDING, words.reason)
            talk.add_turn(Asked(1, (), "", None), Cause(simulated=True), "error")
            return Ended("error", trouble=trouble_of(failure, 1, _THE_USER))
    while True:
        cause = Cause(simulated=isinstance(words, Reply) and not _is_put(talk, len(talk.replies) + 1))
        ask = talk.next_ask(None)
        asked = heard(talk, ask, (yield ask))
        if asked.failure is not None:
            return broken_off(talk, asked, asked.failure, cause)
        reached = (yield from grade_by(talk, asked, (user.reached,), opening.reply)) if user.reached is not None else ()
        told.goal += reached
        if all_of(reached) == "error":
            talk.add_turn(asked, cause, "error")
            return Ended("error", trouble=check_trouble(reached, asked.number))
        if reached and reached[0].passed:
            told.stopped_by = "goal"
        elif asked.number >= limit:
            told.stopped_by = "limit"
        else:
            words = yield from _simulate(talk, user, told)
        if told.stopped_by is not None:
            ended = yield from answer_back(talk, Step(at="", level=opening.level), cause, asked)
            return Ended("failed", ended.score) if is_broken and ended.status == "passed" else ended
        if isinstance(words, Failure):
            talk.add_turn(asked, cause, "error")
            return Ended("error", trouble=trouble_of(words, asked.number, _THE_USER))
        verdicts = yield from grade_by(talk, asked, checks, opening.reply)
        state = level_state(kept, checks, verdicts)
        talk.add_turn(asked, cause, state, verdicts)
        is_broken = is_broken or state == "failed"
        if state == "error":
            return Ended("error", trouble=check_trouble(verdicts, asked.number))
        if isinstance(words, Stop):
            return Ended("failed", stopped=True)


_THE_USER = "the simulated user: "


def _simulate(talk: Talk, user: User, told: _Told) -> Part[Reply | Failure | Stop]:
    """The user says its next words, unless it says the one by which it ends. At a fork they are those put in their
    place, and nothing that it said."""
    number, fork = len(talk.replies) + 1, talk.opening.fork
    if fork is not None and fork.prompt is not None and _is_put(talk, number):
        talk.say((ChatMessage("user", fork.prompt),), fork.prompt)
        return Reply(fork.prompt)
    opened = user.opening or talk.opened
    said = (opened, *talk.prompts) if opened else ()
    words = yield Simulate(max(1, number - 1), said, tuple(talk.replies))
    assert not isinstance(words, tuple)
    if isinstance(words, Reply) and not words.text.strip():
        told.words.append(words)
        words = Failure("user", "it said nothing")
    if not isinstance(words, Reply):
        return words
    told.words.append(words)
    if user.stop is not None and ends_with_word(words.text, user.stop):
        told.stopped_by = "word"
        return words
    told.spoilt = told.spoilt or (yield from _find_leak(talk, user, words.text))
    talk.say((ChatMessage("user", words.text),), words.text)
    return words


def ends_with_word(text: str, word: str) -> bool:
    """Whether a text ends with a word, whatever marks come after it. Within other words, or before them, it does not
    count. Marks at the end of the word itself may be there or not."""
    word = word.strip()
    forms = (text.rstrip(), word), (text.rstrip(_MARKS), word.rstrip(_MARKS))
    return any(_ends_apart(said, wanted) for said, wanted in forms)


def _ends_apart(text: str, word: str) -> bool:
    before = text[: len(text) - len(word)]
    is_part = before[-1:].isalnum() and word[:1].isalnum()
    return bool(word) and text.endswith(word) and not is_part


_MARKS = " \t\r\n.,;:!?*_`'\"()[]{}#<>-"


def _is_put(talk: Talk, number: int) -> bool:
    """Are the words of a turn those of a fork?"""
    fork = talk.opening.fork
    return fork is not None and fork.prompt is not None and fork.turn == number


def _find_leak(talk: Talk, user: User, words: str) -> Part[Spoilt | None]:
    """Did the user say what the candidate has to find out? Not if it was told so under `knows`, or in its opening,
    and not where the candidate had said it."""
    turn = len(talk.replies) + 1
    for text in (user.goal, user.persona):
        if (told := repeats(words, text)) is not None:
            return Spoilt("leak", turn, f"it repeats its instructions: {told}")
    given = tuple(answers_in(talk.opening.level))
    given = yield from _passed_by(talk, given, words)
    for text in (f"{user.opening}\n{user.knows}", *talk.replies):
        known = yield from _passed_by(talk, given, text)
        given = tuple(check for check in given if check not in known)
    return Spoilt("leak", turn, f"it gives the answer away: {beginning(words, 200)}") if given else None


def _passed_by(talk: Talk, checks: tuple[AnyCheck, ...], text: str) -> Part[tuple[AnyCheck, ...]]:
    """Those of the checks that a text passes."""
    verdicts = yield from grade_by(talk, Asked(max(1, len(talk.replies)), (), "", Reply(text)), checks)
    return tuple(check for check, verdict in zip(checks, verdicts, strict=True) if verdict.passed)


LEAST_REPEATED = 8
"""So many words in a row of its instructions are no accident."""


def repeats(words: str, instructions: str) -> str | None:
    """What a text repeats of instructions, word for word; None if that may be an accident."""
    said, told = words.casefold().split(), instructions.casefold().split()
    rows = {tuple(said[place : place + LEAST_REPEATED]) for place in range(len(said) - LEAST_REPEATED + 1)}
    for place in range(len(told) - LEAST_REPEATED + 1):
        if tuple(told[place : place + LEAST_REPEATED]) in rows:
            return " ".join(instructions.split()[place : place + LEAST_REPEATED])
    return None


def _audit(talk: Talk, user: User, told: _Told) -> Part[None]:
    """Ask the judge whether the user kept to its role."""
    last = talk.turns[-1]
    if user.audit is None or not told.words or last.reply is None:
        return
    asked = Asked(last.turn, last.messages, last.prompt, last.reply)
    told.audit = yield from grade_by(talk, asked, (UserAudit(user=user, target=user.audit, at=user.at),))
    verdict = told.audit[0]
    if verdict.state == "failed":
        kind = "role" if verdict.kind == "role" else "contradiction"
        told.spoilt = Spoilt(kind, int(verdict.value or 1), verdict.reason)


def _is_audited(told: _Told) -> bool:
    return bool(told.audit) and told.audit[0].state != "error"
