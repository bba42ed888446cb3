"""Sources of answers: one protocol (`Source` in calls.py) and one small class for each place that an answer can come
from. The player asks its sources in order, and the first that has an answer gives it.

A run calls providers (`Live`); resuming, replaying, caching, grading anew and forking only choose other sources, as the
value `Answers` of the run's options says.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Protocol

from msgspec import structs

from rejoinder.checks.base import Post
from rejoinder.engine.calls import AnyWork, Call, Source, Tape
from rejoinder.engine.effects import Stop
from rejoinder.engine.journal_writer import Journal
from rejoinder.engine.plan import place_of
from rejoinder.errors import RejoinderError
from rejoinder.model import NO_RECORDING, Failure, Kind, Reply
from rejoinder.model.forks import Fork
from rejoinder.model.results import Place
from rejoinder.runs.journal import Told


class OnceSource(Source, Protocol):
    """A source that gives each of its answers only once."""

    def consume(self, call: Call) -> Told | None:
        """The answer to a call, which is used up."""
        ...


class JournalSource:
    """The answers that a journal holds. `once`: sources whose answer to the same call counts as used."""

    asks = False

    def __init__(
        self,
        told: Mapping[str, Told],
        price: Callable[[Call, Reply], Reply] = lambda _, reply: reply,
        *,
        without: Collection[str] = (),
        once: Iterable[OnceSource] = (),
    ) -> None:
        """`without`: names of targets that use another model now, so that nothing is recorded of them."""
        self._told = told
        self._price = price
        self._without = without
        self._once = tuple(once)

    async def answer(self, call: Call) -> Told | None:
        told = self._told.get(call.key)
        if told is None or (self._without and call.request.target in self._without):
            return None
        for source in self._once:
            source.consume(call)
        if told.reply is None or told.reply.cost is not None or call.target is None:
            return told
        return structs.replace(told, reply=self._price(call, told.reply))


class Journaled:
    """Records the answers of another source in this run's journal, so that the run can be resumed and shown like any
    other."""

    asks = False

    def __init__(self, source: Source, journal: Journal) -> None:
        self._source = source
        self._journal = journal

    async def answer(self, call: Call) -> Told | Stop | None:
        told = await self._source.answer(call)
        if not isinstance(told, Told):
            return told
        told = structs.replace(told, key=call.key)
        await self._journal.told(told)
        return told


class Allowed:
    """Lets only some kinds of calls through to another source. `closed`: targets that could not be opened, and why."""

    def __init__(
        self, source: Source, kinds: Collection[Kind], closed: Mapping[tuple[str, str], RejoinderError]
    ) -> None:
        self.asks = bool(set(kinds) - {"work"})
        self._source = source
        self._kinds = kinds
        self._closed = closed

    async def answer(self, call: Call) -> Told | Stop | None:
        if call.kind not in self._kinds:
            return None
        if self._closed and (why := self._closed.get((call.request.suite, call.request.target))) is not None:
            return Told(call.key, failure=Failure("target", why.message))
        return await self._source.answer(call)


class FailIfMissing:
    """A call without a recorded answer is an error that says what is recorded instead. Conversations that were skipped
    in the earlier run are skipped again."""

    asks = False

    def __init__(self, explain: Callable[[Call], Awaitable[str]], skipped: Collection[Place] = ()) -> None:
        self._explain = explain
        self._skipped = skipped

    async def answer(self, call: Call) -> Told | None:
        if place_of(call.job) in self._skipped:
            return None
        return Told(call.key, failure=Failure(NO_RECORDING, await self._explain(call)))


class EndIfMissing:
    """A conversation ends where the candidate, its user or a tool has no recorded answer. One that was skipped is
    skipped again."""

    asks = False

    def __init__(self, skipped: Collection[Place] = ()) -> None:
        self._skipped = skipped

    async def answer(self, call: Call) -> Stop | None:
        if call.kind not in ("candidate", "user", "tool") or place_of(call.job) in self._skipped:
            return None
        return Stop(f"turn {call.request.turn} was not recorded")


class ForkPrefix:
    """The answers of another run's conversation before a turn, by position: from that turn on it takes another
    course, and keys no longer match.

    A target that keeps the conversation itself is asked what it was asked before, in a new session. Its replies are new
    ones, so recorded verdicts count only for equal words."""

    asks = False

    def __init__(self, tape: Tape, fork: Fork) -> None:
        self._turn, self._said_again = fork.turn, frozenset(fork.said_again)
        self._tape = [(call, told) for call, told in tape.calls if told is not None and call.request.turn < fork.turn]
        self._left: dict[int, list[tuple[Call, Told]]] = {}
        """What is left for each conversation: several trials and targets may take the same course up to the turn."""

    async def answer(self, call: Call) -> Told | None:
        return self.consume(call)

    def consume(self, call: Call) -> Told | None:
        if call.request.turn >= self._turn:
            return None
        left = self._left.setdefault(call.job.number, list(self._tape))
        place = call.kind, call.request.turn
        near = [taped for taped in left if (taped[0].kind, taped[0].request.turn) == place]
        if call.job.prepared.target.name in self._said_again and call.kind != "user":
            if call.kind == "candidate":
                return _refuse_other_words(call, near)
            # What a check's own code finds may lie in a workspace, which is a new one.
            near = [taped for taped in near if call.work is None and _likeness(taped[0], call)[0]]
        if not near:
            return None
        if call.kind == "tool":  # which answers what it was asked, and nothing like it
            near = [taped for taped in near if _content(taped[0].work) == _content(call.work)]
            if not near:
                return None
        # Judges are called at the same time, so content tells them apart before their order does.
        nearest = max(near, key=lambda taped: _likeness(taped[0], call))
        left.remove(nearest)
        return nearest[1]


def _refuse_other_words(call: Call, recorded: list[tuple[Call, Told]]) -> Told | None:
    """None if the user says to the target what was recorded, so that it is asked."""
    said = [_last_words(taped) for taped, _ in recorded]
    if not said or _last_words(call) in said:
        return None
    turn = call.request.turn
    message = (
        f"the conversation took another course in turn {turn}, before the fork: the target replied differently when it"
        " was asked again, and other words than the recorded ones would follow"
    )
    return Told(call.key, failure=Failure("fork", message))


def _last_words(call: Call) -> str:
    return next((message.content for message in reversed(call.request.messages) if message.role == "user"), "")


def _likeness(call: Call, other: Call) -> tuple[bool, bool]:
    """How near two calls of a turn are: the same content comes before the same name."""
    contents = [(one.request.messages, one.request.embed, _content(one.work)) for one in (call, other)]
    return contents[0] == contents[1], call.request.target == other.request.target


def _content(work: AnyWork | None) -> object:
    return work if work is None or isinstance(work, Post) else (work.label, work.content)
