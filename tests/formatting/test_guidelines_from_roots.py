"""Guideline patterns match a file's path as written, from the project root, or from the repository root."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import Project, scripted, spec


def shown(project: Project, pattern: str, written: str, **suite: Any) -> dict[str, Any]:
    """The prompt of a suite at docs/evals/e.yaml that attaches one file."""
    content = ["Hi.", {"type": "file", "value": written}]
    case = {"input_messages": [{"role": "user", "content": content}], "outcome": "o"}
    project.write("docs/evals/e.yaml", {"guideline_patterns": [pattern], "evals": [case], **suite})
    [prompt] = project.run_json("prompt", "docs/evals/e.yaml")
    return prompt


@pytest.fixture
def tree(project: Project) -> Project:
    (project.folder / ".rejoinder").rmdir()
    project.write(".git/HEAD", "x")
    for path in ("docs/AGENTS.md", "docs/evals/prompts/p.md", "docs/evals/a.md", "top.md"):
        project.write(path, "Be brief.")
    return project


@spec("P31")
@pytest.mark.parametrize(
    ("pattern", "written", "wanted"),
    [
        ("docs/AGENTS.md", "../AGENTS.md", True),
        ("docs/AGENTS.md", "/docs/AGENTS.md", True),
        ("docs/evals/prompts/*.md", "prompts/p.md", True),
        ("prompts/*.md", "prompts/p.md", True),
        ("docs/evals/[st].md", "a.md", False),
        ("docs/evals/[a-c].md", "a.md", True),
        ("../[A-Z]*.md", "../AGENTS.md", True),
        ("top.md", "../../top.md", True),
        ("docs/*.md", "prompts/p.md", False),
    ],
)
def test_patterns_match_from_the_repository_root(tree: Project, pattern: str, written: str, wanted: bool) -> None:
    prompt = shown(tree, pattern, written)
    assert ("Be brief." in prompt["guidelines"]) is wanted
    assert ("Be brief." in prompt["question"]) is not wanted


@spec("P31")
def test_patterns_match_from_the_project_root_and_from_the_repository_root(tree: Project) -> None:
    tree.write("docs/.agentv/config.yaml", {"$schema": "agentv-config-v2"})
    for pattern in ("evals/prompts/*.md", "docs/evals/prompts/*.md"):
        assert "Be brief." in shown(tree, pattern, "prompts/p.md")["guidelines"]


@pytest.mark.slow
@spec("P31")
def test_code_evaluators_get_such_a_file_as_a_guideline(tree: Project) -> None:
    script = "import json,sys; d=json.load(sys.stdin); print(json.dumps({'score': len(d['guideline_paths'])}))"
    tree.write("grade.py", script)
    case = {
        "input_messages": [{"role": "user", "content": ["Hi.", {"type": "file", "value": "../AGENTS.md"}]}],
        "checks": [{"code": ["python3", "../../grade.py"], "threshold": 1}],
    }
    suite = {"target": "t", "targets": [scripted("t", "x")], "evals": [case]}
    tree.write("docs/evals/e.yaml", {**suite, "guideline_patterns": ["docs/AGENTS.md"]})
    tree.run("run", "docs/evals/e.yaml", code=0)


@spec("P31")
@pytest.mark.parametrize(
    ("profile", "header"),
    [("agentv", '<file path="AGENTS.md">'), ("spec", "=== ../AGENTS.md ==="), ("legacy", "=== ../AGENTS.md ===")],
)
def test_the_header_of_a_guideline_is_its_base_name_under_the_profile_agentv(
    tree: Project, profile: str, header: str
) -> None:
    prompt = shown(tree, "**/AGENTS.md", "../AGENTS.md", formatting={"profile": profile})
    assert prompt["guidelines"].startswith(f"{header}\n")
    assert header in prompt["messages"][0]["content"]


@spec("P31")
@pytest.mark.parametrize(
    ("pattern", "path", "wanted"),
    [
        ("[ab].md", "a.md", True),
        ("[!ab].md", "c.md", True),
        ("[^ab].md", "a.md", False),
        ("[]x].md", "].md", True),
        ("[z-a].md", "b.md", False),
        ("[a-].md", "-.md", True),
        ("[.md", "[.md", True),
        ("[].md", "[].md", True),
        ("*[0-9].{md,txt}", "step7.txt", True),
        ("[*].md", "*.md", True),
        ("[*].md", "x.md", False),
    ],
)
def test_classes_of_characters(project: Project, pattern: str, path: str, wanted: bool) -> None:
    project.write(path, "Be brief.")
    case = {"input_messages": [{"role": "user", "content": ["Hi.", {"type": "file", "value": path}]}]}
    assert ("Be brief." in project.prompt(case, guideline_patterns=[pattern])["guidelines"]) is wanted
