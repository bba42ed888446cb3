"""The open tools of a run: each server is started once, when it is first needed, and ended with the run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import msgspec
from msgspec import structs

from rejoinder.errors import UsageError
from rejoinder.model import Suite, Target
from rejoinder.model.tools import Listed, McpTools, PythonTool, ScriptedTool, Tool, ToolAnswer
from rejoinder.tools.base import Listing, OpenTool, ToolFault, Use, listed_of
from rejoinder.user_code.programs import Guard

MOST_FAULTS = 3
"""A server that broke so often is not started again: every other conversation would wait for it as well."""

_Place: TypeAlias = tuple[str, bytes]
"""The folder of the suite, and the declaration."""


class OpenTools:
    """The tools of a run, by the suite that declares them."""

    def __init__(self) -> None:
        self._ready: dict[_Place, McpTools] = {}
        """Declared tools with their variables filled in."""
        self._open: dict[_Place, _Kept] = {}
        self._owner = str(uuid4())
        self._guard: Guard | None = None
        """Ends programs should this process be killed."""

    def prepare(self, suite: Suite, tool: McpTools, environment: Mapping[str, str]) -> tuple[McpTools, dict[str, str]]:
        """A server with its variables filled in, and the secrets among them, each with its name. Raises UsageError."""
        ready, secrets = _filled_in(tool, environment)
        self._ready[_place(suite, tool)] = ready
        return ready, secrets

    async def perform(self, suite: Suite, work: Listing | Use) -> str:
        """What came of it, as it is recorded. Raises ToolFault."""
        kept = self._open.setdefault(_place(suite, work.tool), _Kept())
        async with kept.opening:
            if kept.opened is None:
                if kept.faults >= MOST_FAULTS and kept.why is not None:
                    raise kept.why
                kept.opened = self._start(suite, work.tool)
        opened = kept.opened
        try:
            if isinstance(work, Listing):
                listed = await opened.list()
                return msgspec.json.encode(listed).decode()
            if work.delay_s:
                await asyncio.sleep(work.delay_s)
            return msgspec.json.encode(await opened.call(work)).decode()
        except ToolFault as fault:
            if kept.opened is opened:  # another call of the same server may have noticed it before
                kept.opened, kept.why, kept.faults = None, fault, kept.faults + 1
                await opened.close()
            raise

    async def close(self) -> None:
        opened = [kept.opened for kept in self._open.values() if kept.opened is not None]
        self._open.clear()
        await asyncio.gather(*(one.close() for one in opened))
        if self._guard is not None:
            self._guard.close()
            self._guard = None

    def _start(self, suite: Suite, tool: Tool) -> OpenTool:
        folders = str(Path(suite.path).parent), suite.root
        if isinstance(tool, ScriptedTool):
            return _Scripted(tool)
        if isinstance(tool, PythonTool):
            from rejoinder.tools.python_tool import PythonFunction

            return PythonFunction(tool, folders)
        from rejoinder.tools.mcp_server import McpServer

        if tool.command and self._guard is None:
            self._guard = Guard(self._owner)
        return McpServer(self._ready.get(_place(suite, tool), tool), folders, self._owner)


class _Kept:
    """An open tool, or why it is not open."""

    def __init__(self) -> None:
        self.opening = asyncio.Lock()
        self.opened: OpenTool | None = None
        self.faults = 0
        self.why: ToolFault | None = None


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
    # Equal declarations in two files of a project are one server, unless they lie in different folders.
    return str(Path(suite.path).parent), msgspec.json.encode(tool)


def _filled_in(tool: McpTools, environment: Mapping[str, str]) -> tuple[McpTools, dict[str, str]]:
    from rejoinder.suite import settings_with_environment

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
