"""Providers that an installed package brings: a real package on a real path, run by a child process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """\
targets: [{{name: parrot, provider: {provider}, phrase: "hello"}}]
target: parrot
evals:
  - prompt: Say something.
    checks: [{{contains: hello}}]
"""
PLUGIN = '''\
"""A provider that repeats a phrase."""


class Parrot:
    def __init__(self, target):
        self.phrase = target.settings["phrase"]

    async def reply(self, request):
        return {"text": f"{self.phrase}, {request.messages[-1].content}", "output_tokens": 3}


def function(target):
    return lambda request: target.settings["phrase"]


def broken(target):
    raise RuntimeError("no bird")


def nothing(target):
    return 7
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package as an installer would leave it."""
    site = tmp_path / "site"
    metadata = site / "parrots-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "parrots.py").write_text(PLUGIN)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: parrots\nVersion: 1.0\n")
    entries = ("parrot = parrots:Parrot", "function = parrots:function", "broken = parrots:broken")
    entries += ("nothing = parrots:nothing", "absent = parrots:missing")
    (metadata / "entry_points.txt").write_text("[rejoinder.providers]\n" + "\n".join(entries) + "\n")
    return site


def rejoinder(tmp_path: Path, package: Path, provider: str, *command: str) -> subprocess.CompletedProcess[str]:
    project = tmp_path / "project"
    (project / ".rejoinder").mkdir(parents=True, exist_ok=True)
    (project / "evals.yaml").write_text(SUITE.format(provider=provider))
    environment = {**os.environ, "PYTHONPATH": str(package)}
    words = [sys.executable, "-m", "rejoinder", *command]
    return subprocess.run(words, cwd=project, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("provider", ["parrot", "function"])
def test_a_package_brings_a_provider(provider: str, tmp_path: Path, package: Path) -> None:
    ran = rejoinder(tmp_path, package, provider, "run", "--format", "json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    document = json.loads(ran.stdout)
    assert document["results"][0]["turns"][0]["response"].startswith("hello")


def test_a_provider_of_a_package_is_no_unknown_one(tmp_path: Path, package: Path) -> None:
    assert "unknown-provider" not in rejoinder(tmp_path, package, "parrot", "validate", "evals.yaml").stdout
    assert "unknown-provider" in rejoinder(tmp_path, package, "parot", "validate", "evals.yaml").stdout


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        ("broken", "RuntimeError: no bird"),
        ("absent", "AttributeError"),
        ("nothing", "gave int, which has no `reply`"),
    ],
)
def test_a_broken_provider_is_named_before_anything_is_sent(
    provider: str, words: str, tmp_path: Path, package: Path
) -> None:
    ran = rejoinder(tmp_path, package, provider, "run")
    assert ran.returncode == 2
    assert f"the provider `{provider}` of parrots (parrots:" in ran.stderr
    assert words in ran.stderr
    assert "rejoinder/" not in ran.stderr  # the package's own frames, and none of ours


def test_a_broken_provider_disturbs_nobody_who_does_not_use_it(tmp_path: Path, package: Path) -> None:
    (package / "parrots.py").write_text(PLUGIN.replace("def broken", "def broken(:"))
    ran = rejoinder(tmp_path, package, "mock", "run")
    assert "parrots" not in ran.stdout + ran.stderr
