"""The suites in examples/: all of them are valid, those for the local model run on it, the agent repairs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rejoinder.providers.local_weights import get_weights
from tests.kit import ROOT, Project

LOCAL = sorted((ROOT / "examples" / "local").glob("*.yaml"))
KINDS = {"doubt", "evals", "ladder", "shards", "turns", "users"}


def test_there_is_a_suite_of_each_kind() -> None:
    assert {path.stem for path in LOCAL} == KINDS


def test_every_example_is_valid(project: Project) -> None:
    get_weights("smollm2")  # without them `validate` warns of the target that needs them
    shutil.copytree(ROOT / "examples", project.folder / "examples", ignore=shutil.ignore_patterns("runs", "index*"))
    assert "0 errors, 0 warnings" in project.run("validate", "examples")


def test_the_agent_repairs_its_project_when_it_is_answered_back(project: Project) -> None:
    shutil.copytree(
        ROOT / "examples" / "agents", project.folder / "agents", ignore=shutil.ignore_patterns("__pycache__")
    )
    document = project.run_json("run", "agents")
    [result] = document["results"]
    first, second = result["turns"]
    assert "title.lower()" in first["workspace_diff"] and not first["passed"]
    assert "exit code 1" in second["prompt"] and "test_white_space_is_one_dash" in second["prompt"]
    assert [call["status"] for turn in (first, second) for call in turn["tool_calls"]] == ["completed"] * 2
    assert (document["summary"]["passed"], document["summary"]["recovered"]) == (1, 1)
    assert (result["succeeded_on_turn"], document["summary"]["rates"]["gain"]["rate"]) == (2, 1.0)


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=pytest.mark.slow if path.stem == "turns" else pytest.mark.long) for path in LOCAL],
    ids=lambda path: path.stem,
)
def test_it_runs_on_the_local_model(project: Project, path: Path) -> None:
    get_weights("smollm2")
    document = project.run_json("run", str(project.write(path.name, path.read_text(encoding="utf-8"))), code=None)
    assert document["results"] and not document["summary"]["errors"]
    assert all(turn["response"] for result in document["results"] for turn in result["turns"])
    if path.stem == "turns":
        assert all(result["steps"] for result in document["results"])
