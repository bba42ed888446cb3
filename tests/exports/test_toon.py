"""TOON: two decoders read the tables as they were meant, it is shorter than JSON, and no reply breaks it."""

from __future__ import annotations

import re
from typing import Any

import toon_format
import toons
from hypothesis import given

from rejoinder.exports import toon
from tests.kit import ROOT, bounded, spec
from tests.report.exports import OBEYED, MadeRun, failed, hostile, hostile_texts, made_run, mixed, result, turn, written


def read(run: MadeRun) -> Any:
    text = written("toon", run)
    [one, other] = [toon_format.decode(text), toons.loads(text)]
    assert one == other
    return one


@spec("R42", "R43")
def test_conversations_survive_the_round_trip_in_order() -> None:
    run = mixed()
    document = read(run)
    assert document["run"]["id"] == run.run.id
    assert document["summary"]["failed"] == 3
    assert {name: document[name] for name in ("results", "turns", "checks")} == toon.tables(run)
    assert [(row["id"], row["trial"], row["status"]) for row in document["results"]] == [
        (result.id, result.trial, result.status) for result in run.results
    ]
    said = [(row["result"], row["turn"], row["prompt"], row["response"]) for row in document["turns"]]
    assert said == [
        (number, turn.turn, turn.prompt, turn.response)
        for number, result in enumerate(run.results, 1)
        for turn in result.turns
    ]
    assert document["checks"][1] == {
        "result": 2,
        "turn": 1,
        "check": "match *105*",
        "state": "failed",
        "score": 0,
        "reason": "as it should",
    }


def test_more_rows_than_are_encoded_at_once() -> None:
    run = made_run(result(f"case-{number}") for number in range(2 * toon.BATCH + 1))
    assert [row["id"] for row in read(run)["results"]] == [result.id for result in run.results]


def test_a_run_without_results_has_empty_tables() -> None:
    assert {name: read(made_run([]))[name] for name in ("results", "turns", "checks")} == {
        "results": [],
        "turns": [],
        "checks": [],
    }


@spec("R44")
def test_the_saving_over_json_is_measured() -> None:
    run = made_run(failed(f"case-{number}") for number in range(100))
    saving = toon.measure(run)
    assert saving.toon == len(written("toon", run)) - len(written("toon", run).partition("\nresults")[0]) - 1
    assert 0.5 < saving.share < 0.8
    long = toon.measure(made_run([result("long", turn("word " * 10_000))]))
    assert 0 < long.share < 0.05
    assert toon.Saving(0, 0).share == 0


@spec("R44")
def test_the_savings_are_documented_as_measured() -> None:
    page = (ROOT / "docs/guides/exports.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|`]+) \| \d+ \| (\d+) \| (\d+) \| ([\d.]+)% less \|$", page, re.MULTILINE)
    benchmark = (ROOT / "benchmarks/toon_tokens.py").read_text(encoding="utf-8")
    assert len(rows) == 2
    for name, tables, tokens, saving in rows:
        assert name in benchmark
        assert float(saving) == round(100 * (1 - int(tokens) / int(tables)), 1)


def test_literal_escapes_stay_what_they_are() -> None:
    text = r"\u001a202e \\u001a202e \x1a" + "\x1a202e\\\x1b"
    assert read(made_run([result("one", turn(text))]))["turns"][0]["response"] == text


@bounded(150)
@given(hostile_texts)
def test_no_text_breaks_the_tables(text: str) -> None:
    run = hostile(text)
    document = read(run)
    assert not OBEYED.search(written("toon", run))

    def stored(told: str | None) -> str | None:
        return None if told is None else re.sub("[\ud800-\udfff\U000e0000-\U000e007f]", "\ufffd", told)

    exact = stored(text)
    said = [stored(turn.response) for made in run.results for turn in made.turns]
    assert [row["response"] for row in document["turns"]] == said
    assert document["checks"][0]["reason"] == exact
    assert document["results"][1]["error"] == exact
    assert [row["name"] for row in document["steps"]] == [exact] * 4
    assert [row["answer"] for row in document["tool_calls"]] == [exact, exact, "too late", None]
