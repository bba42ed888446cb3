"""The rules of a conversation, and nothing else.

A conversation is a generator: it yields what it needs (`engine/effects.py`: ask the candidate, ask a simulated user,
grade a reply) and is sent what came of it. It cannot sleep, read a file or know what a provider is, so it can be run
again with recorded answers: resuming and replaying are this same code with another source of answers.

It is made of steps. A step is a turn and the follow-ups that answer back to it (`_answer_back`). A case without a plan
has one; a plan has several; a simulated user thinks of each next turn. At the end come the checks of the whole.

Guarantees: a reply enters the history as it came, an empty one too, and a failed call leaves nothing there; request n
is request 1 and what was said since, never formatted again (but for `window_size`, which shows the last turns only);
the first level whose checks all pass ends its step, unless a follow-up doubts right replies, too.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import zip_longest
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct, structs

from rejoinder.engine.effects import Answer, Ask, Conversation, Effect, Fork, Grade, Opening, Simulate, Stop
from rejoinder.engine.levels import (
    all_of,
    applicable_follow_ups,
    check_trouble,
    fill_in,
    level_score,
    level_state,
    persistent_items,
    what_failed,
)
from rejoinder.engine.over_time import OVER_TIME, over_verdict
from rejoinder.model import (
    NO_RECORDING,
    NOT_AUDITED,
    AnyCheck,
    AskedBy,
    ChatMessage,
    ConversationCheck,
    Failure,
    FollowUp,
    Item,
    Level,
    Outcome,
    Plan,
    Quote,
    Reply,
    Spoilt,
    State,
    Step,
    StepResult,
    StepStatus,
    StoppedBy,
    Trouble,
    Turn,
    User,
    UserAudit,
    UserOutcome,
    Verdict,
    Words,
    answers_in,
    reaches,
    weighted_mean,
)

MOST_TURNS_OF_ALL = 20
"""With `followups: all` the tree can be wide, so there is a limit even where the author sets none."""

_T = TypeVar("_T")
_Part: TypeAlias = Generator[Effect, Answer, _T]
_Rest: TypeAlias = dict[str, Any]
"""Fields of the outcome beyond its turns."""


class _Next(Struct, frozen=True, gc=False):
    """A follow-up that waits to be sent."""

    follow_up: FollowUp
    depth: int
    asked_by: AskedBy


class _Stopped(Exception):
    """No answer will come any more."""


class _Ended(Struct, frozen=True, gc=False):
    """How a step ended."""

    status: State
    score: float | None = None
    trouble: Trouble | None = None
    stopped: bool = False
    """Will no answer come any more?"""


class _Asked(Struct, frozen=True, gc=False):
    """A turn that was put to the candidate; no reply where the call failed."""

    number: int
    sent: tuple[ChatMessage, ...]
    prompt: str
    reply: Reply | None
    failure: Failure | None = None


class _Cause(Struct, frozen=True, gc=False):
    """Why a turn is taken."""

    step: int | None = None
    name: str | None = None
    depth: int = 0
    asked_by: AskedBy | None = None
    follow_up: FollowUp | None = None
    simulated: bool = False


class _Talk:
    """What was said so far."""

    __slots__ = (
        *("_history", "_starts", "control", "known", "opened", "opening", "prompt", "prompts", "replies", "turns"),
    )

    def __init__(self, opening: Opening) -> None:
        self.opening = opening
        self.opened = ""
        """The first words, where a simulated user thought of them."""
        self.prompt = opening.question
        """What the next turn is called by."""
        self.turns: list[Turn] = []
        self.replies: list[str] = []
        self.prompts: list[str] = []
        """What was said after the opening."""
        self.control: Turn | None = None
        self.known: dict[Quote, str] = {}
        """What may be quoted by name: values that were extracted, and the last reply of each step."""
        self._history = list(opening.messages)
        self._starts = [0]
        """Where in the history the words of each turn begin."""

    def say(self, messages: Iterable[ChatMessage], prompt: str) -> None:
        """Say something: after the last reply, or first."""
        if self.replies:
            self._starts.append(len(self._history))
            self.prompts.append(prompt)
        else:
            self.opened = prompt
        self._history += messages
        self.prompt = prompt

    def next_ask(self, window: int | None) -> Ask:
        """The next turn: all that was said, or the system's words and the last turns."""
        number, fork = len(self.replies) + 1, self.opening.fork
        if fork is not None and number == fork.turn:
            before = len(self._history)
            self.prompt = _take_fork(self._history, self.prompt, fork)
            added = len(self._history) - before  # instructions, where there were none
            self._starts = [start and start + added for start in self._starts]
            self.prompts[-1:] = [self.prompt] if self.prompts else []  # judges see what the candidate was sent
        new = len(self._history) - self._starts[-1]
        if window is None or window >= len(self._starts):
            return Ask(number, tuple(self._history), new=new)
        start = self._starts[-window]
        system = (one for one in self._history[:start] if one.role == "system")
        return Ask(number, (*system, *self._history[start:]), new=new, window=window)

    def hear(self, reply: Reply) -> None:
        self.replies.append(reply.text)
        self._history.append(ChatMessage("assistant", reply.text))

    def add_turn(self, asked: _Asked, cause: _Cause, state: State, verdicts: tuple[Verdict, ...] = ()) -> None:
        sent_by = cause.follow_up
        self.turns.append(
            Turn(
                turn=asked.number,
                depth=cause.depth,
                prompt=asked.prompt,
                passed=state == "passed",
                reply=asked.reply,
                verdicts=verdicts,
                messages=asked.sent,
                asked_by=cause.asked_by,
                step=cause.step,
                name=cause.name,
                hint=sent_by.hint if sent_by is not None else None,
                doubts=sent_by is not None and sent_by.ask == "always",
                simulated=cause.simulated,
            )
        )

    def has_all(self, names: Iterable[str]) -> bool:
        """Were all these values extracted?"""
        return all(Quote("extracted", name=name) in self.known for name in names)

    def with_values(self, checks: tuple[AnyCheck, ...]) -> tuple[AnyCheck, ...]:
        """Checks with the values that were extracted in their places."""
        values = {quote.name: value for quote, value in self.known.items() if quote.what == "extracted"}
        return tuple(fill_in(check, values) for check in checks) if values else checks

    def fill(self, pieces: tuple[str | Quote, ...], verdicts: tuple[Verdict, ...] = ()) -> str:
        """Words with what they quote."""
        if len(pieces) == 1 and isinstance(pieces[0], str):
            return pieces[0]
        return "".join(piece if isinstance(piece, str) else self._quoted(piece, verdicts) for piece in pieces)

    def _quoted(self, quote: Quote, verdicts: tuple[Verdict, ...]) -> str:
        if quote.name:
            return self.known.get(quote, "")
        if quote.what != "response":
            return "\n".join(what_failed(verdicts, with_answers=quote.what == "answer"))
        if quote.turn is None:
            return self.replies[-1] if self.replies else ""
        return self.replies[quote.turn - 1] if 1 <= quote.turn <= len(self.replies) else ""


