"""pi: a process for each turn, tokens and cost of each of its model's answers, and errors with which it ends well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rejoinder.errors import UsageError
from tests.labs.agent_lab import Desk

pytestmark = pytest.mark.slow
CALL = pytest.approx(0.000134)
THREE_CALLS = pytest.approx(3 * 0.000134)


def test_tokens_and_cost_are_summed_over_the_answers_of_its_model(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "pi")
    first, second, third = desk.talk("one", "[run: echo a] [run: echo b]", "three")
    assert (first.cost, second.cost, third.cost) == (CALL, THREE_CALLS, CALL)
    assert second.usage.input_tokens == 3 * 150
    assert (first.model, first.stop_reason) == ("fake-1", "stop")
    assert [(call.name, call.arguments) for call in second.tool_calls] == [
        ("bash", '{"command":"echo a"}'),
        ("bash", '{"command":"echo b"}'),
    ]


def test_sessions_lie_in_the_home(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "pi")
    session = desk.ask("one").session
    (file,) = desk.home.rglob("*.jsonl")
    assert file.stem.endswith(f"_{session}")


def test_an_error_with_which_it_ends_well_is_an_error(tmp_path: Path) -> None:
    error = Desk(tmp_path, "pi").fail("[error 429]")
    assert str(error) == "pi failed: 429 made on request"
    assert error.status == 429


def test_a_second_try_is_noted(tmp_path: Path) -> None:
    turn = Desk(tmp_path, "pi").ask("[retry]")
    assert turn.text == "turn 1: done"
    assert turn.notes == ("pi asked again after: 500 made on request",)
    assert turn.cost == CALL


@pytest.mark.parametrize("permissions", [None, "reject", {"edit": "allow"}])
def test_it_is_not_started_without_leave_for_everything(tmp_path: Path, permissions: Any) -> None:
    with pytest.raises(UsageError, match="pi, which never asks for permission; write `permissions: allow`"):
        Desk(tmp_path, "pi").driver(permissions=permissions)


def test_it_takes_no_mcp_servers(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="`mcp_servers`, which pi does not accept"):
        Desk(tmp_path, "pi").driver(mcp_servers=[{"name": "a", "command": "b"}])
