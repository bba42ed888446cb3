"""Plays a conversation: the pure rules ask for effects, and the player answers them.

Calls (`engine/call_maker.py`) are answered by the first source that has an answer (`engine/answers.py`). What is pure
is computed each time; only calls are recorded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from itertools import zip_longest
from pathlib import Path

from msgspec import structs

from rejoinder.checks.base import Context, Lack, Post, Work
from rejoinder.checks.parts import ReplyPartText, take_part
from rejoinder.checks.registry import grade, grade_plain
from rejoinder.engine.briefs import message_of, with_brief
from rejoinder.engine.call_maker import CallMaker
from rejoinder.engine.calls import Call, NoAnswer, Source, Tape, place_in_turn
from rejoinder.engine.conversation import converse
from rejoinder.engine.effects import Ask, Effect, Grade, Simulate, Stop
from rejoinder.engine.embeddings import Embeddings
from rejoinder.engine.plan import Job, Prepared, has_clean_control
from rejoinder.engine.tool_rounds import ToolRounds
from rejoinder.formatting.judge import gather_evidence, with_pictures
from rejoinder.formatting.prompt import format_case
from rejoinder.formatting.users import format_user
from rejoinder.model import (
    CUT_OFF,
    NO_RECORDING,
    AnyCheck,
    Case,
    ChatMessage,
    CutOff,
    Evidence,
    Failure,
    JsonSchema,
    Outcome,
    Prompt,
    Reply,
    Said,
    Trouble,
    Verdict,
)
from rejoinder.model.checks import ReplyPart
from rejoinder.model.messages import ToolAnswer
from rejoinder.model.tools import Offered, declared_in
from rejoinder.runs.journal import JournalError, Told
from rejoinder.validation.roles import find_embedder, find_target, judge_for, sees_pictures


class PlayError(Exception):
    """A bug ended a conversation; `__cause__` is the exception."""

    def __init__(self, turn: int) -> None:
        super().__init__(turn)
        self.turn = turn


class _BeginAnew(Exception):
    """The target, or a tool, keeps what happened in the conversation itself and has lost it."""


class Player:
    """Plays one conversation with the answers of its sources."""

    def __init__(
        self,
        job: Job,
        sources: tuple[Source, ...],
        embeddings: Embeddings,
        tape: Tape | None = None,
        control_of: CallMaker | None = None,
    ) -> None:
        """`control_of`: the calls of the conversation that this is the control of, without the texts that are put into
        answers of tools."""
        self.job = job
        self._control_of = control_of
        self.turn = 1
        self._sources = sources
        self._embeddings = embeddings
        self._tape = tape
        self.calls = CallMaker(job, control_of=control_of)
        self._missing: list[tuple[Call, Failure]] = []
        """Calls that are not recorded where only recordings may answer."""
        self._replies: list[Reply] = []
        """The candidate's replies of this attempt."""
        self._others: list[Reply] = []
        """All other replies of this attempt, except those of embeddings and tools."""
        self._parts: dict[tuple[int, str], ReplyPartText | Lack] = {}
        """The parts of replies that are checked, by turn and reply."""
        self._cut_off: list[CutOff] = []
        self._tools = self._new_tools()

    async def play(self) -> Outcome:
        """Raises NoAnswer where the conversation cannot go on for now, and PlayError for a bug."""
        try:
            while True:
                try:
                    outcome = await self._play()
                except _BeginAnew:
                    self._begin_anew()
                else:
                    return await self._with_control(self._completed(outcome))
        except (NoAnswer, JournalError):
            raise
        except Exception as error:
            raise PlayError(self.turn) from error

    async def _with_control(self, outcome: Outcome) -> Outcome:
        """The outcome with the conversation that was had without the texts of `says`, if there is to be one."""
        is_control = self._control_of is not None
        if is_control or not has_clean_control(self.job.prepared) or outcome.status == "error":
            return outcome
        control = Player(self.job, self._sources, self._embeddings, self._tape, self.calls)
        return structs.replace(outcome, clean=await control.play())

    def _completed(self, outcome: Outcome) -> Outcome:
        """The outcome with what only the player knows."""
        if self._cut_off:
            outcome = structs.replace(outcome, cut_off=tuple(self._cut_off))
        return outcome if self._tools is None else self._tools.completed(outcome)

    def _new_tools(self) -> ToolRounds | None:
        if not self.job.prepared.tools:
            return None
        clean = self._control_of is not None
        return ToolRounds(self.job, self.calls, self._answer, self._shared, clean=clean)

    def _begin_anew(self) -> None:
        self._cut_off.append(CutOff(self.turn, tuple(self._replies), tuple(self._others)))
        self.turn = 1
        self.calls = CallMaker(self.job, len(self._cut_off), self._control_of)
        self._missing, self._replies, self._others = [], [], []
        self._parts.clear()
        self._tools = self._new_tools()
        if self._tape is not None:
            self._tape.calls.clear()

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
        return await self._answer(self.calls.of_target("user", target, effect.turn, messages))

    async def _ask(self, ask: Ask) -> Reply | Failure | Stop:
        self.turn = ask.turn
        if self._tools is not None and (failure := await self._tools.open(ask.step)) is not None:
            return failure
        call = self.calls.afresh(ask) if ask.afresh else self.calls.of_candidate(ask)
        answer = await self._answer(with_brief(call, ask))
        if self._tools is not None and isinstance(answer, Reply) and answer.tool_calls:
            answer = await self._tools.play(ask, answer)
        if isinstance(answer, Failure) and answer.type == CUT_OFF:
            raise _BeginAnew
        if isinstance(answer, Reply) and not ask.afresh:
            self.calls.hear(answer)
        if isinstance(answer, Reply) and self._tools is not None:
            answer = structs.replace(answer, offered=tuple([one.name for one in self.calls.offered]))
        return answer

    async def _grade(self, effect: Grade) -> tuple[Verdict, ...]:
        reply = effect.reply
        if effect.whole:
            reply = structs.replace(reply, text=transcript_of(self.job.prepared, effect))
        elif effect.part is not None and not effect.part.is_whole:
            return await self._grade_part(effect.part, effect)
        context = self._context(effect, reply)
        verdicts = grade_plain(effect.checks, context)
        return verdicts if verdicts is not None else await grade(effect.checks, context)

    def _context(self, effect: Grade, reply: Reply) -> Context:
        port = _Port(self.job, self.calls, self._answer_check, effect, self._tools)
        return Context(self.job.prepared.case, reply, effect.turn, port)

    async def _grade_part(self, part: ReplyPart, effect: Grade) -> tuple[Verdict, ...]:
        """The verdicts on a part of the reply, but for an output schema, which is for the whole."""
        if not any(map(_is_of_whole, effect.checks)):
            return await self._grade_checked_part(part, effect)
        whole = tuple(filter(_is_of_whole, effect.checks))
        others = structs.replace(effect, checks=tuple(check for check in effect.checks if not _is_of_whole(check)))
        of_whole = iter(await self._grade(structs.replace(effect, checks=whole, part=None)))
        of_part = iter(await self._grade_checked_part(part, others))
        return tuple(next(of_whole if _is_of_whole(check) else of_part) for check in effect.checks)

    async def _grade_checked_part(self, part: ReplyPart, effect: Grade) -> tuple[Verdict, ...]:
        """The verdicts on a part of the reply. It is looked for once, whatever checks the reply again."""
        key = effect.turn, effect.reply.text
        if key not in self._parts:
            self._parts[key] = await take_part(part, self._context(effect, effect.reply))
        taken = self._parts[key]
        if isinstance(taken, Lack):
            return await grade(effect.checks, structs.replace(self._context(effect, effect.reply), lack=taken))
        reply = structs.replace(effect.reply, text=taken.text)
        verdicts = await grade(effect.checks, self._context(structs.replace(effect, reply=reply), reply))
        shown = taken.text if taken.text != effect.reply.text else None
        return tuple(structs.replace(taken.placed(verdict), part=shown) for verdict in verdicts)

    def _answer_check(self, call: Call) -> Awaitable[Reply | Failure]:
        return self._embedded(call) if call.kind == "embedding" else self._reply(call)

    async def _embedded(self, call: Call) -> Reply | Failure:
        """The tape has every embedding that the conversation used, whichever conversation asked for it."""
        return await self._shared(call, lambda: self._reply(call, taped=False))

    async def _shared(self, call: Call, ask: Callable[[], Awaitable[Reply | Failure]]) -> Reply | Failure:
        """The answer to a call that all conversations of a run share."""
        place = self._tape.begin(call) if self._tape is not None else 0
        answer = await self._embeddings.get(call, ask)
        if _is_missing(answer) and not any(missed is call for missed, _ in self._missing):
            answer = await ask()  # another conversation's recordings lack it; ours may not
        if self._tape is not None:
            told = Told(call.key, answer) if isinstance(answer, Reply) else Told(call.key, failure=answer)
            self._tape.end(place, told)
        return answer

    async def _reply(self, call: Call, *, taped: bool = True) -> Reply | Failure:
        """For a check: a call that is stopped has no verdict."""
        answer = await self._answer(call, taped=taped)
        if isinstance(answer, Stop) and call.kind == "tool":
            return Failure("tool", "what this tool answered here was not recorded, and it cannot be asked any more")
        if isinstance(answer, Stop):
            raise NoAnswer
        if isinstance(answer, Failure) and answer.type == CUT_OFF:
            raise _BeginAnew
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
                    if call.kind not in ("embedding", "tool"):  # whose cost is the run's, or which have none
                        (self._replies if call.kind == "candidate" else self._others).append(told.reply)
                    return told.reply
                failure = told.failure or Failure("unknown", "no answer")
                if _is_missing(failure):
                    self._missing.append((call, failure))
                return failure
        raise NoAnswer


