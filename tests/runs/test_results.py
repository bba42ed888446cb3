"""`results.jsonl`: written and read by one schema, messages as differences, damage found with its line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

import rejoinder
from rejoinder.model import Outcome, Result, Spoilt, StepResult, Turn
from rejoinder.model.results import Status, UserOutcome
from rejoinder.run_files import RunDamaged
from rejoinder.runs.results import read_results
from rejoinder.testing import Answer, FakeServer, Fault
from tests.kit import Project, behind, case, follow, scripted, spec
from tests.report.exports import result, turn

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
    monkeypatch.setattr("rejoinder.runs.results.MOST_MESSAGES", 8)
    with pytest.raises(RunDamaged, match="line 1"):
        list(read_results(path))


def test_damage_is_found_with_its_line(path: Path) -> None:
    path.write_bytes(path.read_bytes() + path.read_bytes().replace(b'"status":"passed"', b'"status":"best"'))
    results = read_results(path)
    assert next(results).status == "passed"
    with pytest.raises(RunDamaged, match=r"line 2: Invalid enum value 'best'"):
        next(results)


@pytest.mark.parametrize("score", ["1e308", "-1e308", "1e16"])
@pytest.mark.parametrize("place", ["result", "check"])
def test_a_score_too_large_to_add_up_is_damage(path: Path, place: str, score: str) -> None:
    record = json.loads(path.read_bytes())
    scored = record if place == "result" else next(turn for turn in record["turns"] if turn["checks"])["checks"][0]
    scored["score"] = float(score)
    path.write_text(json.dumps(record))
    with pytest.raises(RunDamaged, match=r"results.jsonl is damaged: line 1: "):
        list(read_results(path))


def test_results_without_the_newer_keys_are_read(path: Path) -> None:
    record = json.loads(path.read_bytes())
    del record["timestamp"]
    assert msgspec.convert(record, Result).timestamp is None


# What a result says about its origin


@spec("P39")
def test_asked_by_names_the_check_whose_failure_sent_the_turn(project: Project) -> None:
    inner = {"or": [{"contains": "x"}, {"match": "yes"}, follow("In the group.", {"match": "yes"})]}
    checks = [{"match": "n*"}, inner, follow("Of all.", {"match": "yes"})]
    project.write(
        "evals.yaml", {"targets": [scripted("it", "no", "no")], "target": "it", "evals": [case("a", *checks)]}
    )
    first, second = rejoinder.run("evals.yaml").results[0].turns
    assert first.asked_by is None
    assert second.prompt == "In the group."
    assert second.asked_by is not None
    assert (second.asked_by.turn, second.asked_by.check) == (1, (1, 0))
    place = second.asked_by.check
    assert first.checks[place[0]].children[place[1]].state == "failed"


@spec("P39")
def test_a_result_says_where_its_case_stands(project: Project) -> None:
    text = "target: it\ntargets: [{name: it, provider: scripted, replies: [hi]}]\nevals:\n"
    text += "  - id: a\n    prompt: Hello\n    checks: [{match: hi}]\n"
    text += "  - id: b\n    prompt: Hello\n    checks: [{match: hi}]\n"
    project.write("evals/two.yaml", text)
    results = rejoinder.run("evals/two.yaml").results
    assert [(result.file, result.line) for result in results] == [("evals/two.yaml", 4), ("evals/two.yaml", 7)]


@spec("P39")
def test_times_retries_and_waits_of_a_call(project: Project) -> None:
    before = datetime.now(UTC)
    with FakeServer(faults=[Fault("status", status=500), Fault("status", status=503)]) as server:
        suite = {"targets": [behind(server, "it")], "target": "it", "evals": [case("a")]}
        project.write("evals.yaml", suite)
        report = rejoinder.run("evals.yaml")
    [result] = report.results
    [turn] = result.turns
    assert turn.started_at is not None
    assert result.timestamp == turn.started_at
    assert (
        before.timestamp() - 0.002
        <= datetime.fromisoformat(turn.started_at).timestamp()
        <= datetime.now(UTC).timestamp()
    )
    assert turn.retries == 2
    assert 0 <= turn.waited_s <= report.summary.duration_s
    [again] = rejoinder.replay(report).results
    assert (again.turns[0].started_at, again.turns[0].retries, again.turns[0].waited_s) == (
        turn.started_at,
        turn.retries,
        turn.waited_s,
    )


def test_tokens_of_every_kind_are_added_up(project: Project) -> None:
    answer = Answer("hi", input_tokens=9, cached_tokens=2, cache_write_tokens=4)
    with FakeServer(answer) as server:
        target = behind(server, "it", provider="anthropic", base_url=server.url, max_tokens=9)
        project.write("evals.yaml", {"targets": [target], "target": "it", "evals": [case("a"), case("b")]})
        report = rejoinder.run("evals.yaml")
    for usage in (report.summary.usage, report.summary.by_target["it"].usage):
        assert (usage.cached_tokens, usage.cache_write_tokens) == (4, 8)
    assert [result.usage.cache_write_tokens for result in report.results] == [4, 4]


def ended(status: Status, *turns: tuple[int, bool], steps: int = 0, user: UserOutcome | None = None) -> Outcome:
    """An outcome with turns by depth and verdict, and so many planned steps."""
    return Outcome(
        status=status,
        turns=tuple(
            Turn(turn=number, depth=depth, prompt="p", passed=passed) for number, (depth, passed) in enumerate(turns, 1)
        ),
        steps=tuple(StepResult(number, None, "passed", 1.0) for number in range(1, steps + 1)),
        user=user,
    )


@pytest.mark.parametrize(
    ("outcome", "recovered"),
    [
        (ended("passed", (0, True)), False),
        (ended("passed", (0, False), (1, True)), True),
        (ended("failed", (0, False), (1, False)), False),
        (ended("passed", (0, True), (1, False), (2, True)), False),
        (ended("passed", (0, True), (0, True), (1, True), steps=2), False),
        (ended("passed", (0, True), (1, True), steps=2), True),
    ],
    ids=["at once", "after a follow-up", "failed", "wavered", "plan", "plan that was cut short"],
)
def test_an_outcome_recovers_by_the_rule_of_its_result(outcome: Outcome, recovered: bool) -> None:
    turns = tuple(turn(number=one.turn, depth=one.depth, passed=one.passed) for one in outcome.turns)
    known = result("a", *turns, status=outcome.status, passed=outcome.passed, steps=outcome.steps)
    assert (outcome.recovered, known.recovered) == (recovered, recovered)


def test_an_error_stays_an_error_whatever_the_simulated_user_said() -> None:
    leaking = UserOutcome((), "word", Spoilt("leak", 1, "the code"))
    assert ended("failed", (0, False), user=leaking).is_spoilt
    assert not ended("error", (0, False), user=leaking).is_spoilt
