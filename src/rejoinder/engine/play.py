"""Playing a conversation: the pure machine asks, and somebody answers.

Answers come from the first source that has one: the journal of this run, then the provider itself. What is pure is
computed anew each time; only what was asked of somebody is recorded. A key is content and not position: the first
request, the target, the trial and all that was said since. So an edited suite finds again what it did not change.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Protocol

from msgspec import Struct, structs

from rejoinder.checks import Context, grade, grade_plain
from rejoinder.engine.conversation import Ask, Grade, converse
from rejoinder.engine.journal import Told
from rejoinder.engine.plan import Job, Prepared, identity_of, judge_for
from rejoinder.formatting import format_case
from rejoinder.model import (
    ChatMessage,
    Failure,
    Message,
    Outcome,
    Prompt,
    Reply,
    Request,
    Target,
    TextPart,
    Verdict,
)


class Call(Struct, frozen=True):
    """A call that somebody has to answer."""

    key: str
    target: Target
    request: Request
    number_again: Callable[[], int]
    """The number of a further attempt, in the order in which the conversation makes its calls."""


class Source(Protocol):
    """Where answers come from. None means that it has none for this call."""

    async def answer(self, call: Call) -> Told | None: ...


class Unanswered(Exception):
    """No source has an answer: the conversation cannot go on for now."""


class Recorded:
    """The answers that a journal holds."""

    def __init__(self, told: dict[str, Told], price: Callable[[Target, Reply], Reply]) -> None:
        self._told = told
        self._price = price

    async def answer(self, call: Call) -> Told | None:
        told = self._told.get(call.key)
        if told is None or told.reply is None or told.reply.cost is not None:
            return told
        return structs.replace(told, reply=self._price(call.target, told.reply))


class Player:
    """Plays one conversation with the answers of its sources."""

    def __init__(self, job: Job, sources: tuple[Source, ...]) -> None:
        self.job = job
        self.turn = 1
        self._sources = sources
        self._state = blake2b(job.prepared.content, digest_size=16)
        self._state.update(b"%d" % job.trial)
        self._calls: dict[tuple[str, bool], int] = {}
        self._equal: dict[str, int] = {}
        """How often each judge was asked the very same."""

    async def play(self) -> Outcome:
        conversation = converse(self.job.prepared.opening)
        effect = next(conversation)
        try:
            while True:
                answer = await (self._ask(effect) if isinstance(effect, Ask) else self._grade(effect))
                effect = conversation.send(answer)
        except StopIteration as stop:
            return stop.value

    async def _ask(self, ask: Ask) -> Reply | Failure:
        prepared = self.job.prepared
        self.turn = ask.turn
        if ask.turn > 1:
            self._say(ask.messages[-1].content)
        key = self._state.hexdigest()
        answer = await self._answer(key, prepared.target, ask.turn, ask.messages, judging=False)
        if isinstance(answer, Reply):
            self._say(answer.text)
        return answer

    def _say(self, text: str) -> None:
        encoded = text.encode("utf-8", "surrogatepass")
        self._state.update(b"%d:%b" % (len(encoded), encoded))

    async def _grade(self, effect: Grade) -> tuple[Verdict, ...]:
        context = Context(self.job.prepared.case, effect.reply, effect.turn, _Port(self, effect))
        verdicts = grade_plain(effect.checks, context)
        return verdicts if verdicts is not None else await grade(effect.checks, context)

    async def ask_judge(self, turn: int, target: Target, messages: tuple[ChatMessage, ...]) -> Reply | Failure:
        state = self._state.copy()
        state.update(b"judge " + identity_of(target))
        for message in messages:
            state.update(message.content.encode("utf-8", "surrogatepass"))
        equal = state.hexdigest()
        self._equal[equal] = ordinal = self._equal.get(equal, -1) + 1
        return await self._answer(f"{equal}-{ordinal}", target, turn, messages, judging=True)

    async def _answer(
        self, key: str, target: Target, turn: int, messages: tuple[ChatMessage, ...], *, judging: bool
    ) -> Reply | Failure:
        job, counter = self.job, (target.name, judging)
        call_number = self._calls.get(counter, 0)
        self._calls[counter] = call_number + 1
        request = Request(
            target=target.name,
            case_id=job.prepared.case.id,
            trial=job.trial,
            turn=turn,
            call=call_number,
            messages=messages,
            question=job.prepared.prompt.question,
            judging=judging,
            key=key,
        )
        numbered = 1

        def number_again() -> int:
            nonlocal numbered
            numbered += 1
            self._calls[counter] += 1
            return self._calls[counter] - 1

        call = Call(key, target, request, number_again)
        for source in self._sources:
            told = await source.answer(call)
            if told is not None:
                self._calls[counter] += told.attempts - numbered
                return told.reply if told.reply is not None else told.failure or Failure("unknown", "no answer")
        raise Unanswered


class _Port:
    """What the checks of one turn can reach through the player."""

    __slots__ = ("_effect", "_player")

    def __init__(self, player: Player, effect: Grade) -> None:
        self._player = player
        self._effect = effect

    def question(self) -> Prompt:
        return question_at(self._player.job.prepared, self._effect.prompts, self._effect.replies)

    async def ask_judge(self, system: str, user: str, target: str | None) -> Reply | Failure:
        judge = judge_for(self._player.job.prepared, target)
        if judge is None:
            return Failure("target", f"there is no target `{target}`")
        messages = (ChatMessage("system", system), ChatMessage("user", user))
        return await self._player.ask_judge(self._effect.turn, judge, messages)


def question_at(prepared: Prepared, prompts: tuple[str, ...], replies: tuple[str, ...]) -> Prompt:
    """The conversation before the last reply, as judges see it: turn 1 as it was sent, later ones as a transcript."""
    if not prompts:
        return prepared.prompt
    said: list[Message] = []
    for reply, prompt in zip(replies, prompts, strict=False):
        said += [Message("assistant", (TextPart(reply, ""),), ""), Message("user", (TextPart(prompt, ""),), "")]
    case = structs.replace(prepared.case, messages=(*prepared.case.messages, *said))
    return format_case(case, prepared.suite.formatting, prepared.target.mode)
