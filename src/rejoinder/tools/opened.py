"""The open tools of a run. A server starts when it is first needed, and ends with the run, or with the conversation if
each has its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import msgspec
from msgspec import Struct, structs

from rejoinder.errors import UsageError
from rejoinder.model import Suite, Target
from rejoinder.model.messages import ToolAnswer
from rejoinder.model.tools import Listed, McpTools, PythonTool, ScriptedTool, Tool, is_conversations_own
from rejoinder.tools.base import Listing, OpenTool, ToolFault, Use, listed_of
from rejoinder.user_code.programs import Guard

MOST_FAULTS = 3
"""A server that broke this often, without an answer in between, is not restarted: every other conversation would also
have to wait for it."""

_Place: TypeAlias = tuple[str, bytes]
"""The folder of the suite, and the declaration."""
Conversation: TypeAlias = tuple[int, str]
"""The number of its job, and the conversation within the job."""
_EVERY: Conversation = (-1, "")
"""The owner of servers that all conversations share."""


class OpenTools:
    """The tools of a run, by the suite that declares them."""

    def __init__(self) -> None:
        self._ready: dict[_Place, McpTools] = {}
        """Declared tools with their variables filled in."""
        self._open: dict[tuple[_Place, Conversation], _Kept] = {}
        self._health: dict[_Place, _Health] = {}
        self._owner = str(uuid4())
        self._guard: Guard | None = None
        """Ends programs if this process is killed."""

    def prepare(self, suite: Suite, tool: McpTools, environment: Mapping[str, str]) -> tuple[McpTools, dict[str, str]]:
        """A server with its variables filled in, and the secrets among them with their names. Raises UsageError."""
        ready, secrets = _filled_in(tool, environment)
        self._ready[_place(suite, tool)] = ready
        return ready, secrets

    async def perform(self, suite: Suite, work: Listing | Use, conversation: Conversation, key: str = "") -> str:
        """Do the work; return the result in recorded form. `key`: identifies a call later. Raises ToolFault."""
        kept, health = self._kept(suite, work.tool, conversation), self._health_of(suite, work.tool)
        if kept.opened is None:
            if health.faults >= MOST_FAULTS and health.why is not None:
                raise health.why
            kept.opened = self._start(suite, work.tool)
        opened, kept.last = kept.opened, key
        try:
            answer = await _ask(opened, work)
        except ToolFault as fault:
            if kept.opened is opened:  # another call of the same server may have noticed it before
                kept.opened, health.why, health.faults = None, fault, health.faults + 1
                await opened.close()
            raise
        health.faults = 0
        return answer

    def has_lost(self, suite: Suite, use: Use, conversation: Conversation) -> bool:
        """Whether the conversation has its own server that did not get the previous call. Then that call's effect is
        lost."""
        if not is_conversations_own(use.tool):
            return False
        return bool(use.after) and self._kept(suite, use.tool, conversation).last != use.after

    async def end(self, job: int) -> None:
        """End the conversations of a job, and the servers that only they use."""
        await self._close([place for place in self._open if place[1][0] == job])

    async def close(self) -> None:
        await self._close(list(self._open))
        if self._guard is not None:
            self._guard.close()
            self._guard = None

    async def _close(self, places: list[tuple[_Place, Conversation]]) -> None:
        kept = [self._open.pop(place) for place in places]
        await asyncio.gather(*(one.opened.close() for one in kept if one.opened is not None))

    def _kept(self, suite: Suite, tool: Tool, conversation: Conversation) -> _Kept:
        whose = conversation if is_conversations_own(tool) else _EVERY
        return self._open.setdefault((_place(suite, tool), whose), _Kept())

    def _health_of(self, suite: Suite, tool: Tool) -> _Health:
        return self._health.setdefault(_place(suite, tool), _Health())

    def _start(self, suite: Suite, tool: Tool) -> OpenTool:
        folders = str(Path(suite.path).parent), suite.root
        if isinstance(tool, ScriptedTool):
            return _Scripted(tool)
        if isinstance(tool, PythonTool):
            from rejoinder.tools.python_tool import PythonFunction, PythonObject

            return PythonObject(tool, folders) if tool.is_class else PythonFunction(tool, folders)
        from rejoinder.tools.mcp_server import McpServer

        if tool.command and self._guard is None:
            self._guard = Guard(self._owner)
        return McpServer(self._ready.get(_place(suite, tool), tool), folders, self._owner)


class _Kept(Struct):
    """A tool that is or was open."""

    opened: OpenTool | None = None
    last: str = ""
    """The key of its last call."""


class _Health(Struct):
    """The faults of a declared tool since its last answer, and the last reason."""

    faults: int = 0
    why: ToolFault | None = None


async def _ask(opened: OpenTool, work: Listing | Use) -> str:
    if isinstance(work, Listing):
        return msgspec.json.encode(await opened.list()).decode()
    if work.delay_s:
        await asyncio.sleep(work.delay_s)
    return msgspec.json.encode(await opened.call(work)).decode()


class _Scripted:
    def __init__(self, tool: ScriptedTool) -> None:
        self._tool = tool

    async def list(self) -> tuple[Listed, ...]:
        return (listed_of(self._tool),)

    async def call(self, use: Use) -> ToolAnswer:
        returns = self._tool.returns
        return ToolAnswer(returns[min(use.number, len(returns) - 1)])

    async def close(self) -> None:
        pass


def _place(suite: Suite, tool: Tool) -> _Place:
    # Equal declarations in two files of a project are one server, unless their folders differ.
    return str(Path(suite.path).parent), msgspec.json.encode(tool)


def _filled_in(tool: McpTools, environment: Mapping[str, str]) -> tuple[McpTools, dict[str, str]]:
    from rejoinder.suite.targets import settings_with_environment

    written: dict[str, Any] = msgspec.to_builtins(tool)
    if "${{" not in repr(written):
        return tool, {}
    try:
        settings, secrets = settings_with_environment(
            Target(name=tool.name, provider="mcp", settings=written), environment
        )
    except UsageError as error:
        error.message = error.message.replace("target `", "MCP server `", 1)
        raise
    return structs.replace(msgspec.convert(settings, McpTools), fails=tool.fails), secrets
