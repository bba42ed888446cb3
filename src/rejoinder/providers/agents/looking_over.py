"""What a target says of its agent, looked over before anything is asked.

The schema has not seen the settings of variants, nor does it know all that drivers need.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rejoinder.providers.agents.commands import above_zero, command_of, install_hint
from rejoinder.providers.agents.driver import Seat
from rejoinder.providers.agents.kinds import AgentKind
from rejoinder.providers.settings import Settings
from rejoinder.user_code import folder_for, is_source

_NOWHERE = Seat(workspace=Path(), home=Path(), environment={}, owner="", conversation_id="")
"""For a driver that only reads its settings."""


def look_over(kind: AgentKind, settings: Settings, folders: tuple[str, ...], environment: Mapping[str, str]) -> None:
    """Find what is wrong or missing. Raises UsageError."""
    template, home = settings.values.get("workspace_template"), settings.values.get("home")
    if not isinstance(template, str | dict | None):
        raise settings.error(f"has `workspace_template: {template}`, which is no folder")
    if home not in (None, "own", "shared"):
        raise settings.error(f"has `home: {home}`", "Write `own` or `shared`.")
    if not isinstance(settings.values.get("env") or {}, dict):
        raise settings.error("has `env` that is no mapping of variables to values")
    above_zero(settings, "silence_seconds", float)
    for name in ("setup", "teardown"):
        listed(settings, name)
    kind.driver(settings, _NOWHERE)
    program = command_of(kind, settings)[0]
    if shutil.which(program, path=environment.get("PATH")) is None:
        raise settings.error(f"needs the program `{program}`, which is not there", install_hint(program))
    named = [(name, "skills") for name in listed(settings, "skills")]
    if isinstance(template, str):
        named.append((template, "workspace_template"))
    for name, setting in named:
        if not folder_for(name, folders).is_dir():
            raise settings.error(f"names the folder `{name}` as `{setting}`, which is not there")
    instructions = settings.text("instructions")
    if instructions and not file_in(instructions, folders).is_file():
        raise settings.error(f"names the file `{instructions}` as `instructions`, which is not there")


def listed(settings: Settings, name: str) -> list[str]:
    """A setting that is a text or a list of texts. Raises UsageError."""
    value: Any = settings.values.get(name) or []
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        raise settings.error(f"has `{name}: {value}`, which is neither a text nor a list of texts")
    return texts


def file_in(name: str, folders: tuple[str, ...]) -> Path:
    path = Path(name)
    return folder_for(str(path.parent), folders) / path.name


def find_own_files(settings: Settings, folders: tuple[str, ...]) -> None:
    """The agent runs in its workspace, and so do the MCP servers that it starts: name programs and scripts of the
    project by their whole path."""

    def found(word: Any) -> Any:
        if not isinstance(word, str):
            return word
        path = file_in(word, folders)
        is_ours = ("/" in word or is_source(path)) and "://" not in word and path.is_file()
        return str(path.resolve()) if is_ours else word

    def in_server(server: Any) -> Any:
        if not isinstance(server, dict):
            return server
        args = server.get("args")
        own = {"args": [found(word) for word in args]} if isinstance(args, list) else {}
        return {**server, **own, **({"command": found(server["command"])} if "command" in server else {})}

    values, servers = settings.values, settings.values.get("mcp_servers")
    if isinstance(command := values.get("command"), list):
        values["command"] = [found(word) for word in command]
    if executable := settings.text("executable"):
        values["executable"] = found(executable)
    if isinstance(servers, dict):
        values["mcp_servers"] = {name: in_server(server) for name, server in servers.items()}
    elif isinstance(servers, list):
        values["mcp_servers"] = [in_server(server) for server in servers]
