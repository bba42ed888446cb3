"""A service of the user's: a program that is started once in a run, waited for, and ended with the run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import uuid4

from msgspec import Struct

from rejoinder.errors import ShutDown
from rejoinder.user_code.processes import how_ended
from rejoinder.user_code.programs import Guard, ProcessFault, Program, fulfil, within
from rejoinder.user_code.service_output import ServiceOutput
from rejoinder.words.numbers import in_seconds

ENDING_S = 3.0
"""Seconds that a service has to end when it is asked to."""
NOTICING_S = 1.0
"""Seconds after a connection broke off in which the end of the service explains it."""


class ServiceFault(Exception):
    """A service cannot be started, is not ready in time, or has ended. The message says which."""


class ServiceCommand(Struct, frozen=True, kw_only=True):
    words: tuple[str, ...]
    folder: Path
    environment: tuple[tuple[str, str], ...]
    line: str = ""
    """The text in its output that says that it is ready; empty: an address tells."""
    timeout_s: float


class ServiceProcess:
    """One service. `answers` waits until it is ready; `write` gets its output in lines."""

    def __init__(
        self,
        command: ServiceCommand,
        *,
        answers: Callable[[], Awaitable[None]] | None,
        write: Callable[[list[str]], None],
    ) -> None:
        self._command = command
        self._answers = answers
        self._output = ServiceOutput(write, command.line)
        self._owner = str(uuid4())
        self._guard: Guard | None = None
        """Ends the service if this process is killed."""
        self._program: Program | None = None
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Wait no longer for it to become ready."""
        self._stopped.set()

    async def start(self) -> None:
        """Start it and wait until it is ready. Raises ServiceFault, or ShutDown if the run has stopped waiting."""
        command = self._command
        if self._stopped.is_set():
            raise ShutDown
        self._guard = Guard(self._owner)
        said: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._output.found = lambda: fulfil(said)
        try:
            self._program = Program(
                command.words,
                command.folder,
                dict(command.environment),
                self._output.take,
                self._owner,
                self._output.take_errors,
            )
        except ProcessFault as fault:
            raise ServiceFault(f"cannot be started: {fault}") from None
        ready = asyncio.ensure_future(self._answers() if self._answers is not None else _wait_for(said))
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            over = ready, self._program.exited, stopped
            await asyncio.wait(over, timeout=command.timeout_s, return_when="FIRST_COMPLETED")
            self._judge(ready)
        finally:
            for waiting in (ready, stopped):
                waiting.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await waiting

    def _judge(self, ready: asyncio.Future[None]) -> None:
        """Raises what the wait has shown, unless it is ready."""
        assert self._program is not None
        if self._program.exited.done():
            raise self._fault(f"{self._how_ended()} before it was ready")
        if self._stopped.is_set():
            raise ShutDown
        if not ready.done():
            raise self._fault(f"was not ready within {in_seconds(self._command.timeout_s)}")
        ready.result()

    async def refuse_ended(self, *, soon: bool = False) -> None:
        """Raises ServiceFault if it has ended; `soon`: or ends in a moment."""
        assert self._program is not None
        if soon:
            await within(self._program.exited, NOTICING_S)
        if self._program.exited.done():
            raise self._fault(f"{self._how_ended()} during the run")

    async def close(self) -> None:
        """End it and all processes that it started."""
        program, self._program = self._program, None
        try:
            if program is not None:
                await _end(program)
                self._output.close()
        finally:
            guard, self._guard = self._guard, None
            if guard is not None:
                guard.close()

    def _how_ended(self) -> str:
        assert self._program is not None
        return how_ended(self._program.exited.result())

    def _fault(self, what: str) -> ServiceFault:
        self._output.close()
        said = self._output.last_lines
        return ServiceFault(f"{what}; it printed:\n" + "\n".join(said) if said else f"{what}, and printed nothing")


async def _end(program: Program) -> None:
    try:
        if not program.drained.done():
            await program.end(politely=True, grace_s=ENDING_S)
    finally:
        await program.put_down(well=False)


async def _wait_for(future: asyncio.Future[None]) -> None:
    await asyncio.wait([future])
