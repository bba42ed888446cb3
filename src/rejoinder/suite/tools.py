"""The tools of a suite, a case or a target, from mappings that passed the schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from rejoinder.model.tools import Fault, McpTools, PythonTool, ScriptedTool, Tool, join_tools
from rejoinder.spelling import did_you_mean

KINDS = ("mcp", "python", "scripted")
ToolSets: TypeAlias = Mapping[str, tuple[Tool, ...]]
"""Named sets of tools."""


def read_tools(
    entries: Iterable[Any],
    sets: ToolSets | None = None,
    unknown: Callable[[int, str], None] = lambda _position, _message: None,
) -> tuple[Tool, ...]:
    """Read tools, and the tools of sets that are named. Faulty entries are left out: they are reported already.
    `unknown` is called with the position of a name that is not a set, and a message."""
    found: tuple[Tool, ...] = ()
    known = sets or {}
    for position, entry in enumerate(entries):
        if isinstance(entry, str):
            if entry not in known and unknown is not None:
                unknown(position, f"there is no tool set `{entry}`{_advice(entry, sets)}")
            found = join_tools(found, known.get(entry, ()))
        elif isinstance(entry, dict) and sum(kind in entry for kind in KINDS) == 1:
            found += (_read(entry),)
    return found


def _advice(name: str, sets: ToolSets | None) -> str:
    if sets is None:
        return "; sets are named in a suite, and only its own targets know them"
    return did_you_mean(name, list(sets)) or "; `tool_sets` of the suite names sets"


def server_of_metadata(server: dict[str, Any]) -> dict[str, Any]:
    """vibecheck's `metadata.mcp_server` as an entry of `tools`."""
    token = server.get("authorization_token")
    headers = {"Authorization": token if " " in token else f"Bearer {token}"} if token else {}
    return {"mcp": {"name": server["name"], "url": server["url"], "headers": headers}}


def _read(entry: dict[str, Any]) -> Tool:
    kind = next(kind for kind in KINDS if kind in entry)
    said: dict[str, Any] = entry[kind] if isinstance(entry[kind], dict) else {}
    fails = tuple(
        msgspec.convert(_without_marks(one), Fault) for one in (*said.get("fails", ()), *entry.get("fails", ()))
    )
    if kind == "python":
        if said:
            return PythonTool(call=said["class"], is_class=True, allow=tuple(said.get("allow", ())), fails=fails)
        return PythonTool(call=entry["python"], fails=fails)
    if kind == "scripted":
        return ScriptedTool(
            name=said["name"],
            description=said.get("description", ""),
            parameters=_json(said["parameters"]) if "parameters" in said else ScriptedTool(name="").parameters,
            returns=_returns(said.get("returns", "")),
            fails=fails,
        )
    return McpTools(
        name=said["name"],
        command=said.get("command", ""),
        args=tuple(map(str, said.get("args", ()))),
        env={name: _text(value) for name, value in said.get("env", {}).items()},
        url=said.get("url", ""),
        headers=said.get("headers", {}),
        allow=tuple(said.get("allow", ())),
        timeout_s=said.get("timeout_seconds", McpTools(name="").timeout_s),
        scope=said.get("scope", "run"),
        fails=fails,
    )


def _returns(value: Any) -> tuple[str, ...]:
    """One answer per call; a value that is not a list answers every call."""
    return tuple(map(_text, value)) if isinstance(value, list) and value else (_text(value),)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _without_marks(value: dict[str, Any]) -> dict[str, Any]:
    return {key: one for key, one in value.items() if not key.startswith("x-")}
