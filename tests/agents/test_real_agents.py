"""The real agents, at the versions of `scripts/agents/package.json`, against a model on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rejoinder.errors import UsageError
from rejoinder.providers.agents.driver import AgentTurn, Clock, Driver
from tests.kit import ROOT, Project, run
from tests.labs.agent_lab import STANDINS, Desk

from .models import HUMAN, ModelServer

INSTALLED = ROOT / ".agents" / "node_modules"
KEY = "a-key-that-occurs-nowhere-else"
COMMAND_LINES = ("claude", "codex", "pi")
every_agent = pytest.mark.parametrize("agent", COMMAND_LINES)
pytestmark = [
    pytest.mark.agents,
    pytest.mark.skipif(not INSTALLED.exists(), reason="the agents are not installed: `make test-agents` does it"),
]


@pytest.fixture
def models() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def _desk(folder: Path, agent: str, models: ModelServer, **settings: Any) -> Desk:
    """An agent that knows no model but ours. The package of `claude` is a wrapper, whose program lies beside it."""
    if agent == "claude":
        (program,) = INSTALLED.glob("@anthropic-ai/claude-code-*/claude")
        desk = Desk(folder, agent, **{"executable": str(program), "model": "claude-sonnet-4-5", **settings})
        desk.environment |= {"ANTHROPIC_BASE_URL": models.url, "ANTHROPIC_API_KEY": KEY, "CLAUDE_CODE_MAX_RETRIES": "0"}
    elif agent == "codex":
        provider = {"name": "own", "base_url": f"{models.url}/v1", "env_key": "OWN_KEY", "wire_api": "responses"}
        bounds = {"request_max_retries": 0, "stream_max_retries": 0}
        config = {"model_provider": "own", "model_providers": {"own": {**provider, **bounds}}}
        given = {"executable": str(INSTALLED / ".bin" / "codex"), "model": "gpt-5.1-codex", "config": config}
        desk = Desk(folder, agent, **{**given, **settings})
        desk.environment["OWN_KEY"] = KEY
    else:
        desk = Desk(folder, agent, **{"executable": str(INSTALLED / ".bin" / "pi"), "model": "own/own-1", **settings})
        desk.environment["PI_OFFLINE"] = "1"
        cost = {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0}
        model = {"id": "own-1", "input": ["text"], "cost": cost, "contextWindow": 128_000, "maxTokens": 4096}
        own = {"baseUrl": f"{models.url}/v1", "apiKey": KEY, "api": "openai-completions", "models": [model]}
        (desk.home / ".pi" / "agent" / "models.json").write_text(json.dumps({"providers": {"own": own}}))
    return desk


def _talk(desk: Desk, *prompts: str, **settings: Any) -> list[AgentTurn]:
    return desk.talk(*(HUMAN + prompt for prompt in prompts), **settings)


@every_agent
def test_three_turns(tmp_path: Path, agent: str, models: ModelServer) -> None:
    turns = _talk(_desk(tmp_path, agent, models), "one", "two", "three")
    assert [turn.text for turn in turns] == ["turn 1: done", "turn 2: done", "turn 3: done"]
    assert len({turn.session for turn in turns}) == 1
    for turn in turns:
        assert (turn.usage.input_tokens, turn.usage.cached_tokens, turn.usage.output_tokens) == (150, 30, 7)
    first, *others = (turn.cost for turn in turns)
    assert (first is None) == (agent == "codex")
    assert others == [first and pytest.approx(first)] * 2


@every_agent
def test_tools(tmp_path: Path, agent: str, models: ModelServer) -> None:
    desk = _desk(tmp_path, agent, models)
    _, turn = _talk(desk, "one", "[write hello.txt: good day] [run: cat hello.txt] [run: cat nothing.txt]")
    assert (desk.workspace / "hello.txt").read_text().strip() == "good day"
    assert turn.text == "turn 2: done"
    assert [call.status for call in turn.tool_calls] == ["completed", "completed", "failed"]
    assert (turn.tool_calls[1].result or "").strip() == "good day"
    assert turn.usage.output_tokens == 4 * 7


@every_agent
def test_what_is_rejected_is_not_done(tmp_path: Path, agent: str, models: ModelServer) -> None:
    desk = _desk(tmp_path, agent, models, permissions=None)
    if agent == "pi":
        with pytest.raises(UsageError, match="pi, which never asks for permission"):
            desk.driver()
        return
    (turn,) = _talk(desk, "[write new.txt: x] [run: ls]")
    assert turn.text == "turn 1: done"
    assert not (desk.workspace / "new.txt").exists()
    if agent == "claude":
        assert [(call.name, call.status) for call in turn.tool_calls] == [("Write", "denied"), ("Bash", "denied")]


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_some_is_allowed_in_every_turn(tmp_path: Path, agent: str, models: ModelServer) -> None:
    desk = _desk(tmp_path, agent, models, permissions={"edit": "allow"})
    _talk(desk, "[write one.txt: x]", "[write two.txt: x]")
    assert sorted(file.name for file in desk.workspace.iterdir()) == ["one.txt", "two.txt"]


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_mcp_servers(tmp_path: Path, agent: str, models: ModelServer) -> None:
    servers = [{"name": "adder", "command": str(STANDINS / "mcp_server")}]
    prompt = '[call adder add: {"a": 2, "b": 40}]'
    desk = _desk(tmp_path, agent, models, mcp_servers=servers, permissions={"other": "allow"})
    (call,) = _talk(desk, prompt)[0].tool_calls
    assert (call.name, call.status, call.result) == ("adder__add", "completed", "sum: 42")
    desk = _desk(tmp_path, agent, models, mcp_servers=servers, permissions=None)
    (call,) = _talk(desk, prompt)[0].tool_calls
    assert (call.name, call.status) == ("adder__add", "denied")


@every_agent
def test_an_error_of_its_model(tmp_path: Path, agent: str, models: ModelServer) -> None:
    error = _desk(tmp_path, agent, models).fail(f"{HUMAN}[error 400]")
    assert str(error).startswith(f"{agent} failed: ")
    assert "made on request" in str(error)
    assert not error.ends_target
    error = _desk(tmp_path, agent, models).fail(f"{HUMAN}[error 401]")
    assert (error.status, error.ends_target) == (401, True)


@every_agent
def test_a_silent_model(tmp_path: Path, agent: str, models: ModelServer) -> None:
    error = _desk(tmp_path, agent, models).fail(f"{HUMAN}[silence]", clock=lambda: Clock(silence_s=5))
    assert str(error).startswith(f"{agent} printed nothing for 5 s")


@every_agent
def test_a_killed_prompt_stays_in_the_session(tmp_path: Path, agent: str, models: ModelServer) -> None:
    desk = _desk(tmp_path, agent, models)

    async def until_killed(driver: Driver) -> str | None:
        first = await driver.ask(f"{HUMAN}one", Clock())
        asking = asyncio.create_task(driver.ask(f"{HUMAN}two [silence]", Clock()))
        while not models.asked.is_set():
            await asyncio.sleep(0.02)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await desk.see_none_left()
        return first.session

    session = desk.use(desk.driver(), until_killed)
    turns = _talk(desk, "three", "four", continues=session)
    assert [turn.text for turn in turns] == ["turn 3: done", "turn 4: done"]
    assert {turn.session for turn in turns} == {session}
    assert [turn.usage.output_tokens for turn in turns] == [7, 7]


@every_agent
def test_an_unknown_session(tmp_path: Path, agent: str, models: ModelServer) -> None:
    session = "99999999-2222-4333-8444-555555555555"
    with pytest.raises(Exception, match=f"(?s){agent} .*{session}"):
        _talk(_desk(tmp_path, agent, models), "one", continues=session)


@every_agent
def test_a_project_is_repaired(project: Project, tmp_path: Path, agent: str, models: ModelServer) -> None:
    """The whole way: a suite, a workspace, the project's own test, and its output as the follow-up."""
    desk = _desk(tmp_path, agent, models)
    given = {
        name: desk.environment[name] for name in desk.environment.keys() - {"PATH", "HOME", "PWD", *desk.kind.variables}
    }
    project.write("template/calc.py", "def add(a, b):\n    return a - b\n")
    project.write("template/test_calc.py", "from calc import add\nassert add(2, 3) == 5, add(2, 3)\n")
    target = {"name": "agent", "provider": agent, **desk.settings, "env": given, "workspace_template": "template"}
    if agent == "pi":
        known = (desk.home / ".pi" / "agent" / "models.json").read_text()
        target["setup"] = f"cat > $PI_CODING_AGENT_DIR/models.json <<'END'\n{known}\nEND"
    writes = "[run: echo 'def add(a, b): return a {} b' > calc.py]"
    decides = {"command": "python3 test_calc.py"}
    follow_up = {
        "prompt": HUMAN + "{{ failed }} " + writes.format("+"),
        "checks": [decides, {"file_unchanged": "test*"}],
    }
    case = {"id": "one", "prompt": HUMAN + writes.format("*"), "checks": [{**decides, **follow_up}]}
    document = run(project, {"target": "agent", "targets": [target], "evals": [case]}, code=0)
    [result] = document["results"]
    assert result["succeeded_on_turn"] == 2 and "AssertionError: 6" in result["turns"][1]["prompt"]
    assert "+def add(a, b): return a + b" in result["turns"][1]["workspace_diff"]
