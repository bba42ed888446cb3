"""The rounds of a turn with tools: calls are answered until the model has none left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TypeAlias

import msgspec
from msgspec import structs

from rejoinder.engine.call_maker import CallMaker
from rejoinder.engine.calls import Call
from rejoinder.engine.effects import Ask, Stop
from rejoinder.engine.plan import Job
from rejoinder.engine.toolbox import LONGEST_NAME, Planned, Toolbox, Used, messages_of, used, whole_turn
from rejoinder.model import NO_RECORDING, ChatMessage, Failure, Outcome, Reply, ToolCall
from rejoinder.model.messages import ToolAnswer
from rejoinder.model.tools import Listed, ScriptedTool, has_several, is_conversations_own, own_name, tool_named
from rejoinder.tools.base import Listing, Use, listed_of, read_answer, read_listed

Answer: TypeAlias = Callable[..., Awaitable[Reply | Failure | Stop]]
"""What a call is answered with."""
Shared: TypeAlias = Callable[[Call, Callable[[], Awaitable[Reply | Failure]]], Awaitable[Reply | Failure]]
"""The same for a call that all conversations of a run share."""


class ToolRounds:
    """Plays the rounds of one attempt at a conversation."""

    def __init__(self, job: Job, calls: CallMaker, answer: Answer, shared: Shared, *, clean: bool = False) -> None:
        self._toolbox = Toolbox(job, clean=clean)
        self._calls = calls
        self._answer = answer
        self._shared = shared
        self._most = job.prepared.case.max_tool_rounds
        self._orders: dict[str, asyncio.Lock] = {}
        self._broken_off: list[Reply] = []
        """Replies of turns that tools, or the model after them, have ended."""

    def completed(self, outcome: Outcome) -> Outcome:
        """The outcome with what became of faults, and of turns that came to no end."""
        faults = self._toolbox.outcomes()
        if not faults and not self._broken_off:
            return outcome
        return structs.replace(outcome, faults=faults, broken_off=tuple(self._broken_off))

    async def open(self, step: int | None) -> Failure | None:
        """Offer the tools of a turn; why they cannot be had, if they cannot."""
        for source in self._toolbox.sources(step):
            listed = await self.listed(source)
            if isinstance(listed, Failure):
                return listed
        if (why := self._toolbox.offer(step)) is not None:
            return Failure("tool", why)
        self._calls.offer(self._toolbox.offered)
        return None

    async def listed(self, source: int) -> tuple[Listed, ...] | Failure:
        """The list of a declared tool, which is asked for it once."""
        tool, known = self._toolbox.tools[source], self._toolbox.listed
        if source in known:
            return known[source]
        if isinstance(tool, ScriptedTool):
            known[source] = (listed_of(tool),)
            return known[source]
        call = self._calls.to_list(Listing(tool))
        answer = await self._shared(call, lambda: self._listing(call))
        if isinstance(answer, Failure):
            return answer
        try:
            known[source] = read_listed(answer.text)
        except msgspec.MsgspecError as error:
            return Failure("tool", f"the recorded tools of `{tool.name}` cannot be read: {error}")
        return known[source]

    async def play(self, ask: Ask, reply: Reply) -> Reply | Failure | Stop:
        """Answer the calls of a reply until the model has none left: the turn as a whole."""
        toolbox = self._toolbox.afresh() if ask.afresh else self._toolbox
        replies: list[Reply] = [reply]
        made: list[ToolCall] = []
        said: list[ChatMessage] = []
        waited_s = 0.0
        for number in range(self._most):
            planned = toolbox.plan(reply.tool_calls, ask.turn)
            uses = [None if one.use is None else self._calls.to_use(ask.turn, one.use) for one in planned]
            # All are waited for, also where one cannot be made any more: what a tool answers is recorded.
            pairs = zip(planned, uses, strict=True)
            answers = await asyncio.gather(*(self._used(*pair) for pair in pairs), return_exceptions=True)
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
                if isinstance(answer, Failure | Stop):
                    self._broken_off += replies
                    return answer
            round = [answer for answer in answers if isinstance(answer, Used)]
            made += [one.call for one in round]
            waited_s += max(one.call.duration_s or 0.0 for one in round)
            said += messages_of(reply, round, f"{ask.turn}_{number + 1}")
            answer = await self._answer(self._calls.of_round(ask, tuple(said), len(round) + 1))
            if not isinstance(answer, Reply):
                self._broken_off += replies
                return answer
            reply = answer
            replies.append(reply)
            if not reply.tool_calls:
                break
        return whole_turn(replies, made, toolbox.pending(reply.tool_calls), said, waited_s)

    async def ask(
        self, turn: int, name: str, arguments: str, answer: Callable[[Call], Awaitable[Reply | Failure]]
    ) -> ToolAnswer | Failure:
        """Call a tool for a check. The model does not hear of it: faults do not meet it, and it is not counted."""
        use = await self._use_named(name, arguments)
        if isinstance(use, Failure):
            return use
        async with self._order_of(use):
            told = await answer(self._calls.to_use(turn, use))
        if isinstance(told, Failure):
            return told
        try:
            return read_answer(told.text)
        except msgspec.MsgspecError as error:
            return Failure("tool", f"the recorded answer of tool `{name}` cannot be read: {error}")

    async def _use_named(self, name: str, arguments: str) -> Use | Failure:
        """The use of a declared tool, by its own name or as models see it. It need not be offered."""
        tools = self._toolbox.tools
        named = tool_named(tools, name)
        if named is not None:
            own = own_name(named, name) if has_several(named) else None
            return Use(named, own or name, arguments)
        for source in range(len(tools)):
            listed = await self.listed(source)
            if isinstance(listed, Failure):
                return listed
            if any(one.name == name for one in listed):
                return Use(tools[source], name, arguments)
        return Failure("tool", f"no declared tool offers `{name[:LONGEST_NAME]}`")

    def _order_of(self, use: Use | None) -> AbstractAsyncContextManager[object]:
        if use is None or not is_conversations_own(use.tool):
            return nullcontext()
        return self._orders.setdefault(use.tool.name, asyncio.Lock())

    async def _listing(self, call: Call) -> Reply | Failure:
        answer = await self._answer(call, taped=False)
        return Failure(NO_RECORDING, answer.reason) if isinstance(answer, Stop) else answer

    async def _used(self, planned: Planned, call: Call | None) -> Used | Failure | Stop:
        """What came of one call. A server that knows what was done before gets its calls one after the other."""
        answer: Reply | Failure | Stop | None = None
        if call is not None:
            async with self._order_of(planned.use):
                answer = await self._answer(call)
        if isinstance(answer, Failure | Stop):
            return answer
        try:
            return used(planned, answer)
        except msgspec.MsgspecError as error:
            return Failure("tool", f"the recorded answer of tool `{planned.call.name}` cannot be read: {error}")
