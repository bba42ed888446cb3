"""Runs that are killed around calls of tools: a call whose answer was recorded is never made again, and one that was
under way is said to be in doubt. The tools keep a record of their own of what they were asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.kit import KILLED, Process, Project, Raw, assert_gone, comparable, journal_of, only_run, run_process
from tests.labs.tool_lab import KINDS, Notes, noting

CASES, ROUNDS = 8, 5


def make_suite(notes: Notes) -> Raw:
    """Each conversation calls the tool with words that no other call has."""
    replies: dict[str, list[Raw | str]] = {}
    for case in range(CASES):
        words = [[f"{case}-{number}-{half}" for half in "ab"] for number in range(ROUNDS)]
        replies[f"c{case}"] = [*(notes.call(*pair) for pair in words), "done"]
    return {
        "targets": [{"name": "t", "provider": "scripted", "replies": replies, "delay_ms": 5}],
        "tools": [{**notes.tool, "fails": [{"fault": "error", "rate": 0.1, "seed": 3}]}],
        "evals": [
            {"id": f"c{case}", "prompt": f"Note {case}.", "checks": [{"match": "done"}]} for case in range(CASES)
        ],
    }


@pytest.fixture
def notes(project: Project, request: pytest.FixtureRequest) -> Iterator[Notes]:
    with noting(project, request.param) as found:
        project.write("evals.yaml", make_suite(found))
        yield found


def recorded(run: Path) -> set[str]:
    """The words whose answers are in the journal."""
    texts = [record["reply"]["text"] for record in journal_of(run) if record["type"] == "told" and "reply" in record]
    return {json.loads(text)["text"].partition(" ")[0] for text in texts if text.startswith('{"text":')}


def undisturbed(notes: Notes) -> Raw:
    document = run_process(notes.folder, "run", "evals.yaml", "--format", "json").document
    assert document["summary"]["faults"]["landed"] > 0
    (notes.folder / "calls.txt").unlink()
    only_run(notes.folder).rename(notes.folder / "first")
    return document


def disturb(notes: Notes, random: Random, kills: int) -> None:
    """Kill a run so often, and see what its end is like."""
    expected, command = undisturbed(notes), ("run", "evals.yaml")
    settled: dict[str, int] = {}
    """How often the tool was called with each word when the answer was found in the journal."""
    for _ in range(kills):
        process = Process(notes.folder, *command, "--format", "json", "--workers", "3")
        aim = sum(notes.made().values()) + random.randrange(5, 11)
        process.wait_for(lambda aim=aim: sum(notes.made().values()) >= aim, "the tool was not called")
        assert process.kill().code == KILLED
        assert_gone(*notes.pids())
        calls = notes.made()
        for word in recorded(only_run(notes.folder)):
            settled.setdefault(word, calls[word])
        command = ("resume", "last")
    document = run_process(notes.folder, "resume", "last", "--format", "json").document
    assert comparable(document)["results"] == comparable(expected)["results"]
    assert document["summary"]["faults"] == expected["summary"]["faults"]
    calls = notes.made()
    assert settled
    assert {word: calls[word] for word in settled} == settled
    assert sum(number - 1 for number in calls.values()) <= document["run"]["in_doubt"]
    assert_gone(*notes.pids())


@pytest.mark.slow
@pytest.mark.parametrize(("notes", "kills"), [("python", 3), ("stdio", 2), ("http", 2)], indirect=["notes"])
def test_some_kills_around_calls_of_tools(notes: Notes, kills: int) -> None:
    disturb(notes, Random(18), kills)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(17))
@pytest.mark.parametrize("notes", KINDS, indirect=True)
def test_a_hundred_kills_around_calls_of_tools(notes: Notes, seed: int) -> None:
    disturb(notes, Random(seed), 6)


@pytest.mark.slow
@pytest.mark.parametrize("notes", KINDS, indirect=True)
def test_a_call_under_way_when_the_run_was_killed_is_in_doubt(project: Project, notes: Notes) -> None:
    replies = [notes.call("first"), notes.call("wait"), "done"]
    case = {"id": "one", "prompt": "Note it.", "checks": [{"match": "done"}]}
    target = {"name": "t", "provider": "scripted", "replies": replies}
    project.write("evals.yaml", {"targets": [target], "tools": [notes.tool], "evals": [case]})
    process = Process(project.folder, "run", "evals.yaml")
    process.wait_for(lambda: notes.made()["wait"], "the call was not made")
    process.kill()
    assert_gone(*notes.pids())
    project.write("go", "")
    graded = run_process(project.folder, "grade")
    assert (notes.made()["wait"], "grades" in graded.out) == (1, True), "a new grade calls no tool"
    resumed = run_process(project.folder, "resume", "last")
    assert resumed.code == 0
    assert "1 call cut off before the answer was recorded" in " ".join(resumed.out.split())
    assert notes.made() == {"first": 1, "wait": 2}
    document = project.run_json("show")
    assert document["run"]["in_doubt"] == 1
    [turn] = document["results"][0]["turns"]
    assert [call["result"] for call in turn["tool_calls"]] == ["first is noted", "wait is noted"]
