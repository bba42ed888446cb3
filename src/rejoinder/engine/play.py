"""Playing a conversation: the pure machine asks, and somebody answers.

Answers come from the first source that has one: the journal of this run, then the provider itself. What is pure is
computed anew each time; only what was asked of somebody is recorded. A key is content and not position: the first
request, the target, the trial and all that was said since. So an edited suite finds again what it did not change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from msgspec import Struct, structs

from rejoinder.checks import Context, Post, Work, grade, grade_plain
from rejoinder.engine.conversation import Ask, Grade, converse
from rejoinder.engine.journal import Told
from rejoinder.engine.plan import Job, Prepared, embedder_for, identity_of, judge_for, named_target
from rejoinder.engine.vectors import Vectors
from rejoinder.formatting import format_case, gather_evidence
from rejoinder.model import (
    ChatMessage,
    Evidence,
    Failure,
    Message,
    Outcome,
    Prompt,
    Reply,
    Request,
    Said,
    Target,
    TextPart,
    Verdict,
)
from rejoinder.providers import FREE


class Call(Struct, frozen=True):
    """A call that somebody has to answer: a target, or this machine, which has some work to do."""

    key: str
    request: Request
    attempts: Attempts
    target: Target | None = None
    work: Work | Post | None = None


class Attempts:
    """The numbers of a call's attempts, in the order in which its conversation makes calls of one kind."""

    __slots__ = ("_calls", "_kind", "_made")

    def __init__(self, calls: dict[tuple[str, bool], int], kind: tuple[str, bool]) -> None:
        self._calls = calls
        self._kind = kind
        self._made = 1

    def next(self) -> int:
        """The number of a further attempt."""
        self._made += 1
        self._calls[self._kind] = number = self._calls.get(self._kind, 0) + 1
        return number - 1

    def settle(self, made: int) -> None:
        """So many attempts were made in all: a recorded answer stands for those that it took."""
        if made != self._made:
            self._calls[self._kind] = self._calls.get(self._kind, 0) + made - self._made


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
        if told is None or told.reply is None or told.reply.cost is not None or call.target is None:
            return told
        return structs.replace(told, reply=self._price(call.target, told.reply))


class Player:
    """Plays one conversation with the answers of its sources."""

    def __init__(self, job: Job, sources: tuple[Source, ...], vectors: Vectors) -> None:
        self.job = job
        self.turn = 1
        self._sources = sources
        self._vectors = vectors
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
        answer = await self._answer(self._call(key, prepared.target, ask.turn, ask.messages))
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

    def ask_judge(
        self, turn: int, target: Target, messages: tuple[ChatMessage, ...], role: bytes = b"judge "
    ) -> Awaitable[Reply | Failure]:
        state = self._state.copy()
        state.update(role + identity_of(target))
        for message in messages:
            state.update(message.content.encode("utf-8", "surrogatepass"))
        judging = role == b"judge "
        return self._answer(self._call(self._numbered(state.hexdigest()), target, turn, messages, judging=judging))

    def embed(self, turn: int, target: Target, text: str) -> Awaitable[Reply | Failure]:
        """A text means the same in every conversation, so its key is its content alone."""
        state = blake2b(b"embed " + identity_of(target), digest_size=16)
        state.update(text.encode("utf-8", "surrogatepass"))
        key = state.hexdigest()
        free = target.provider in FREE
        return self._vectors.get(key, lambda: self._answer(self._call(key, target, turn, (), embed=text)), free=free)

    def carry_out(self, turn: int, work: Work | Post) -> Awaitable[Reply | Failure]:
        state = self._state.copy()
        if isinstance(work, Work):
            state.update(b"work " + work.content)
        else:
            state.update(b"post %b %b" % (work.url.encode("utf-8", "surrogatepass"), work.body))
        return self._answer(self._call(self._numbered(state.hexdigest()), None, turn, (), work=work))

    def _numbered(self, equal: str) -> str:
        """Whoever is asked the very same twice gives two answers."""
        self._equal[equal] = ordinal = self._equal.get(equal, -1) + 1
        return f"{equal}-{ordinal}"

    def _call(
        self,
        key: str,
        target: Target | None,
        turn: int,
        messages: tuple[ChatMessage, ...],
        *,
        judging: bool = False,
        embed: str | None = None,
        work: Work | Post | None = None,
    ) -> Call:
        """A call, with its number in the order in which the conversation makes them."""
        job = self.job
        name = target.name if target is not None else work.label if isinstance(work, Work) else "webhook"
        counter = (name, judging)
        number = self._calls.get(counter, 0)
        if embed is None:  # embeddings are shared, so whoever asks for one first is an accident
            self._calls[counter] = number + 1
        request = Request(
            target=name,
            case_id=job.prepared.case.id,
            trial=job.trial,
            turn=turn,
            call=number,
            messages=messages,
            question=job.prepared.prompt.question,
            judging=judging,
            embed=embed,
            key=key,
        )
        return Call(key, request, Attempts(self._calls, counter), target, work)

    async def _answer(self, call: Call) -> Reply | Failure:
        for source in self._sources:
            told = await source.answer(call)
            if told is not None:
                call.attempts.settle(told.attempts)
                return told.reply if told.reply is not None else told.failure or Failure("unknown", "no answer")
        raise Unanswered


