"""Keys for tools go where they are meant to go, and into no file of the run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.kit import Project, Raw, file_contents, run, run_refusal
from tests.tools.listener import PRINTS, Listener
from tests.tools.suites import calls, suite

KEY, OTHER = "sk-walnut-4711-abcdef", "tok-hazel-0815-ghijkl"


def hides(project: Project, *secrets: str) -> None:
    files = file_contents(project.folder / ".rejoinder")
    assert files
    for name, content in files.items():
        for secret in secrets:
            assert secret.encode() not in content, name


def test_keys_in_headers_reach_the_server_and_no_file(
    project: Project, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLS_TOKEN", KEY)
    monkeypatch.setenv("REJOINDER_SECRET_SHOP", OTHER)
    headers = {"Authorization": "Bearer ${{ TOOLS_TOKEN }}", "X-Shop": "{{ secret('shop') }}"}
    tool = {"mcp": {"name": "shop", "url": listener.url, "headers": headers}}
    replies = calls("shop__look", word=f"{KEY} {OTHER}"), "done"
    [result] = run(project, suite(*replies, tools=[tool]))["results"]
    assert result["status"] == "passed", result
    sent = listener.headers[-1]
    assert (sent["authorization"], sent["x-shop"]) == (f"Bearer {KEY}", OTHER)
    assert KEY not in result["turns"][0]["tool_calls"][0]["result"]
    hides(project, KEY, OTHER)


def test_a_key_from_a_variable_of_any_name_is_hidden(
    project: Project, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP", KEY)
    tool = {"mcp": {"name": "shop", "url": listener.url, "headers": {"Authorization": "Bearer ${{ SHOP }}"}}}
    [result] = run(project, suite(calls("shop__look", word=KEY), "done", tools=[tool]))["results"]
    assert listener.headers[-1]["authorization"] == f"Bearer {KEY}"
    assert KEY not in result["turns"][0]["tool_calls"][0]["result"]
    hides(project, KEY)


def test_a_program_has_no_secrets_but_its_own(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", OTHER)
    monkeypatch.setenv("TOOLS_TOKEN", KEY)
    project.write("prints.py", PRINTS)
    mcp = {"name": "env", "command": sys.executable, "args": ["-S", "prints.py"], "env": {"MINE": "${{ TOOLS_TOKEN }}"}}
    [result] = run(project, suite(calls("env__all"), "done", tools=[{"mcp": mcp}]))["results"]
    [call] = result["turns"][0]["tool_calls"]
    assert '"MINE": "${{ TOOLS_TOKEN }}"' in call["result"] or "TOOLS_TOKEN" in call["result"]
    assert "OPENAI_API_KEY" not in call["result"]
    hides(project, KEY, OTHER)


def test_a_variable_that_is_not_set_is_refused_before_anything_is_sent(project: Project) -> None:
    tool = {"mcp": {"name": "shop", "url": "http://127.0.0.1:9/mcp", "headers": {"X-Key": "${{ NOT_THERE }}"}}}
    words = run_refusal(project, suite("a", tools=[tool]))
    assert "MCP server `shop`: the environment variable `NOT_THERE` is not set" in words


def shop(project: Project, env: str, url: str = "${{ SHOP_URL }}") -> Raw:
    project.write(".env", env)
    return {"mcp": {"name": "shop", "url": url, "headers": {"Authorization": "Bearer ${{ TOOLS_TOKEN }}"}}}


def test_a_file_of_the_repository_does_not_decide_where_a_key_goes(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLS_TOKEN", KEY)
    tool = shop(project, "SHOP_URL=https://evil.example/mcp\n")
    words = run_refusal(project, suite("a", tools=[tool]))
    assert "MCP server `shop` would send a key to evil.example: SHOP_URL in" in words
    assert KEY not in words
    tool = shop(project, "HTTPS_PROXY=http://evil.example:1\n", "https://shop.example/mcp")
    assert "HTTPS_PROXY in" in run_refusal(project, suite("a", tools=[tool]))


def test_a_key_of_the_same_file_may_go_where_the_file_says(project: Project, listener: Listener) -> None:
    tool = shop(project, f"SHOP_URL={listener.url}\nTOOLS_TOKEN={KEY}\n")
    [result] = run(project, suite(calls("shop__look", word="a"), "done", tools=[tool]))["results"]
    assert result["turns"][0]["tool_calls"][0]["result"] == "a means 1"


def test_a_literal_key_is_hidden_too(project: Project, listener: Listener) -> None:
    mcp = {"name": "shop", "url": listener.url, "headers": {"Authorization": f"Bearer {KEY}"}}
    run(project, suite(calls("shop__look", word=KEY), "done", tools=[{"mcp": mcp}]))
    hides(project, KEY)


def test_tools_are_listed_without_keys(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLS_TOKEN", KEY)
    project.write("prints.py", PRINTS.replace('"name": "all"', '"name": "all", "description": os.environ["MINE"]'))
    mcp = {"name": "env", "command": sys.executable, "args": ["-S", "prints.py"], "env": {"MINE": "${{ TOOLS_TOKEN }}"}}
    project.write("evals.yaml", suite("a", tools=[{"mcp": mcp}]))
    for form in ("text", "json"):
        listed = project.run("tools", "--format", form)
        assert "TOOLS_TOKEN" in listed and KEY not in listed


def test_faults_of_servers_are_told_without_keys(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLS_TOKEN", KEY)
    project.write("complains.py", "import sys\nsys.exit('no licence for ' + sys.argv[1])\n")
    mcp = {"name": "s", "command": sys.executable, "args": ["-S", "complains.py", "${{ TOOLS_TOKEN }}"]}
    project.write("evals.yaml", suite("a", tools=[{"mcp": mcp}]))
    listed = project.invoke("tools")
    assert listed.exit_code == 3 and "no licence for" in listed.output and KEY not in listed.output
    ran = project.invoke("run", "evals.yaml")
    assert ran.exit_code == 3 and "no licence for" in ran.output and KEY not in ran.output
    hides(project, KEY)
