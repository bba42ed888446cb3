"""`results.jsonl`: written and read by one schema, messages as differences, damage found with its line."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

import rejoinder
from rejoinder.engine.results import read_results
from rejoinder.model import Result
from rejoinder.run_files import RunDamaged
from tests.conftest import Project

SUITE = {
    "targets": [{"name": "demo", "provider": "scripted", "replies": ["no", "no", "yes"]}],
    "target": "demo",
    "evals": [
        {
            "id": "a",
            "prompt": "Say yes.",
            "checks": [
                {"match": "yes"},
                {
                    "prompt": "Again.",
                    "checks": [{"match": "yes"}, {"prompt": "Please.", "checks": [{"match": "yes"}]}],
                },
            ],
        }
    ],
}


@pytest.fixture
def path(project: Project) -> Path:
    project.write("evals.yaml", SUITE)
    return rejoinder.run("evals.yaml", selection=rejoinder.Selection(include_messages=True)).folder.results


def test_messages_are_stored_as_differences_and_read_whole(path: Path) -> None:
    [line] = path.read_text().splitlines()
    sent = [turn["sent"] for turn in json.loads(line)["turns"]]
    assert [(one["kept"], [message["content"] for message in one["added"]]) for one in sent] == [
        (0, ["Say yes."]),
        (1, ["no", "Again."]),
        (3, ["no", "Please."]),
    ]
    [result] = read_results(path)
    texts = [[message.content for message in turn.messages or ()] for turn in result.turns]
    assert texts == [["Say yes."], ["Say yes.", "no", "Again."], ["Say yes.", "no", "Again.", "no", "Please."]]
    assert all(turn.sent is None for turn in result.turns)


def test_messages_of_earlier_versions_are_read_as_they_are(path: Path) -> None:
    [result] = read_results(path)
    path.write_bytes(msgspec.json.encode(result) + b"\n")
    assert b'"sent"' not in path.read_bytes()
    assert list(read_results(path)) == [result]


@pytest.mark.parametrize(("turn", "kept"), [(0, 1), (2, 4), (1, 1 << 40)])
def test_a_difference_to_messages_that_are_not_there_is_damage(path: Path, turn: int, kept: int) -> None:
    record = json.loads(path.read_bytes())
    record["turns"][turn]["sent"]["kept"] = kept
    path.write_text(json.dumps(record))
    with pytest.raises(RunDamaged, match=r"results.jsonl is damaged: line 1: the messages of turn"):
        list(read_results(path))


def test_differences_cannot_fill_the_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rejoinder.engine.results.MOST_MESSAGES", 8)
    with pytest.raises(RunDamaged, match="line 1"):
        list(read_results(path))


def test_damage_is_found_with_its_line(path: Path) -> None:
    path.write_bytes(path.read_bytes() + path.read_bytes().replace(b'"status":"passed"', b'"status":"best"'))
    results = read_results(path)
    assert next(results).status == "passed"
    with pytest.raises(RunDamaged, match=r"line 2: Invalid enum value 'best'"):
        next(results)


def test_results_without_the_newer_keys_are_read(path: Path) -> None:
    record = json.loads(path.read_bytes())
    del record["timestamp"]
    assert msgspec.convert(record, Result).timestamp is None
