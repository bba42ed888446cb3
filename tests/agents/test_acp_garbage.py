"""Whatever an agent writes that should speak the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.model import Target, ToolCall
from rejoinder.providers.agents import commands
from rejoinder.providers.agents.acp import AcpDriver
from rejoinder.providers.agents.driver import AgentTurn, Clock, Seat
from rejoinder.providers.agents.kinds import AGENTS
from rejoinder.providers.base import ProviderError
from rejoinder.providers.settings import Settings
from rejoinder.user_code.line_process import LineFault
from tests.kit import PATIENCE_S, bounded


class FakeProcess:
    """Plays a program from a list of what it prints; records what it is sent."""

    def __init__(self, values: list[Any]) -> None:
        self.values = deque(values)
        self.sent: list[Any] = []

    def send(self, value: Any, *, more: bool = True) -> None:
        json.dumps(value)
        self.sent.append(value)

    async def receive(self, *, silence_s: float | None, until: float | None) -> Any:
        if silence_s is not None:
            raise LineFault("quiet", "silence")
        return self.values.popleft() if self.values else None

    def ended(self) -> LineFault:
        return LineFault("the agent ended with exit code 0", "crash")

    async def close(self, *, grace_s: float = 0.0) -> None:
        self.values.clear()


_SCALARS = st.none() | st.booleans() | st.integers(-5, 1 << 70) | st.floats(allow_nan=False) | st.text(max_size=5)
_WORDS = (
    "sessionId update sessionUpdate content text type toolCallId title kind status rawInput rawOutput options optionId"
    " toolCall cost amount currency usage inputTokens totalTokens _meta quota token_count model_usage model entries"
    " stopReason configOptions category id modes models data message code error"
)
_KEYS = st.sampled_from(_WORDS.split())
_JSON = st.recursive(_SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4))
_CALL = {"toolCallId": "a", "title": "t", "kind": "edit", "status": "completed", "rawInput": {}, "rawOutput": "out"}
_BLOCK = {"type": "text", "text": "hi"}
_UPDATES: list[Any] = [
    {"sessionUpdate": "agent_message_chunk", "content": _BLOCK, "messageId": "m"},
    {"sessionUpdate": "agent_thought_chunk", "content": _BLOCK},
    {"sessionUpdate": "tool_call", **_CALL},
    {"sessionUpdate": "tool_call_update", **_CALL, "content": [{"type": "content", "content": _BLOCK}]},
    {"sessionUpdate": "plan", "entries": [{"content": "do", "status": "pending"}]},
    {"sessionUpdate": "usage_update", "cost": {"amount": 0.1, "currency": "USD"}},
    {"sessionUpdate": "moon"},
]
_USAGE = {"inputTokens": 5, "outputTokens": 1, "totalTokens": 6, "cachedReadTokens": 2, "thoughtTokens": 1}
_GOOD: list[Any] = [
    *({"method": "session/update", "params": {"sessionId": "s", "update": update}} for update in _UPDATES),
    {
        "id": 7,
        "method": "session/request_permission",
        "params": {"toolCall": _CALL, "options": [{"optionId": "o", "kind": "allow_once"}]},
    },
    {"id": "x", "method": "fs/read_text_file", "params": {}},
    {"id": 3, "result": {"stopReason": "end_turn", "usage": _USAGE, "_meta": {"quota": {"model_usage": []}}}},
    {"id": 3, "error": {"code": -32603, "message": "no", "data": {"message": "{}"}}},
]


@st.composite
def _messages(draw: st.DrawFn) -> Any:
    """A good message, or one of which a part is something else, or garbage."""
    message = json.loads(json.dumps(draw(st.sampled_from(_GOOD))))
    how = draw(st.integers(0, 5))
    if how == 0:
        return draw(st.dictionaries(_KEYS, _JSON, max_size=5))
    place: Any = message
    while how > 3:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or not place[key] or draw(st.booleans()):
            place[key] = draw(_JSON)
            break
        place = place[key]
    return message


_GREETING: list[Any] = [
    {"id": 1, "result": {"protocolVersion": 1, "agentInfo": {"name": "Copilot"}}},
    {"id": 2, "result": {"sessionId": "s", "configOptions": [{"id": "model", "currentValue": "m"}]}},
]


@given(st.sampled_from((2, 2, 2, 1, 0)), st.lists(_messages(), max_size=8), st.booleans())
@bounded(200)
def test_whatever_an_agent_writes_ends_in_a_turn_or_one_error(greeted: int, said: list[Any], ends: bool) -> None:
    messages = [
        *_GREETING[:greeted],
        *said,
        *([{"id": 3, "result": {"stopReason": "end_turn"}}] if ends else ()),
    ]
    process = FakeProcess(messages)
    target = Target(name="agent", provider="acp", settings={"command": ["agent"], "permissions": {"edit": "allow"}})
    seat = Seat(workspace=Path(), home=Path(), environment={}, owner="", conversation_id="")

    async def ask() -> AgentTurn:
        driver = AcpDriver(AGENTS["acp"], Settings(target, {}), seat)
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await driver.ask("hello", Clock())
        finally:
            await driver.close()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(commands, "LineProcess", lambda *_, **__: process)
        try:
            turn = asyncio.run(ask())
        except ProviderError as error:
            assert str(error)
        else:
            assert min(turn.usage.input_tokens, turn.usage.output_tokens) >= 0
            recorded = msgspec.json.encode(turn.tool_calls)
            assert msgspec.json.decode(recorded, type=tuple[ToolCall, ...]) == turn.tool_calls
            for call in turn.tool_calls:
                json.loads(call.arguments)
    asked = [message for message in messages if isinstance(message.get("method"), str) and "id" in message]
    assert sum("method" not in message for message in process.sent) <= len(asked)
