"""The tools of one conversation: what the model is offered, which call goes where, and which fails on purpose.

Whether a fault lands depends on the conversation alone, so it lands again at the same call when the run is resumed or
replayed. What a fault makes of an answer is computed each time; only the tool's own answer is recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from hashlib import blake2b

from msgspec import Struct, structs

from rejoinder.engine.plan import Job
from rejoinder.json_values import decoded
from rejoinder.model import ChatMessage, Reply, ToolCall
from rejoinder.model.messages import ToolAnswer
from rejoinder.model.tools import (
    NOT_CALLED,
    Fault,
    FaultOutcome,
    Listed,
    McpTools,
    Offered,
    Tool,
    offered_name,
)
from rejoinder.spelling import did_you_mean
from rejoinder.tools.base import Use, read_answer, too_slow

MOST_AT_ONCE = 64
"""Calls of one reply that are answered; a model that makes more is told so."""
MOST_NAMED = 10
"""Tools of a server that a message names."""
LONGEST_NAME = 100
"""Characters of a name that is no tool's in what its model is told."""


class Planned(Struct, frozen=True):
    """What becomes of a call: it is made, or answered without."""

    call: ToolCall
    """With the tool's own name and its server."""
    use: Use | None = None
    answer: ToolAnswer | None = None
    fault: Fault | None = None


def spoils_nothing(tool: Tool, listed: Iterable[Listed]) -> str | None:
    """What is wrong with a fault that names a tool which is not offered, if one does."""
    names = [one.name for one in listed]
    for fault in tool.fails:
        if fault.tool and fault.tool not in names:
            meant = did_you_mean(fault.tool, names) or f"; it offers {', '.join(names[:MOST_NAMED])}"
            return f"`fails` names the tool `{fault.tool}`, which `{tool.name}` does not offer{meant}"
    return None


