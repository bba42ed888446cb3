"""Tools that a model may call in a conversation: declared, offered and answered tools, and their deliberate
failures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Annotated, Any, Literal, TypeAlias, TypeGuard, cast

import msgspec
from msgspec import Meta, Struct

FaultKind: TypeAlias = Literal["timeout", "error", "malformed", "truncated", "slow", "empty", "says"]
"""`says` is not a failure: it puts a text into an answer, to see whether the model obeys it."""
NOT_CALLED: frozenset[FaultKind] = frozenset({"timeout", "error"})
"""Faults that replace the call: the tool itself is not called and has no effect."""
MOST_ROUNDS = 10
"""Maximum rounds of tool results in one turn, unless the suite sets it."""
LONGEST_NAME = 64
"""Maximum length of a tool name that all APIs accept. Allowed are letters, digits, `_` and `-`."""


class Fault(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A deliberate failure: at a certain call of a conversation, or at a share of all calls."""

    fault: FaultKind
    at: int | None = None
    """The number of the call, from 1."""
    rate: float | None = None
    seed: int = 0
    tool: str = ""
    """The only tool of a server that it applies to."""
    seconds: float = 5.0
    """Seconds that `slow` takes, and that `timeout` claims to have taken."""
    text: str = ""
    """The text that `says` puts into the answer."""
    where: Literal["after", "before", "instead"] = "after"
    """The place of that text: after or before the tool's own answer, or in its place."""
    attack: str | None = None
    """The name of the check that fails if the model obeys the text; by default every `canary`."""


class ScriptedTool(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="scripted"):
    """A tool that answers from a list: each call gets the next answer, and the last one repeats."""

    name: str
    description: str = ""
    parameters: str = '{"type":"object","properties":{}}'
    """A JSON Schema, as JSON."""
    returns: tuple[str, ...] = ("",)
    """Texts, or other values as JSON."""
    fails: tuple[Fault, ...] = ()


class PythonTool(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="python"):
    """A function of the project, or a class with an object for each conversation. Signatures and docstrings describe
    functions and methods."""

    call: str
    """`module:function`, or `module:Class`"""
    is_class: bool = False
    """Whether it is a class. The public methods of its objects are the tools."""
    allow: tuple[str, ...] = ()
    """Names of methods, with `*` for any letters; empty: all public ones."""
    fails: tuple[Fault, ...] = ()

    @property
    def name(self) -> str:
        return self.call.rpartition(":")[2]


class McpTools(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="mcp"):
    """The tools of an MCP server: a program that speaks over its pipes, or an address."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    allow: tuple[str, ...] = ()
    """Names of tools, with `*` for any letters; empty: all tools."""
    timeout_s: float = 60.0
    """Time limit of a call, in seconds."""
    scope: Literal["run", "conversation"] = "run"
    """The server's lifetime: one for the whole run, or one per conversation."""
    fails: tuple[Fault, ...] = ()


Tool: TypeAlias = ScriptedTool | PythonTool | McpTools


def join_tools(first: tuple[Tool, ...], second: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """The tools of two places. A tool that is declared in both, in the same words, is one tool."""
    return (*first, *[tool for tool in second if tool not in first]) if first else second


def runs_code(tool: Tool) -> bool:
    """Whether it runs code of the project on this machine."""
    return isinstance(tool, PythonTool) or (isinstance(tool, McpTools) and bool(tool.command))


def is_conversations_own(tool: Tool) -> bool:
    """Whether each conversation has its own server or object, which remembers earlier calls."""
    return (
        tool.is_class if isinstance(tool, PythonTool) else isinstance(tool, McpTools) and tool.scope == "conversation"
    )


def has_several(tool: Tool) -> TypeGuard[McpTools | PythonTool]:
    """Whether a declaration stands for several tools: a server, or a class."""
    return isinstance(tool, McpTools) or (isinstance(tool, PythonTool) and tool.is_class)


def allows(tool: McpTools | PythonTool, name: str) -> bool:
    """Whether a tool of a server, or a method of a class, may be offered."""
    return not tool.allow or any(fnmatchcase(name, pattern) for pattern in tool.allow)


class Offered(Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool in the form that a model sees."""

    name: str
    description: str
    parameters: str
    """A JSON Schema, as JSON."""
    tool: str
    """The tool's own name."""
    server: str = ""
    source: int = 0
    """The position of its declaration in the conversation's tools."""


class Listed(Struct, frozen=True, omit_defaults=True):
    """A tool in its server's description."""

    name: str
    description: str = ""
    parameters: str = "{}"


def declared_in(body: Any) -> tuple[Offered, ...]:
    """The tools that a target's own fields of a request (`extra_body`) declare, in the form of any API."""
    given = _mapping(body)
    entries = [*_list(given.get("tools")), *_list(given.get("functions"))]
    for entry in list(entries):
        entries += _list(_mapping(entry).get("functionDeclarations"))
    found: list[Offered] = []
    for entry in map(_mapping, entries):
        one = _mapping(entry.get("function", entry))
        name, about = one.get("name"), one.get("description")
        if isinstance(name, str):
            schema = _mapping(one.get("parameters", one.get("input_schema")))
            found.append(Offered(name, str(about or ""), msgspec.json.encode(schema).decode(), name))
    return tuple(found)


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


class FaultOutcome(Struct, frozen=True, gc=False, omit_defaults=True):
    """The outcome of a fault in a conversation."""

    tool: str
    fault: FaultKind
    landed: tuple[Annotated[int, Meta(ge=0)], ...] = ()
    """The turns whose calls it hit."""
    at: int | None = None
    rate: float | None = None
    attack: str | None = None
    """For `says`: the name of the check that fails if the model obeys."""


def tool_named(tools: Iterable[Tool], name: str) -> Tool | None:
    """The declared tool of this name, as models see it (`SERVER__TOOL`) or by its own; None if only a server or a class
    could tell."""
    for tool in tools:
        if tool.name == name and not has_several(tool):
            return tool
        if has_several(tool) and own_name(tool, name) is not None:
            return tool
    return None


def own_name(tool: Tool, name: str) -> str | None:
    """The name after `SERVER__`, if it begins with the name of this server or class."""
    own = name.removeprefix(f"{tool.name}__")
    return own if own and own != name else None


_NO_LETTER = re.compile(r"[^A-Za-z0-9_-]")


def offered_name(server: str, tool: str) -> str:
    """The name by which a model calls a tool: `server__tool`, in characters that every API accepts."""
    whole = f"{server}__{tool}" if server else tool
    plain = _NO_LETTER.sub("_", whole)
    if plain == whole and len(plain) <= LONGEST_NAME:
        return plain
    digest = blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{plain[: LONGEST_NAME - 9]}_{digest}"
