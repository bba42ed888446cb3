"""Agents that speak the Agent Client Protocol, by stand-ins that write what the real ones were seen to write."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from rejoinder.errors import UsageError
from rejoinder.model import NO_USAGE, Usage
from rejoinder.providers.agents import acp, acp_opening
from rejoinder.providers.agents.acp import AcpDriver
from rejoinder.providers.agents.driver import AgentTurn, Clock
from rejoinder.providers.base import ProviderError
from rejoinder.user_code.line_process import Bounds
from tests.labs.agent_lab import STANDINS, Desk

pytestmark = pytest.mark.slow
STANDIN = str(STANDINS / "acp_agent")
FIVE = ("claude-agent-acp", "codex-acp", "copilot", "gemini", "opencode")
PROVIDERS = {"claude-agent-acp": "claude-acp", "gemini": "gemini-cli", "plain": "acp"}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acp, "CLOSE_S", 0.05)  # some stand-ins do not leave by themselves, as their agents do not
    monkeypatch.setattr(acp_opening, "REPLAY_S", 0.3)


class AcpDesk:
    """Conversations in one folder, with stand-ins of all agents."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.workspace, self.home = folder / "work", folder / "home"

    def at(self, like: str = "plain") -> Desk:
        settings = {"command": ["acp", "--like", like], "permissions": None}
        desk = Desk(self._folder, PROVIDERS.get(like, like), executable=STANDIN, **settings)
        desk.environment["GEMINI_API_KEY"] = "a-key"
        return desk

    def talk(
        self, *prompts: str, like: str = "plain", continues: str | None = None, **settings: Any
    ) -> list[AgentTurn]:
        """The turns of a conversation, after which no process is left."""
        return self.at(like).talk(*prompts, continues=continues, **settings)

    def fail(self, prompt: str, *, like: str = "plain", **settings: Any) -> ProviderError:
        """The error in which a conversation ends."""
        return self.at(like).fail(prompt, **settings)

    def history(self) -> list[Any]:
        files = self.home.glob("acp/*.jsonl")
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def _use(desk: Desk, use: Callable[[AcpDriver], Awaitable[Any]]) -> Any:
    driver = desk.driver()
    assert isinstance(driver, AcpDriver)
    return desk.use(driver, lambda _: use(driver))


@pytest.fixture
def desk(tmp_path: Path) -> AcpDesk:
    return AcpDesk(tmp_path)


@pytest.mark.parametrize("like", FIVE)
def test_three_turns_with_a_tool_as_each_of_the_five(desk: AcpDesk, like: str) -> None:
    """One process, one session; tokens and cost are those of each turn."""
    first, second, third = desk.talk("hello", "[write a.txt: alpha]", "[say: bye]", like=like, permissions="allow")
    assert (first.text, third.text) == ("turn 1: done", "turn 3: bye")
    assert "wrote a.txt" in second.text and (desk.workspace / "a.txt").read_text() == "alpha"
    assert first.session == second.session == third.session and first.session
    assert [turn.stop_reason for turn in (first, second, third)] == ["end_turn"] * 3
    (call,) = second.tool_calls
    assert (call.name, call.result, call.status) == ("write", "wrote a.txt", "completed")
    assert call.started_at and call.duration_s is not None and call.duration_s >= 0
    wanted = {} if like == "gemini" else {"path": "a.txt", "content": "alpha"}
    assert json.loads(call.arguments) == wanted
    assert (first.tool_calls, third.tool_calls) == ((), ())
    assert [turn.usage for turn in (first, second, third)] == USAGE[like]
    costs = [0.001, 0.002, 0.001] if like in ("claude-agent-acp", "opencode") else [None] * 3
    assert [turn.cost for turn in (first, second, third)] == [
        cost if cost is None else pytest.approx(cost) for cost in costs
    ]
    assert any(version in " ".join(first.notes) for version in ("0.99.1", "0.16.0", "1.0.102", "0.61.0", "1.18.33"))
    warnings = {"codex-acp": "Model metadata for", "copilot": "Info: wrote a.txt"}
    assert [note for note in second.notes if not note.startswith(warnings.get(like, "none"))] == []
    assert len(second.notes) == (like in warnings)
    assert desk.history()[-1] == {"role": "agent", "text": "turn 3: bye", "calls": 1}


