"""Cassettes that answer for the user's own code: its change cannot fail the run, and every surface says so."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest

from rejoinder.testing import FakeServer
from tests.kit import Project, Raw, behind, only_run, scripted

WORDS = "answered from cassettes, not asked: `own` (your own code or server); this run cannot tell about changes there"
KINDS = ("http", "cli", "python", "openai", "vllm")


def target_of(kind: str, project: Project, server: FakeServer) -> Raw:
    project.write("words.py", "def reply(request): return 'Paris'\n\nif __name__ == '__main__': print('Paris')\n")
    kinds: dict[str, Raw] = {
        "http": {
            "provider": "http",
            "url": f"{server.openai_url}/chat/completions",
            "body": {"model": "m", "messages": "{{ messages }}"},
            "reply_path": "choices[0].message.content",
        },
        "cli": {"provider": "cli", "command": [sys.executable, "words.py"], "cwd": str(project.folder)},
        "python": {"provider": "python", "call": "words:reply"},
        "openai": behind(server, "own"),
        "vllm": behind(server, "own", provider="vllm"),
    }
    return {**kinds[kind], "name": "own"}


def write_suite(project: Project, target: Raw, **more: Any) -> None:
    evals = [{"id": f"c{n}", "prompt": f"Where, {n}?", "checks": [{"contains": "Paris"}]} for n in range(2)]
    project.write("evals.yaml", {"targets": [target], "target": "own", "evals": evals, **more})


def said(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("kind", KINDS)
def test_a_replay_of_own_code_says_that_it_was_not_asked(project: Project, kind: str) -> None:
    with FakeServer("Paris") as server:
        write_suite(project, target_of(kind, project, server))
        assert WORDS not in said(project.run("run", "--record", "cassettes"))
    project.write("words.py", "raise SystemExit(1)\n")
    assert f"WARN {WORDS}" in said(project.run("run", "--replay", "cassettes"))
    assert WORDS in said(project.run("show"))
    assert project.run_json("show")["run"]["replayed"] == ["own"]


@pytest.fixture
def replayed(project: Project) -> Project:
    """A project whose latest run is a replay of a bot that has broken since, and whose baseline is the recorded run."""
    with FakeServer("Paris") as server:
        write_suite(project, target_of("python", project, server))
    project.run("run", "-q", "--record", "cassettes")
    project.run("bless")
    project.write("words.py", "def reply(request): return 'Rome'\n")
    project.run("run", "-q", "--replay", "cassettes")
    return project


def test_reports_and_documents_say_it(replayed: Project) -> None:
    plain = re.sub(r"[`'’]", "", WORDS)
    for name in ("report.html", "report.md"):
        replayed.run("report", "--out", name)
        text = re.sub(r"<[^>]*>|[`'’]", "", (replayed.folder / name).read_text(encoding="utf-8"))
        assert plain[1:] in said(text), name  # a page begins its sentences with a capital


def test_a_gate_cannot_tell_about_replayed_code(replayed: Project) -> None:
    rule = ("--against", "main", "--rule", "no-new-failures")
    result = replayed.invoke("gate", *rule)
    assert result.exit_code == 5
    assert "cannot tell about own: the replies were replayed; no new failure in 2 cases" in said(result.stdout)
    found = replayed.run_json("gate", *rule, "--rule", "rate>=50%", code=5)
    assert [one["verdict"] for one in found["rules"]] == ["cannot-tell", "pass"]
    assert WORDS in said(replayed.invoke("gate", "--rule", "rate>=50%").output)
    replayed.invoke("run", "-q", "--replay", "cassettes", "--against", "main")
    assert replayed.invoke("gate", *rule).exit_code == 5


def test_what_is_made_of_a_replay_says_it_too(replayed: Project) -> None:
    run = only_run_of(replayed)
    assert WORDS in said(replayed.run("grade", run))
    assert WORDS in said(replayed.run("replay", run))


def only_run_of(project: Project) -> str:
    return project.run_json("runs")[0]["id"]


def test_merged_parts_say_it(replayed: Project) -> None:
    replayed.run("runs", "prune", "--keep", "0", "--yes")
    folders = []
    for part in ("1/2", "2/2"):
        document = replayed.run_json("run", "--replay", "cassettes", "--shard", part)
        folders.append(document["run"]["folder"])
    merged = replayed.run_json("merge", *folders)
    assert merged["run"]["replayed"] == ["own"]


@pytest.mark.parametrize(
    "target",
    [
        {"provider": "openai", "model": "gpt-5-mini"},
        {"provider": "azure", "endpoint": "team", "deployment": "mini"},
        scripted("own", "Paris"),
    ],
    ids=["a vendor", "Azure", "a script"],
)
def test_a_replay_of_others_says_nothing(project: Project, target: Raw) -> None:
    write_suite(project, {**target, "name": "own"})
    (project.folder / "cassettes/evals").mkdir(parents=True)
    result = project.invoke("run", "--replay", "cassettes")
    assert result.exit_code in (0, 3)  # nothing was recorded
    receipt = json.loads((only_run(project.folder) / "run.json").read_text())
    assert "replayed" not in receipt
