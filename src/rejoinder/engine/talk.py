"""What was said so far in a conversation, and how a turn is put and graded: what steps and simulated users share."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct, structs

from rejoinder.engine.effects import Answer, Ask, Effect, Grade, Opening, Stop
from rejoinder.engine.levels import fill_in, what_failed
from rejoinder.model import (
    NO_RECORDING,
    AnyCheck,
    AskedBy,
    ChatMessage,
    Failure,
    FollowUp,
    Quote,
    Reply,
    State,
    Trouble,
    Turn,
    Verdict,
)
from rejoinder.model.checks import ReplyPart
from rejoinder.model.forks import Fork

_T = TypeVar("_T")
Part: TypeAlias = Generator[Effect, Answer, _T]
Rest: TypeAlias = dict[str, Any]
"""Fields of the outcome beyond its turns."""


class Stopped(Exception):
    """No answer will come any more."""


class Ended(Struct, frozen=True, gc=False):
    """How a step ended."""

    status: State
    score: float | None = None
    trouble: Trouble | None = None
    stopped: bool = False
    """Will no answer come any more?"""


class Asked(Struct, frozen=True, gc=False):
    """A turn that was put to the candidate; no reply where the call failed."""

    number: int
    sent: tuple[ChatMessage, ...]
    prompt: str
    reply: Reply | None
    failure: Failure | None = None


class Cause(Struct, frozen=True, gc=False):
    """Why a turn is taken."""

    step: int | None = None
    name: str | None = None
    depth: int = 0
    asked_by: AskedBy | None = None
    follow_up: FollowUp | None = None
    simulated: bool = False


class Talk:
    """What was said so far."""

    __slots__ = (
        *(
            "_history",
            "_starts",
            "control",
            "heard",
            "known",
            "opened",
            "opening",
            "prompt",
            "prompts",
            "replies",
            "turns",
        ),
    )

    def __init__(self, opening: Opening) -> None:
        self.opening = opening
        self.opened = ""
        """The first words, where a simulated user thought of them."""
        self.prompt = opening.question
        """What the next turn is called by."""
        self.turns: list[Turn] = []
        self.replies: list[str] = []
        self.heard: list[Reply] = []
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

    def next_ask(self, window: int | None, step: int | None = None) -> Ask:
        """The next turn: all that was said, or the system's words and the last turns. `step`: the planned turn that it
        belongs to."""
        number, fork = len(self.replies) + 1, self.opening.fork
        if fork is not None and number == fork.turn:
            before = len(self._history)
            self.prompt = _take_fork(self._history, self.prompt, fork)
            added = len(self._history) - before  # instructions, where there were none
            self._starts = [start and start + added for start in self._starts]
            self.prompts[-1:] = [self.prompt] if self.prompts else []  # judges see what the candidate was sent
        new = len(self._history) - self._starts[-1]
        if window is None or window >= len(self._starts):
            return Ask(number, tuple(self._history), new=new, step=step)
        start = self._starts[-window]
        system = (one for one in self._history[:start] if one.role == "system")
        return Ask(number, (*system, *self._history[start:]), new=new, window=window, step=step)

    def hear(self, reply: Reply) -> None:
        self.replies.append(reply.text)
        self.heard.append(reply)
        self._history += reply.before
        self._history.append(ChatMessage("assistant", reply.text))

    def add_turn(self, asked: Asked, cause: Cause, state: State, verdicts: tuple[Verdict, ...] = ()) -> None:
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

    def part_of(self, step: int | None) -> ReplyPart | None:
        """The part of the replies to a planned turn that is checked."""
        plan = self.opening.plan
        own = None if plan is None or step is None else plan.steps[step - 1].reply
        return self.opening.reply if own is None else own

    def context_of(self, step: int | None) -> tuple[str, ...] | None:
        """The context of a planned turn, if it is not the case's."""
        plan = self.opening.plan
        return None if plan is None or step is None else plan.steps[step - 1].context

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


def _take_fork(history: list[ChatMessage], prompt: str, fork: Fork) -> str:
    """Put other words in the place of the last ones, or other instructions in front; what the turn is called by."""
    if fork.system is not None:
        first = ChatMessage("system", fork.system)
        history[:1] = [first] if history[0].role == "system" else [first, history[0]]
    if fork.prompt is None:
        return prompt
    last = max(place for place, message in enumerate(history) if message.role == "user")
    history[last] = said = _with_pictures(fork.prompt, history[last])
    return said.content


def _with_pictures(text: str, before: ChatMessage) -> ChatMessage:
    """Other words with the pictures of a message: where the words refer to them, else in front."""
    references = [before.content[slice(*(picture.at or (0, 0)))] for picture in before.pictures]
    missing = [reference for reference in references if reference not in text]
    content = "\n".join((*missing, text))
    starts = [content.index(reference) for reference in references]
    pictures = tuple(
        structs.replace(picture, at=(start, start + len(reference)))
        for picture, reference, start in zip(before.pictures, references, starts, strict=True)
    )
    return ChatMessage("user", content, pictures=pictures)


def heard(talk: Talk, ask: Ask, reply: Answer) -> Asked:
    """A turn with what came of it. Raises Stopped where nothing will, unless it is the first."""
    if isinstance(reply, Reply):
        talk.hear(reply)
        return Asked(ask.turn, ask.messages, talk.prompt, reply)
    if isinstance(reply, Stop):
        if talk.turns:
            raise Stopped
        reply = Failure(NO_RECORDING, reply.reason)
    assert isinstance(reply, Failure)
    return Asked(ask.turn, ask.messages, talk.prompt, None, reply)


def broken_off(talk: Talk, asked: Asked, failure: Failure, cause: Cause) -> Ended:
    """The candidate gave no reply."""
    talk.add_turn(asked, cause, "error")
    return Ended("error", trouble=trouble_of(failure, asked.number))


def trouble_of(failure: Failure, turn: int, who: str = "") -> Trouble:
    return Trouble(type=failure.type, message=f"{who}{failure.message}", status=failure.status, turn=turn)


def to_grade(
    talk: Talk,
    asked: Asked,
    checks: tuple[AnyCheck, ...],
    expected: str | None = None,
    part: ReplyPart | None = None,
    context: tuple[str, ...] | None = None,
) -> Grade:
    assert asked.reply is not None
    said, replies = tuple(talk.prompts[: asked.number - 1]), tuple(talk.replies)
    return Grade(
        *(asked.number, checks, asked.reply, asked.sent, said, replies, expected, talk.opened, part),
        tuple(talk.heard),
        context=context,
    )


def grade_by(
    talk: Talk, asked: Asked, checks: tuple[AnyCheck, ...], part: ReplyPart | None = None
) -> Part[tuple[Verdict, ...]]:
    return verdicts_of((yield to_grade(talk, asked, checks, part=part))) if checks else ()


def verdicts_of(answer: Answer) -> tuple[Verdict, ...]:
    if isinstance(answer, Stop):
        raise Stopped
    assert isinstance(answer, tuple)
    return answer
