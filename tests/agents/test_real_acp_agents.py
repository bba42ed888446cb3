"""The real agents that speak the Agent Client Protocol, at the versions of `scripts/agents/package.json`, against a
model on loopback: what the stand-ins are held against."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rejoinder.model import NO_USAGE, Usage
from rejoinder.providers.agents.driver import AgentTurn, Clock, Driver
from rejoinder.providers.base import ProviderError
from tests.kit import ROOT
from tests.labs.agent_lab import STANDINS, Desk

from .models import HUMAN, ModelServer

pytestmark = pytest.mark.agents
INSTALLED = Path(os.environ.get("REJOINDER_AGENTS", ROOT / ".agents" / "node_modules"))
PROGRAMS = {
    "claude-acp": ".bin/claude-agent-acp",
    "codex-acp": ".bin/codex-acp-linux-x64",
    "copilot": ".bin/copilot-linux-x64",
    "gemini-cli": ".bin/gemini",
    "opencode": "opencode-linux-x64/bin/opencode",
}
KEY = "a-key-that-occurs-nowhere-else"
_OPENAI = Usage(150, 7, 0, False, 30)
USAGE = {
    "claude-acp": (Usage(150, 7, 0, False, 30, 20), Usage(300, 14, 0, False, 60, 40)),
    "codex-acp": (NO_USAGE, NO_USAGE),
    "copilot": (_OPENAI, Usage(300, 14, 0, False, 60)),
    "gemini-cli": (Usage(150, 7), Usage(300, 14)),
    "opencode": (_OPENAI, Usage(150, 7, 0, True, 30)),
}
"""Of a turn with one call of the model, and of one with two, as each tells it."""
RUN = "[run: echo ran > out.txt && cat out.txt]"
ADD = '[call adder add: {"a": 2, "b": 40}]'
PATIENCE_S = 90.0


@pytest.fixture(params=sorted(PROGRAMS))
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    """An agent that knows no model but ours. gemini is given one, because it would ask another model which to take."""
    program = INSTALLED / PROGRAMS[request.param]
    if not program.exists():
        pytest.skip("the agent is not installed: `make test-agents` does it")
    settings = {"model": "gemini-2.5-pro"} if request.param == "gemini-cli" else {}
    desk = Desk(tmp_path, request.param, executable=str(program), **settings)
    with ModelServer() as models:
        desk.environment |= _variables(models.url, desk)
        by_pipes, by_url = {"command": str(STANDINS / "mcp_server")}, {"url": f"{models.url}/mcp"}
        desk.settings["mcp_servers"] = {"adder": by_url if request.param == "copilot" else by_pipes, "far": by_url}
        yield desk


def _variables(url: str, desk: Desk) -> dict[str, str]:
    """What agents need to talk to our model, and to nothing else."""
    (desk.home / ".codex").mkdir(exist_ok=True)
    (desk.home / ".codex" / "config.toml").write_text(
        'model = "own"\nmodel_provider = "own"\n[model_providers.own]\nname = "own"\nwire_api = "responses"\n'
        f'base_url = "{url}/v1"\nenv_key = "OWN_KEY"\nrequest_max_retries = 0\nstream_max_retries = 0\n'
    )
    models = {"own-1": {"name": "own-1", "cost": {"input": 1, "output": 2}}}
    options = {"baseURL": f"{url}/v1", "apiKey": KEY}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "own", "options": options, "models": models}
    opencode = {"provider": {"own": provider}, "model": "own/own-1", "small_model": "own/own-1"}
    return {
        "PATH": f"{INSTALLED / 'node' / 'bin'}{os.pathsep}{desk.environment['PATH']}",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "ENABLE_TOOL_SEARCH": "false",
        "OWN_KEY": KEY,
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": "gpt-4.1",
        "GEMINI_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": url,
        "OPENCODE_CONFIG_CONTENT": json.dumps(opencode),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }


def test_turns_tools_an_error_and_another_process(agent: Desk) -> None:
    async def talk(driver: Driver) -> list[AgentTurn]:
        turns = [await _ask(driver, "one"), await _ask(driver, RUN), await _ask(driver, ADD)]
        with pytest.raises(ProviderError, match="made on request") as caught:
            await _ask(driver, "[error 400]")
        assert (caught.value.retryable, caught.value.ends_target) == (False, False)
        return [*turns, await _ask(driver, "five")]

    turns: list[AgentTurn] = _use(agent, talk)
    first, second, third, last = turns
    assert (first.text, second.text, third.text) == ("turn 1: done", "turn 2: done", "turn 3: done")
    assert last.text == ("turn 4: done" if agent.agent == "gemini-cli" else "turn 5: done")  # it forgets what failed
    assert len({turn.session for turn in turns}) == 1
    assert {turn.stop_reason for turn in turns} == {"end_turn"}
    assert (first.usage, second.usage, last.usage) == (*USAGE[agent.agent], USAGE[agent.agent][0])
    (call,) = second.tool_calls
    assert call.status == "completed"
    assert agent.agent == "copilot" or call.name.startswith("echo ran")  # that one has a description as its title
    assert agent.agent == "gemini-cli" or ("echo ran" in call.arguments and "ran" in (call.result or ""))
    assert (agent.workspace / "out.txt").read_text() == "ran\n"
    (call,) = third.tool_calls
    assert "add" in call.name and "sum: 42" in (call.result or "")
    if agent.kind.can_continue:
        turn = _use(agent, lambda driver: _ask(driver, "six"), continues=first.session)
        assert turn.text == "turn 6: done"


def test_what_is_not_allowed(agent: Desk) -> None:
    """codex is in its mode for reading only, which denies without a question, and sometimes without a word."""
    agent.settings["permissions"] = None

    async def talk(driver: Driver) -> list[AgentTurn]:
        return [await _ask(driver, prompt) for prompt in (RUN, "[write new.txt: x]", ADD)]

    ran, wrote, added = _use(agent, talk)
    for turn in (ran, wrote):
        statuses = [call.status for call in turn.tool_calls]
        assert statuses == ["denied"] or (agent.agent == "codex-acp" and statuses in ([], ["failed"]))
    assert [call.status for call in added.tool_calls] == ["denied"]
    assert list(agent.workspace.iterdir()) == []


def test_a_turn_that_is_given_up(agent: Desk) -> None:
    async def talk(driver: Driver) -> None:
        await _ask(driver, "one")
        with pytest.raises(ProviderError, match="did not answer in time"):
            await _ask(driver, "[silence]", 2.0)
        await agent.see_none_left()

    _use(agent, talk)


async def _ask(driver: Driver, prompt: str, seconds: float = PATIENCE_S) -> AgentTurn:
    return await driver.ask(HUMAN + prompt, Clock(asyncio.get_running_loop().time() + seconds))


def _use(agent: Desk, work: Any, *, continues: str | None = None) -> Any:
    async def whole() -> Any:
        driver = agent.driver(continues=continues)
        try:
            return await work(driver)
        finally:
            await driver.close()
            await agent.see_none_left()

    return asyncio.run(whole())
