"""vibecheck's example of a server of tools, `linear-mcp`, in its own form: the address, the name and the token stand in
`metadata.mcp_server`. The server is a stand-in with a token, the model a fake one that calls its tools."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from rejoinder.testing import Answer, FakeServer, Received, ToolCall
from tests.kit import Project, Raw, file_contents
from tests.labs.tracker_lab import TOKEN, Tracker, tracker

pytestmark = pytest.mark.slow

ADDRESS = "https://mcp.linear.app/mcp"
LINEAR = """\
metadata:
  name: linear-mcp
  model: google/gemini-2.5-flash-lite
  system_prompt: You look after the issues of a team. Answer in a sentence or two.
  mcp_server:
    url: "https://mcp.linear.app/mcp"
    name: "linear"
    authorization_token: "{{secret('linear.apiKey')}}"

evals:
  # A question that needs the server
  - prompt: Which issues in Linear are the newest?
    checks:
      - match: "*REJ*" # the prefix of the team's issues
      - min_tokens: 4
      - max_tokens: 500

  # Something to do
  - prompt: Write a to-do into Linear. Water the plants.
    checks:
      - match: "*REJ*"
      - min_tokens: 4
      - max_tokens: 500

  # The same without a word of where
  - prompt: Write a to-do. Feed the cat.
    checks:
      - match: "*REJ*"
      - min_tokens: 4
      - max_tokens: 500

  # An issue that has to be looked up
  - prompt: What is Rej1 about?
    checks:
      - match: "*REJ*"
      - max_tokens: 500
"""
PLANS = {
    "newest": ToolCall("linear__list_issues", {}),
    "plants": ToolCall("linear__create_issue", {"title": "Water the plants"}),
    "cat": ToolCall("linear__create_issue", {"title": "Feed the cat"}),
    "Rej1": ToolCall("linear__get_issue", {"id": "REJ-1"}),
}


def model(request: Received) -> Answer:
    """Calls the tool that the prompt is about, and then says what it answered."""
    first, *_, last = request.body["contents"] * 2
    for part in last["parts"]:
        if "functionResponse" in part:
            return Answer(f"In Linear there is this: {json.dumps(part['functionResponse']['response'])}")
    [word] = [word for word in PLANS if word in json.dumps(first)]
    return Answer(tool_calls=(PLANS[word],))


@pytest.fixture(scope="module")
def server() -> Iterator[Tracker]:
    with tracker() as found:
        yield found


@pytest.fixture
def ready(project: Project, server: Tracker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    project.write("linear-mcp.yaml", LINEAR.replace(ADDRESS, server.url))
    with FakeServer(model) as fake:
        monkeypatch.setenv("GEMINI_BASE_URL", fake.gemini_url)
        monkeypatch.setenv("GEMINI_API_KEY", "a-fake-key")
        monkeypatch.setenv("REJOINDER_SECRET_LINEAR_APIKEY", TOKEN)
        yield project


def calls(result: Raw) -> list[tuple[str, str, str]]:
    return [(one["server"], one["name"], one["status"]) for one in result["turns"][0]["tool_calls"]]


@pytest.mark.spec("V23")
def test_vibechecks_example_runs_in_its_own_form(ready: Project, server: Tracker) -> None:
    [file] = ready.validate("linear-mcp.yaml")["files"]
    assert (file["errors"], file["warnings"]) == ([], [])
    document = ready.run_json("run", "linear-mcp.yaml")
    assert document["summary"]["passed"] == 4
    made = [calls(result) for result in document["results"]]
    assert made == [
        [("linear", name, "completed")] for name in ("list_issues", "create_issue", "create_issue", "get_issue")
    ]
    assert server.callers() == {f"Bearer {TOKEN}"}
    kept = file_contents(ready.folder / ".rejoinder")
    assert kept and not [name for name, content in kept.items() if TOKEN.encode() in content]


def test_its_tools_are_listed(ready: Project) -> None:
    shown = ready.run("tools", "--suite", "linear-mcp.yaml")
    assert [line for line in shown.splitlines() if line.startswith("linear__")] == [
        "linear__list_issues",
        "linear__get_issue",
        "linear__create_issue",
    ]


def test_a_wrong_token_is_an_error_that_says_so_and_does_not_show_it(
    ready: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REJOINDER_SECRET_LINEAR_APIKEY", "lin_hazel_0815_ghijkl")
    listed = ready.invoke("tools", "--suite", "linear-mcp.yaml")
    assert listed.exit_code == 3
    assert "refuses us: HTTP 401; is the token right" in listed.output and "hazel" not in listed.output
    document = ready.run_json("run", "linear-mcp.yaml", code=3)
    assert {result["error"]["type"] for result in document["results"]} == {"tool"}
    assert "hazel" not in json.dumps(document)
