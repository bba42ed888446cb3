"""Code shared by agents that print events as JSON lines: reading their output, and assembling their tool calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from rejoinder.model import ToolCall
from rejoinder.model.messages import ToolStatus
from rejoinder.providers.agents.commands import start
from rejoinder.providers.agents.driver import Clock, Seat, agent_error, line_error
from rejoinder.providers.base import ProviderError
from rejoinder.user_code.line_process import LineFault, LineProcess

SETTLE_S = 5.0
"""Seconds that a program may keep running after its turn: it writes its history then."""


class Turn(Protocol):
    """A turn that is being received."""

    @property
    def over(self) -> bool:
        """Whether the agent reported the end of the turn."""
        ...

    def take(self, event: Mapping[str, Any]) -> None: ...


class WholeTurn(Turn, Protocol):
    """A turn that fills the whole life of a process."""

    @property
    def session(self) -> str:
        """The agent's name for the conversation; empty until it reports one."""
        ...

    def failure(self, process: LineProcess) -> ProviderError | None:
        """Why this process's turn failed; None if it did not fail."""
        ...


class OncePerTurn:
    """A conversation with an agent that runs once per turn: each process continues the session of the one before."""

    def __init__(self, seat: Seat, called: str) -> None:
        self._seat = seat
        self._called = called
        self._session = seat.continues
        self._process: LineProcess | None = None

    async def play(self, words: tuple[str, ...], turn: WholeTurn, prompt: str, clock: Clock) -> None:
        """Raises ProviderError."""
        process = self._process = start(words, self._seat, self._called)
        try:
            process.send_text(prompt)
            await read_turn(process, turn, clock)
            if failure := turn.failure(process):
                raise failure
        finally:
            self._session = turn.session or self._session
            await self.close()

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.close()


async def read_turn(process: LineProcess, turn: Turn, clock: Clock) -> None:
    """Read what a program prints in its only turn until it exits. Once the turn is over, it has little time to exit.

    Raises ProviderError if reading fails before the turn is over.
    """
    loop = asyncio.get_running_loop()
    settled: float | None = None
    while True:
        settled = (settled or loop.time() + SETTLE_S) if turn.over else None
        try:
            event = await (receive(process, clock) if settled is None else receive(process, Clock(settled)))
        except ProviderError:
            if turn.over:
                return
            raise
        if event is None:
            return
        turn.take(event)


async def receive(process: LineProcess, clock: Clock) -> Mapping[str, Any] | None:
    """The next event; None when the program has ended. Raises ProviderError."""
    try:
        return await process.receive(silence_s=clock.silence_s, until=clock.until)
    except LineFault as fault:
        raise line_error(fault) from None


def ended_early(process: LineProcess, called: str) -> ProviderError:
    """The failure of a program that ended without an answer."""
    code = process.exit_code
    if code != 0:
        return agent_error(str(process.ended()))
    said = process.complaint
    return agent_error(f"{called} ended without an answer{f': {said}' if said else ''}")


class Calls:
    """Tool calls in the order in which they began."""

    def __init__(self) -> None:
        self._calls: dict[str, ToolCall] = {}
        self._began: dict[str, float] = {}

    def begin(self, id: str, name: str, arguments: Any) -> None:
        """Begin a call. If it is reported again, only its name and arguments change."""
        known = self._calls.get(id)
        call = known or ToolCall(name, id=id, status="pending", started_at=time.time())
        self._calls[id] = msgspec.structs.replace(call, name=name, arguments=msgspec.json.encode(arguments).decode())
        self._began.setdefault(id, time.monotonic())

    def end(self, id: str, result: str | None, status: ToolStatus) -> None:
        """End a call. A denied call stays denied, whatever is reported later."""
        call = self._calls.get(id)
        if call is not None:
            status = "denied" if call.status == "denied" else status
            duration = time.monotonic() - self._began[id]
            self._calls[id] = msgspec.structs.replace(call, result=result, status=status, duration_s=duration)

    def deny(self, id: str) -> None:
        call = self._calls.get(id)
        if call is not None:
            self._calls[id] = msgspec.structs.replace(call, status="denied")

    def has(self, id: str) -> bool:
        return id in self._calls

    def all(self) -> tuple[ToolCall, ...]:
        return tuple(self._calls.values())
