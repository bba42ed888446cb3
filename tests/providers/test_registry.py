"""The table of providers, and what plug-ins say of themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from rejoinder.model.providers import PROVIDER_NAMES, PROVIDERS, ProviderInfo, Traits, list_providers, row_of
from rejoinder.providers.registry import info_of
from rejoinder.suite.targets import is_known_provider
from tests.documentation import ROOT

SUITE = """\
targets:
  - {name: demo, provider: scripted, replies: ["Good day."]}
  - {name: meaning, provider: PROVIDER}
target: demo
embedding_target: meaning
evals:
  - prompt: Say something.
    checks: [{semantic: {expected: Good day., threshold: 0.9}}]
"""
PLUGIN = """\
print("loaded")

class Meaning:
    traits = {"embeds": True, "local": True, "counted": False}

    def __init__(self, target):
        pass

    def reply(self, request):
        return [len(request.embed), 1.5]


class Silent(Meaning):
    traits = {}


class Misspelt(Meaning):
    traits = {"embed": True}


class Empty(Meaning):
    def reply(self, request):
        return []
"""


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_every_row_opens_something(name: str) -> None:
    module, _, opener = PROVIDERS[name].opens.partition(":")
    assert callable(getattr(import_module(f"rejoinder.providers.{module}"), opener))
    assert is_known_provider(name)
    assert info_of(name) is PROVIDERS[name]


def test_names_are_unique_and_listed_ones_run() -> None:
    assert len(PROVIDER_NAMES) == sum(1 + len(info.also) for info in PROVIDERS.values())
    assert not is_known_provider("unheard-of")
    assert "vscode" in list_providers()
    assert "anthropic" not in list_providers(embeds=True)
    assert row_of("unheard-of") == ProviderInfo() == info_of("unheard-of")


def test_the_schema_knows_every_name() -> None:
    schema = json.loads((ROOT / "src/rejoinder/suite/schema.json").read_text())
    known = {
        name
        for rule in schema["$defs"]["target"]["allOf"]
        for name in rule.get("if", {}).get("properties", {}).get("provider", {}).get("enum", ())
    }
    assert {name.lower() for name in known} >= set(PROVIDER_NAMES)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A package as an installer would leave it."""
    folder = tmp_path / "site"
    metadata = folder / "meanings-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "meanings.py").write_text(PLUGIN)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: meanings\nVersion: 1.0\n")
    entries = [f"{name.lower()} = meanings:{name}" for name in ("Meaning", "Silent", "Misspelt", "Empty")]
    (metadata / "entry_points.txt").write_text("[rejoinder.providers]\n" + "\n".join(entries) + "\n")
    return folder


def run(tmp_path: Path, site: Path, provider: str, *words: str) -> subprocess.CompletedProcess[str]:
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    (project / "evals.yaml").write_text(SUITE.replace("PROVIDER", provider))
    environment = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run(
        [sys.executable, *words], cwd=project, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_a_plugin_says_what_it_is(tmp_path: Path, site: Path) -> None:
    source = (
        "import msgspec, rejoinder.providers.registry as p; print(msgspec.json.encode(p.info_of('meaning')).decode())"
    )
    document = json.loads(run(tmp_path, site, "meaning", "-c", source).stdout)
    told = {name: document[name] for name in Traits.__struct_fields__}
    assert told == {**json.loads(msgspec.json.encode(Traits())), "embeds": True, "local": True, "counted": False}


@pytest.mark.slow
def test_a_plugin_that_embeds_compares_meanings(tmp_path: Path, site: Path) -> None:
    ran = run(tmp_path, site, "meaning", "-m", "rejoinder", "run", "--format", "json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["results"][0]["turns"][0]["checks"][0]["score"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("provider", "words"),
    [
        ("silent", "target `meaning` has the provider `silent`, which gives no embeddings"),
        ("misspelt", "the provider `misspelt` of meanings (meanings:Misspelt) has wrong `traits`"),
    ],
)
def test_a_plugin_that_does_not_embed_is_refused(tmp_path: Path, site: Path, provider: str, words: str) -> None:
    ran = run(tmp_path, site, provider, "-m", "rejoinder", "run")
    assert ran.returncode == 2
    assert words in ran.stderr


@pytest.mark.slow
def test_what_is_no_vector_is_an_error_that_names_the_plugin(tmp_path: Path, site: Path) -> None:
    ran = run(tmp_path, site, "empty", "-m", "rejoinder", "run")
    assert ran.returncode == 3
    assert "`empty` returned something that is not a vector: the vector is empty" in ran.stdout


@pytest.mark.slow
def test_validation_does_not_load_a_plugin(tmp_path: Path, site: Path) -> None:
    ran = run(tmp_path, site, "silent", "-m", "rejoinder", "validate", "evals.yaml")
    assert (ran.returncode, "loaded" in ran.stdout + ran.stderr) == (0, False)


def test_a_wire_format_is_imported_when_a_target_speaks_it() -> None:
    script = """
import sys
from rejoinder.model import Target
from rejoinder.providers.registry import open_provider
from rejoinder.providers.shared import Exchange
open_provider(Target(name="x", provider="openai", settings={"model": "m"}), (), {"OPENAI_API_KEY": "none"}, Exchange())
print(*(name for name in ("openai_chat", "anthropic", "gemini") if f"rejoinder.providers.{name}" in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["openai_chat"]