_CLAUDE, _OPENAI = Usage(150, 7, 0, False, 30, 20), Usage(150, 7, 0, False, 30)
USAGE = {
    "claude-agent-acp": [_CLAUDE, Usage(300, 14, 0, False, 60, 40), _CLAUDE],
    "codex-acp": [NO_USAGE] * 3,
    "copilot": [_OPENAI, Usage(300, 14, 0, False, 60), _OPENAI],
    "gemini": [Usage(150, 7), Usage(300, 14), Usage(150, 7)],
    "opencode": [_OPENAI, Usage(150, 7, 0, True, 30), _OPENAI],
}
"""opencode tells the last call of its model only: less than it used, where a tool was used."""


@pytest.mark.parametrize("like", FIVE)
def test_what_is_not_allowed_is_denied_as_each_of_the_five(desk: AcpDesk, like: str) -> None:
    """Options are chosen by their kind, whatever they are called. codex's mode denies writing without a question."""
    (turn,) = desk.talk("[call fake add: {}][write a.txt: alpha]", like=like)
    assert not (desk.workspace / "a.txt").exists()
    statuses = {call.name: call.status for call in turn.tool_calls}
    assert statuses == {"fake/add": "denied", "write": "failed" if like == "codex-acp" else "denied"}
    assert not turn.usage.approximate


def test_permissions_are_by_kind(desk: AcpDesk) -> None:
    (desk.at().workspace / "a.txt").write_text("alpha")
    prompt = "[read a.txt][write b.txt: beta][run: echo ran > c.txt]"
    (turn,) = desk.talk(prompt)
    assert [call.status for call in turn.tool_calls] == ["completed", "denied", "denied"]
    (turn,) = AcpDesk(desk.home / "b").talk(prompt, permissions={"edit": "allow", "read": "reject"})
    assert [call.status for call in turn.tool_calls] == ["denied", "completed", "denied"]
    (turn,) = AcpDesk(desk.home / "c").talk(prompt, permissions="reject")
    assert [call.status for call in turn.tool_calls] == ["denied"] * 3
    (turn,) = AcpDesk(desk.home / "d").talk("[run: echo ran > c.txt]", permissions="allow")
    assert (desk.home / "d" / "work" / "c.txt").read_text() == "ran\n"
    assert turn.tool_calls[0].name == "echo ran > c.txt"


SERVERS = {
    "tools": {"command": "/bin/server", "args": ["-v"], "env": {"A": "1"}},
    "far": {"url": "https://example.test/mcp", "headers": {"X": "2"}},
}


def test_mcp_servers_are_handed_on(desk: AcpDesk) -> None:
    (turn,) = desk.talk("[servers]", like="opencode", mcp_servers=SERVERS)
    assert json.loads(turn.text.removeprefix("turn 1: ")) == [
        {"name": "tools", "command": "/bin/server", "args": ["-v"], "env": [{"name": "A", "value": "1"}]},
        {
            "type": "http",
            "name": "far",
            "url": "https://example.test/mcp",
            "headers": [{"name": "X", "value": "2"}],
        },
    ]
    (turn,) = AcpDesk(desk.home / "a").talk("hello", like="claude-agent-acp", mcp_servers=SERVERS)
    assert turn.text == "turn 1: done"  # what the agent says of servers that fail is not its model's
    assert turn.notes[1].startswith('**MCP server "tools" failed to start')
    far = {"far": SERVERS["far"]}
    (turn,) = AcpDesk(desk.home / "b").talk("[servers]", like="copilot", mcp_servers=far)
    assert "example.test" in turn.text


def test_mcp_servers_that_an_agent_does_not_take(desk: AcpDesk) -> None:
    error = desk.fail("hello", like="copilot", mcp_servers=SERVERS)
    assert str(error) == "the MCP server `tools` is a program, but this agent accepts MCP servers only by `url`"
    assert error.ends_target
    error = AcpDesk(desk.home / "b").fail("hello", mcp_servers=SERVERS)
    assert str(error) == "the MCP server `far` has a `url`, but this agent accepts only MCP servers that are programs"


