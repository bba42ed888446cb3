"""What a target's `permissions` and `mcp_servers` mean."""

from __future__ import annotations

from typing import Any

import pytest

from rejoinder.errors import UsageError
from rejoinder.model import Target
from rejoinder.providers.agents.mcp_servers import McpServer, read_mcp_servers
from rejoinder.providers.agents.permissions import TOOL_KINDS, read_permissions
from rejoinder.providers.settings import Settings


def _settings(**values: Any) -> Settings:
    return Settings(Target(name="agent", provider="claude", settings=values), {})


def test_reading_searching_and_thinking_are_allowed_unless_said() -> None:
    plain = read_permissions(_settings())
    assert [kind for kind in TOOL_KINDS if plain.allows(kind)] == ["read", "search", "think"]
    assert not plain.allows("a kind of tomorrow")
    assert not plain.all_allowed

    some = read_permissions(_settings(permissions={"edit": "allow", "read": "reject", "other": "allow"}))
    assert [kind for kind in TOOL_KINDS if some.allows(kind)] == ["edit", "search", "think", "other"]
    assert some.allows("a kind of tomorrow")


def test_one_word_is_for_all_kinds() -> None:
    assert read_permissions(_settings(permissions="allow")).all_allowed
    assert read_permissions(_settings(permissions=dict.fromkeys(TOOL_KINDS, "allow"))).all_allowed
    assert not read_permissions(_settings(permissions="reject")).allowed


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("yes", "`permissions: yes`"),
        (True, "`permissions: True`"),
        (["edit"], r"`permissions: \['edit'\]`"),
        ({"write": "allow"}, "for `write`"),
        ({"edit": "ask"}, "`edit: ask`"),
    ],
)
def test_what_is_no_permission_is_refused(said: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_permissions(_settings(permissions=said))


def test_servers_have_their_names_in_a_list_or_before_them() -> None:
    server = McpServer(name="clock", command="clock-server", args=("--utc",))
    assert read_mcp_servers(_settings()) == ()
    plain = {"command": "clock-server", "args": ["--utc"]}
    assert read_mcp_servers(_settings(mcp_servers=[{"name": "clock", **plain}])) == (server,)
    assert read_mcp_servers(_settings(mcpServers={"clock": plain})) == (server,)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("clock", "not a list"),
        ([{"command": "x"}], "`name`"),
        ([{"name": "a.b", "command": "x"}], "`a.b`"),
        ([{"name": "a"}], "either `command` or `url`"),
        ([{"name": "a", "command": "x", "url": "http://127.0.0.1"}], "either"),
        ([{"name": "a", "command": "x"}, {"name": "a", "command": "y"}], "same name"),
        ([{"name": "a", "command": "x", "colour": "red"}], "colour"),
    ],
)
def test_what_is_no_server_is_refused(said: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_mcp_servers(_settings(mcp_servers=said))
