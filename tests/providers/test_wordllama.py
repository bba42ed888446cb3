"""Embeddings of wordllama: the real package with its real model, without a network."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rejoinder.checks.embeddings import cosine
from rejoinder.errors import UsageError
from rejoinder.installing import install_hint
from rejoinder.model import Request, Target
from rejoinder.model.providers import PROVIDERS
from rejoinder.providers import wordllama
from rejoinder.providers.base import ProviderError
from rejoinder.providers.registry import open_provider
from rejoinder.providers.shared import Exchange
from tests.conftest import Project

TARGET = Target(name="wordllama", provider="wordllama")
SUITE: dict[str, Any] = {
    "targets": [{"name": "demo", "provider": "scripted", "replies": ["You get your money back within a week."]}],
    "evals": [
        {
            "id": "refund",
            "prompt": "How long does a refund take?",
            "checks": [
                {"semantic": {"expected": "Your money is returned to you in one week.", "threshold": 0.6}},
                {"not": {"semantic": {"expected": "Cats like to sleep in the sun.", "threshold": 0.4}}},
            ],
        }
    ],
}


def ask(**fields: Any) -> Request:
    asked: dict[str, Any] = {"messages": (), "question": "", "target": "wordllama", "case_id": "c", "turn": 1}
    return Request(**{**asked, "trial": 1, "call": 0, **fields})


def embed(*texts: str) -> list[bytes]:
    async def run() -> list[bytes]:
        provider = open_provider(TARGET, (), {}, Exchange())
        try:
            return [(await provider.reply(ask(embed=text))).vector for text in texts]
        finally:
            await provider.close()

    return asyncio.run(run())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "paraphrase", "unrelated"),
    [
        ("You get your money back within a week.", "Your money is returned to you in one week.", "Cats like to sleep."),
        ("The train to Berlin leaves at nine.", "The Berlin train departs at 9 o'clock.", "Add two eggs to the dough."),
        ("The doctor examined the patient.", "The physician examined a patient.", "The stock market fell today."),
    ],
)
def test_paraphrases_are_nearer_than_unrelated_texts(text: str, paraphrase: str, unrelated: str) -> None:
    vector, near, far = embed(text, paraphrase, unrelated)
    assert cosine(vector, near) > 0.6
    assert cosine(vector, far) < 0.4


@pytest.mark.slow
def test_vectors_are_those_of_the_package() -> None:
    import numpy

    model = wordllama._load_model()
    texts = ["You get your money back.", "Ünïcødé 東京 🎉", " ", "word " * 5000]
    for text, vector in zip(texts, embed(*texts), strict=True):
        assert numpy.allclose(numpy.frombuffer(vector, "<f4"), model.embed(text)[0], atol=1e-5)


@pytest.mark.parametrize("text", ["\ud800 half a character", "\x00", "x" * 250_001])
def test_odd_texts_have_vectors(text: str) -> None:
    [vector] = embed(text)
    assert len(vector) == 4 * 256


def test_semantic_needs_no_target_where_wordllama_is_installed(project: Project) -> None:
    project.write("evals.yaml", SUITE)
    assert project.invoke("validate", "evals.yaml").exit_code == 0
    ran = project.invoke("run", "evals.yaml", "--format", "json")
    assert ran.exit_code == 0, ran.output
    document = json.loads(ran.stdout)
    [first, _] = document["results"][0]["turns"][0]["checks"]
    assert "by wordllama; 0.6 is needed" in first["reason"]
    assert document["summary"]["embeddings"]["texts"] == 3
    assert document["summary"]["embeddings"]["tokens"] == 0


def test_an_embedding_target_is_used_instead(project: Project) -> None:
    meaning = {"name": "meaning", "provider": "scripted", "embeddings": {"*": [1, 0]}}
    suite = {**SUITE, "target": "demo", "targets": [*SUITE["targets"], meaning], "embedding_target": "meaning"}
    project.write("evals.yaml", suite)
    ran = project.invoke("run", "evals.yaml", "--format", "json")
    [first, _] = json.loads(ran.stdout)["results"][0]["turns"][0]["checks"]
    assert (first["score"], "wordllama" in first["reason"]) == (1, False)


@pytest.mark.parametrize("where", ["suite", "check"])
def test_the_name_needs_no_definition(project: Project, where: str) -> None:
    check = {"expected": "Your money is returned to you in one week.", "threshold": 0.6}
    case = {
        "prompt": "Hello?",
        "checks": [{"semantic": {**check, **({"target": "wordllama"} if where == "check" else {})}}],
    }
    suite = {**SUITE, "evals": [case], **({"embedding_target": "wordllama"} if where == "suite" else {})}
    project.write("evals.yaml", suite)
    assert project.invoke("validate", "evals.yaml").exit_code == 0
    assert project.invoke("run", "evals.yaml").exit_code == 0


def test_without_the_package_both_ways_out_are_named(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordllama, "is_installed", lambda: False)
    project.write("evals.yaml", SUITE)
    ran = project.invoke("run", "evals.yaml")
    assert isinstance(ran.exception, UsageError)
    assert "Name one as `embedding_target`" in str(ran.exception.hint)
    assert '-m pip install "wordllama' in str(ran.exception.hint)
    problems = [one for file in project.validate("evals.yaml")["files"] for one in file["warnings"]]
    assert [('pip install "wordllama' in one["message"]) for one in problems] == [True, True]


def test_a_target_without_the_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordllama, "is_installed", lambda: False)
    with pytest.raises(UsageError, match="needs the package wordllama, which is not installed") as caught:
        open_provider(TARGET, (), {}, Exchange())
    assert caught.value.hint == install_hint("semantic")


def test_messages_are_refused_for_good() -> None:
    provider = open_provider(TARGET, (), {}, Exchange())
    with pytest.raises(ProviderError, match="gives only embeddings, no replies") as caught:
        asyncio.run(provider.reply(ask()))
    assert (caught.value.ends_target, caught.value.retryable) == (True, False)
    assert not PROVIDERS["wordllama"].replies


def test_a_broken_package_ends_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise FileNotFoundError("Weights file not found")

    monkeypatch.setattr(wordllama, "_load_model", fail)
    with pytest.raises(ProviderError, match="wordllama cannot be loaded: Weights file not found") as caught:
        embed("A text")
    assert caught.value.ends_target


@pytest.mark.slow
def test_loading_leaves_the_root_logger_and_the_event_loop_alone() -> None:
    wordllama._load_model.cache_clear()
    before = logging.getLogger().handlers[:], logging.getLogger().level

    async def run() -> float:
        provider = open_provider(TARGET, (), {}, Exchange())
        asked = asyncio.ensure_future(provider.reply(ask(embed="A text")))
        turns = 0
        while not asked.done():
            await asyncio.sleep(0.005)
            turns += 1
        await provider.close()
        return turns

    assert asyncio.run(run()) > 2
    assert (logging.getLogger().handlers[:], logging.getLogger().level) == before


WITHOUT_NETWORK = """
import sys
def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.sendmsg", "socket.gethostbyname"):
        raise SystemExit(f"{event} {arguments}")
import asyncio
from rejoinder.model import Request, Target
from rejoinder.providers.registry import open_provider
from rejoinder.providers.shared import Exchange
assert "wordllama" not in sys.modules and "numpy" not in sys.modules

async def run():
    provider = open_provider(Target(name="w", provider="wordllama"), (), {}, Exchange())
    assert "wordllama" not in sys.modules
    sys.addaudithook(watch)
    request = Request(target="w", case_id="c", trial=1, turn=1, call=0, messages=(), question="", embed="A text")
    print(len((await provider.reply(request)).vector))
    await provider.close()

asyncio.run(run())
"""


@pytest.mark.slow
def test_nothing_is_fetched_and_nothing_is_imported_before_it_is_needed(tmp_path: Path) -> None:
    started = time.perf_counter()
    environment = {"HOME": str(tmp_path), "PATH": "", "HF_HUB_OFFLINE": "0"}
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_NETWORK], capture_output=True, text=True, check=False, env=environment
    )
    assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (0, "1024", "")
    assert list(tmp_path.rglob("*.safetensors")) == []
    assert time.perf_counter() - started < 60