def converse(opening: Opening) -> Conversation:
    """Have a conversation: send, grade, answer back, until a level passes or nothing is left to say; then the next
    planned turn, or the next words of a simulated user; at the end what is checked over the whole. With a control the
    first turn is asked once more, beside the conversation, where a follow-up is sent because it failed."""
    talk = _Talk(opening)
    rest: _Rest = {}
    """Fields of the outcome that most conversations lack."""
    try:
        if opening.user is not None:
            ended = yield from _with_user(talk, opening.user, rest)
        elif opening.plan is not None:
            ended = yield from _by_plan(talk, opening.plan, rest)
        else:
            ended = yield from _answer_back(talk, Step(at="", level=opening.level), _Cause())
        if opening.conversation_checks and ended.status != "error":
            ended = yield from _check_whole(talk, ended, rest)
    except _Stopped:
        ended = _Ended("failed")
    if talk.control is not None:
        rest["control"] = talk.control
    turns = tuple(talk.turns)
    if ended.status == "error":
        return Outcome(status="error", turns=turns, error=ended.trouble, **rest)
    on_turn = len(turns) if ended.status == "passed" else None
    return Outcome(status=ended.status, turns=turns, score=ended.score, succeeded_on_turn=on_turn, **rest)


def _heard(talk: _Talk, ask: Ask, reply: Answer) -> _Asked:
    """A turn with what came of it. Raises _Stopped where nothing will, unless it is the first."""
    if isinstance(reply, Reply):
        talk.hear(reply)
        return _Asked(ask.turn, ask.messages, talk.prompt, reply)
    if isinstance(reply, Stop):
        if talk.turns:
            raise _Stopped
        reply = Failure(NO_RECORDING, reply.reason)
    assert isinstance(reply, Failure)
    return _Asked(ask.turn, ask.messages, talk.prompt, None, reply)


def _to_grade(talk: _Talk, asked: _Asked, checks: tuple[AnyCheck, ...], expected: str | None = None) -> Grade:
    assert asked.reply is not None
    said, replies = tuple(talk.prompts[: asked.number - 1]), tuple(talk.replies)
    return Grade(asked.number, checks, asked.reply, asked.sent, said, replies, expected, talk.opened)


