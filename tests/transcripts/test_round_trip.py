"""Every recording imports, is graded and says the same again; what is not understood is kept, and said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rejoinder.model import ToolCall
from rejoinder.transcripts.formats import read_bytes, read_transcripts
from rejoinder.transcripts.values import Transcript, Turn
from tests.kit import Project, Raw, by_case, run, scripted
from tests.transcripts.kit import EXPECTED, SAMPLES, lines, sample

TOKENS = ("input_tokens", "output_tokens", "reasoning_tokens", "cached_tokens", "cache_write_tokens")


def calls_of(calls: tuple[ToolCall, ...]) -> list[tuple[Any, ...]]:
    return [(one.name, json.loads(one.arguments), one.result, one.status) for one in calls]


def said(turn: Turn) -> tuple[Any, ...]:
    """What a recording says of a turn."""
    reply = turn.reply()
    figures = tuple(getattr(reply.usage, name) for name in TOKENS)
    return reply.text.strip(), calls_of(reply.tool_calls), figures, reply.cost, reply.model


def graded(turn: Raw) -> tuple[Any, ...]:
    """The same, as results have it."""
    calls = [
        (one["name"], _decoded(one["arguments"]), one.get("result"), one.get("status"))
        for one in turn.get("tool_calls", [])
    ]
    usage = turn.get("usage") or {}
    figures = tuple(usage.get(name, 0) for name in TOKENS)
    return turn["response"].strip(), calls, figures, turn.get("cost"), turn.get("model")


def _decoded(arguments: Any) -> Any:
    return json.loads(arguments) if isinstance(arguments, str) else arguments


def as_case(one: Transcript) -> Raw:
    turns = [{"prompt": turn.prompt, "checks": [{"match": "*"}]} for turn in one.turns]
    return {"id": one.id, "turns": turns}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_turn_of_a_recording_is_graded_with_its_words_calls_and_figures(project: Project, name: str) -> None:
    shutil.copy(SAMPLES / name, project.folder)
    target = {"name": "recorded", "provider": "transcript", "file": name}
    results = by_case(run(project, {"targets": [target], "evals": list(map(as_case, sample(name)))}, code=0))
    for one in sample(name):
        assert [graded(turn) for turn in results[one.id]["turns"]] == [said(turn) for turn in one.turns]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_recording_that_is_imported_says_the_same_again(project: Project, name: str) -> None:
    shutil.copy(SAMPLES / name, project.folder)
    for one in sample(name):
        for turn in one.turns:
            out = f"turn-{turn.number}.yaml"
            project.run("import", "transcript", name, "--turn", str(turn.number), "--out", out)
            [report] = project.validate(out, "--strict")["files"]
            assert (report["errors"], report["warnings"]) == ([], [])
            [result] = project.run_json("run", out, code=1)["results"]
            assert result["status"] == "failed"
            assert [graded(again) for again in result["turns"]] == [said(turn)]


def test_a_run_that_is_exported_as_spans_is_a_recording_with_its_tools_and_figures(project: Project) -> None:
    called = {"text": "Let me look.", "tool_calls": [{"name": "stock", "arguments": {"item": "kettle"}}]}
    told = {"text": "There are 3.", "input_tokens": 40, "output_tokens": 4}
    tool = {"scripted": {"name": "stock", "description": "Pieces in stock.", "returns": {"pieces": 3}}}
    plan = [{"prompt": words, "checks": [{"match": "*"}]} for words in ("How many kettles?", "Are you sure?")]
    content = {
        "targets": [scripted("demo", called, told, "Yes.")],
        "tools": [tool],
        "evals": [{"id": "kettles", "name": "Kettles", "turns": plan}],
    }
    before = run(project, content, code=0)["results"][0]
    project.run("export", "--to", "otlp", "--out", "spans.json")
    [found] = read_transcripts([project.folder / "spans.json"])
    assert [(turn.prompt, turn.text) for turn in found.turns] == [
        ("How many kettles?", "There are 3."),
        ("Are you sure?", "Yes."),
    ]
    for turn, one in zip(found.turns, before["turns"], strict=True):
        assert said(turn)[:3] == graded(one)[:3]
    project.run("import", "transcript", "spans.json", "--out", "bad.yaml")
    [result] = project.run_json("run", "bad.yaml", code=1)["results"]
    assert [graded(turn)[:2] for turn in result["turns"]] == [("Yes.", [])]


# What is not understood


def with_event(name: str) -> bytes:
    """A sample with two events of a made-up type at its end. Documents may stand on lines, too."""
    event = {"type": "brand.new", "sessionId": "11111111-2222-4333-8444-555555555555", "data": {"x": 1}, "payload": {}}
    text = (SAMPLES / name).read_text()
    values = map(json.loads, text.splitlines()) if name.endswith(".jsonl") else [json.loads(text)]
    return lines(*values, event, event)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_an_event_of_a_new_type_is_kept_and_said_on_import_and_in_a_run(project: Project, name: str) -> None:
    file = f"{Path(name).stem}.jsonl"
    project.write(file, with_event(name).decode())
    [*_, last] = read_bytes(with_event(name), file)
    [unknown] = last.unknown
    assert (unknown.type, unknown.count) == ("brand.new", 2)
    assert json.loads(unknown.raw[0])["data"] == {"x": 1}
    result = project.invoke("import", "transcript", file, "--out", "bad.yaml")
    assert f"{last.id}: not understood: 2 events of type `brand.new`" in result.stderr
    result = project.invoke("run", "bad.yaml")
    assert "target `recorded`: not understood: 2 events of type `brand.new`" in result.stderr
    [log] = project.folder.glob(".rejoinder/runs/*/run.log")
    assert "not understood: 2 events of type `brand.new`" in log.read_text()


def test_what_a_stranger_calls_an_event_is_shown_inert_in_a_run(project: Project) -> None:
    event = lines({"type": "new\u001b[31m\nFAIL x"})
    project.write("pi.jsonl", (SAMPLES / "pi.jsonl").read_bytes() + event)
    project.run("import", "transcript", "pi.jsonl", "--out", "bad.yaml")
    result = project.invoke("run", "bad.yaml")
    assert "not understood: 1 event of type" in result.stderr
    assert "\u001b" not in result.stderr
    assert "\nFAIL x" not in result.stderr
