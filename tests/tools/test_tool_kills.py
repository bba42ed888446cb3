"""Runs that are killed around calls of tools: a call whose answer was recorded is never made again, and one that was
under way is said to be in doubt."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.kit import KILLED, Process, Project, Raw, comparable, journal_of, only_run, run_process

CASES, ROUNDS = 8, 5
CODE = """
import time
from pathlib import Path


def note(word: str) -> str:
    "Writes a word down."
    with Path("calls.txt").open("a") as file:
        file.write(word + chr(10))
    time.sleep(0.01)
    return f"{word} is noted"
"""


def make_suite() -> Raw:
    """Each conversation calls the tool with words that no other call has."""
    replies: dict[str, list[Raw | str]] = {}
    for case in range(CASES):
        words = [[f"{case}-{number}-{half}" for half in "ab"] for number in range(ROUNDS)]
        rounds = [{"tool_calls": [{"name": "note", "arguments": {"word": word}} for word in pair]} for pair in words]
        replies[f"c{case}"] = [*rounds, "done"]
    return {
        "targets": [{"name": "t", "provider": "scripted", "replies": replies, "delay_ms": 5}],
        "tools": [{"python": "noting_tools:note", "fails": [{"fault": "error", "rate": 0.1, "seed": 3}]}],
        "evals": [
            {"id": f"c{case}", "prompt": f"Note {case}.", "checks": [{"match": "done"}]} for case in range(CASES)
        ],
    }


@pytest.fixture
def noting(project: Project) -> Project:
    project.write("noting_tools.py", CODE)
    project.write("evals.yaml", make_suite())
    return project


def made(folder: Path) -> Counter[str]:
    notes = folder / "calls.txt"
    return Counter(notes.read_text().split()) if notes.exists() else Counter()


def recorded(run: Path) -> set[str]:
    """The words whose answers are in the journal."""
    texts = [record["reply"]["text"] for record in journal_of(run) if record["type"] == "told" and "reply" in record]
    return {json.loads(text)["text"].partition(" ")[0] for text in texts if text.startswith('{"text":')}


def undisturbed(project: Project) -> Raw:
    document = run_process(project.folder, "run", "evals.yaml", "--format", "json").document
    assert document["summary"]["faults"]["landed"] > 0
    (project.folder / "calls.txt").unlink()
    only_run(project.folder).rename(project.folder / "first")
    return document


def disturb(project: Project, random: Random, kills: int, expected: Raw) -> None:
    """Kill a run so often, and see what its end is like."""
    command = "run", "evals.yaml"
    settled: dict[str, int] = {}
    """How often the tool was called with each word when the answer was found in the journal."""
    for _ in range(kills):
        process = Process(project.folder, *command, "--format", "json", "--workers", "3")
        aim = sum(made(project.folder).values()) + random.randrange(5, 11)
        process.wait_for(lambda aim=aim: sum(made(project.folder).values()) >= aim, "the tool was not called")
        assert process.kill().code == KILLED
        calls = made(project.folder)
        for word in recorded(only_run(project.folder)):
            settled.setdefault(word, calls[word])
        command = ("resume",)
    document = run_process(project.folder, "resume", "--format", "json").document
    assert comparable(document)["results"] == comparable(expected)["results"]
    assert document["summary"]["faults"] == expected["summary"]["faults"]
    calls = made(project.folder)
    assert settled
    assert {word: calls[word] for word in settled} == settled
    assert sum(number - 1 for number in calls.values()) <= document["run"]["in_doubt"]


@pytest.mark.slow
def test_six_kills_around_calls_of_tools(noting: Project) -> None:
    disturb(noting, Random(18), 6, undisturbed(noting))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(17))
def test_a_hundred_kills_around_calls_of_tools(noting: Project, seed: int) -> None:
    disturb(noting, Random(seed), 6, undisturbed(noting))


def test_a_call_under_way_when_the_run_was_killed_is_in_doubt(noting: Project) -> None:
    noting.write("noting_tools.py", CODE.replace("0.01", "30 if word == '0-1-a' else 0"))
    process = Process(noting.folder, "run", "evals.yaml", "--format", "json")
    process.wait_for(lambda: made(noting.folder)["0-1-a"], "the call was not made")
    process.kill()
    noting.write("noting_tools.py", CODE)
    document = run_process(noting.folder, "resume", "--format", "json").document
    assert document["run"]["in_doubt"] >= 1
    assert made(noting.folder)["0-1-a"] == 2
    assert {result["status"] for result in document["results"]} == {"passed"}
