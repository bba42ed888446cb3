"""Requests to a tool, and their results. Both are journalled, so both are values."""

from __future__ import annotations

from typing import Protocol

import msgspec
from msgspec import Struct, structs

from rejoinder.model.messages import ToolAnswer
from rejoinder.model.tools import Listed, McpTools, ScriptedTool, Tool
from rejoinder.words.numbers import in_seconds

LONGEST_RESULT = 1 << 20
"""Maximum characters of a result that are passed to the model and kept; a longer one is cut with a note."""
MOST_PICTURES = 8
LARGEST_PICTURE = 8 << 20
MOST_TOOLS = 512
LARGEST_DESCRIPTION = 1 << 16


class ToolFault(Exception):
    """A tool is unavailable: its server does not start, has ended or breaks the protocol."""


class Listing(Struct, frozen=True):
    """A request for the list of tools."""

    tool: Tool
    is_outside = False

    @property
    def label(self) -> str:
        return f"tools of {self.tool.name}"

    @property
    def content(self) -> bytes:
        """Everything that the answer depends on: keys, headers and other variables are excluded."""
        return b"list " + identity_of(self.tool)


class Use(Struct, frozen=True):
    """A request to call a tool."""

    tool: Tool
    name: str
    """Its own name, without its server's."""
    arguments: str
    """JSON, as the model wrote it."""
    number: int = 0
    """Number of earlier calls of it in the conversation."""
    delay_s: float = 0.0
    """Delay of the call in seconds."""
    session: str = ""
    """The conversation within a job, if each conversation has its own server."""
    after: str = ""
    """The key of the previous call to the same server; empty for the first one."""

    @property
    def is_outside(self) -> bool:
        """Whether a call may have an effect that outlasts a crash. Then it can be in doubt."""
        return not isinstance(self.tool, ScriptedTool)

    @property
    def label(self) -> str:
        return self.name if self.tool.name == self.name else f"{self.tool.name} {self.name}"

    @property
    def content(self) -> bytes:
        return b"use " + identity_of(self.tool) + msgspec.json.encode((self.name, self.arguments))


class OpenTool(Protocol):
    """Tools that can be called."""

    async def list(self) -> tuple[Listed, ...]:
        """List the tools. Raises ToolFault."""
        ...

    async def call(self, use: Use) -> ToolAnswer:
        """Call a tool. Raises ToolFault."""
        ...

    async def close(self) -> None: ...


def identity_of(tool: Tool) -> bytes:
    """The parts of a declared tool that a recorded answer depends on, without secrets and deliberate failures."""
    plain = structs.replace(tool, fails=())
    if isinstance(plain, McpTools):
        plain = structs.replace(plain, env={}, headers={}, timeout_s=0.0)
    return msgspec.json.encode(plain)


def listed_of(tool: ScriptedTool) -> Listed:
    return Listed(tool.name, tool.description, tool.parameters)


def cut(text: str) -> str:
    """A result, cut to the maximum length."""
    if len(text) <= LONGEST_RESULT:
        return text
    return f"{text[:LONGEST_RESULT]}\n(cut after {LONGEST_RESULT:,} of {len(text):,} characters)"


def too_slow(seconds: float) -> ToolAnswer:
    """The answer to the model if a tool takes too long, really or deliberately."""
    return ToolAnswer(f"the tool did not answer within {in_seconds(seconds)}", failed=True)


def read_answer(text: str) -> ToolAnswer:
    """A recorded answer. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(text, type=ToolAnswer)


def read_listed(text: str) -> tuple[Listed, ...]:
    """A recorded listing. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(text, type=tuple[Listed, ...])
