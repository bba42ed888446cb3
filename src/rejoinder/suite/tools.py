"""The tools of a suite, a case or a target, from mappings that passed the schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from rejoinder.model.tools import Fault, McpTools, PythonTool, ScriptedTool, Tool

KINDS = ("mcp", "python", "scripted")


def read_tools(entries: Iterable[Any]) -> tuple[Tool, ...]:
    """Read tools. Faulty entries are left out: they are reported already."""
    return tuple(
        _read(entry) for entry in entries if isinstance(entry, dict) and sum(kind in entry for kind in KINDS) == 1
    )


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