def _grade(talk: _Talk, asked: _Asked, checks: tuple[AnyCheck, ...]) -> _Part[tuple[Verdict, ...]]:
    return _verdicts((yield _to_grade(talk, asked, checks))) if checks else ()


def _verdicts(answer: Answer) -> tuple[Verdict, ...]:
    if isinstance(answer, Stop):
        raise _Stopped
    assert isinstance(answer, tuple)
    return answer


def _answer_back(talk: _Talk, step: Step, cause: _Cause, asked: _Asked | None = None) -> _Part[_Ended]:
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
            ask = talk.next_ask(step.window_size)
            reply = yield ask  # without a generator of its own: each costs a twentieth of a conversation
            if isinstance(reply, Stop) and talk.turns:
                return _Ended("failed", score, stopped=True)
            asked = _heard(talk, ask, reply)
        if asked.failure is not None:
            return _broken_off(talk, asked, asked.failure, cause)
        number = asked.number
        checks = tuple([item.check for item in level.items if item.check is not None])
        checks = talk.with_values(checks) if talk.known else checks
        verdicts = _verdicts((yield _to_grade(talk, asked, checks, step.expected))) if checks else ()
        state = level_state(level, checks, verdicts)
        talk.add_turn(asked, cause, state, verdicts)
        asked, score = None, level_score(checks, verdicts)
        if step.extracts or step.name:
            _remember(talk, step, verdicts)
        if state == "error":
            return _Ended("error", trouble=check_trouble(verdicts, number))
        found = applicable_follow_ups(level, verdicts, passed=state == "passed")
        applicable = [_Next(follow_up, cause.depth + 1, AskedBy(number, check)) for follow_up, check in found]
        if opening.followups == "first":
            waiting = applicable[:1]
        else:
            waiting = applicable + [one for one in waiting if state == "failed" or one.follow_up.ask == "always"]
        if not waiting or (limit is not None and number >= limit):
            return _Ended(state, score)
        if number == 1 and state == "failed" and opening.control is not None and opening.fork is None:
            talk.control = yield from _ask_afresh(talk, level, step.expected)
        sent = waiting.pop(0)
        cause = _Cause(cause.step, cause.name, sent.depth, sent.asked_by, sent.follow_up)
        prompt = talk.fill(sent.follow_up.prompt, verdicts)
        level = Level(persistent + sent.follow_up.level.items + extracts, sent.follow_up.level.threshold)
        talk.say((ChatMessage("user", prompt),), prompt)


def _remember(talk: _Talk, step: Step, verdicts: tuple[Verdict, ...]) -> None:
    """What later turns may quote."""
    for verdict in verdicts:
        if verdict.found is not None and verdict.name:
            talk.known[Quote("extracted", name=verdict.name)] = verdict.found
    if step.name:
        talk.known[Quote("response", name=step.name)] = talk.replies[-1]


def _broken_off(talk: _Talk, asked: _Asked, failure: Failure, cause: _Cause) -> _Ended:
    """The candidate gave no reply."""
    talk.add_turn(asked, cause, "error")
    return _Ended("error", trouble=_trouble_of(failure, asked.number))


def _trouble_of(failure: Failure, turn: int, who: str = "") -> Trouble:
    return Trouble(type=failure.type, message=f"{who}{failure.message}", status=failure.status, turn=turn)


def _ask_afresh(talk: _Talk, level: Level, expected: str | None) -> _Part[Turn | None]:
    """The first turn in a new conversation; None where no reply came."""
    first = talk.turns[0]
    reply = yield Ask(1, first.messages, afresh=True)
    if not isinstance(reply, Reply):
        return None
    checks = tuple(item.check for item in level.items if item.check is not None)
    verdicts = _verdicts((yield Grade(1, checks, reply, first.messages, (), (reply.text,), expected, talk.opened)))
    passed = level_state(level, checks, verdicts) == "passed"
    turn = Turn(turn=1, depth=0, prompt=first.prompt, passed=passed, reply=reply, verdicts=verdicts)
    return structs.replace(turn, messages=first.messages)


# Plans


