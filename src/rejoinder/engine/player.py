"""Playing a conversation: the pure machine asks, and somebody answers.

Answers come from the first source that has one (`engine/sources.py`). What is pure is computed anew each time; only
what was asked of somebody is recorded. A key is content and not position: the first request, the target, the trial and
all that was said since. So an edited suite finds again what it did not change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from hashlib import blake2b
from pathlib import Path

from msgspec import structs

from rejoinder.checks import Context, Post, Work, grade, grade_plain
from rejoinder.engine.conversation import NOT_RECORDED, Ask, Grade, converse
from rejoinder.engine.embeddings import Vectors
from rejoinder.engine.journal import Told
from rejoinder.engine.plan import Job, Prepared, identity_of
from rejoinder.engine.sources import Attempts, Call, Source, Tape, Unanswered, place_in_turn
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
    Trouble,
    Verdict,
)
from rejoinder.providers import FREE
from rejoinder.providers.cassettes import NO_RECORDING
from rejoinder.roles import embedder_for, judge_for, named_target


class Player:
    """Plays one conversation with the answers of its sources."""

    def __init__(self, job: Job, sources: tuple[Source, ...], vectors: Vectors, tape: Tape | None = None) -> None:
        self.job = job
        self.turn = 1
        self._sources = sources
        self._vectors = vectors
        self._tape = tape
        self._state = blake2b(job.prepared.content, digest_size=16)
        self._state.update(b"%d" % job.trial)
        self._calls: dict[tuple[str, bool], int] = {}
        self._equal: dict[str, int] = {}
        """How often each judge was asked the very same."""
        self._missing: list[tuple[Call, Failure]] = []
        """What was asked although nobody had recorded it."""

    async def play(self) -> Outcome:
        conversation = converse(self.job.prepared.opening)
        effect = next(conversation)
        try:
            while True:
                answer = await (self._ask(effect) if isinstance(effect, Ask) else self._grade(effect))
                effect = conversation.send(answer)
                if self._missing:  # a check of this turn has no verdict, so nobody knows how it would have gone on
                    effect = conversation.send(Failure(NOT_RECORDED, ""))
        except StopIteration as stop:
            return self._missed(stop.value) if self._missing else stop.value

    def _missed(self, outcome: Outcome) -> Outcome:
        """A conversation that asked for what is not recorded is an error, whatever other checks say: a recording that
        is out of date must not pass because one of them has decided already."""
        if outcome.error is not None and outcome.error.type == NO_RECORDING:
            return outcome
        # Checks ask at the same time, so the first is found by what it asked, and not by who was quicker.
        _, failure = min(self._missing, key=lambda one: place_in_turn(one[0]))
        *turns, last = outcome.turns
        trouble = Trouble(type=NO_RECORDING, message=failure.message, status=failure.status, turn=last.turn)
        return Outcome(status="error", turns=(*turns, structs.replace(last, passed=False)), error=trouble)

    async def _ask(self, ask: Ask) -> Reply | Failure:
        prepared = self.job.prepared
        self.turn = ask.turn
        if ask.turn > 1:
            _add(self._state, ask.messages[-1].content)
        key = self._state.hexdigest()
        answer = await self._answer(self._call(key, prepared.target, ask.turn, ask.messages))
        if isinstance(answer, Reply):
            _add(self._state, answer.text)
        return answer

    async def _grade(self, effect: Grade) -> tuple[Verdict, ...]:
        context = Context(self.job.prepared.case, effect.reply, effect.turn, _Port(self, effect))
        verdicts = grade_plain(effect.checks, context)
        return verdicts if verdicts is not None else await grade(effect.checks, context)

    def ask_judge(
        self,
        turn: int,
        target: Target,
        messages: tuple[ChatMessage, ...],
        role: bytes = b"judge ",
        number: int | None = None,
    ) -> Awaitable[Reply | Failure]:
        state = self._state.copy()
        state.update(role + identity_of(target))
        for message in messages:
            _add(state, message.content)
        judging = role == b"judge "
        key = self._numbered(state.hexdigest(), "-" if judging else "+")
        return self._answer(self._call(key, target, turn, messages, judging=judging, other=not judging, number=number))

    def reserve(self, target: Target, count: int) -> range:
        """The numbers of calls of a judge that are made later."""
        first = self._calls.get((target.name, True), 0)
        self._calls[target.name, True] = first + count
        return range(first, first + count)

    def embed(self, turn: int, target: Target, text: str) -> Awaitable[Reply | Failure]:
        """A text means the same in every conversation, so its key is its content alone."""
        state = blake2b(b"embed " + identity_of(target), digest_size=16)
        state.update(text.encode("utf-8", "surrogatepass"))
        key = state.hexdigest()
        call = self._call(key, target, turn, (), embed=text)
        return self._embedded(call, free=target.provider in FREE)

    async def _embedded(self, call: Call, *, free: bool) -> Reply | Failure:
        """Every conversation has on tape what it used, whoever asked for it."""
        place = self._tape.begin(call) if self._tape is not None else 0
        answer = await self._vectors.get(call.key, lambda: self._answer(call, taped=False), free=free)
        if _is_missing(answer) and not any(one is call for one, _ in self._missing):
            answer = await self._answer(call, taped=False)  # another conversation's recordings lack it; ours may not
        if self._tape is not None:
            self._tape.end(
                place, Told(call.key, answer) if isinstance(answer, Reply) else Told(call.key, failure=answer)
            )
        return answer

    def carry_out(self, turn: int, work: Work | Post) -> Awaitable[Reply | Failure]:
        state = self._state.copy()
        if isinstance(work, Work):
            state.update(b"work " + work.content)
        else:
            state.update(b"post %b %b" % (work.url.encode("utf-8", "surrogatepass"), work.content))
        return self._answer(self._call(self._numbered(state.hexdigest(), "+"), None, turn, (), work=work))

    def _numbered(self, equal: str, mark: str) -> str:
        """Whoever is asked the very same twice gives two answers. The mark tells judges from others."""
        self._equal[equal] = ordinal = self._equal.get(equal, -1) + 1
        return f"{equal}{mark}{ordinal}"

    def _call(  # noqa: PLR0913 - what a call may be of, all by name
        self,
        key: str,
        target: Target | None,
        turn: int,
        messages: tuple[ChatMessage, ...],
        *,
        judging: bool = False,
        other: bool = False,
        embed: str | None = None,
        work: Work | Post | None = None,
        number: int | None = None,
    ) -> Call:
        """A call, with its number in the order in which the conversation makes them."""
        job = self.job
        name = target.name if target is not None else work.label if isinstance(work, Work) else "webhook"
        counter = (name, judging)
        if number is None:
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
            suite=job.prepared.suite.path,
        )
        return Call(key, request, Attempts(self._calls, counter), job, target, work, other)

    async def _answer(self, call: Call, *, taped: bool = True) -> Reply | Failure:
        place = self._tape.begin(call) if self._tape is not None and taped else None
        for source in self._sources:
            told = await source.answer(call)
            if told is not None:
                call.attempts.settle(told.attempts)
                if self._tape is not None and place is not None:
                    self._tape.end(place, told)
                if told.reply is not None:
                    return told.reply
                failure = told.failure or Failure("unknown", "no answer")
                if _is_missing(failure):
                    self._missing.append((call, failure))
                return failure
        raise Unanswered


class _Port:
    """What the checks of one turn can reach through the player."""

    __slots__ = ("_effect", "_numbers", "_player")

    def __init__(self, player: Player, effect: Grade, numbers: Iterable[int] = ()) -> None:
        self._player = player
        self._effect = effect
        self._numbers = iter(numbers)

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
        return self._player.ask_judge(self._effect.turn, judge, messages, number=next(self._numbers, None))

    def reserve(self, target: str | None, count: int) -> _Port:
        judge = judge_for(self._player.job.prepared, target)
        return _Port(self._player, self._effect, self._player.reserve(judge, count) if judge is not None else ())

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


def _is_missing(answer: Reply | Failure) -> bool:
    return isinstance(answer, Failure) and answer.type == NO_RECORDING


def _add(state: blake2b, text: str) -> None:
    """With its length: two texts are not to be mistaken for two others with the same letters."""
    encoded = text.encode("utf-8", "surrogatepass")
    state.update(b"%d:%b" % (len(encoded), encoded))


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
    return structs.replace(format_case(case, prepared.suite.formatting, prepared.target.mode), later=True)
