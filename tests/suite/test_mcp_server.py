"""vibecheck's `metadata.mcp_server`: the tools of one server for all cases of a suite."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import Project, codes, scripted

CASE = {"prompt": "q", "checks": [{"match": "*"}]}
SERVER = {"name": "tickets", "url": "https://mcp.example.com"}
SCRIPTED = scripted("t", "yes")


def suite(**server: Any) -> dict[str, Any]:
    return {"metadata": {"model": "t", "mcp_server": {**SERVER, **server}}, "targets": [SCRIPTED], "evals": [CASE]}


def test_validate_takes_it(project: Project) -> None:
    assert project.errors(suite()) == []


def test_prompt_shows_whose_tools_are_offered(project: Project) -> None:
    [shown] = project.prompts(suite())
    assert shown["question"] == "q"
    assert shown["tools"] == [{"name": "tickets__*", "mcp": "tickets"}]


def test_a_server_that_is_not_there_is_one_clear_error(project: Project) -> None:
    project.write("evals.yaml", suite(url="http://127.0.0.1:9/mcp"))
    result = project.invoke("run", "evals.yaml")
    assert result.exit_code == 3
    assert "MCP server `tickets` (http://127.0.0.1:9/mcp) cannot be talked with" in " ".join(result.output.split())


@pytest.mark.spec("P15")
def test_a_missing_secret_inside_it_is_reported(project: Project) -> None:
    content = suite(authorization_token="{{secret('nope.none')}}")
    secret = ("missing-secret", "metadata.mcp_server.authorization_token")
    assert [(one["code"], one["path"]) for one in project.warnings(content)] == [secret]


@pytest.mark.spec("P15")
@pytest.mark.parametrize(
    ("suite", "path"),
    [
        ({"name": "{{ var('x') }}"}, "name"),
        ({"dataset": "{{ var('x') }}"}, "dataset"),
        ({"description": "{{ var('x') }}"}, "description"),
        ({"metadata": {"name": "{{ var('x') }}"}}, "metadata.name"),
        ({"metadata": {"description": "{{ var('x') }}"}}, "metadata.description"),
        ({"metadata": {"systemPrompt": "{{ var('x') }}"}}, "metadata.systemPrompt"),
        ({"metadata": {"tags": ["a", "{{ var('x') }}"]}}, "metadata.tags[1]"),
    ],
)
def test_what_is_missing_in_the_head_of_a_suite_is_one_error_at_its_place(
    project: Project, suite: dict[str, Any], path: str
) -> None:
    found = project.errors({"targets": [SCRIPTED], "evals": [CASE], **suite})
    assert (codes(found), [one["path"] for one in found]) == (["missing-variable"], [path])
