"""MCP servers for an agent: the target's `mcp_servers`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from rejoinder.providers.settings import Settings

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class McpServer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A program that speaks over its pipes, or a server at an address."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}


def read_mcp_servers(settings: Settings) -> tuple[McpServer, ...]:
    """A list of servers with their names, or a mapping of names to servers. Raises UsageError."""
    said = settings.values.get("mcp_servers") or ()
    if isinstance(said, Mapping):
        said = [{"name": name, **server} if isinstance(server, Mapping) else server for name, server in said.items()]
    if not isinstance(said, list | tuple):
        raise settings.error("has `mcp_servers` that are not a list of servers")
    servers = tuple(_read(settings, server) for server in said)
    if len({server.name for server in servers}) < len(servers):
        raise settings.error("has two `mcp_servers` of the same name")
    return servers


def _read(settings: Settings, said: Any) -> McpServer:
    try:
        server = msgspec.convert(said, McpServer, strict=False)
    except msgspec.ValidationError as error:
        raise settings.error(f"has an entry in `mcp_servers` that cannot be read: {error}") from None
    if not _NAME.fullmatch(server.name):
        raise settings.error(f"has an MCP server `{server.name}`", "Names have letters, digits, `_` and `-` only.")
    if bool(server.command) == bool(server.url):
        raise settings.error(f"has an MCP server `{server.name}` that needs either `command` or `url`")
    return server
