"""The agent settings of a target, read once, before anything is sent.

The schema does not check settings of variants, nor does it know what each driver requires.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from rejoinder.providers.agents.commands import above_zero, command_of, install_hint
from rejoinder.providers.agents.driver import Seat
from rejoinder.providers.agents.kinds import AgentKind
from rejoinder.providers.agents.workspace import Revision
from rejoinder.providers.settings import Settings
from rejoinder.user_code.lookup import folder_for, is_source

_NOWHERE = Seat(workspace=Path(), home=Path(), environment={}, owner="", conversation_id="")
"""For a driver that only reads its settings."""


class AgentSettings(Struct, frozen=True, kw_only=True):
    """Settings that all agents have; a driver reads its own in addition."""

    template: Path | Revision | None = None
    """The folder or revision that the workspace is copied from."""
    skills: tuple[Path, ...] = ()
    instructions: Path | None = None
    setup: tuple[str, ...] = ()
    teardown: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    """Variables from the target's `env`."""
    has_own_home: bool = True
    silence_s: float | None = None


def read_agent_settings(
    kind: AgentKind, settings: Settings, folders: tuple[str, ...], environment: Mapping[str, str]
) -> AgentSettings:
    """Read the settings. Raises UsageError for whatever is wrong or missing, including the agent's program."""
    home, variables = settings.values.get("home"), settings.values.get("env") or {}
    if home not in (None, "own", "shared"):
        raise settings.error(f"has `home: {home}`", "Write `own` or `shared`.")
    if not isinstance(variables, dict):
        raise settings.error("has `env` that does not map variables to values")
    kind.driver(settings, _NOWHERE)
    program = command_of(kind, settings)[0]
    if shutil.which(program, path=environment.get("PATH")) is None:
        raise settings.error(f"needs the program `{program}`, which was not found", install_hint(program))
    return AgentSettings(
        template=_template(settings, folders),
        skills=tuple(_folder(settings, "skills", name, folders) for name in _listed(settings, "skills")),
        instructions=_instructions(settings, folders),
        setup=_listed(settings, "setup"),
        teardown=_listed(settings, "teardown"),
        variables={str(name): str(value) for name, value in variables.items()},
        has_own_home=kind.has_home and home != "shared",
        silence_s=above_zero(settings, "silence_seconds", float),
    )


def _template(settings: Settings, folders: tuple[str, ...]) -> Path | Revision | None:
    said: Any = settings.values.get("workspace_template")
    if said is None or said == "":
        return None
    if isinstance(said, str):
        return _folder(settings, "workspace_template", said, folders)
    if not isinstance(said, dict):
        raise settings.error(f"has `workspace_template: {said}`, which is not a folder")
    if unknown := said.keys() - {"repository", "revision"}:
        named = ", ".join(f"`{name}`" for name in sorted(map(str, unknown)))
        raise settings.error(f"has a `workspace_template` with {named}", "It has `repository` and `revision`.")
    name = said.get("repository")
    repository = _folder(settings, "workspace_template.repository", str(name), folders) if name else Path(folders[0])
    return Revision(repository, str(said.get("revision") or "HEAD"))


def _folder(settings: Settings, setting: str, name: str, folders: tuple[str, ...]) -> Path:
    folder = folder_for(name, folders)
    if not folder.is_dir():
        raise settings.error(f"names the folder `{name}` as `{setting}`, which does not exist")
    return folder


def _instructions(settings: Settings, folders: tuple[str, ...]) -> Path | None:
    name = settings.text("instructions")
    if not name:
        return None
    file = _file_in(name, folders)
    if not file.is_file():
        raise settings.error(f"names the file `{name}` as `instructions`, which does not exist")
    return file


def _listed(settings: Settings, name: str) -> tuple[str, ...]:
    """A setting that is a text or a list of texts."""
    value: Any = settings.values.get(name) or []
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        raise settings.error(f"has `{name}: {value}`, which is neither a text nor a list of texts")
    return tuple(texts)


def _file_in(name: str, folders: tuple[str, ...]) -> Path:
    path = Path(name)
    return folder_for(str(path.parent), folders) / path.name


def with_own_files(settings: Settings, folders: tuple[str, ...]) -> Settings:
    """The settings with whole paths for the project's programs and scripts: the agent runs in its workspace, and so do
    the MCP servers that it starts."""

    def found(word: Any) -> Any:
        if not isinstance(word, str):
            return word
        path = _file_in(word, folders)
        is_ours = ("/" in word or is_source(path)) and "://" not in word and path.is_file()
        return str(path.resolve()) if is_ours else word

    def in_server(server: Any) -> Any:
        if not isinstance(server, dict):
            return server
        args = server.get("args")
        own = {"args": [found(word) for word in args]} if isinstance(args, list) else {}
        return {**server, **own, **({"command": found(server["command"])} if "command" in server else {})}

    values, servers = dict(settings.values), settings.values.get("mcp_servers")
    if isinstance(command := values.get("command"), list):
        values["command"] = [found(word) for word in command]
    if executable := settings.text("executable"):
        values["executable"] = found(executable)
    if isinstance(servers, dict):
        values["mcp_servers"] = {name: in_server(server) for name, server in servers.items()}
    elif isinstance(servers, list):
        values["mcp_servers"] = [in_server(server) for server in servers]
    return Settings(structs.replace(settings.target, settings=values), settings.environment)
