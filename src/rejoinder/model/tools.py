"""Tools that a model may call in a conversation: how they are declared, offered and answered, and how they fail on
purpose."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

FaultKind: TypeAlias = Literal["timeout", "error", "malformed", "truncated", "slow", "empty"]
NOT_CALLED: frozenset[FaultKind] = frozenset({"timeout", "error"})
"""Faults with which the tool itself is not called: what it does stays undone."""
MOST_ROUNDS = 10
"""How often the results of tools are handed to a model in one turn, unless the suite says otherwise."""
LONGEST_NAME = 64
"""Of a tool as models are offered it: all APIs take so many letters, digits, `_` and `-`."""


class Fault(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A failure that is wanted: at a certain call of a conversation, or at a share of all calls."""

    fault: FaultKind
    at: int | None = None
    """Which call, from 1."""
    rate: float | None = None
    seed: int = 0
    tool: str = ""
    """Of a server's tools this one alone."""
    seconds: float = 5.0
    """How long `slow` takes, and `timeout` claims to have taken."""


class ScriptedTool(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="scripted"):
    """A tool that answers from a list: each call has the next answer, and the last one stays."""

    name: str
    description: str = ""
    parameters: str = '{"type":"object","properties":{}}'
    """A JSON Schema, as JSON."""
    returns: tuple[str, ...] = ("",)
    """Texts, or other values as JSON."""
    fails: tuple[Fault, ...] = ()


class PythonTool(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="python"):
    """A function of the project. Its signature and its docstring say what it takes and does."""

    call: str
    """`module:function`"""
    fails: tuple[Fault, ...] = ()

    @property
    def name(self) -> str:
        return self.call.rpartition(":")[2]


class McpTools(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="mcp"):
    """The tools of an MCP server: a program that is talked with over its pipes, or an address."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    allow: tuple[str, ...] = ()
    """Names of tools, with `*` for any letters; all of them if it is empty."""
    timeout_s: float = 60.0
    """How long a call may take."""
    scope: Literal["run", "conversation"] = "run"
    """Whose server it is: that of the whole run, or each conversation has one."""
    fails: tuple[Fault, ...] = ()


Tool: TypeAlias = ScriptedTool | PythonTool | McpTools


def runs_code(tool: Tool) -> bool:
    """Does it run code of the project on this machine?"""
    return isinstance(tool, PythonTool) or (isinstance(tool, McpTools) and bool(tool.command))


def is_conversations_own(tool: Tool) -> bool:
    """Has each conversation a server of its own, which knows what was done before?"""
    return isinstance(tool, McpTools) and tool.scope == "conversation"


def allows(server: McpTools, name: str) -> bool:
    """May a tool of a server be offered?"""
    return not server.allow or any(fnmatchcase(name, pattern) for pattern in server.allow)


class Offered(Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool as a model is offered it."""

    name: str
    description: str
    parameters: str
    """A JSON Schema, as JSON."""
    tool: str
    """Its own name."""
    server: str = ""
    source: int = 0
    """Which of the conversation's declared tools it comes from."""


class Listed(Struct, frozen=True, omit_defaults=True):
    """A tool as its server describes it."""

    name: str
    description: str = ""
    parameters: str = "{}"


class Picture(Struct, frozen=True, gc=False):
    """An image that a tool gave back, as base64."""

    mime_type: str
    data: str


class ToolAnswer(Struct, frozen=True, omit_defaults=True):
    """What came of a call. A tool that failed says so to the model, and the conversation goes on."""

    text: str
    failed: bool = False
    pictures: tuple[Picture, ...] = ()


class FaultOutcome(Struct, frozen=True, gc=False, omit_defaults=True):
    """What became of a fault in a conversation."""

    tool: str
    fault: FaultKind
    landed: tuple[Annotated[int, Meta(ge=0)], ...] = ()
    """The turns whose calls it met."""
    at: int | None = None
    rate: float | None = None


_NO_LETTER = re.compile(r"[^A-Za-z0-9_-]")


def offered_name(server: str, tool: str) -> str:
    """The name by which a model calls a tool: `server__tool`, in letters that every API takes."""
    whole = f"{server}__{tool}" if server else tool
    plain = _NO_LETTER.sub("_", whole)
    if plain == whole and len(plain) <= LONGEST_NAME:
        return plain
    digest = blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{plain[: LONGEST_NAME - 9]}_{digest}"
