"""`rejoinder prompt` for targets of one's own: the request and the command as they would go out; nothing is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kit import Project, Raw, case, run
from tests.labs.session_lab import Bot, chat

KEY = "k3y-of-the-lab-1234567890"


def suite(target: Raw, **more: Any) -> Raw:
    return {"targets": [target], "target": target["name"], "evals": [case("one", **more)]}


def shown(project: Project, target: Raw, *arguments: str, **more: Any) -> Raw:
    [record] = project.prompts(suite(target, **more), *arguments)
    return record


def test_the_request_of_a_service_is_shown_as_it_is_sent(project: Project) -> None:
    with Bot() as bot:
        target = chat(bot, headers={"X-Case": "{{ case_id }}"})
        request = shown(project, target)["request"]
        assert bot.heard == [], "nothing is sent"
        run(project, suite(target))
        sent = bot.heard[0]
    assert (request["method"], request["url"]) == (sent.method, f"{bot.url}{sent.path}")
    assert request["body"] == sent.body
    assert {name: sent.headers[name] for name in request["headers"]} == request["headers"]


def test_text_shows_method_address_headers_and_body(project: Project) -> None:
    target = {"name": "bot", "provider": "http", "url": "http://127.0.0.1:9/chat", "body": {"m": "{{ prompt }}"}}
    project.write("evals.yaml", suite(target))
    text = project.run("prompt", "evals.yaml")
    assert "as target `bot` (http) receives it" in text
    assert 'POST http://127.0.0.1:9/chat\ncontent-type: application/json\n\n{\n  "m": "Question one"\n}' in text


def test_keys_are_not_shown_and_need_not_be_set(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_NOBODY", raising=False)
    monkeypatch.setenv("LAB_KEY", KEY)
    headers = {"Authorization": "Bearer ${{ LAB_KEY }}", "X-Api-Key": KEY, "X-Trace": "${{ LAB_NOBODY }}"}
    target = {"name": "bot", "provider": "http", "url": f"http://me:{KEY}@127.0.0.1:9/", "headers": headers}
    record = shown(project, target)
    assert KEY not in json.dumps(record)
    assert record["request"]["headers"]["authorization"] == "Bearer ${{ LAB_KEY }}"
    assert record["request"]["headers"]["x-trace"] == "${{ LAB_NOBODY }}"
    assert KEY not in project.run("prompt", "evals.yaml")


def test_the_request_that_opens_a_session_is_shown_before(project: Project) -> None:
    with Bot() as bot:
        record = shown(project, chat(bot, open={"url": f"{bot.url}/sessions", "body": {"for": "{{ case_id }}"}}))
        assert bot.heard == []
    assert record["open"] == {
        "method": "POST",
        "url": f"{bot.url}/sessions",
        "headers": {"content-type": "application/json"},
        "body": {"for": "one"},
    }
    assert record["request"]["body"] == {"message": "Question one", "session": None}


def test_the_command_of_a_target_is_shown_and_not_run(project: Project) -> None:
    line = {"name": "bot", "provider": "cli", "command_template": "touch ran; echo {PROMPT} > {OUTPUT_FILE}"}
    assert shown(project, line)["command"] == "touch ran; echo 'Question one' > SCRATCH/output.txt"
    words = {"name": "bot", "provider": "cli", "command": ["touch", "ran", "{EVAL_ID}"]}
    record = shown(project, words)
    assert (record["command"], record["stdin"]) == (["touch", "ran", "one"], "Question one")
    text = project.run("prompt", "evals.yaml")
    assert "--- command ---\ntouch ran one\n--- standard input ---\nQuestion one" in text
    assert not (project.folder / "ran").exists()


def test_values_of_a_command_are_quoted(project: Project) -> None:
    line = {"name": "bot", "provider": "cli", "command_template": "ask {PROMPT}"}
    assert shown(project, line, prompt="it's; rm -rf /")["command"] == "ask 'it'\"'\"'s; rm -rf /'"


def test_each_target_of_ones_own_is_shown(project: Project) -> None:
    targets = [{"name": name, "provider": "http", "url": f"http://127.0.0.1:9/{name}"} for name in ("a", "b")]
    records = project.prompts({"targets": targets, "target": ["a", "b"], "evals": [case("one")]})
    assert [record["request"]["url"] for record in records] == ["http://127.0.0.1:9/a", "http://127.0.0.1:9/b"]


def test_models_have_no_request_of_their_own(project: Project) -> None:
    record = shown(project, {"name": "m", "provider": "openai", "model": "gpt-5-mini"})
    assert not {"request", "command"} & set(record)
