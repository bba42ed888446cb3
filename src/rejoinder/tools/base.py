"""What is asked of a tool, and what comes of it. Both go through the journal, so both are values."""

from __future__ import annotations

from typing import Protocol

import msgspec
from msgspec import Struct, structs

from rejoinder.model.tools import Listed, McpTools, ScriptedTool, Tool, ToolAnswer

LONGEST_RESULT = 1 << 20
"""Characters of a result that are handed to the model and kept; a longer one is cut, and says so."""
MOST_PICTURES = 8
LARGEST_PICTURE = 8 << 20
MOST_TOOLS = 512
LARGEST_DESCRIPTION = 1 << 16


class ToolFault(Exception):
    """A tool cannot be had at all: its server does not start, has ended or breaks the protocol."""


class Listing(Struct, frozen=True):
    """Ask what tools there are."""

    tool: Tool
    is_outside = False

    @property
    def label(self) -> str:
        return f"tools of {self.tool.name}"

    @property
    def content(self) -> bytes:
        """What the answer depends on: not on keys, headers and other variables."""
        return b"list " + identity_of(self.tool)


class Use(Struct, frozen=True):
    """Call a tool."""

    tool: Tool
    name: str
    """Its own name, without its server's."""
    arguments: str
    """JSON, as the model wrote it."""
    number: int = 0
    """How often the conversation has called it before."""
    delay_s: float = 0.0
    """How much later it is called than it could be."""
    session: str = ""
    """Which of the conversations of a job it is part of, where each has a server of its own."""
    after: str = ""
    """The key of the call before it, of the same server; empty for the first one."""

    @property
    def is_outside(self) -> bool:
        """May a call have done something that outlasts a crash? Then it can be in doubt."""
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
        """Raises ToolFault."""
        ...

    async def call(self, use: Use) -> ToolAnswer:
        """Raises ToolFault."""
        ...

    async def close(self) -> None: ...


def identity_of(tool: Tool) -> bytes:
    """What a recorded answer depends on in a declared tool: what is kept secret, and how it fails, is no part of it."""
    plain = structs.replace(tool, fails=())
    if isinstance(plain, McpTools):
        plain = structs.replace(plain, env={}, headers={}, timeout_s=0.0)
    return msgspec.json.encode(plain)


def listed_of(tool: ScriptedTool) -> Listed:
    return Listed(tool.name, tool.description, tool.parameters)


def cut(text: str) -> str:
    """A result of bounded length."""
    if len(text) <= LONGEST_RESULT:
        return text
    return f"{text[:LONGEST_RESULT]}\n(cut after {LONGEST_RESULT:,} of {len(text):,} characters)"


def too_slow(seconds: float) -> ToolAnswer:
    """What a model is told where a tool takes too long, whether it does or is made to."""
    return ToolAnswer(f"the tool did not answer within {seconds:g} s", failed=True)


def read_answer(text: str) -> ToolAnswer:
    """A recorded answer. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(text, type=ToolAnswer)


def read_listed(text: str) -> tuple[Listed, ...]:
    """A recorded listing. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(text, type=tuple[Listed, ...])