class Toolbox:
    """The tools of one conversation, in one attempt at it."""

    def __init__(self, job: Job, *, clean: bool = False) -> None:
        """`clean`: no text is put into answers."""
        self._clean = clean
        self.tools = job.prepared.tools
        self.listed: dict[int, tuple[Listed, ...]] = {}
        """The list of each declared tool, by its place in `tools`."""
        self._offers = job.prepared.offers
        self._by_name: dict[str, Offered] = {}
        """The tools that are offered in this turn."""
        self._seed = f"{job.prepared.case.id} {job.prepared.target.name} {job.prepared.variant} {job.trial}"
        self._made: Counter[tuple[int, str]] = Counter()
        """Calls of each tool, and of each declaration as a whole under the name ""."""
        self._landed: dict[tuple[int, int], list[int]] = {}
        """The turns in which each fault of each declaration landed."""

    @property
    def offered(self) -> tuple[Offered, ...]:
        return tuple(self._by_name.values())

    def sources(self, step: int | None) -> Sequence[int]:
        """The declared tools that are offered in a turn."""
        return self._offers[step - 1] if self._offers and step is not None else range(len(self.tools))

    def offer(self, step: int | None) -> str | None:
        """Offer what the declared tools of a turn have; why that cannot be offered, if it cannot."""
        if self._by_name and not self._offers:
            return None
        self._by_name = {}
        for source in self.sources(step):
            tool = self.tools[source]
            if (why := spoils_nothing(tool, self.listed[source])) is not None:
                return why
            server = tool.name if isinstance(tool, McpTools) else ""
            for one in self.listed[source]:
                name = offered_name(server, one.name)
                if name in self._by_name:
                    return f"two tools are called `{name}`"
                self._by_name[name] = Offered(name, one.description, one.parameters, one.name, server, source)
        return None

    def afresh(self) -> Toolbox:
        """The same tools for a conversation beside this one: its calls are counted from the beginning."""
        other = copy(self)
        other._made, other._landed = Counter(), {}
        return other

    def plan(self, calls: tuple[ToolCall, ...], turn: int) -> list[Planned]:
        """What becomes of each call of a reply, in order."""
        return [self._plan(call, place, turn) for place, call in enumerate(calls)]

    def pending(self, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
        """Calls that are not answered, with the tools' own names."""
        return tuple(structs.replace(self._known(call), status="pending") for call in calls)

    def outcomes(self) -> tuple[FaultOutcome, ...]:
        """What became of every fault of the conversation's tools."""
        return tuple(
            FaultOutcome(
                tool=fault.tool or tool.name,
                fault=fault.fault,
                landed=tuple(self._landed.get((source, place), ())),
                at=fault.at,
                rate=fault.rate,
                attack=fault.attack,
            )
            for source, tool in enumerate(self.tools)
            for place, fault in enumerate(tool.fails)
        )

    def _plan(self, call: ToolCall, place: int, turn: int) -> Planned:
        offered, known = self._by_name.get(call.name), self._known(call)
        if place >= MOST_AT_ONCE:
            return Planned(known, answer=ToolAnswer(f"more than {MOST_AT_ONCE} calls at once", failed=True))
        if offered is None:
            names = f"the tools are {', '.join(self._by_name)}" if self._by_name else "no tool is offered now"
            what = f"there is no tool `{call.name[:LONGEST_NAME]}`; {names}"
            return Planned(call, answer=ToolAnswer(what, failed=True))
        tool = self.tools[offered.source]
        arguments = call.arguments.strip() or "{}"
        if not isinstance(decoded(arguments), dict):
            return Planned(known, answer=ToolAnswer("the arguments are no JSON object", failed=True))
        number = self._made[offered.source, offered.tool]
        self._made[offered.source, offered.tool] += 1
        self._made[offered.source, ""] += 1
        fault = self._fault(tool, offered, turn)
        if fault is not None and fault.fault == "says" and self._clean:
            fault = None
        if fault is not None and fault.fault in NOT_CALLED:
            return Planned(known, answer=_failing(fault), fault=fault)
        delay_s = fault.seconds if fault is not None and fault.fault == "slow" else 0.0
        return Planned(known, Use(tool, offered.tool, arguments, number, delay_s), fault=fault)

    def _known(self, call: ToolCall) -> ToolCall:
        """With the tool's own name and its server."""
        offered = self._by_name.get(call.name)
        return call if offered is None else structs.replace(call, name=offered.tool, server=offered.server)

    def _fault(self, tool: Tool, offered: Offered, turn: int) -> Fault | None:
        """The first fault that meets the call that was just counted."""
        due: Fault | None = None
        for place, fault in enumerate(tool.fails):
            if fault.tool and fault.tool != offered.tool:
                continue
            number = self._made[offered.source, offered.tool if fault.tool else ""]
            if due is None and self._is_due(fault, (offered.source, place), number):
                due = fault
                self._landed.setdefault((offered.source, place), []).append(turn)
        return due

    def _is_due(self, fault: Fault, place: tuple[int, int], number: int) -> bool:
        if fault.rate is None:
            return number == (fault.at or 1)
        drawn = blake2b(f"{fault.seed} {place} {number} {self._seed}".encode("utf-8", "surrogatepass"), digest_size=8)
        return int.from_bytes(drawn.digest()) < fault.rate * (1 << 64)


def _failing(fault: Fault) -> ToolAnswer:
    if fault.fault == "timeout":
        return too_slow(fault.seconds)
    return ToolAnswer("the tool failed: internal error", failed=True)


def spoilt(answer: ToolAnswer, fault: Fault | None) -> ToolAnswer:
    """The answer of a tool after a fault."""
    text, kind = answer.text, None if fault is None else fault.fault
    if fault is not None and kind == "says":
        parts = {"after": (text, fault.text), "before": (fault.text, text), "instead": (fault.text,)}[fault.where]
        return structs.replace(answer, text="\n".join(filter(None, parts)))
    if kind == "empty":
        return ToolAnswer("")
    if kind == "truncated":
        return ToolAnswer(text[: len(text) // 2], answer.failed)
    if kind == "malformed":
        return ToolAnswer(f'{text[: len(text) // 2]}\ufffd{{"', answer.failed)
    return answer


class Used(Struct, frozen=True):
    """A call of a tool with what came of it."""

    call: ToolCall
    answer: ToolAnswer


def used(planned: Planned, reply: Reply | None) -> Used:
    """`reply`: the recorded answer of the tool, if it was called."""
    answer = planned.answer if reply is None else spoilt(read_answer(reply.text), planned.fault)
    assert answer is not None
    call = structs.replace(
        planned.call,
        result=answer.text,
        status="failed" if answer.failed else "completed",
        started_at=None if reply is None else reply.started_at,
        duration_s=None if reply is None else reply.latency_s,
        fault=None if planned.fault is None else planned.fault.fault,
    )
    return Used(call, answer)


def messages_of(reply: Reply, round: list[Used], place: str) -> list[ChatMessage]:
    """A reply that calls tools, and what they answered, as the model is shown them. Some servers give calls no id, or
    two calls one id: then `place` makes them differ from each other and from those of other rounds."""
    ids = [call.id for call in reply.tool_calls]
    calls = tuple(
        call if call.id and ids.count(call.id) == 1 else structs.replace(call, id=f"call_{place}_{number}")
        for number, call in enumerate(reply.tool_calls, 1)
    )
    answers = [
        ChatMessage("tool", one.answer.text, (), call.id, one.answer.pictures, one.answer.failed)
        for call, one in zip(calls, round, strict=True)
    ]
    return [ChatMessage("assistant", reply.text, calls, wanted_back=reply.wanted_back), *answers]


def whole_turn(
    replies: list[Reply], made: list[ToolCall], left: tuple[ToolCall, ...], said: list[ChatMessage], tools_s: float
) -> Reply:
    """The last reply of a turn, with all that it took to come to it. `left`: calls that were not answered, because
    there were too many rounds."""
    first, last = replies[0], replies[-1]
    costs = [one.cost for one in replies]
    prices = [one.price for one in replies if one.price is not None]
    return structs.replace(
        last,
        usage=sum((one.usage for one in replies[1:]), first.usage),
        cost=None if None in costs else sum(filter(None, costs)),
        price=sum(prices[1:], prices[0]) if len(prices) == len(replies) else None,
        latency_s=sum(one.latency_s or 0.0 for one in replies) + tools_s,
        tool_calls=(*made, *left),
        finish_reason="tool_rounds" if left else last.finish_reason,
        thinking="\n\n".join(one.thinking for one in replies if one.thinking) or None,
        started_at=first.started_at,
        retries=sum(one.retries for one in replies),
        waited_s=sum(one.waited_s for one in replies),
        cached=all(one.cached for one in replies),
        before=tuple(said),
        wanted_back=None,
    )
