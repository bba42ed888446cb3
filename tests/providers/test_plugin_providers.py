"""Providers that an installed package brings: a real package on a real path, run by a child process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit import Ended, run_process

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


def rejoinder(tmp_path: Path, package: Path, provider: str, *command: str) -> Ended:
    project = tmp_path / "project"
    (project / ".rejoinder").mkdir(parents=True, exist_ok=True)
    (project / "evals.yaml").write_text(SUITE.format(provider=provider))
    return run_process(project, *command, PYTHONPATH=str(package))


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["parrot", "function"])
def test_a_package_brings_a_provider(provider: str, tmp_path: Path, package: Path) -> None:
    ran = rejoinder(tmp_path, package, provider, "run", "--format", "json")
    assert ran.code == 0, ran.out + ran.err
    document = ran.document
    assert document["results"][0]["turns"][0]["response"].startswith("hello")


@pytest.mark.slow
def test_a_provider_of_a_package_is_no_unknown_one(tmp_path: Path, package: Path) -> None:
    assert "unknown-provider" not in rejoinder(tmp_path, package, "parrot", "validate", "evals.yaml").out
    assert "unknown-provider" in rejoinder(tmp_path, package, "parot", "validate", "evals.yaml").out


@pytest.mark.slow
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
    assert ran.code == 2
    assert f"the provider `{provider}` of parrots (parrots:" in ran.err
    assert words in ran.err
    assert "rejoinder/" not in ran.err  # the package's own frames, and none of ours


@pytest.mark.slow
def test_a_broken_provider_does_not_disturb_other_providers(tmp_path: Path, package: Path) -> None:
    (package / "parrots.py").write_text(PLUGIN.replace("def broken", "def broken(:"))
    ran = rejoinder(tmp_path, package, "mock", "run")
    assert "parrots" not in ran.out + ran.err
