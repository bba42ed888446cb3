"""Suites with tools, and what their runs did."""

from __future__ import annotations

from typing import Any

from tests.kit import Raw, scripted


def calls(*names: str, text: str = "", **arguments: Any) -> Raw:
    return {"text": text, "tool_calls": [{"name": name, "arguments": arguments} for name in names]}


DICE = {"scripted": {"name": "dice", "description": "Throws a die.", "returns": [3, 5, "six"]}}


def suite(*replies: Any, tools: Any = (DICE,), checks: Any = ({"match": "*"},), **case: Any) -> Raw:
    one = {"id": "one", "prompt": "Throw.", "checks": list(checks), **case}
    return {"targets": [scripted("t", *replies)], "tools": list(tools), "evals": [one]}


def told(result: Raw, turn: int = -1) -> list[tuple[str, str | None, str]]:
    return [(call["name"], call.get("result"), call["status"]) for call in result["turns"][turn]["tool_calls"]]
