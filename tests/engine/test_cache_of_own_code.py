"""The cache answers for LLM APIs at their vendors' addresses only: code of one's own changes behind one address, and is
asked in every run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from rejoinder.providers.vendors import is_public_api
from rejoinder.testing import FakeServer
from tests.kit import Process, Project, Raw, behind, run_process, run_refusal, scripted, wait_until
from tests.labs.session_lab import Bot
from tests.labs.vendor_lab import vendors

GOOD, BROKEN = "It is Paris.", "It is Rome."
CASE = {"id": "one", "prompt": "What is the capital of France?", "checks": [{"contains": "Paris"}]}


class Own:
    """A bot of the user's, asked through one kind of target, that can be broken behind its target's back."""

    def __init__(self, kind: str, project: Project, bot: Bot) -> None:
        self._project, self._bot = project, bot
        self.say(GOOD)
        self.target: Raw = {"name": "own", **getattr(self, f"_{kind}")()}

    def say(self, text: str) -> None:
        self._project.write("words.txt", text)
        self.text = text

    def _http(self) -> Raw:
        return {
            "provider": "http",
            "url": f"{self._bot.url}/chat",
            "body": {"message": "{{ prompt }}"},
            "reply_path": "reply",
        }

    def _cli(self) -> Raw:
        script = "import pathlib; print(pathlib.Path('words.txt').read_text())"
        return {"provider": "cli", "command": [sys.executable, "-c", script], "cwd": str(self._project.folder)}

    def _python(self) -> Raw:
        path = self._project.folder / "words.txt"
        code = f"from pathlib import Path\ndef reply(request): return Path({str(path)!r}).read_text()\n"
        self._project.write("own_bot.py", code)
        return {"provider": "python", "call": "own_bot:reply"}

    def _openai(self) -> Raw:
        return {"provider": "openai", "model": "own", "base_url": f"{self._bot.url}/v1", "api_key": "any"}


def completion(text: str) -> Raw:
    """A reply as an `http` target and a client of OpenAI's API read it."""
    message = {"role": "assistant", "content": text}
    return {"reply": text, "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}


KINDS = ("http", "cli", "python", "openai")


@pytest.fixture(params=KINDS)
def own(request: pytest.FixtureRequest, project: Project) -> Iterator[Own]:
    with Bot(lambda _bot, _body: completion(bots[0].text)) as bot:
        bots = [Own(request.param, project, bot)]
        yield bots[0]


def suite_of(*targets: Raw, **more: Any) -> Raw:
    return {"targets": list(targets), "target": targets[0]["name"], "evals": [CASE], **more}


def test_a_bot_that_broke_is_red_with_the_cache(project: Project, own: Own) -> None:
    project.write("evals.yaml", suite_of(own.target))
    good = project.run_json("run", "evals.yaml", "--cache")
    own.say(BROKEN)
    broken = project.run_json("run", "evals.yaml", "--cache", code=1)
    assert good["run"]["from_cache"]["always_asked"] == ["own"]
    assert broken["run"]["from_cache"]["answers"] == 0
    line = "not cached: `own` (only LLM APIs at their vendors' addresses are, unless a target says `cache: true`)"
    assert line in " ".join(project.run("run", "evals.yaml", "--cache", code=1).split())
    assert "not cached" not in project.run("run", "evals.yaml", code=1)


def test_a_target_that_asks_for_the_cache_is_answered_from_it(project: Project, own: Own) -> None:
    project.write("evals.yaml", suite_of({**own.target, "cache": True}))
    project.run("run", "evals.yaml", "--cache")
    own.say(BROKEN)
    cached = project.run_json("run", "evals.yaml", "--cache")
    assert cached["run"]["from_cache"] == {**cached["run"]["from_cache"], "answers": 1}
    assert "always_asked" not in cached["run"]["from_cache"]
    project.run("run", "evals.yaml", code=1)


@pytest.mark.slow
def test_a_bot_that_broke_is_red_when_its_suite_is_watched(project: Project, own: Own) -> None:
    project.write("evals.yaml", suite_of(own.target))
    watched = Process(project.folder, "run", "--watch", "evals.yaml")
    try:
        wait_until(lambda: watched.err.text.count("waiting for a change") >= 1)
        assert "1 passed" in watched.out.text
        own.say(BROKEN)
        project.write("evals.yaml", suite_of(own.target, metadata={"name": "touched"}))
        wait_until(lambda: watched.err.text.count("waiting for a change") >= 2)
        wait_until(lambda: "1 failed" in watched.out.text)
    finally:
        watched.interrupt()
        watched.end()


def test_cases_with_equal_words_are_asked_apart(project: Project, own: Own) -> None:
    """Code of one's own may look at the case."""
    cases = [CASE, {**CASE, "id": "two"}]
    project.write("evals.yaml", {**suite_of({**own.target, "cache": True}), "evals": cases})
    first = project.run_json("run", "evals.yaml", "--cache", "--workers", "1")
    repeated = first["run"]["from_cache"]["repeated"]
    assert repeated == (1 if own.target["provider"] in ("http", "openai") else 0), (
        "a service sees its request and nothing else"
    )


def test_a_judge_behind_an_llm_api_is_cached_beside_a_bot_that_is_not(project: Project, own: Own) -> None:
    verdict = '{"score": 1, "hits": [], "misses": [], "reasoning": "fine"}'
    judged = {**CASE, "checks": [{"llm_judge": {"criteria": "Is it?"}}]}
    with FakeServer(verdict) as server:
        content = {
            **suite_of(own.target, behind(server, "judge", cache=True)),
            "judge_target": "judge",
            "evals": [judged],
        }
        project.write("evals.yaml", content)
        project.run("run", "evals.yaml", "--cache")
        second = project.run_json("run", "evals.yaml", "--cache")
        assert len(server.requests) == 1
    assert (second["run"]["from_cache"]["answers"], second["run"]["from_cache"]["always_asked"]) == (1, ["own"])


def asked_twice(project: Project, environment: dict[str, str], target: Raw) -> Raw:
    """The second of two runs with the cache, of which each is a process of its own."""
    project.write("evals.yaml", suite_of({"name": "own", "max_retries": 0, **target}))
    for _ in range(2):
        ended = run_process(project.folder, "run", "evals.yaml", "--cache", "--format", "json", **environment)
        assert ended.code == 0, ended.err
    return ended.document["run"]["from_cache"]


PUBLIC: dict[str, Raw] = {
    "openai": {"provider": "openai", "model": "gpt-5-mini"},
    "anthropic": {"provider": "anthropic", "model": "claude-sonnet-4-5"},
    "gemini": {"provider": "gemini", "model": "gemini-2.5-flash"},
    "an address of the vendor in another region": {
        "provider": "openai",
        "model": "gpt-5-mini",
        "base_url": "https://eu.api.openai.com/v1",
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("target", PUBLIC.values(), ids=PUBLIC)
def test_an_llm_api_at_its_vendors_address_is_cached(project: Project, target: Raw) -> None:
    with vendors(project.folder, GOOD) as (server, environment):
        use = asked_twice(project, environment, target)
        assert (use["answers"], len(server.requests)) == (1, 1)
    assert "always_asked" not in use


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["ollama", "vllm", "lmstudio", "openai"])
@pytest.mark.parametrize("wants", [None, True], ids=["as it is", "cache: true"])
def test_a_server_at_another_address_is_cached_if_its_target_says_so(
    project: Project, provider: str, wants: bool | None
) -> None:
    target = {"provider": provider, "model": "own", "api_key": "any"} | ({} if wants is None else {"cache": wants})
    with FakeServer(GOOD) as server:
        use = asked_twice(project, {f"{provider.upper()}_BASE_URL": server.openai_url}, target)
        assert (use["answers"], len(server.requests)) == ((1, 1) if wants else (0, 2))


@pytest.mark.parametrize(
    ("address", "is_public"),
    [
        ("https://api.openai.com/v1", True),
        ("https://API.openai.com:443/v1", True),
        ("https://team.openai.azure.com", True),
        ("https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1", True),
        ("http://api.openai.com/v1", False),
        ("http://127.0.0.1:8000/v1", False),
        ("https://10.0.0.7/v1", False),
        ("https://api.openai.com.example.com/v1", False),
        ("https://api.openai.com@127.0.0.1/v1", False),
        ("https://openai.azure.com.example.com", False),
        ("https://notapi.openai.com/v1", False),
        ("https://[::1", False),
        ("", False),
    ],
)
def test_public_addresses_are_told_from_others(address: str, is_public: bool) -> None:
    assert is_public_api(address) is is_public


def test_an_llm_api_may_be_kept_out_of_the_cache(project: Project) -> None:
    with FakeServer(GOOD) as server:
        project.write("evals.yaml", suite_of(behind(server, "model", cache=False)))
        project.run("run", "evals.yaml", "--cache")
        project.run("run", "evals.yaml", "--cache")
        assert len(server.requests) == 2


KEEPS: dict[str, Raw] = {
    "history-theirs": {"history": "theirs", "body": {"m": "{{ prompt }}", "c": "{{ conversation_id }}"}},
    "session": {"session": {"json_path": "session"}, "body": {"m": "{{ prompt }}", "s": "{{ session }}"}},
    "open": {"open": {"url": "http://127.0.0.1:9/open"}},
}


@pytest.mark.parametrize("name", KEEPS)
def test_a_service_that_keeps_the_conversation_cannot_be_cached(name: str, project: Project) -> None:
    service = {"name": "own", "provider": "http", "url": "http://127.0.0.1:9/chat", "cache": True, **KEEPS[name]}
    [error] = project.errors(suite_of(service))
    assert (error["code"], error["path"]) == ("conflicting-keys", "targets[0].cache")
    assert "keeps the conversation itself" in error["message"]
    assert "keeps the conversation itself" in run_refusal(project, suite_of(service), "--cache")


def test_a_request_that_differs_in_every_run_cannot_be_cached(project: Project) -> None:
    body = {"m": "{{ messages }}", "of": "{{ conversation_id }}"}
    service = {"name": "own", "provider": "http", "url": "http://127.0.0.1:9/chat", "cache": True, "body": body}
    [error] = project.errors(suite_of(service))
    assert error["code"] == "conflicting-keys"
    assert "another one in every run" in error["message"]


def test_scripts_and_agents_cannot_be_cached(project: Project) -> None:
    agent = {"name": "agent", "provider": "claude", "cache": True}
    for target, why in (
        (scripted("script", "Paris", cache=True), "costs nothing and replies at once"),
        (agent, "keeps the conversation itself"),
    ):
        [error] = project.errors(suite_of(target))
        assert error["code"] == "conflicting-keys"
        assert why in error["message"]


def test_an_object_that_keeps_the_conversation_cannot_be_cached(project: Project) -> None:
    project.write("kept_bot.py", "class Bot:\n    def ask(self, prompt): return 'Paris'\n")
    target = {"name": "own", "provider": "python", "call": "kept_bot:Bot", "cache": True}
    assert "keeps the conversation itself" in run_refusal(project, suite_of(target), "--cache")
