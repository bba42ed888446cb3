"""Models by the names that OpenRouter gives them: they are asked there if only OpenRouter's key is set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rejoinder.testing import FakeServer
from tests.kit import Project, spec

NAMES = ["anthropic/claude-3.5-sonnet", "meta-llama/llama-4-maverick"]


def suite_of(name: str) -> dict[str, Any]:
    return {"metadata": {"model": name}, "evals": [{"id": "a", "prompt": "q", "checks": [{"match": "*"}]}]}


@pytest.fixture
def openrouter(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    with FakeServer("x") as server:
        monkeypatch.setenv("OPENROUTER_API_KEY", "key-of-a-test-0123456789")
        monkeypatch.setenv("OPENROUTER_BASE_URL", server.openai_url)
        yield server


@spec("P35")
@pytest.mark.parametrize("name", NAMES)
def test_a_model_goes_to_openrouter_and_the_run_says_so(project: Project, openrouter: FakeServer, name: str) -> None:
    project.write("evals.yaml", suite_of(name))
    result = project.invoke("run")
    assert result.exit_code == 0, result.output
    assert f"`{name}` is asked at OpenRouter" in " ".join(result.stderr.split())
    [request] = openrouter.requests
    assert request.body["model"] == name
    [warning] = project.validate()["files"][0]["warnings"]
    assert warning["code"] == "model-of-openrouter"
    assert "is asked at OpenRouter" in warning["message"]


@spec("P35")
@pytest.mark.parametrize("name", NAMES)
def test_so_does_a_model_of_the_command(project: Project, openrouter: FakeServer, name: str) -> None:
    project.write("evals.yaml", suite_of("scripted/x"))
    result = project.invoke("run", "-m", name)
    assert result.exit_code == 0, result.output
    assert "is asked at OpenRouter" in " ".join(result.stderr.split())
    assert openrouter.requests[0].body["model"] == name
    [row] = project.run_json("targets", "check", name)
    assert (row["provider"], row["answers"]) == ("openrouter", True)


@spec("P35")
def test_so_does_a_judge(project: Project, openrouter: FakeServer) -> None:
    suite = suite_of("bot")
    suite["targets"] = [{"name": "bot", "provider": "scripted", "replies": ["x"]}]
    suite["evals"][0]["checks"] = [{"llm_judge": {"criteria": "Good?", "target": NAMES[0]}}]
    project.write("evals.yaml", suite)
    project.run("run", code=None)
    assert {request.body["model"] for request in openrouter.requests} == {NAMES[0]}


@spec("P35")
def test_with_the_vendors_key_the_vendor_is_asked(
    project: Project, openrouter: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("evals.yaml", suite_of(NAMES[0]))
    with FakeServer("x") as vendor:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-a-test-9876543210")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", vendor.anthropic_url)
        result = project.invoke("run")
        assert not openrouter.requests
        assert vendor.requests
    assert "asked at OpenRouter" not in result.output


@spec("P35")
def test_without_any_key_nothing_changes(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    [warning] = project.warnings(suite_of(NAMES[0]))
    assert "is OpenRouter's name of a model" in warning["message"]


@spec("P35")
def test_a_recorded_run_is_replayed_without_the_key(
    project: Project, openrouter: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("evals.yaml", suite_of(NAMES[0]))
    project.run("run", "--record", "tape")
    monkeypatch.delenv("OPENROUTER_API_KEY")
    before = len(openrouter.requests)
    project.run("run", "--replay", "tape")
    project.run("replay", "last")
    assert len(openrouter.requests) == before == 1
