"""A call that a conversation makes, and the protocol of what answers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from msgspec import Struct

from rejoinder.checks.base import Post, Work
from rejoinder.engine.effects import Stop
from rejoinder.engine.plan import Job
from rejoinder.model import Kind, Request, Target
from rejoinder.runs.journal import Told
from rejoinder.runs.target_identity import asked_model
from rejoinder.tools.base import Listing, Use

Counter: TypeAlias = tuple[str, bool]
"""Calls are counted by the name of their target, and judges apart."""
AnyWork: TypeAlias = Work | Post | Listing | Use
"""What is done without a target: for a check, or with a tool."""


class Attempts:
    """Numbers the attempts of a call, in the order in which its conversation makes calls."""

    __slots__ = ("_counter", "_counts", "_made")

    def __init__(self, counts: dict[Counter, int], counter: Counter) -> None:
        self._counts = counts
        self._counter = counter
        self._made = 1

    def next(self) -> int:
        """The number of a further attempt."""
        self._made += 1
        self._counts[self._counter] = number = self._counts.get(self._counter, 0) + 1
        return number - 1

    def settle(self, made: int) -> None:
        """Count the attempts that a recorded answer took when it was recorded."""
        if made != self._made:
            self._counts[self._counter] = self._counts.get(self._counter, 0) + made - self._made


class Call(Struct, frozen=True):
    """A call of a target, or work on this machine when there is no target."""

    request: Request
    attempts: Attempts
    job: Job
    target: Target | None = None
    work: AnyWork | None = None
    strand: str = ""
    """Which of the conversations that a job has with its target: "" is the first."""

    @property
    def key(self) -> str:
        return self.request.key

    @property
    def kind(self) -> Kind:
        return self.request.kind


class NoAnswer(Exception):
    """No source has an answer: the conversation cannot go on for now."""


class Source(Protocol):
    """Answers calls. None means that it has no answer for this call; Stop ends the conversation."""

    asks: bool
    """True if it calls providers. It is left out once a target of the conversation was given up."""

    async def answer(self, call: Call) -> Told | Stop | None: ...


_ORDER: tuple[Kind, ...] = ("candidate", "rival", "embedding", "judge", "work", "webhook", "user", "tool")


def place_in_turn(call: Call) -> tuple[int, int, str, list[str], str]:
    """Sorts calls by content, because the order of concurrent calls is an accident."""
    request = call.request
    said = [message.content for message in request.messages]
    return request.turn, _ORDER.index(call.kind), request.target, said, request.embed or ""


class Tape:
    """The calls of a conversation in the order in which they were made, with their answers."""

    def __init__(self) -> None:
        self.calls: list[tuple[Call, Told | None]] = []

    def begin(self, call: Call) -> int:
        self.calls.append((call, None))
        return len(self.calls) - 1

    def end(self, place: int, told: Told) -> None:
        self.calls[place] = (self.calls[place][0], told)

    def unreadable(self) -> list[Call]:
        """Judge calls whose answer could not be read: a judge that is asked again is sent more messages than before.
        Both the first call and the second are listed."""
        judges = [call for call, _ in self.calls if call.kind == "judge"]
        again = {call.request.messages[:2] for call in judges if len(call.request.messages) > 2}
        return [call for call in judges if call.request.messages[:2] in again]


ModelOf: TypeAlias = Callable[[Call], str]
"""The model that a call asks for; empty if it is unknown, or where the call has no target."""


class Models:
    """The models that calls ask for, as they go out: what a `${{ VAR }}` stands for is looked up once."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}

    def __call__(self, call: Call) -> str:
        if call.target is None:
            return ""
        place = call.request.suite, call.request.target
        if place not in self._names:
            self._names[place] = asked_model(call.job.prepared.suite, call.target)
        return self._names[place]
