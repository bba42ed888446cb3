"""Plays a conversation: the pure rules ask for effects, and the player answers them.

Calls are answered by the first source that has an answer (`engine/answers.py`). What is pure is computed each time;
only calls are recorded. A key is content and not position: the first request, the target, the trial and all that was
said since. So an edited suite finds again what it did not change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from msgspec import structs

from rejoinder.checks import Context, Post, Work, grade, grade_plain
from rejoinder.engine.calls import Attempts, Call, Counter, NoAnswer, Source, Tape, place_in_turn
from rejoinder.engine.conversation import converse
from rejoinder.engine.effects import Ask, Effect, Grade, Simulate, Stop
from rejoinder.engine.embeddings import Embeddings
from rejoinder.engine.journal import JournalError, Told
from rejoinder.engine.plan import Job, Prepared
from rejoinder.engine.target_identity import identity_of
from rejoinder.formatting import format_case, format_user, gather_evidence
from rejoinder.model import (
    NO_RECORDING,
    Case,
    ChatMessage,
    Evidence,
    Failure,
    Kind,
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
from rejoinder.model.calls import Key
from rejoinder.roles import find_embedder, find_target, judge_for


class PlayError(Exception):
    """A bug ended a conversation; `__cause__` is the exception."""

    def __init__(self, turn: int) -> None:
        super().__init__(turn)
        self.turn = turn


class Player:
    """Plays one conversation with the answers of its sources."""

    def __init__(self, job: Job, sources: tuple[Source, ...], embeddings: Embeddings, tape: Tape | None = None) -> None:
        self.job = job
        self.turn = 1
        self._sources = sources
        self._embeddings = embeddings
        self._tape = tape
        self._state = _first_state(job)
        self._counts: dict[Counter, int] = {}
        self._equal: dict[tuple[Kind, str], int] = {}
        """How many equal calls of a kind were made."""
        self._missing: list[tuple[Call, Failure]] = []
        """Calls that are not recorded where only recordings may answer."""

    async def play(self) -> Outcome:
        """Raises NoAnswer where the conversation cannot go on for now, and PlayError for a bug."""
        try:
            return await self._play()
        except (NoAnswer, JournalError):
            raise
        except Exception as error:
            raise PlayError(self.turn) from error

    async def _play(self) -> Outcome:
        conversation = converse(self.job.prepared.opening)
        effect = next(conversation)
        try:
            while True:
                answer = await self._answer_to(effect)
                effect = conversation.send(answer)
                if self._missing:  # a check of this turn has no verdict, so how it would have gone on is unknown
                    effect = conversation.send(Stop())
        except StopIteration as stop:
            return _missed(stop.value, self._missing) if self._missing else stop.value

    def _answer_to(self, effect: Effect) -> Awaitable[Reply | Failure | Stop | tuple[Verdict, ...]]:
        if isinstance(effect, Ask):
            return self._ask(effect)
        return self._grade(effect) if isinstance(effect, Grade) else self._simulate(effect)

    async def _simulate(self, effect: Simulate) -> Reply | Failure | Stop:
        user = self.job.prepared.case.user
        target = None if user is None else find_target(self.job.prepared.suite, user.target)
        if user is None or target is None:
            return await _no_target(None if user is None else user.target)
        messages = format_user(user, effect.prompts, effect.replies)
        return await self._answer(self.call_of_target("user", target, effect.turn, messages))

    async def _ask(self, ask: Ask) -> Reply | Failure | Stop:
        self.turn = ask.turn
        if ask.afresh:
            state = _first_state(self.job)
            if self.job.prepared.has_simulated_opening:
                for message in ask.messages:
                    _add(state, message.content)
            key = Key("candidate", state.hexdigest(), 1)
            return await self._answer(self._call(key, self.job.prepared.target, ask.turn, messages=ask.messages))
        fork = self.job.prepared.opening.fork
        if fork is not None and fork.system is not None and fork.turn == ask.turn:
            _add(self._state, fork.system)
        if ask.turn > 1 or self.job.prepared.has_simulated_opening:
            for message in ask.messages[-ask.new :]:
                _add(self._state, message.content)
        if ask.window is not None:
            _add(self._state, f"the last {ask.window} turns")
        key = Key("candidate", self._state.hexdigest())
        answer = await self._answer(self._call(key, self.job.prepared.target, ask.turn, messages=ask.messages))
        if isinstance(answer, Reply):
            _add(self._state, answer.text)
        return answer

    async def _grade(self, effect: Grade) -> tuple[Verdict, ...]:
        reply = effect.reply
        if effect.whole:
            reply = structs.replace(reply, text=transcript_of(self.job.prepared, effect))
        context = Context(self.job.prepared.case, reply, effect.turn, _Port(self, effect))
        verdicts = grade_plain(effect.checks, context)
        return verdicts if verdicts is not None else await grade(effect.checks, context)

    def call_of_target(
        self, kind: Kind, target: Target, turn: int, messages: tuple[ChatMessage, ...], number: int | None = None
    ) -> Call:
        """A call of a judge or a rival. `number`: its place among the conversation's calls, where it was reserved."""
        state = self._state.copy()
        state.update(kind.encode() + b" " + identity_of(target))
        for message in messages:
            _add(state, message.content)
        return self._call(self._numbered(kind, state), target, turn, messages=messages, number=number)

    def reserve(self, target: Target, count: int) -> range:
        """The numbers of judge calls that are made later."""
        first = self._counts.get((target.name, True), 0)
        self._counts[target.name, True] = first + count
        return range(first, first + count)

    def call_to_embed(self, target: Target, turn: int, text: str) -> Call:
        """A text means the same in every conversation, so its key is its content alone."""
        state = blake2b(b"embed " + identity_of(target), digest_size=16)
        state.update(text.encode("utf-8", "surrogatepass"))
        return self._call(Key("embedding", state.hexdigest()), target, turn, embed=text)

    def call_to_work(self, turn: int, work: Work | Post) -> Call:
        state = self._state.copy()
        if isinstance(work, Work):
            state.update(b"work " + work.content)
        else:
            state.update(b"post %b %b" % (work.url.encode("utf-8", "surrogatepass"), work.content))
        key = self._numbered("work" if isinstance(work, Work) else "webhook", state)
        return self._call(key, None, turn, work=work)

    def answer(self, call: Call) -> Awaitable[Reply | Failure]:
        """The answer to a call of a check."""
        return self._embedded(call) if call.kind == "embedding" else self._reply(call)

    async def _embedded(self, call: Call) -> Reply | Failure:
        """The tape has every embedding that the conversation used, whichever conversation asked for it."""
        place = self._tape.begin(call) if self._tape is not None else 0
        answer = await self._embeddings.get(call, lambda: self._reply(call, taped=False))
        if _is_missing(answer) and not any(missed is call for missed, _ in self._missing):
            answer = await self._reply(call, taped=False)  # another conversation's recordings lack it; ours may not
        if self._tape is not None:
            told = Told(call.key, answer) if isinstance(answer, Reply) else Told(call.key, failure=answer)
            self._tape.end(place, told)
        return answer

    def _numbered(self, kind: Kind, state: blake2b) -> Key:
        """The key of a call that may be made several times with the same content."""
        equal = kind, state.hexdigest()
        self._equal[equal] = ordinal = self._equal.get(equal, -1) + 1
        return Key(*equal, ordinal)

    def _call(
        self,
        key: Key,
        target: Target | None,
        turn: int,
        *,
        messages: tuple[ChatMessage, ...] = (),
        embed: str | None = None,
        work: Work | Post | None = None,
        number: int | None = None,
    ) -> Call:
        """A call with its number among the calls of the conversation."""
        job, name = self.job, target.name if target is not None else work.label if work is not None else ""
        counter = name, key.kind == "judge"
        if number is None:
            number = self._counts.get(counter, 0)
            if embed is None:  # embeddings are shared, so which conversation asks first is an accident
                self._counts[counter] = number + 1
        request = Request(
            target=name,
            case_id=job.prepared.case.id,
            trial=job.trial,
            turn=turn,
            call=number,
            messages=messages,
            question=job.prepared.prompt.question,
            kind=key.kind,
            embed=embed,
            key=str(key),
            suite=job.prepared.suite.path,
            variant=target.variant if target is not None else "",
        )
        return Call(request, Attempts(self._counts, counter), job, target, work)

    async def _reply(self, call: Call, *, taped: bool = True) -> Reply | Failure:
        """For a check: a call that is stopped has no verdict."""
        answer = await self._answer(call, taped=taped)
        if isinstance(answer, Stop):
            raise NoAnswer
        return answer

    async def _answer(self, call: Call, *, taped: bool = True) -> Reply | Failure | Stop:
        place = self._tape.begin(call) if self._tape is not None and taped else None
        for source in self._sources:
            told = await source.answer(call)
            if isinstance(told, Stop):
                return told
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
        raise NoAnswer


