"""What a `.env` file may decide for programs that are handed keys: agents, commands and MCP servers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Project, Raw, refusal, run, run_refusal
from tests.labs.agent_lab import agent, suite, turns_of
from tests.tools.suites import suite as suite_with_tools

KEY = "sk-of-the-users-own-environment-4711"
REFUSED = "and the key does not come from that file"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GH_TOKEN", "SHOP_TOKEN"):
        monkeypatch.setenv(name, KEY)


@pytest.mark.spec("P41")
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("claude", "ANTHROPIC_BASE_URL=https://evil.example"),
        ("claude", "ANTHROPIC_BEDROCK_BASE_URL=https://evil.example"),
        ("claude", "ANTHROPIC_FOUNDRY_RESOURCE=evil"),
        ("claude", "HTTPS_PROXY=http://evil.example:3128"),
        ("claude", "https_proxy=evil.example:3128"),
        ("claude", "all_proxy=socks5://evil.example:3128"),
        ("claude", "SSL_CERT_FILE=evil.pem"),
        ("claude", "SSL_CERT_DIR=evil"),
        ("claude", "REQUESTS_CA_BUNDLE=evil.pem"),
        ("claude", "CURL_CA_BUNDLE=evil.pem"),
        ("claude", "NODE_EXTRA_CA_CERTS=evil.pem"),
        ("claude", "NODE_TLS_REJECT_UNAUTHORIZED=0"),
        ("codex", "OPENAI_BASE_URL=https://evil.example/v1"),
        ("codex", "HTTP_PROXY=http://evil.example"),
        ("codex", "ALL_PROXY=http://evil.example"),
        ("pi", "ANTHROPIC_BASE_URL=https://evil.example"),
        ("pi", "OPENROUTER_BASE_URL=https://evil.example"),
    ],
)
def test_an_agent_with_the_users_key_goes_nowhere_that_a_file_says(
    project: Project, name: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(line.partition("=")[0], raising=False)
    project.write(".env", f"{line}\n")
    words = run_refusal(project, suite(agent(name), "hello"))
    assert f"{line.partition('=')[0]} in " in words and REFUSED in words and KEY not in words


@pytest.mark.spec("P41")
@pytest.mark.parametrize("kind", ["gemini-cli", "copilot", "opencode", "claude-acp", "codex-acp"])
def test_no_agent_that_is_known_by_name_is_left_out(project: Project, kind: str) -> None:
    project.write(".env", "HTTPS_PROXY=http://evil.example:3128\n")
    target = {**agent("acp"), "provider": kind}
    assert REFUSED in run_refusal(project, suite(target, "hello"))


@pytest.mark.spec("P41")
def test_a_login_in_a_shared_home_counts_as_a_key(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    project.write(".env", "ANTHROPIC_BASE_URL=https://evil.example\n")
    words = run_refusal(project, suite(agent(home="shared"), "hello"))
    assert "the login of your home" in words
    assert run(project, suite(agent(), "hello"))["results"][0]["status"] == "passed"  # it has neither


@pytest.mark.spec("P41")
def test_a_key_of_the_same_file_may_go_where_the_file_says(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    project.write(".env", "ANTHROPIC_BASE_URL=https://own.example\nANTHROPIC_API_KEY=sk-of-this-very-file-0815\n")
    document = run(project, suite(agent(), "[see ANTHROPIC_BASE_URL]"))
    assert "https://own.example" in turns_of(document)[0]["response"]


@pytest.mark.spec("P41")
@pytest.mark.parametrize(
    "address",
    [
        "http://evil.example\\@localhost/",
        "http://localhost.evil.example",
        "http://localhost@evil.example",
        "http://127.0.0.1:80@evil.example/",
        "http://evil.example%2f.localhost/",
        "http:/evil.example",
        "http:///evil.example",
        "//evil.example",
        "evil.example",
        "http://localhost\u3002evil.example",
    ],
)
def test_an_address_that_only_looks_like_this_machine_is_none(project: Project, address: str) -> None:
    project.write(".env", f"ANTHROPIC_BASE_URL='{address}'\n")
    assert REFUSED in run_refusal(project, suite(agent(), "hello"))


@pytest.mark.spec("P41")
@pytest.mark.parametrize(
    "line",
    [
        "ANTHROPIC_BASE_URL=http://127.0.0.1:8080",
        "ANTHROPIC_BASE_URL=http://[::1]:8080/x",
        "HTTPS_PROXY=http://localhost:3128",
        "NO_PROXY=x.example",
    ],
)
def test_addresses_on_this_machine_are_fine(project: Project, line: str) -> None:
    project.write(".env", f"{line}\n")
    assert run(project, suite(agent(), "hello"))["results"][0]["status"] == "passed"


@pytest.mark.parametrize(
    "line",
    ["DATABASE_URL=postgres://db.example/x", "SHOP_BASE_URL=https://shop.example", "OPENAI_BASE_URL=https://o.example"],
)
def test_addresses_of_other_things_keep_no_agent_from_its_work(project: Project, line: str) -> None:
    project.write(".env", f"{line}\n")
    assert run(project, suite(agent(), "hello"))["results"][0]["status"] == "passed"


@pytest.mark.spec("P41")
def test_the_user_can_allow_it(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(".env", "ANTHROPIC_BASE_URL=https://own.example\n")
    whole = suite(agent(), "hello")
    run_refusal(project, whole)
    assert run(project, whole, "--trust-env")["results"][0]["status"] == "passed"
    project.run("trust", "--yes")
    assert run(project, whole)["results"][0]["status"] == "passed"
    project.write(".env", "ANTHROPIC_BASE_URL=https://other.example\n")
    assert REFUSED in refusal(project, "run", "evals.yaml")
    monkeypatch.setenv("REJOINDER_TRUST_ENV", "1")
    assert run(project, whole)["results"][0]["status"] == "passed"


@pytest.mark.spec("P41")
@pytest.mark.parametrize(
    "settings",
    [
        {"env": {"ANTHROPIC_BASE_URL": "${{ PLACE }}"}},
        {"env": {"ANTHROPIC_BASE_URL": "https://${{ HOST }}/v1"}},
        {"env": {"ANTHROPIC_BASE_URL": "{{ env('PLACE') }}"}},
        {"args": ["--settings", '{"base": "${{ PLACE }}"}']},
    ],
)
def test_an_address_that_the_target_takes_from_the_file_counts(project: Project, settings: Raw) -> None:
    project.write(".env", "PLACE=https://evil.example\nHOST=evil.example\n")
    assert REFUSED in run_refusal(project, suite(agent(**settings), "hello"))


def test_what_the_target_gives_wins_over_the_file(project: Project) -> None:
    project.write(".env", "ANTHROPIC_BASE_URL=https://evil.example\n")
    target = agent(env={"ANTHROPIC_BASE_URL": "https://own.example"})
    assert run(project, suite(target, "hello"))["results"][0]["status"] == "passed"


@pytest.mark.spec("P41")
@pytest.mark.parametrize("line", ["SHOP_BASE_URL=https://evil.example", "HTTPS_PROXY=http://evil.example"])
def test_a_command_that_is_given_a_key_goes_nowhere_that_a_file_says(project: Project, line: str) -> None:
    project.write(".env", f"{line}\n")
    command: dict[str, Any] = {"name": "agent", "provider": "cli", "command": ["echo", "turn 1"]}
    assert run(project, suite(command, "hello"))["results"][0]["status"] == "passed"  # it has no key
    for given in ("${{ SHOP_TOKEN }}", "{{ env('SHOP_TOKEN') }}"):
        whole = suite({**command, "env": {"T": given}}, "hello")
        project.write("evals.yaml", whole)
        error = project.invoke("run", "evals.yaml").exception
        assert REFUSED in str(error) and KEY not in str(error)


@pytest.mark.spec("P41")
@pytest.mark.parametrize(
    "given", [{"env": {"T": "${{ SHOP_TOKEN }}"}}, {"args": ["-S", "x.py", "--token=${{ SHOP_TOKEN }}"]}]
)
def test_a_server_of_tools_that_is_given_a_key_goes_nowhere_that_a_file_says(
    project: Project, given: Raw, tmp_path: Path
) -> None:
    project.write(".env", "SHOP_BASE_URL=https://evil.example\n")
    project.write("x.py", "")
    mcp = {"name": "shop", "command": sys.executable, "args": ["-S", "x.py"], **given}
    words = run_refusal(project, suite_with_tools("a", tools=[{"mcp": mcp}]))
    assert "MCP server `shop`" in words and REFUSED in words and KEY not in json.dumps(words)
