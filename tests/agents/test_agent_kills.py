"""Runs of agents that are killed again and again: no prompt is answered twice unsaid, and nothing is left behind."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit import Process, Project, Raw, run_folders
from tests.labs.agent_lab import agent, follow_ups

pytestmark = pytest.mark.slow
CASES = 3


@pytest.mark.parametrize("name", ["claude", "acp"])
def test_two_kills(project: Project, start: Callable[..., Process], name: str) -> None:
    kill_again_and_again(project, start, name, 2)


@pytest.mark.long
@pytest.mark.parametrize("name", ["claude", "codex", "pi", "acp"])
def test_a_hundred_kills(project: Project, start: Callable[..., Process], name: str) -> None:
    kill_again_and_again(project, start, name, 25)


def kill_again_and_again(project: Project, start: Callable[..., Process], name: str, kills: int) -> None:
    chance, log = random.Random(name), project.folder / "answered"
    killed = 0
    while killed < kills:
        project.write("evals.yaml", suite(name, log))
        log.write_text("")
        command = ("run", "evals.yaml")
        document: Raw | None = None
        while document is None:
            process = start(*command, "--format", "json")
            if killed < kills:
                wait_or_end(process, chance.uniform(0.2, 1.6))
            if process.process.poll() is None and killed < kills:
                process.kill()
                killed += 1
                if any((folder / "journal.jsonl").exists() for folder in run_folders(project.folder)):
                    command = ("resume", "last")
                else:  # it had not even begun
                    shutil.rmtree(project.folder / ".rejoinder", ignore_errors=True)
                continue
            document = process.end().document
        look_through(document, log)
        shutil.rmtree(project.folder / ".rejoinder")
    left = Path(tempfile.gettempdir()).glob("rejoinder-*/*/workspace")
    assert not list(left)


def suite(name: str, log: Path) -> Raw:
    def noted(case: int, turn: int) -> str:
        return f"[run: echo {case}/{turn} >> {log}; sleep 0.05]"

    return {
        "target": "agent",
        "targets": [agent(name)],
        "evals": [
            {
                "id": str(case),
                "prompt": noted(case, 1),
                "checks": [follow_ups(noted(case, 2), noted(case, 3))],
            }
            for case in range(CASES)
        ],
    }


def wait_or_end(process: Process, seconds: float) -> None:
    end = time.monotonic() + seconds
    while process.process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)


def look_through(document: Raw, log: Path) -> None:
    answered = Counter(log.read_text().split())
    for result in document["results"]:
        assert result["status"] == "passed", (result["error"], document["run"])
        said = [turn["response"].partition(":")[0] for turn in result["turns"]]
        assert said == ["turn 1", "turn 2", "turn 3"], result
        anew = len(result.get("cut_off", ()))
        for turn in result["turns"]:
            # A first turn that was killed leaves nothing to be cut off; the journal counts it as in doubt.
            told = anew + turn.get("continued", False) + document["run"]["in_doubt"]
            assert 1 <= answered[f"{result['id']}/{turn['turn']}"] <= 1 + told, (result, answered)
