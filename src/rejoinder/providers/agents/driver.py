"""The parts that all agents share: a place to work, the result of a turn, and the driver protocol."""

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
    """An agent's place of work during one conversation."""

    workspace: Path
    home: Path
    """Its HOME, which holds its settings and sessions; empty at first."""
    environment: Mapping[str, str]
    """All variables that it gets, including HOME and PWD."""
    owner: str
    """A name that all its processes inherit, which is used to find and end them."""
    conversation_id: str
    """A UUID."""
    continues: str | None = None
    """The session to continue in this home and workspace after rejoinder was killed."""


class Clock(Struct, frozen=True):
    """Time limits of a turn."""

    until: float | None = None
    """The deadline, by the event loop's clock."""
    silence_s: float | None = None
    """Seconds that the agent may print nothing."""


class AgentTurn(Struct, frozen=True, kw_only=True):
    """The result of an agent's turn."""

    text: str
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """In order. The status `denied` marks a call that the agent was not allowed to make."""
    usage: Usage = NO_USAGE
    """Usage of this turn only. `input_tokens` includes cached tokens. NO_USAGE: the agent reports none."""
    cost: float | None = None
    """Cost of this turn only, in US dollars; None if the agent reports none."""
    stop_reason: str | None = None
    """The agent's own word."""
    session: str | None = None
    """The agent's own name for the conversation."""
    model: str | None = None
    notes: tuple[str, ...] = ()
    """Notes for the run's log: the agent's version, and warnings that it printed."""


class Driver(Protocol):
    """An agent in one conversation. The process starts at the first turn and ends with `close`, or runs once per turn,
    as the agent needs it."""

    async def ask(self, prompt: str, clock: Clock) -> AgentTurn:
        """Ask the agent. Raises ProviderError. The prompt may have arrived, so it is never sent again."""
        ...

    async def close(self) -> None:
        """End all its processes. Can be called at any time, and twice."""
        ...


def agent_error(
    message: str, *, type: str = "agent", status: int | None = None, ends_target: bool = False
) -> ProviderError:
    """The error of a failed turn. Agents act before they fail, so no turn is retried.

    `status`: the HTTP status by which the agent's model failed.
    """
    return ProviderError(message, type=type, status=status, ends_target=ends_target)


def failed(message: str, *, status: int | None = None, unauthorised: bool = False) -> ProviderError:
    """The error of a turn that the agent reports as failed. The HTTP status of its model is looked for in the agent's
    words."""
    if status is None and (found := _STATUS.search(message)):
        status = int(found[1] or found[2])
    return agent_error(message, status=status, ends_target=unauthorised or status == _UNAUTHORISED)


def line_error(fault: LineFault) -> ProviderError:
    """The error of a turn whose program ended, fell silent, took too long or printed too much."""
    return agent_error(str(fault), type="timeout" if fault.kind in ("timeout", "silence") else "agent")