class _Port:
    """What the checks of one turn can reach: the conversation so far, and calls that `answer` answers."""

    def __init__(
        self,
        job: Job,
        maker: CallMaker,
        answer: Callable[[Call], Awaitable[Reply | Failure]],
        effect: Grade,
        tools: ToolRounds | None,
    ) -> None:
        self.calls: list[str] = []
        self._job = job
        self._maker = maker
        self._ask = answer
        self._effect = effect
        self._tools = tools
        self._numbers: Iterator[int] = iter(())
        """Numbers for the next calls of a judge, if some are reserved."""

    def for_check(self) -> _Port:
        return _Port(self._job, self._maker, self._ask, self._effect, self._tools)

    def _answer(self, call: Call) -> Awaitable[Reply | Failure]:
        self.calls.append(call.key)
        return self._ask(call)

    @property
    def folders(self) -> tuple[str, ...]:
        suite = self._job.prepared.suite
        return str(Path(suite.path).parent), suite.root

    def question(self) -> Prompt:
        return question_at(self._job.prepared, self._effect)

    def evidence(self) -> Evidence:
        job, effect = self._job, self._effect
        prepared = job.prepared
        asked = (effect.opened or prepared.opening.question, *effect.prompts)
        said = tuple(Said(turn, *pair) for turn, pair in enumerate(zip(asked, effect.replies, strict=True), 1))
        facts = (prepared.case, self.question(), said, effect.reply, prepared.suite.formatting)
        return gather_evidence(*facts, target=prepared.target.name, trial=job.trial)

    def heard(self) -> tuple[Reply, ...]:
        return self._effect.heard

    def offered(self) -> tuple[Offered, ...]:
        return self._maker.offered or declared_in(self._job.prepared.target.settings.get("extra_body"))

    def judge_name(self, target: str | None) -> str:
        judge = judge_for(self._job.prepared, target)
        return judge.name if judge is not None else str(target)

    def ask_judge(self, messages: tuple[ChatMessage, ...], target: str | None) -> Awaitable[Reply | Failure]:
        judge = judge_for(self._job.prepared, target)
        if judge is None:
            return _no_target(target)
        shown = [one for message in self._effect.messages if message.role == "user" for one in message.pictures]
        if shown:
            messages = with_pictures(messages, shown, seen=sees_pictures(judge, shown))
        number = next(self._numbers, None)
        return self._answer(self._maker.of_target("judge", judge, self._effect.turn, messages, number))

    def reserve(self, target: str | None, count: int) -> _Port:
        port, judge = self.for_check(), judge_for(self._job.prepared, target)
        port.calls = self.calls
        port._numbers = iter(() if judge is None else self._maker.reserve(judge, count))
        return port

    def ask_other(self, target: str) -> Awaitable[Reply | Failure]:
        other = find_target(self._job.prepared.suite, target)
        if other is None:
            return _no_target(target)
        effect = self._effect
        return self._answer(self._maker.of_target("rival", other, effect.turn, effect.messages))

    def embed(self, text: str, target: str | None) -> Awaitable[Reply | Failure]:
        embedder = find_embedder(self._job.prepared.suite, target)
        if embedder is None:
            return _no_target(target)
        return self._answer(self._maker.to_embed(embedder, self._effect.turn, text))

    def carry_out(self, work: Work) -> Awaitable[Reply | Failure]:
        return self._answer(self._maker.to_work(self._effect.turn, work))

    async def ask_tool(self, name: str, arguments: str) -> ToolAnswer | Failure:
        if self._tools is None:
            return Failure("tool", "the conversation has no tools")
        return await self._tools.ask(self._effect.turn, name, arguments, self._answer)

    def post(self, post: Post) -> Awaitable[Reply | Failure]:
        return self._answer(self._maker.to_work(self._effect.turn, post))


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


def _is_of_whole(check: AnyCheck) -> bool:
    return isinstance(check, JsonSchema) and check.is_sent


def _is_missing(answer: Reply | Failure) -> bool:
    return isinstance(answer, Failure) and answer.type == NO_RECORDING


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
    if effect.context is not None:
        prompt = structs.replace(prompt, context=effect.context)
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
    said = [message_of("user", effect.opened)] if effect.opened else []
    for reply, prompt in zip_longest(replies, effect.prompts):
        said += [message_of("assistant", reply), *([] if prompt is None else [message_of("user", prompt)])]
    return structs.replace(prepared.case, messages=(*prepared.case.messages, *said))