@pytest.mark.parametrize(
    ("like", "words"),
    [
        ("claude-agent-acp", "API Error: 400 fake error 400"),
        ("codex-acp", "fake error 400"),
        ("copilot", "Error: 400 fake error 400"),
        ("gemini", "fake error 400"),
        ("opencode", "fake error 400"),
    ],
)
def test_errors_of_the_model_as_each_of_the_five(desk: AcpDesk, like: str, words: str) -> None:
    """The agent is there for another turn, which has none of the words and tokens of the failed one."""

    async def use(driver: AcpDriver) -> AgentTurn:
        with pytest.raises(ProviderError) as caught:
            await driver.ask("[error 400]", Clock())
        error = caught.value
        assert str(error) == f"the agent failed: {words}"
        assert (error.type, error.retryable, error.ends_target) == ("agent", False, False)
        assert error.status == (None if like in ("codex-acp", "opencode") else 400)
        return await driver.ask("again", Clock())

    turn: AgentTurn = _use(desk.at(like), use)
    assert turn.text == "turn 2: done"
    assert turn.usage == USAGE[like][0]


def test_stop_reasons(desk: AcpDesk) -> None:
    turns = desk.talk("[stop refusal][nothing]", "[stop max_tokens]", "[stop max_turn_requests]", "[stop moon]")
    assert [turn.stop_reason for turn in turns] == ["refusal", "max_tokens", "max_turn_requests", "moon"]
    assert turns[0].text == ""
    assert str(desk.fail("[stop cancelled]")) == "the agent cancelled the turn by itself"
    (turn,) = desk.talk("[write a.txt: alpha][stop cancelled]")  # some cancel the turn when they are not allowed
    assert (turn.stop_reason, turn.tool_calls[0].status) == ("cancelled", "denied")
    assert str(desk.fail("[nothing]")) == "the agent ended its turn without a word"
    (turn,) = desk.talk("[read a.txt][nothing]")
    assert (turn.text, turn.tool_calls[0].status) == ("", "failed")


def test_thoughts_plans_and_what_is_not_known(desk: AcpDesk) -> None:
    (turn, after) = desk.talk("[think: hm][plan: be quick][unknown][noise][ask fs/read_text_file][late output]", "next")
    assert turn.thinking == "hm"
    assert turn.notes == ("plain 1.0.0", "plan: be quick (pending)")
    assert turn.text == 'turn 1: {"code": -32601, "message": "Method not found: fs/read_text_file"}'
    assert (after.text, after.notes) == ("turn 2: done", ())


def test_what_comes_before_the_session_is_no_part_of_a_turn(desk: AcpDesk) -> None:
    (turn,) = desk.talk("hello", like="copilot")
    assert turn.text == "turn 1: done"


@pytest.mark.parametrize(
    ("prompt", "clock", "type", "words"),
    [
        ("[wait]", (0.5, None), "timeout", "the agent did not answer in time"),
        ("[hang]", (0.5, None), "timeout", "the agent did not answer in time"),
        ("[silence]", (None, 0.3), "timeout", "the agent printed nothing for 0.3 s"),
        ("[crash]", (None, None), "agent", "the agent was killed by signal 11"),
        ("[exit 3]", (None, None), "agent", "the agent ended with exit code 3: it ended on request"),
        ("[partial]", (None, None), "agent", "the agent ended with exit code 0"),
        ("[flood]", (None, None), "agent", "the agent prints more than can be read"),
    ],
)
def test_turns_that_end_badly(
    desk: AcpDesk, prompt: str, clock: tuple[float | None, float | None], type: str, words: str, monkeypatch: Any
) -> None:
    """One error in words; the process is gone, and there is no other turn."""
    monkeypatch.setattr(acp, "CANCEL_S", 5.0 if prompt == "[wait]" else 0.05)
    monkeypatch.setattr("rejoinder.user_code.line_process.Bounds", lambda: Bounds(longest_line=1 << 20))
    place = desk.at()

    async def use(driver: AcpDriver) -> None:
        await driver.ask("hello", Clock())
        within, silence_s = clock
        until = None if within is None else asyncio.get_running_loop().time() + within
        with pytest.raises(ProviderError) as caught:
            await driver.ask(prompt, Clock(until, silence_s))
        assert (caught.value.type, str(caught.value)) == (type, words)
        await place.see_none_left()
        with pytest.raises(ProviderError, match="has ended before"):
            await driver.ask("hello", Clock())

    _use(place, use)
    assert ("cancel" in [line["role"] for line in desk.history()]) == (prompt == "[wait]")


