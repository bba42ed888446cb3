"""A setting that its provider does not need and that is just a variable counts as absent when the variable is unset."""

from __future__ import annotations

from typing import Any

import pytest

from rejoinder.testing import Answer, FakeServer
from tests.kit import Project, codes, spec


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UNSET", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def suite_with(**target: Any) -> dict[str, Any]:
    case = {"prompt": "q", "checks": [{"match": "*"}]}
    return {"target": "t", "targets": [{"name": "t", **target}], "evals": [case]}


UNSET = "${{ UNSET }}"


@spec("P34")
@pytest.mark.parametrize(
    "target",
    [
        {"provider": "gemini", "api_key": "k", "model": UNSET},
        {"provider": "gemini", "settings": {"api_key": "k", "model": " ${{UNSET}} "}},
        {"provider": "cli", "command_template": "x {PROMPT}", "cwd": UNSET},
        {
            "provider": "cli",
            "command_template": "x {PROMPT}",
            "healthcheck": {"type": "command", "command_template": "y", "cwd": UNSET},
        },
        {"provider": "codex", "executable": UNSET, "cwd": UNSET, "log_dir": UNSET},
        {"provider": "vscode", "workspace_template": UNSET, "subagent_root": UNSET},
        {"provider": "openai", "model": "m", "api_key": "k", "base_url": UNSET},
        {"provider": "ollama", "model": "m", "api_key": UNSET},
    ],
)
def test_an_optional_setting_counts_as_absent(project: Project, target: dict[str, Any]) -> None:
    assert "missing-environment" not in codes(project.errors(suite_with(**target)))


@spec("P34")
@pytest.mark.parametrize(
    ("target", "path"),
    [
        ({"provider": "gemini", "api_key": UNSET}, "api_key"),
        ({"provider": "openai", "model": UNSET, "api_key": "k"}, "model"),
        ({"provider": "azure", "deployment": "d", "endpoint": UNSET, "api_key": "k"}, "endpoint"),
        ({"provider": "http", "url": UNSET}, "url"),
        ({"provider": "http", "url": "http://127.0.0.1:1", "headers": {"X": UNSET}}, "headers.X"),
        ({"provider": "gemini", "api_key": "k", "model": "gemini-${{ UNSET }}"}, "model"),
        ({"provider": "cli", "command_template": UNSET}, "command_template"),
        ({"provider": "gemini", "api_key": "k", "system_prompt": UNSET}, "system_prompt"),
    ],
)
def test_a_setting_that_is_needed_or_has_other_text_is_reported(
    project: Project, target: dict[str, Any], path: str
) -> None:
    project.write("evals.yaml", suite_with(**target))
    [file] = project.validate("evals.yaml")["files"]
    found = [*file["errors"], *file["warnings"]]
    assert (f"targets[0].{path}", "missing-environment") in {(one["path"], one["code"]) for one in found}


@spec("P34")
def test_a_run_leaves_the_setting_out(project: Project) -> None:
    with FakeServer(lambda _: Answer("Hello.")) as server:
        target = {"provider": "gemini", "api_key": "k", "base_url": server.url, "model": UNSET, "temperature": UNSET}
        project.write("evals.yaml", suite_with(**target))
        report = project.run_json("run")
    assert report["results"][0]["turns"][0]["response"] == "Hello."


@spec("P34")
def test_targets_says_what_is_left_out(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    target = {"name": "t", "provider": "gemini", "api_key": "k", "model": UNSET}
    project.write(".rejoinder/targets.yaml", {"targets": [target]})
    [row] = project.run_json("targets")
    assert (row["ready"], row["model"], row["left_out"]) == (True, None, {"model": "UNSET"})
    assert "ready; without `model`, because UNSET is not set" in project.run("targets")
    monkeypatch.setenv("UNSET", "gemini-2.5-pro")
    [row] = project.run_json("targets")
    assert row["left_out"] == {}
    assert "without" not in project.run("targets")
