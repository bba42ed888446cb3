"""How tests drive agents: a seat in a temporary folder, a driver for it, and turns one after the other; suites whose
target is an agent; and the processes that are left of one."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import pytest

from rejoinder.model import Target
from rejoinder.providers.agents.driver import AgentTurn, Clock, Driver, Seat
from rejoinder.providers.agents.kinds import AGENTS
from rejoinder.providers.base import ProviderError
from rejoinder.providers.settings import Settings
from tests.kit import ROOT, Raw, by_case

STANDINS = ROOT / "tests/agents/standins"
SOON = 0.4
"""Seconds after which an agent that does not answer is given up; stand-ins need a tenth of a second to start."""


class Desk:
    """A place for one agent: its home, its workspace and its target's settings."""

    def __init__(self, folder: Path, agent: str, **settings: Any) -> None:
        self.agent = agent
        self.kind = AGENTS[agent]
        self.home, self.workspace = folder / "home", folder / "work"
        self.home.mkdir(exist_ok=True)
        self.workspace.mkdir(exist_ok=True)
        self.kind.make_home(self.home)
        self.owner = str(uuid4())
        self.conversation_id = str(uuid4())
        self.settings = {"executable": str(STANDINS / agent), "permissions": "allow", **settings}
        path = [str(Path(sys.executable).resolve().parent), os.environ.get("PATH", "")]
        self.environment = {
            "PATH": os.pathsep.join(path),
            "HOME": str(self.home),
            "PWD": str(self.workspace),
            **{name: value.format(home=self.home) for name, value in self.kind.variables.items()},
        }

    def driver(self, *, continues: str | None = None, **settings: Any) -> Driver:
        seat = Seat(
            workspace=self.workspace,
            home=self.home,
            environment=self.environment,
            owner=self.owner,
            conversation_id=self.conversation_id,
            continues=continues,
        )
        target = Target(name="agent", provider=self.agent, settings={**self.settings, **settings})
        return self.kind.driver(Settings(target, {}), seat)

    def talk(self, *prompts: str, continues: str | None = None, **settings: Any) -> list[AgentTurn]:
        """Turns one after the other, and then the end, which leaves no process behind."""

        async def all_turns(driver: Driver) -> list[AgentTurn]:
            return [await driver.ask(prompt, Clock()) for prompt in prompts]

        return self.use(self.driver(continues=continues, **settings), all_turns)

    def ask(self, prompt: str, **settings: Any) -> AgentTurn:
        return self.talk(prompt, **settings)[0]

    def fail(self, prompt: str, *, clock: Callable[[], Clock] = Clock, **settings: Any) -> ProviderError:
        """The failure of a turn."""

        async def one(driver: Driver) -> ProviderError:
            with pytest.raises(ProviderError) as failure:
                await driver.ask(prompt, clock())
            return failure.value

        error = self.use(self.driver(**settings), one)
        assert "Traceback" not in str(error)
        assert not error.retryable
        return error

    def use(self, driver: Driver, work: Callable[[Driver], Awaitable[Any]]) -> Any:
        async def whole() -> Any:
            try:
                async with asyncio.timeout(60):
                    return await work(driver)
            finally:
                await driver.close()
                await driver.close()
                await self.see_none_left()

        return asyncio.run(whole())

    async def see_none_left(self) -> None:
        """All its processes were ended. One that was killed may be seen for a moment longer."""
        for _ in range(100):
            left = self.processes()
            if not left:
                return
            await asyncio.sleep(0.02)
        pytest.fail(f"processes were left: {left}")

    def processes(self) -> list[str]:
        """The processes that carry the owner's mark, whatever group they are in."""
        return processes_with(f"REJOINDER_OWNER={self.owner}", "environ")


def soon() -> Clock:
    """The turn has to be over very soon."""
    return Clock(until=asyncio.get_running_loop().time() + SOON)


def silent() -> Clock:
    """The agent may be silent for a moment only."""
    return Clock(silence_s=SOON)


def processes_with(text: str, where: Literal["environ", "cmdline"]) -> list[str]:
    """The command lines of other processes that have a text among their variables or in their command."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int(process.name) != os.getpid() and text.encode() in (process / where).read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


# Agents as targets


def agent(name: str = "claude", **settings: Any) -> Raw:
    """A target that a stand-in answers for."""
    started: Raw = {"executable": str(STANDINS / name)}
    if name == "acp":
        started = {"command": [str(STANDINS / "acp_agent")]}
    return {"name": "agent", "provider": name, "permissions": "allow", **started, **settings}


def suite(target: Raw, prompt: str, *checks: Raw, **more: Any) -> Raw:
    return {
        "target": "agent",
        "targets": [target],
        "evals": [{"id": "one", "prompt": prompt, "checks": list(checks) or [{"contains": "turn 1"}], **more}],
    }


def turns_of(document: Raw, case_id: str = "one") -> list[Raw]:
    return by_case(document)[case_id]["turns"]


def follow_ups(*prompts: str) -> Raw:
    """A check that fails until all follow-ups were sent."""
    wanted: Raw = {"contains": f"turn {len(prompts) + 1}"}
    check: Raw = dict(wanted)
    for prompt in reversed(prompts):
        check = {**wanted, "prompt": prompt, "checks": [check]}
    return check
