"""What all agents have in common: where one works, what a turn of it brings, and how it is driven."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from rejoinder.model import NO_USAGE, ToolCall, Usage
from rejoinder.providers.base import ProviderError
from rejoinder.user_code.line_process import LineFault

_STATUS = re.compile(r"\bstatus:? (\d{3})\b|(?:^|failed: )(?:(?:API )?Error: )?(\d{3})\b")
_UNAUTHORISED = 401


class Seat(Struct, frozen=True, kw_only=True):
    """Where an agent works during one conversation."""

    workspace: Path
    home: Path
    """Its HOME, where it keeps settings and sessions; empty at the beginning."""
    environment: Mapping[str, str]
    """All variables that it gets, HOME and PWD among them."""
    owner: str
    """A name that all its processes inherit, by which they are found and ended."""
    conversation_id: str
    """A UUID."""
    continues: str | None = None
    """The session that it goes on with, in this home and this workspace, after rejoinder was killed."""


class Clock(Struct, frozen=True):
    """How long a turn may take."""

    until: float | None = None
    """The time of the event loop's clock at which it has to be over."""
    silence_s: float | None = None
    """How long the agent may print nothing."""


class AgentTurn(Struct, frozen=True, kw_only=True):
    """What a turn of an agent brought."""

    text: str
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """In order. One that the agent was not allowed to make has the status `denied`."""
    usage: Usage = NO_USAGE
    """Of this turn alone. `input_tokens` has cached tokens in it. NO_USAGE: the agent tells none."""
    cost: float | None = None
    """Of this turn alone, in US dollars; None where the agent tells none."""
    stop_reason: str | None = None
    """The agent's own word."""
    session: str | None = None
    """The agent's own name for the conversation."""
    model: str | None = None
    notes: tuple[str, ...] = ()
    """What the user should know, for the run's log: the agent's version, warnings it printed."""


class Driver(Protocol):
    """An agent in one conversation. The process is started at the first turn and ended by `close`, or runs once a
    turn, as the agent needs it."""

    async def ask(self, prompt: str, clock: Clock) -> AgentTurn:
        """Raises ProviderError; what was asked may have arrived, so it is never asked again."""
        ...

    async def close(self) -> None:
        """End every process of it. May be called at any time, and twice."""
        ...


def agent_error(
    message: str, *, type: str = "agent", status: int | None = None, ends_target: bool = False
) -> ProviderError:
    """A turn that failed. Agents do things before they fail, so none is tried again.

    `status`: the HTTP status by which the agent's model failed."""
    return ProviderError(message, type=type, status=status, ends_target=ends_target)


def failed(message: str, *, status: int | None = None, unauthorised: bool = False) -> ProviderError:
    """A turn that the agent says has failed. The status of its model's answer is looked for in its words."""
    if status is None and (found := _STATUS.search(message)):
        status = int(found[1] or found[2])
    return agent_error(message, status=status, ends_target=unauthorised or status == _UNAUTHORISED)


def line_error(fault: LineFault) -> ProviderError:
    """The failure of a turn whose program ended, fell silent, took too long or printed too much."""
    return agent_error(str(fault), type="timeout" if fault.kind in ("timeout", "silence") else "agent")
