"""Codex: a process for each turn, its sandbox, tokens that it counts over the whole thread, and how it fails."""

from __future__ import annotations

import json
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rejoinder.errors import UsageError
from rejoinder.model import NO_USAGE
from rejoinder.providers.agents.driver import Clock, Driver
from tests.labs.agent_lab import Desk

pytestmark = pytest.mark.slow


def _words(text: str) -> list[str]:
    return json.loads(text.partition(": ")[2])


def test_each_turn_is_a_process_that_takes_up_the_thread(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "codex", permissions={"edit": "allow"}, args=["-c", "a=1"])
    first, second = (_words(turn.text) for turn in desk.talk("[words]", "[words]"))
    options = ["exec", "--json", "--skip-git-repo-check", "-C", str(desk.workspace), "-s", "workspace-write"]
    assert first == [*options, "-c", "a=1", "-"]
    thread = desk.ask("three").session
    assert second[:-3] == first[:-1]
    assert second[-3] == "resume"
    assert second[-1] == "-"
    assert thread


def test_tokens_are_those_of_the_turn(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "codex")
    first, second, third = desk.talk("one", "[run: echo a] [run: echo b]", "three")
    counts = [(turn.usage.input_tokens, turn.usage.reasoning_tokens) for turn in (first, second, third)]
    assert counts == [(150, 2), (450, 6), (150, 2)]
    assert first.cost is None


def test_what_a_failed_turn_used_is_not_of_the_next(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "codex")

    async def work(driver: Driver) -> None:
        await driver.ask("one", Clock())
        with pytest.raises(Exception, match="codex failed"):
            await driver.ask("[run: echo a] [run: echo b] [error 500]", Clock())
        assert (await driver.ask("three", Clock())).usage.output_tokens == 7

    desk.use(desk.driver(), work)


def test_tokens_are_not_told_where_those_before_are_not_known(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "codex")
    session = desk.ask("one").session
    (rollout,) = (desk.home / ".codex").rglob("rollout-*.jsonl")
    lines = [line for line in rollout.read_text().splitlines() if "token_count" not in line]
    rollout.write_text("\n".join([*lines, ""]))
    second, third = desk.talk("two", "three", continues=session)
    assert second.usage == NO_USAGE
    assert third.usage.output_tokens == 7


@pytest.mark.parametrize(
    ("permissions", "options"),
    [
        (None, ["-s", "read-only"]),
        ("reject", ["-s", "read-only"]),
        ({"execute": "allow"}, ["-s", "read-only"]),
        ({"edit": "allow"}, ["-s", "workspace-write"]),
        (
            {"edit": "allow", "fetch": "allow"},
            ["-s", "workspace-write", "-c", "sandbox_workspace_write.network_access=true"],
        ),
        ("allow", ["-s", "danger-full-access"]),
    ],
)
def test_permissions_are_a_sandbox(tmp_path: Path, permissions: Any, options: list[str]) -> None:
    words = _words(Desk(tmp_path, "codex", permissions=permissions).ask("[words]").text)
    assert words[words.index("-s") : -1] == options


def test_the_sandbox_holds_in_every_turn(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "codex", permissions=None)
    turn = desk.ask("[write a.txt: a]")
    assert turn.text == "turn 1: Read-only file system"
    assert not (desk.workspace / "a.txt").exists()
    _, second = desk.talk("one", "[write a.txt: a]", permissions={"edit": "allow"})
    assert (second.tool_calls[0].name, second.tool_calls[0].status) == ("file_change", "completed")
    assert (desk.workspace / "a.txt").read_text() == "a"


def test_what_is_declined_was_denied(tmp_path: Path) -> None:
    declined, done = Desk(tmp_path, "codex").ask("[deny] [run: echo a] [run: echo b]").tool_calls
    assert (declined.name, declined.status) == ("command_execution", "denied")
    assert json.loads(done.arguments) == {"command": "/bin/bash -lc 'echo b'"}
    assert (done.result, done.status) == ("b\n", "completed")


def test_warnings_and_retries_are_notes(tmp_path: Path) -> None:
    turn = Desk(tmp_path, "codex").ask("[retry]")
    assert turn.notes == ("codex: nothing is known of this model", "codex: Reconnecting... 1/5 (made on request)")


def test_mcp_servers_and_settings_are_toml(tmp_path: Path) -> None:
    servers = {
        "clock": {"command": "clock-server", "args": ["--utc", 'a "b" \\'], "env": {"A.B": "ä"}},
        "far": {"url": "http://127.0.0.1:9/mcp", "headers": {"X": "y"}},
    }
    config = {"model_reasoning_effort": "high", "tui.x": True, "model_providers": {"own": {"retries": 1, "u": None}}}
    desk = Desk(tmp_path, "codex", mcp_servers=servers, config=config, permissions={"other": "allow"})
    words, turn = desk.talk("[words]", '[call clock now: {"a": 1}]')
    given = _words(words.text)
    values = [value for option, value in pairwise(given) if option == "-c"]
    assert tomllib.loads("\n".join(values)) == {
        "mcp_servers": {
            "clock": {"default_tools_approval_mode": "approve", **servers["clock"]},
            "far": {
                "default_tools_approval_mode": "approve",
                "url": "http://127.0.0.1:9/mcp",
                "http_headers": {"X": "y"},
            },
        },
        "model_reasoning_effort": "high",
        "tui": {"x": True},
        "model_providers": {"own": {"retries": 1, "u": ""}},
    }
    (call,) = turn.tool_calls
    assert (call.name, call.arguments, call.result, call.status) == (
        "clock__now",
        '{"a":1}',
        '{"a": 1}',
        "completed",
    )
    denied = Desk(tmp_path, "codex", mcp_servers=servers).ask("[call clock now: {}]", permissions=None)
    assert denied.tool_calls[0].status == "denied"


@pytest.mark.parametrize("config", ["model=x", ["a"], {"a b": 1}])
def test_what_is_no_config_is_refused(tmp_path: Path, config: Any) -> None:
    with pytest.raises(UsageError, match="`config`"):
        Desk(tmp_path, "codex").driver(config=config)


@pytest.mark.parametrize(
    ("status", "told", "message"),
    [
        (400, None, "codex failed: made on request"),
        (429, 429, "codex failed: exceeded retry limit, last status: 429 Too Many Requests"),
        (503, 503, "codex failed: unexpected status 503 Error: made on request"),
    ],
)
def test_a_failed_turn_says_what_its_model_said(tmp_path: Path, status: int, told: int | None, message: str) -> None:
    error = Desk(tmp_path, "codex").fail(f"[error {status}]")
    assert str(error).startswith(message)
    assert error.status == told