class _Port:
    """What the checks of one turn can reach through the player."""

    __slots__ = ("_effect", "_numbers", "_player", "calls")

    def __init__(
        self, player: Player, effect: Grade, numbers: Iterable[int] = (), calls: list[str] | None = None
    ) -> None:
        self.calls = [] if calls is None else calls
        self._player = player
        self._effect = effect
        self._numbers = iter(numbers)

    def for_check(self) -> _Port:
        return _Port(self._player, self._effect)

    def _answer(self, call: Call) -> Awaitable[Reply | Failure]:
        self.calls.append(call.key)
        return self._player.answer(call)

    @property
    def folders(self) -> tuple[str, ...]:
        suite = self._player.job.prepared.suite
        return str(Path(suite.path).parent), suite.root

    def question(self) -> Prompt:
        return question_at(self._player.job.prepared, self._effect)

    def evidence(self) -> Evidence:
        job, effect = self._player.job, self._effect
        prepared = job.prepared
        asked = (effect.opened or prepared.opening.question, *effect.prompts)
        said = tuple(Said(turn, *pair) for turn, pair in enumerate(zip(asked, effect.replies, strict=True), 1))
        facts = (prepared.case, self.question(), said, effect.reply, prepared.suite.formatting)
        return gather_evidence(*facts, target=prepared.target.name, trial=job.trial)

    def judge_name(self, target: str | None) -> str:
        judge = judge_for(self._player.job.prepared, target)
        return judge.name if judge is not None else str(target)

    def ask_judge(self, messages: tuple[ChatMessage, ...], target: str | None) -> Awaitable[Reply | Failure]:
        judge = judge_for(self._player.job.prepared, target)
        if judge is None:
            return _no_target(target)
        number = next(self._numbers, None)
        return self._answer(self._player.call_of_target("judge", judge, self._effect.turn, messages, number))

    def reserve(self, target: str | None, count: int) -> _Port:
        judge = judge_for(self._player.job.prepared, target)
        numbers = self._player.reserve(judge, count) if judge is not None else ()
        return _Port(self._player, self._effect, numbers, self.calls)

    def ask_other(self, target: str) -> Awaitable[Reply | Failure]:
        other = find_target(self._player.job.prepared.suite, target)
        if other is None:
            return _no_target(target)
        effect = self._effect
        return self._answer(self._player.call_of_target("rival", other, effect.turn, effect.messages))

    def embed(self, text: str, target: str | None) -> Awaitable[Reply | Failure]:
        embedder = find_embedder(self._player.job.prepared.suite, target)
        if embedder is None:
            return _no_target(target)
        return self._answer(self._player.call_to_embed(embedder, self._effect.turn, text))

    def carry_out(self, work: Work) -> Awaitable[Reply | Failure]:
        return self._answer(self._player.call_to_work(self._effect.turn, work))

    def post(self, post: Post) -> Awaitable[Reply | Failure]:
        return self._answer(self._player.call_to_work(self._effect.turn, post))


