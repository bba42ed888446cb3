"""Claude Code: one process for all turns, its permissions, what a turn has cost, and how it fails."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any, cast

import pytest

from rejoinder.errors import UsageError
from rejoinder.providers.agents.claude import ClaudeDriver
from rejoinder.providers.agents.driver import Clock, Driver
from tests.labs.agent_lab import Desk

pytestmark = pytest.mark.slow
CALL = pytest.approx(0.000489)
TWO_CALLS = pytest.approx(2 * 0.000489)
IS_ROOT = os.geteuid() == 0


def _words(desk: Desk, **settings: Any) -> list[str]:
    return json.loads(desk.ask("[words]", **settings).text.removeprefix("turn 1: "))


def test_all_turns_are_answered_by_one_process(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "claude")
    first, second = desk.talk("[run: echo $PPID]", "[run: echo $PPID]")
    assert first.tool_calls[0].result == second.tool_calls[0].result
    assert first.tool_calls[0].name == "Bash"
    assert first.session == desk.conversation_id
    assert first.model == "claude-sonnet-4-5"
    assert first.stop_reason == "end_turn"
    assert first.notes == ("claude 2.1.325",)


@pytest.mark.parametrize("version", ["", "old"])
def test_tokens_and_cost_are_those_of_the_turn(tmp_path: Path, version: str) -> None:
    desk = Desk(tmp_path, "claude")
    desk.environment["STANDIN_OLD"] = version
    first, second, third = desk.talk("one", "[run: echo x]", "three")
    assert (first.cost, second.cost, third.cost) == (CALL, TWO_CALLS, CALL)
    assert second.usage.input_tokens == 2 * (100 + 20 + 30)
    assert second.usage.cache_write_tokens == 2 * 20
    assert second.usage.reasoning_tokens == 2

    fourth, fifth = desk.talk("four", "five", continues=desk.conversation_id)
    assert fifth.cost == CALL
    assert fourth.cost == (None if version else CALL)  # what the session had cost before is not known
    assert fourth.usage.output_tokens == 7


def test_what_is_rejected_is_tried_and_denied(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "claude", permissions=None)
    (desk.workspace / "note.txt").write_text("a note")
    turn = desk.ask("[read note.txt] [write new.txt: x] [run: ls]")
    assert [(call.name, call.status) for call in turn.tool_calls] == [
        ("Read", "completed"),
        ("Write", "denied"),
        ("Bash", "denied"),
    ]
    assert turn.tool_calls[1].result == "it may not use Write"
    assert not (desk.workspace / "new.txt").exists()


def test_a_denial_stays_one_where_all_is_allowed(tmp_path: Path) -> None:
    read, run = Desk(tmp_path, "claude").ask("[deny] [read x] [run: echo x]").tool_calls
    assert (read.status, run.status) == ("denied", "completed")


def test_kinds_of_tools_become_rules(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "claude")
    words = _words(desk, permissions={"edit": "allow", "read": "reject", "execute": "reject"})
    assert words[words.index("--permission-mode") + 1] == "default"
    allowed = words[words.index("--allowedTools") + 1].split(",")
    asked = json.loads(words[words.index("--settings") + 1])["permissions"]["ask"]
    assert {"Edit", "Write", "NotebookEdit", "Grep", "Glob"} <= set(allowed)
    assert {"Read", "Bash", "WebFetch", "WebSearch", "Task"} <= set(asked)
    assert not set(allowed) & set(asked)

    none = _words(Desk(tmp_path, "claude"), permissions="reject")
    assert "--allowedTools" not in none


def test_everything_is_allowed_to_root_too(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "claude")
    assert desk.ask("[see IS_SANDBOX]").text == f"turn 1: {'1' if IS_ROOT else 'not set'}"
    desk = Desk(tmp_path, "claude", permissions=None)
    assert desk.ask("[see IS_SANDBOX] [see ENABLE_TOOL_SEARCH]").text == "turn 1: not set; not set"


def test_mcp_servers_are_given_and_their_tools_have_permissions(tmp_path: Path) -> None:
    servers = [
        {"name": "clock", "command": "clock-server", "args": ["--utc"], "env": {"A": "b"}},
        {"name": "far", "url": "http://127.0.0.1:9/mcp", "headers": {"X": "y"}},
        {"name": "broken", "command": "missing"},
    ]
    desk = Desk(tmp_path, "claude", mcp_servers=servers, permissions={"other": "allow"})
    words, turn = desk.talk("[words]", '[see ENABLE_TOOL_SEARCH] [call clock now: {"zone": "utc"}]')
    given = json.loads(words.text.removeprefix("turn 1: "))
    assert "--strict-mcp-config" in given
    assert json.loads(given[given.index("--mcp-config") + 1])["mcpServers"] == {
        "clock": {"type": "stdio", "command": "clock-server", "args": ["--utc"], "env": {"A": "b"}},
        "far": {"type": "http", "url": "http://127.0.0.1:9/mcp", "headers": {"X": "y"}},
        "broken": {"type": "stdio", "command": "missing", "args": [], "env": {}},
    }
    assert turn.text == 'turn 2: false; {"zone": "utc"}'
    (call,) = turn.tool_calls
    assert (call.name, call.arguments, call.status) == ("clock__now", '{"zone":"utc"}', "completed")
    assert words.notes[-1] == "claude cannot reach the MCP server `broken`"

    denied = Desk(tmp_path, "claude", mcp_servers=servers, permissions=None).ask("[call clock now: {}]")
    assert denied.tool_calls[0].status == "denied"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_turns": 1}, "claude reached `max_turns` before it was done: Reached maximum"),
        ({"max_budget_usd": 0.0001}, "claude reached `max_budget_usd` before it was done: Reached"),
    ],
)
def test_bounds_end_a_turn_with_their_names(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    error = Desk(tmp_path, "claude").fail("[run: echo a] [run: echo b]", **settings)
    assert str(error).startswith(message)


@pytest.mark.parametrize("settings", [{"max_turns": 0}, {"max_turns": 1.5}, {"max_budget_usd": "much"}])
def test_bounds_are_numbers(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="number above 0"):
        Desk(tmp_path, "claude").driver(**settings)


def test_a_success_that_is_an_error_is_one(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "claude")

    async def work(driver: Driver) -> None:
        with pytest.raises(Exception, match="claude failed: API Error: 529 made on request") as failure:
            await driver.ask("[run: echo x] [error 529]", Clock())
        assert getattr(failure.value, "status", None) == 529
        assert (await driver.ask("two", Clock())).text == "turn 2: done"

    desk.use(desk.driver(), work)


def test_a_session_is_taken_up_where_the_process_died_between_turns(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "claude")

    async def work(driver: Driver) -> None:
        first = await driver.ask("[run: echo $PPID]", Clock())
        os.kill(int(first.tool_calls[0].result or 0), signal.SIGKILL)
        process = cast(ClaudeDriver, driver)._process
        while process is not None and process.exit_code is None:
            await asyncio.sleep(0.01)
        second = await driver.ask("two", Clock())
        assert second.text == "turn 2: done"
        assert second.session == first.session

    desk.use(desk.driver(), work)


def test_a_session_that_exists_is_not_begun_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "claude")
    desk.ask("one")
    assert "is already in use" in str(desk.fail("one"))