def _by_plan(talk: _Talk, plan: Plan, rest: _Rest) -> _Part[_Ended]:
    """One planned turn after the other."""
    results: list[StepResult] = []
    ended, limit = _Ended("passed"), talk.opening.max_turns
    try:
        for number, step in enumerate(plan.steps, 1):
            if limit is not None and len(talk.turns) >= limit:
                break
            if not talk.has_all(step.needs):
                results.append(_skipped(number, step))
                continue
            if number > 1:
                messages = [ChatMessage(words.role, talk.fill(_texts(words))) for words in step.says]
                talk.say(messages, "\n\n".join(message.content for message in messages))
            before = len(talk.turns)
            ended = yield from _answer_back(talk, step, _Cause(number, step.name or None))
            if ended.stopped and len(talk.turns) == before:
                break
            results.append(StepResult(number, step.name or None, _status(ended, talk.turns[before:]), ended.score))
            if ended.status == "error" or (ended.status == "failed" and (ended.stopped or plan.on_failure == "stop")):
                break
    except _Stopped:
        ended = _Ended("failed", stopped=True)
    results += [_skipped(number, step) for number, step in enumerate(plan.steps, 1) if number > len(results)]
    rest["steps"] = tuple(results)
    if ended.status == "error":
        return ended
    score = _aggregate(plan, results)
    if plan.pass_steps == "aggregate" and score is not None:
        passed = reaches(score, plan.threshold)
    else:
        passed = all(one.status in ("passed", "recovered") for one in results)
    return _Ended("passed" if passed and not ended.stopped else "failed", score)


def _skipped(number: int, step: Step) -> StepResult:
    """A step that was not said: after the end, or without a value that it needs."""
    has_checks = bool(step.level.items or step.extracts)
    return StepResult(number, step.name or None, "skipped", 0.0 if has_checks else None)


def _texts(words: Words) -> tuple[str | Quote, ...]:
    return tuple(piece for piece in words.pieces if isinstance(piece, str | Quote))


def _status(ended: _Ended, turns: list[Turn]) -> StepStatus:
    return "recovered" if ended.status == "passed" and not turns[0].passed else ended.status


def _aggregate(plan: Plan, results: list[StepResult]) -> float | None:
    """The score of a plan, from those of the steps that have checks."""
    scores = [float(one.score) for one in results if one.score is not None]
    if not scores:
        return None
    if plan.aggregation == "mean":
        return weighted_mean([(1.0, score) for score in scores])
    return min(scores) if plan.aggregation == "min" else max(scores)


# Simulated users


def _with_user(talk: _Talk, user: User, rest: _Rest) -> _Part[_Ended]:
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


def _take_turns(talk: _Talk, user: User, told: _Told) -> _Part[_Ended]:
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
            talk.add_turn(_Asked(1, (), "", None), _Cause(simulated=True), "error")
            return _Ended("error", trouble=_trouble_of(failure, 1, _THE_USER))
    while True:
        cause = _Cause(simulated=isinstance(words, Reply) and not _is_put(talk, len(talk.replies) + 1))
        ask = talk.next_ask(None)
        asked = _heard(talk, ask, (yield ask))
        if asked.failure is not None:
            return _broken_off(talk, asked, asked.failure, cause)
        reached = (yield from _grade(talk, asked, (user.reached,))) if user.reached is not None else ()
        told.goal += reached
        if all_of(reached) == "error":
            talk.add_turn(asked, cause, "error")
            return _Ended("error", trouble=check_trouble(reached, asked.number))
        if reached and reached[0].passed:
            told.stopped_by = "goal"
        elif asked.number >= limit:
            told.stopped_by = "limit"
        else:
            words = yield from _simulate(talk, user, told)
        if told.stopped_by is not None:
            ended = yield from _answer_back(talk, Step(at="", level=opening.level), cause, asked)
            return _Ended("failed", ended.score) if is_broken and ended.status == "passed" else ended
        if isinstance(words, Failure):
            talk.add_turn(asked, cause, "error")
            return _Ended("error", trouble=_trouble_of(words, asked.number, _THE_USER))
        verdicts = yield from _grade(talk, asked, checks)
        state = level_state(kept, checks, verdicts)
        talk.add_turn(asked, cause, state, verdicts)
        is_broken = is_broken or state == "failed"
        if state == "error":
            return _Ended("error", trouble=check_trouble(verdicts, asked.number))
        if isinstance(words, Stop):
            return _Ended("failed", stopped=True)


_THE_USER = "the simulated user: "


def _simulate(talk: _Talk, user: User, told: _Told) -> _Part[Reply | Failure | Stop]:
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
    """Does a text end with a word, whatever marks come after it? Within other words, or before them, it is none."""
    start = text.rstrip(_MARKS).removesuffix(word)
    return len(start) < len(text.rstrip(_MARKS)) and not start[-1:].isalnum()


_MARKS = " \t\r\n.,;:!?*_`'\"()[]{}#<>-"


def _is_put(talk: _Talk, number: int) -> bool:
    """Are the words of a turn those of a fork?"""
    fork = talk.opening.fork
    return fork is not None and fork.prompt is not None and fork.turn == number


