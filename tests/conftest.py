"""What all tests share: the command in process, and suites written to a folder of the test's own."""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import settings

from rejoinder.cli.app import cli
from rejoinder.errors import RejoinderError

# Properties try the same examples in every run, so that a run does not fail by chance; FUZZ_EXAMPLES=N tries others.
settings.register_profile("project", derandomize="FUZZ_EXAMPLES" not in os.environ, database=None, deadline=None)
settings.load_profile("project")


class Project:
    """A folder with files, and the command run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, content: str | bytes | dict[str, Any] | list[Any]) -> Path:
        path = self.folder / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            # JSON is YAML; tests that care about the text write the text.
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
            path.write_text(text, encoding="utf-8", newline="")
        return path

    def run(self, *arguments: str, code: int | None = 0) -> str:
        result = self.invoke(*arguments)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert code is None or result.exit_code == code, (result.exit_code, result.output)
        return result.stdout

    def invoke(self, *arguments: str) -> Any:
        return CliRunner().invoke(cli, list(arguments))

    def validate(self, *arguments: str) -> dict[str, Any]:
        return json.loads(self.run("validate", "--format", "json", *arguments, code=None))

    def errors(self, content: Any, name: str = "evals.yaml") -> list[dict[str, Any]]:
        self.write(name, content)
        [file] = [file for file in self.validate(name)["files"] if file["path"] == name]
        return file["errors"]

    def warnings(self, content: Any, name: str = "evals.yaml") -> list[dict[str, Any]]:
        """The warnings about a suite; one that names no target gets one, so that nothing is said about that."""
        if isinstance(content, dict) and not {"target", "targets", "metadata"} & set(content):
            content = {**content, "target": "scripted/x"}
        self.write(name, content)
        [file] = [file for file in self.validate(name)["files"] if file["path"] == name]
        return file["warnings"]

    def prompts(self, suite: Any, *arguments: str) -> list[dict[str, Any]]:
        self.write("evals.yaml", suite)
        return json.loads(self.run("prompt", "evals.yaml", "--format", "json", *arguments))

    def prompt(self, case: dict[str, Any], *arguments: str, **suite: Any) -> dict[str, Any]:
        """The one prompt of a suite with one case."""
        graded = case if {"checks", "outcome"} & set(case) else {**case, "checks": [{"match": "*"}]}
        [shown] = self.prompts({"evals": [graded], **suite}, *arguments)
        return shown


@pytest.fixture(scope="session", autouse=True)
def user_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The user's configuration folder during tests: a key to seal runs with, and no real one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("configuration")))
        patch.delenv("REJOINDER_SEAL_KEY", raising=False)
        patch.delenv("REJOINDER_TRUST_ENV", raising=False)
        yield Path(os.environ["XDG_CONFIG_HOME"]) / "rejoinder"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".rejoinder").mkdir()
    return Project(tmp_path)


@pytest.fixture
def module(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Writes a module into the project and gives its name, a new one each time."""
    names: list[str] = []
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(source: str) -> str:
        name = f"answers_{random.getrandbits(64):x}"
        project.write(f"{name}.py", source)
        importlib.invalidate_caches()
        names.append(name)
        return name

    yield write
    for name in names:
        sys.modules.pop(name, None)


def codes(problems: list[dict[str, Any]]) -> list[str]:
    return [problem["code"] for problem in problems]


__all__ = ["Project", "RejoinderError", "codes"]
