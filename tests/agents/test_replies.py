"""What is taken from agents: bounded, and never what would be something else to a program or a reader."""

from __future__ import annotations

import pytest

from rejoinder.model import ToolCall, Usage
from rejoinder.providers.agents.agent_json import count_at, money_at
from rejoinder.providers.agents.driver import AgentTurn
from rejoinder.providers.agents.provider import LONGEST_REPLY, LONGEST_RESULT, MOST_CALLS, reply_of
from rejoinder.providers.base import ProviderError


@pytest.mark.parametrize("session", ["--dangerous", "", "a b", "x" * 400, "a\nb"])
def test_a_session_that_cannot_be_one_is_refused(session: str) -> None:
    with pytest.raises(ProviderError, match="cannot be one"):
        reply_of(AgentTurn(text="hi", session=session), "", "")


def test_what_is_recorded_is_bounded() -> None:
    call = ToolCall("n" * 5000, '{"a": "' + "x" * LONGEST_RESULT + '"}', result="y" * (LONGEST_RESULT + 5))
    turn = AgentTurn(text="t" * (LONGEST_REPLY + 1), thinking="z" * (LONGEST_REPLY + 1), tool_calls=(call,) * 2000)
    reply = reply_of(turn, "", "")
    assert len(reply.text) < LONGEST_REPLY + 100 and len(reply.thinking or "") < LONGEST_REPLY + 100
    assert len(reply.tool_calls) == MOST_CALLS
    assert reply.tool_calls[0].arguments == '{"left out": "it is too long"}'
    assert (reply.tool_calls[0].result or "").endswith("(5 characters more)")


def test_numbers_that_are_none_count_nothing() -> None:
    assert [count_at({"n": value}, "n") for value in (True, -1, "5", None, 7)] == [0, 0, 0, 0, 7]
    assert [money_at({"n": value}, "n") for value in (True, -1, 10**400, float("nan"), 0.5)] == [None] * 4 + [0.5]
    assert Usage(True, 2).possible() == Usage(1, 2, approximate=True)