def _find_leak(talk: _Talk, user: User, words: str) -> _Part[Spoilt | None]:
    """Did the user say what the candidate has to find out? Not where it was told so under `knows`, or in its opening,
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
    return Spoilt("leak", turn, f"it gives the answer away: {_shorten(words)}") if given else None


def _passed_by(talk: _Talk, checks: tuple[AnyCheck, ...], text: str) -> _Part[tuple[AnyCheck, ...]]:
    """Those of the checks that a text passes."""
    verdicts = yield from _grade(talk, _Asked(max(1, len(talk.replies)), (), "", Reply(text)), checks)
    return tuple(check for check, verdict in zip(checks, verdicts, strict=True) if verdict.passed)


LEAST_REPEATED = 8
"""So many words in a row of its instructions are no accident."""


def repeats(words: str, instructions: str) -> str | None:
    """What a text repeats of instructions, word for word; None where that may be an accident."""
    said, told = words.casefold().split(), instructions.casefold().split()
    rows = {tuple(said[place : place + LEAST_REPEATED]) for place in range(len(said) - LEAST_REPEATED + 1)}
    for place in range(len(told) - LEAST_REPEATED + 1):
        if tuple(told[place : place + LEAST_REPEATED]) in rows:
            return " ".join(instructions.split()[place : place + LEAST_REPEATED])
    return None


def _shorten(text: str, most: int = 200) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _audit(talk: _Talk, user: User, told: _Told) -> _Part[None]:
    """Ask the judge whether the user kept to its role."""
    last = talk.turns[-1]
    if user.audit is None or not told.words or last.reply is None:
        return
    asked = _Asked(last.turn, last.messages, last.prompt, last.reply)
    told.audit = yield from _grade(talk, asked, (UserAudit(user=user, target=user.audit, at=user.at),))
    verdict = told.audit[0]
    if verdict.state == "failed":
        kind = "role" if verdict.kind == "role" else "contradiction"
        told.spoilt = Spoilt(kind, int(verdict.value or 1), verdict.reason)


def _is_audited(told: _Told) -> bool:
    return bool(told.audit) and told.audit[0].state != "error"


# Checks of the whole


def _check_whole(talk: _Talk, ended: _Ended, rest: _Rest) -> _Part[_Ended]:
    verdicts: list[Verdict] = []
    for over in talk.opening.conversation_checks:
        verdicts.append((yield from _check_over(talk, over)))
    rest["conversation_checks"] = found = tuple(verdicts)
    state = all_of(found)
    if state == "error" and ended.status != "failed":
        return _Ended("error", trouble=check_trouble(found, len(talk.turns)))
    score = ended.score
    if score is None:
        pairs = zip(talk.opening.conversation_checks, found, strict=True)
        score = weighted_mean([(over.weight, one.score) for over, one in pairs if one.score is not None])
    return _Ended("failed" if "failed" in (state, ended.status) else "passed", score)


def _check_over(talk: _Talk, over: ConversationCheck) -> _Part[Verdict]:
    turns = talk.turns
    if over.over in ("last", "transcript"):
        again = _grade_again(talk, turns[-1], over.checks, whole=over.over == "transcript")
        [verdict] = _verdicts((yield again))
        return verdict
    by_place = dict(enumerate(_last_of_steps(turns) if over.final else turns, 1))
    first, last = over.turns or (1, len(turns))
    rule = OVER_TIME[over.over]([place for place in by_place if first <= place <= last], over.turn)
    said: list[tuple[int, Verdict]] = []
    try:
        place, which = next(rule)
        while True:
            [verdict] = _verdicts((yield _grade_again(talk, by_place[place], (over.checks[which],))))
            said.append((place, verdict))
            place, which = rule.send(verdict.state)
    except StopIteration as stop:
        return over_verdict(over, stop.value, said)


def _last_of_steps(turns: list[Turn]) -> list[Turn]:
    """The last turn of each step; each turn of a simulated user is one."""
    return [turn for turn, after in zip_longest(turns, turns[1:]) if after is None or after.depth == 0]


def _grade_again(talk: _Talk, turn: Turn, checks: tuple[AnyCheck, ...], *, whole: bool = False) -> Grade:
    """A turn that was judged, by other checks."""
    assert turn.reply is not None
    checks = talk.with_values(checks) if talk.known else checks
    said = tuple(talk.prompts[: turn.turn - 1]), tuple(talk.replies[: turn.turn])
    return Grade(turn.turn, checks, turn.reply, turn.messages, *said, None, talk.opened, whole)


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
