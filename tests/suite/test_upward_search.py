"""Targets, configuration and `.env` files are found in every folder up to the repository root; the nearer wins."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import Project, codes, spec

SUITE = {"evals": [{"id": "q", "prompt": "{{ var('who') }} {{ env('NEAR') }} {{ env('FAR') }}", "outcome": "o"}]}


def scripted(name: str, reply: str) -> dict[str, Any]:
    return {"name": name, "provider": "scripted", "replies": [reply]}


def one_result(project: Project, *arguments: str) -> dict[str, Any]:
    report = project.run_json("run", *arguments, code=None)
    [result] = report["results"]
    return result


@pytest.fixture
def nested(project: Project) -> Project:
    """A repository with a project inside it, and a suite below that."""
    (project.folder / ".rejoinder").rmdir()
    project.write(".git/HEAD", "x")
    project.write("docs/ex/.agentv/config.yaml", {"$schema": "agentv-config-v2", "guideline_patterns": ["**/rules.md"]})
    return project


def reply_of(result: dict[str, Any]) -> str:
    return result["turns"][0]["response"]


@spec("P32")
@pytest.mark.parametrize("folder", [".", "docs/ex", "docs/ex/evals"])
def test_targets_are_found_above_a_nearer_project(
    nested: Project, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    nested.write(".agentv/targets.yaml", {"targets": [scripted("far", "from afar"), scripted("both", "far")]})
    nested.write("docs/ex/.agentv/targets.yaml", {"targets": [scripted("both", "near")]})
    case = {"prompt": "q", "checks": [{"match": "*"}]}
    suite = nested.write("docs/ex/evals/e.yaml", {"evals": [case]})
    monkeypatch.chdir(nested.folder / folder)
    assert reply_of(one_result(nested, str(suite), "--target", "far")) == "from afar"
    assert reply_of(one_result(nested, str(suite), "--target", "both")) == "near"


@spec("P32")
def test_the_nearer_targets_file_wins_over_a_farther_configuration(nested: Project) -> None:
    nested.write(".rejoinder/config.yaml", {"targets": [scripted("t", "far")]})
    nested.write("docs/ex/.agentv/targets.yaml", {"targets": [scripted("t", "near")]})
    nested.write("docs/ex/e.yaml", {"evals": [{"prompt": "q", "checks": [{"match": "*"}]}]})
    assert reply_of(one_result(nested, "docs/ex/e.yaml")) == "near"


@spec("P32")
def test_configuration_is_merged_key_by_key(nested: Project) -> None:
    nested.write(
        ".rejoinder/config.yaml",
        {"target": "scripted/x", "vars": {"a": "far", "b": "far"}, "formatting": {"marker": "<{Role}>"}},
    )
    nested.write("docs/ex/.rejoinder/config.yaml", {"vars": {"b": "near"}})
    messages = [
        {"role": "system", "content": "{{ var('a') }} {{ var('b') }}"},
        {"role": "user", "content": "q"},
    ]
    nested.write("docs/ex/e.yaml", {"evals": [{"input_messages": messages, "outcome": "o"}]})
    [shown] = nested.run_json("prompt", "docs/ex/e.yaml")
    assert shown["question"] == "<System>\nfar near\n\n<User>\nq"
    assert nested.validate("docs/ex/e.yaml")["files"][0]["errors"] == []


@spec("P32")
@pytest.mark.parametrize("folder", [".", "docs/ex"])
def test_env_files_are_merged_up_to_the_repository_root(
    nested: Project, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    nested.write(".env", "FAR=far\nNEAR=far\n")
    nested.write("docs/ex/.env", "NEAR=near\n")
    suite = nested.write("docs/ex/evals/e.yaml", {**SUITE, "vars": {"who": "I"}})
    monkeypatch.chdir(nested.folder / folder)
    [shown] = nested.run_json("prompt", str(suite))
    assert shown["question"] == "I near far"


@spec("P32")
def test_the_key_of_a_target_is_found_in_the_env_file_of_the_repository_root(nested: Project) -> None:
    nested.write(".env", "REPLY=from the root\n")
    nested.write("docs/ex/.agentv/targets.yaml", {"targets": [scripted("t", "${{ REPLY }}")]})
    nested.write("docs/ex/e.yaml", {"evals": [{"prompt": "q", "checks": [{"contains": "from the root"}]}]})
    assert one_result(nested, "docs/ex/e.yaml")["status"] == "passed"


@spec("P32")
def test_nothing_is_read_above_the_project_root_without_a_repository(project: Project) -> None:
    (project.folder / ".rejoinder").rmdir()
    project.write(".agentv/targets.yaml", {"targets": [scripted("t", "far")]})
    project.write(".env", "FAR=far\n")
    project.write("ex/.agentv/config.yaml", {"$schema": "agentv-config-v2"})
    case = {"prompt": "q", "execution": {"target": "t"}, "checks": [{"match": "*"}]}
    assert codes(project.errors({"evals": [case]}, "ex/e.yaml")) == ["unknown-target"]


@spec("P32")
@pytest.mark.parametrize("folder", [".", "docs/ex"])
def test_a_path_with_a_leading_slash_is_found_below_the_repository_root(
    nested: Project, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    nested.write("prompts/far.md", "at the top")
    nested.write("prompts/both.md", "at the top")
    nested.write("docs/ex/prompts/both.md", "in the project")
    parts = [{"type": "file", "value": f"/prompts/{name}.md"} for name in ("far", "both")]
    case = {"input_messages": [{"role": "user", "content": parts}], "outcome": "o"}
    suite = nested.write("docs/ex/evals/e.yaml", {"evals": [case]})
    monkeypatch.chdir(nested.folder / folder)
    [shown] = nested.run_json("prompt", str(suite))
    assert "at the top" in shown["question"]
    assert "in the project" in shown["question"]


@spec("P32")
def test_runs_live_in_the_project_root_and_not_in_the_repository_root(nested: Project) -> None:
    nested.write("docs/ex/e.yaml", {"evals": [{"prompt": "q", "checks": [{"match": "*"}]}]})
    nested.write(".rejoinder/targets.yaml", {"targets": [scripted("t", "yes")]})
    nested.run("run", "docs/ex/e.yaml")
    assert len(list((nested.folder / "docs/ex/.rejoinder/runs").iterdir())) > 0
    assert not (nested.folder / ".rejoinder/runs").exists()


# .env files


@spec("P15")
@pytest.mark.parametrize("name", ["door.code", "door-code"])
def test_a_secret_with_a_dot_in_its_name_is_read_from_an_env_file(project: Project, name: str) -> None:
    project.write(".env", f"{name}=4711\n")
    suite = {"evals": [{"prompt": f"{{{{ secret('{name}') }}}}", "outcome": "o"}], "target": "scripted/x"}
    assert project.errors(suite) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("A=1\nhello there\nB=2\n", 2),
        ("A=1\n\n# note\nC='open\nB=2\n", 4),
        ('A="x\ny"\nC="open\nB=2\n', 3),
        ('A=1\nC="closed" and more\nB=2', 2),
    ],
)
def test_a_line_of_an_env_file_that_cannot_be_read_is_a_warning(project: Project, text: str, line: int) -> None:
    project.write(".env", text)
    project.write("evals.yaml", {"evals": [{"prompt": "{{ env('A') }}{{ env('B') }}", "outcome": "o"}]})
    files = {file["path"]: file for file in project.validate("evals.yaml")["files"]}
    assert files["evals.yaml"]["errors"] == []
    [warning] = files[".env"]["warnings"]
    assert (warning["code"], warning["line"]) == ("env-syntax", line)


def test_the_line_itself_is_not_shown(project: Project) -> None:
    project.write(".env", "hunter2 is the password\n")
    project.write("evals.yaml", {"target": "scripted/x", "evals": [{"prompt": "q", "checks": [{"match": "*"}]}]})
    output = project.invoke("validate", "evals.yaml").output
    assert "warning[env-syntax] .env:1:1" in output
    assert "hunter2" not in output


def test_an_env_file_that_is_not_utf8_is_a_warning(project: Project) -> None:
    project.write(".env", "A=1\n".encode("utf-16"))
    project.write("evals.yaml", {"target": "scripted/x", "evals": [{"prompt": "q", "checks": [{"match": "*"}]}]})
    files = {file["path"]: file for file in project.validate("evals.yaml")["files"]}
    [warning] = files[".env"]["warnings"]
    assert "UTF-16" in warning["message"]


def test_a_warning_about_an_env_file_does_not_hide_unknown_targets(project: Project) -> None:
    project.write(".env", "what?\n")
    suite = {"target": "nowhere", "evals": [{"prompt": "q", "checks": [{"match": "*"}]}]}
    assert codes(project.errors(suite)) == ["unknown-target"]
