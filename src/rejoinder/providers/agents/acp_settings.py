"""Target settings of an agent that speaks the Agent Client Protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from rejoinder.providers.agents.commands import added_words, command_of
from rejoinder.providers.agents.mcp_servers import McpServer, read_mcp_servers
from rejoinder.providers.agents.permissions import Permissions, read_permissions
from rejoinder.providers.settings import Settings

if TYPE_CHECKING:
    from rejoinder.providers.agents.kinds import AgentKind


class Wanted(Struct, frozen=True, kw_only=True):
    """The settings of the target."""

    words: tuple[str, ...]
    permissions: Permissions
    servers: tuple[McpServer, ...]
    auth_method: str | None
    mode: str | None
    model: str | None
    config: Mapping[str, Any]
    """Values of the agent's own options, by their ids."""


def read_wanted(kind: AgentKind, settings: Settings) -> Wanted:
    """Raises UsageError."""
    config = settings.values.get("config") or {}
    if not isinstance(config, Mapping):
        raise settings.error("needs a `config` that maps the agent's options to values")
    return Wanted(
        words=command_of(kind, settings) + added_words(settings),
        permissions=read_permissions(settings),
        servers=read_mcp_servers(settings),
        auth_method=settings.text("auth_method"),
        mode=settings.text("mode"),
        model=settings.text("model"),
        config={str(id): value for id, value in config.items()},
    )


def as_acp_server(server: McpServer) -> Mapping[str, Any]:
    """An MCP server in the form of the protocol."""
    if server.url:
        return {"type": "http", "name": server.name, "url": server.url, "headers": _pairs(server.headers)}
    return {"name": server.name, "command": server.command, "args": list(server.args), "env": _pairs(server.env)}


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]