def _missed(outcome: Outcome, missing: list[tuple[Call, Failure]]) -> Outcome:
    """A conversation with a call that is not recorded is an error, whatever other checks say: a recording out of
    date must not pass because another check has decided already."""
    if outcome.error is not None and outcome.error.type == NO_RECORDING:
        return outcome
    # Checks call at the same time, so the first is found by content and not by speed.
    _, failure = min(missing, key=lambda miss: place_in_turn(miss[0]))
    *turns, last = outcome.turns
    trouble = Trouble(type=NO_RECORDING, message=failure.message, status=failure.status, turn=last.turn)
    turns.append(structs.replace(last, passed=False))
    return structs.replace(
        outcome, status="error", turns=tuple(turns), error=trouble, score=None, succeeded_on_turn=None
    )


def _first_state(job: Job) -> blake2b:
    state = blake2b(job.prepared.content, digest_size=16)
    state.update(b"%d" % job.trial)
    return state


def _is_missing(answer: Reply | Failure) -> bool:
    return isinstance(answer, Failure) and answer.type == NO_RECORDING


def _add(state: blake2b, text: str) -> None:
    """With its length: two texts are not to be mistaken for two others with the same letters."""
    encoded = text.encode("utf-8", "surrogatepass")
    state.update(b"%d:%b" % (len(encoded), encoded))


async def _no_target(target: str | None) -> Failure:
    return Failure("target", f"there is no target `{target}`")


def question_at(prepared: Prepared, effect: Grade) -> Prompt:
    """The conversation before the reply that is graded, as judges see it: turn 1 as it was sent, later ones as a
    transcript. A planned turn may have a reference answer of its own."""
    if effect.whole or not (effect.prompts or effect.opened):
        prompt = prepared.prompt
    else:
        case = _case_with(prepared, effect, effect.replies[:-1])
        prompt = structs.replace(format_case(case, prepared.suite.formatting, prepared.target.mode), later=True)
    if effect.expected is None:
        return prompt
    expected = (ChatMessage("assistant", effect.expected),)
    return structs.replace(prompt, expected_messages=expected, reference_answer=effect.expected)


def transcript_of(prepared: Prepared, effect: Grade) -> str:
    """All that was said, the last reply included."""
    case = _case_with(prepared, effect, effect.replies)
    return format_case(case, prepared.suite.formatting, prepared.target.mode).question


def _case_with(prepared: Prepared, effect: Grade, replies: tuple[str, ...]) -> Case:
    """The case with what was said since its first words."""
    said = [_message("user", effect.opened)] if effect.opened else []
    for reply, prompt in zip_longest(replies, effect.prompts):
        said += [_message("assistant", reply), *([] if prompt is None else [_message("user", prompt)])]
    return structs.replace(prepared.case, messages=(*prepared.case.messages, *said))


def _message(role: Literal["user", "assistant"], text: str) -> Message:
    return Message(role, (TextPart(text, ""),), "")