class _Port:
    """What the checks of one turn can reach through the player."""

    __slots__ = ("_effect", "_player")

    def __init__(self, player: Player, effect: Grade) -> None:
        self._player = player
        self._effect = effect

    @property
    def folders(self) -> tuple[str, ...]:
        suite = self._player.job.prepared.suite
        return str(Path(suite.path).parent), suite.root

    def question(self) -> Prompt:
        return question_at(self._player.job.prepared, self._effect.prompts, self._effect.replies)

    def evidence(self) -> Evidence:
        job, effect = self._player.job, self._effect
        prepared = job.prepared
        asked = (prepared.opening.question, *effect.prompts)
        said = tuple(Said(turn, *pair) for turn, pair in enumerate(zip(asked, effect.replies, strict=True), 1))
        facts = (prepared.case, self.question(), said, effect.reply, prepared.suite.formatting)
        return gather_evidence(*facts, target=prepared.target.name, trial=job.trial)

    def judge_name(self, target: str | None) -> str:
        judge = judge_for(self._player.job.prepared, target)
        return judge.name if judge is not None else str(target)

    def ask_judge(self, messages: tuple[ChatMessage, ...], target: str | None) -> Awaitable[Reply | Failure]:
        judge = judge_for(self._player.job.prepared, target)
        if judge is None:
            return _missing(target)
        return self._player.ask_judge(self._effect.turn, judge, messages)

    def ask_other(self, target: str) -> Awaitable[Reply | Failure]:
        other = named_target(self._player.job.prepared, target)
        if other is None:
            return _missing(target)
        messages = list(self._player.job.prepared.opening.messages)
        for reply, prompt in zip(self._effect.replies, self._effect.prompts, strict=False):
            messages += [ChatMessage("assistant", reply), ChatMessage("user", prompt)]
        return self._player.ask_judge(self._effect.turn, other, tuple(messages), b"other ")

    def embed(self, text: str, target: str | None) -> Awaitable[Reply | Failure]:
        embedder = embedder_for(self._player.job.prepared, target)
        if embedder is None:
            return _missing(target)
        return self._player.embed(self._effect.turn, embedder, text)

    def carry_out(self, work: Work) -> Awaitable[Reply | Failure]:
        return self._player.carry_out(self._effect.turn, work)

    def post(self, post: Post) -> Awaitable[Reply | Failure]:
        return self._player.carry_out(self._effect.turn, post)


async def _missing(target: str | None) -> Failure:
    return Failure("target", f"there is no target `{target}`")


def question_at(prepared: Prepared, prompts: tuple[str, ...], replies: tuple[str, ...]) -> Prompt:
    """The conversation before the last reply, as judges see it: turn 1 as it was sent, later ones as a transcript."""
    if not prompts:
        return prepared.prompt
    said: list[Message] = []
    for reply, prompt in zip(replies, prompts, strict=False):
        said += [Message("assistant", (TextPart(reply, ""),), ""), Message("user", (TextPart(prompt, ""),), "")]
    case = structs.replace(prepared.case, messages=(*prepared.case.messages, *said))
    return format_case(case, prepared.suite.formatting, prepared.target.mode)
