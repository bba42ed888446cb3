"""A suite whose model needs the tools of an MCP server is refused, because this version has no tools."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import Project, codes, scripted

CASE = {"prompt": "q", "checks": [{"match": "*"}]}
SERVER = {"name": "tickets", "url": "https://mcp.example.com"}
SCRIPTED = scripted("t", "yes")


def suite(**server: Any) -> dict[str, Any]:
    return {"metadata": {"model": "t", "mcp_server": {**SERVER, **server}}, "targets": [SCRIPTED], "evals": [CASE]}


def test_validate_refuses_it_with_one_error_at_its_place(project: Project) -> None:
    [error] = project.errors(suite())
    assert (error["code"], error["path"]) == ("not-supported", "metadata.mcp_server")
    assert "tools" in error["message"]


def test_the_error_points_at_the_key(project: Project) -> None:
    text = "metadata:\n  mcp_server:\n    name: a\n    url: b\nevals:\n  - prompt: q\n    outcome: o\n"
    error = next(one for one in project.errors(text) if one["code"] == "not-supported")
    assert (error["line"], error["column"]) == (2, 3)


def test_run_refuses_it_before_anything_is_sent(project: Project) -> None:
    project.write("evals.yaml", suite())
    result = project.invoke("run", "evals.yaml")
    assert result.exit_code == 2
    assert "error[not-supported] evals.yaml" in result.stderr
    assert not (project.folder / ".rejoinder/runs").exists()


def test_prompt_still_shows_what_would_be_sent(project: Project) -> None:
    [shown] = project.prompts(suite())
    assert shown["question"] == "q"


@pytest.mark.spec("P15")
def test_a_missing_secret_inside_it_is_reported(project: Project) -> None:
    content = suite(authorization_token="{{secret('nope.none')}}")
    assert [(one["code"], one["path"]) for one in project.errors(content)] == [("not-supported", "metadata.mcp_server")]
    secret = ("missing-secret", "metadata.mcp_server.authorization_token")
    assert secret in [(one["code"], one["path"]) for one in project.warnings(content)]


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