def test_close_ends_a_turn_that_is_under_way(desk: AcpDesk) -> None:
    async def use(driver: AcpDriver) -> None:
        asking = asyncio.ensure_future(driver.ask("[silence]", Clock()))
        while not desk.history():
            await asyncio.sleep(0.01)
        await driver.close()
        with pytest.raises(ProviderError):
            await asking

    _use(desk.at(), use)


def test_a_turn_that_is_cancelled_leaves_no_process(desk: AcpDesk) -> None:
    place = desk.at()

    async def use(driver: AcpDriver) -> None:
        asking = asyncio.ensure_future(driver.ask("[silence]", Clock()))
        while not desk.history():
            await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await place.see_none_left()

    _use(place, use)


def test_what_an_agent_leaves_behind_is_ended(desk: AcpDesk) -> None:
    """Outside of its process group, too; and agents that do not leave when their input ends."""
    desk.talk("[linger]")
    desk.talk("[linger]", like="gemini")


def test_a_program_that_is_not_there(desk: AcpDesk) -> None:
    error = desk.fail("hello", like="copilot", executable=None, command=["no-copilot"])
    assert str(error) == "the agent cannot be started: there is no program `no-copilot`"
    assert error.ends_target
    here = desk.at("copilot")
    here.environment["PATH"] = "/nowhere"
    error = here.fail("hello", executable=None, command=None)
    assert "there is no program `copilot`; install it by `npm install -g @github/copilot`" in str(error)
    assert error.ends_target
    with pytest.raises(UsageError, match="needs `command`"):
        desk.talk("hello", executable=None, command=None)


def test_mode_model_and_options(desk: AcpDesk) -> None:
    (turn,) = desk.talk("hello", like="opencode", model="model-2", mode="plan")
    assert turn.model == "model-2"
    (turn,) = desk.talk("hello", like="opencode", config={"model": "model-2"})
    assert turn.model == "model-2"
    (turn,) = desk.talk("hello", like="gemini", model="auto")
    assert turn.model == "auto"
    (turn,) = desk.talk("[see COPILOT_MODEL]", like="copilot", model="gpt-x", mode="plan")
    assert (turn.text, turn.model) == ("turn 1: gpt-x", "gpt-x")
    (turn,) = desk.talk("[write a.txt: x]", like="codex-acp", mode="Auto")  # by its name
    assert turn.tool_calls[0].status == "completed"


@pytest.mark.parametrize(
    ("like", "settings", "words"),
    [
        ("plain", {"model": "m"}, "the agent offers no choice of a model"),
        ("plain", {"mode": "m"}, "the agent has no mode `m`; it offers none"),
        ("claude-agent-acp", {"mode": "m"}, "the agent has no mode `m`; it offers default, plan"),
        (
            "opencode",
            {"model": "m"},
            "the agent failed at `session/set_config_option`: Invalid params: no such value",
        ),
        ("plain", {"auth_method": "m"}, "the agent failed at `authenticate`: Method not found"),
        ("gemini", {"auth_method": "other"}, "its ways to log in (`auth_method`): oauth-personal, gemini-api-key"),
    ],
)
def test_settings_that_an_agent_refuses(desk: AcpDesk, like: str, settings: Any, words: str) -> None:
    error = desk.fail("hello", like=like, **settings)
    assert words in str(error)
    assert error.ends_target


def test_a_session_goes_on_in_another_process(desk: AcpDesk) -> None:
    """What an agent repeats of it is not said anew; costs of before are not those of the turn."""
    for like in ("claude-agent-acp", "copilot", "gemini"):
        here = AcpDesk(desk.home / like)
        (turn,) = here.talk("hello", like=like)
        (turn,) = here.talk("again", like=like, continues=turn.session)
        assert turn.text == "turn 2: done"
        assert turn.cost is None
        assert turn.usage == USAGE[like][0]
    assert "Resource not found" in str(desk.fail("hello", like="codex-acp", continues="none"))
    assert "cannot continue" in str(desk.fail("hello", continues="none"))
