"""`run --repeat auto --against NAME`: whole rounds in one run folder until they tell, whatever comes between."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import rejoinder
from rejoinder import Rounds, Selection
from tests.gates.suites import answers, run_of, suite_of
from tests.kit import (
    KILLED,
    Project,
    Raw,
    comparable,
    file_contents,
    journal_of,
    only_run,
    refusal,
    refused,
    run,
    run_folders,
    run_process,
    scripted,
    told_in,
)

AUTO = ("--repeat", "auto", "--against", "main", "--confirm", "0")
STEADY = "no case changed within a run, so cases count and not trials"


def bless(project: Project, replies: dict[str, Any], repeats: int = 10) -> str:
    """A baseline of so many repeats; its run is deleted, which it does not need."""
    name = run_of(project, replies, "--repeat", str(repeats))
    project.run("bless")
    project.run("runs", "prune", "--keep", "0", "--yes")
    return name


def trials_of(document: Raw) -> Counter[int]:
    return Counter(result["trial"] for result in document["results"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "now", "rounds", "told"),
    [
        (answers(12), answers(3, 9), 4, f"regression on these cases: 36 lost, 0 won after 4 of 10 rounds; {STEADY}"),
        (
            answers(8, 4),
            answers(12),
            5,
            f"no drop beyond 10 points on these cases: 0 lost, 20 won after 5 of 10 rounds; {STEADY}",
        ),
        (answers(40), answers(40), 2, "no drop beyond 10 points on these cases: 0 lost, 0 won after 2 of 10 rounds"),
        (answers(4), answers(4), 10, "cannot tell: 0 lost, 0 won after 10 of 10 rounds"),
    ],
)
def test_rounds_end_as_soon_as_they_tell(
    project: Project, before: dict[str, Any], now: dict[str, Any], rounds: int, told: str
) -> None:
    bless(project, before)
    project.write("evals.yaml", suite_of(now))
    result = project.invoke("run", *AUTO, "--format", "json")
    document = json.loads(result.stdout)
    assert trials_of(document) == {trial: len(now) for trial in range(1, rounds + 1)}
    summary = document["summary"]
    assert (summary["total"], summary["unfinished"]) == (len(now) * rounds, 0)
    assert result.exit_code == {"regression": 1, "no": 0, "cannot": 5}[told.partition(" ")[0]]  # the gate's
    assert document["run"]["options"]["repeat"] == rounds
    said = [line for line in result.stderr.splitlines() if " rounds" in line and "no-regression" not in line]
    assert said[-1] == told
    assert said[:-1] == [line for line in said[:-1] if line.startswith("cannot tell yet")]
    assert len(said) == rounds
    records = Counter(record["type"] for record in journal_of(only_run(project.folder)))
    assert records["asked"] == records["told"] == len(told_in(only_run(project.folder)))  # no call was made twice


FLAKY = """
import random

def reply(request):
    lost = {lost} if request.case_id != "c0" else 0
    chance = random.Random(f"{seed} {{request.case_id}} {{request.trial}}").random()
    return "yes" if chance < 0.5 - lost else "no"
"""


@pytest.mark.slow
def test_no_regression_is_never_said_where_a_comparison_of_the_same_runs_cannot_tell(project: Project) -> None:
    """Flaky cases that lost some points: each answer of the rounds is held against `compare` of the same runs."""
    evals = [{"id": f"c{n}", "prompt": "Say yes.", "checks": [{"match": "yes"}]} for n in range(50)]
    targets = [{"name": "bot", "provider": "python", "call": "bot:reply"}]
    project.write("evals.yaml", {"targets": targets, "target": "bot", "evals": evals})
    project.write("bot.py", FLAKY.format(lost=0, seed="before"))
    before = project.run_json("run", "--repeat", "10", code=1)["run"]["id"]
    project.run("bless")
    for seed, lost in (("a", 0.08), ("b", 0.08), ("c", 0.0)):
        project.write("bot.py", FLAKY.format(lost=lost, seed=seed))
        ended = run_process(project.folder, "run", *AUTO, "--format", "json")
        name = ended.document["run"]["id"]
        [found, _] = project.run_json("gate", name, "--against", "main", code=None)["rules"]
        compared = project.run_json("compare", before, name, code=None)["eventual"]
        if found["verdict"] == "pass":
            assert compared["verdict"] in ("no-difference", "better") or compared["equivalence"][0] > -0.1
            assert "no drop beyond 10 points on these cases" in found["reason"]


@pytest.mark.slow
def test_there_are_no_more_rounds_than_the_baseline_has_repeats(project: Project) -> None:
    bless(project, answers(6), repeats=3)
    document = run(project, suite_of(answers(6)), *AUTO)
    assert trials_of(document) == {1: 6, 2: 6, 3: 6}


@pytest.mark.slow
def test_a_run_in_rounds_is_shown_replayed_and_graded_with_all_of_them(project: Project) -> None:
    bless(project, answers(12))
    document = run(project, suite_of(answers(3, 9)), *AUTO)
    assert project.run_json("show", code=None) == document
    assert comparable(project.run_json("replay", code=None))["results"] == comparable(document)["results"]
    graded = project.run_json("grade", document["run"]["id"], code=None)
    assert graded["changes"] == []
    again = project.run_json("resume", document["run"]["id"], code=None)
    assert comparable(again)["results"] == comparable(document)["results"]
    assert len(run_folders(project.folder)) == 2


@pytest.mark.slow
def test_the_gate_looks_at_such_a_run_by_its_plan(project: Project) -> None:
    bless(project, answers(12))
    name = run_of(project, answers(3, 9), *AUTO)
    [found, _] = project.run_json("gate", "--against", "main", code=1)["rules"]
    assert found["reason"] == f"regression on these cases: 36 lost, 0 won after 4 of 10 rounds; {STEADY}"
    other = run_of(project, answers(12), "--repeat", "10")
    # Against another run there was no plan: it is a run of four repeats.
    [found, broken] = project.run_json("gate", name, "--against", other, code=1)["rules"]
    assert broken["reason"].startswith("9 new failures: c003 (0 of 4 now, 10 of 10 before)")
    assert found["reason"].startswith("worse: -75 points")
    assert found["reason"].endswith("; its repeats ended by another baseline")


@pytest.mark.slow
def test_rounds_mean_nothing_against_a_run_of_fewer_repeats(project: Project) -> None:
    bless(project, answers(12))
    name = run_of(project, answers(3, 9), *AUTO)
    once = run_of(project, answers(0, 12))
    [found, _] = project.run_json("gate", name, "--against", once, code=None)["rules"]
    assert "+25 points" in found["reason"]
    assert "rounds" not in found["reason"]


@pytest.mark.slow
def test_from_python(project: Project) -> None:
    bless(project, answers(12))
    project.write("evals.yaml", suite_of(answers(3, 9)))
    report = rejoinder.run("evals.yaml", selection=Selection(rounds=Rounds(against="main")))
    assert report.run.reported.repeat == 4
    assert rejoinder.gate(report, against="main").verdict == "fail"
    assert rejoinder.resume(report).summary.total == report.summary.total


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--repeat", "auto"), "needs --against NAME"),
        (("--confirm", "3"), "needs --against NAME"),
        (("--repeat", "0"), "write 1 or more, or auto"),
        (("--repeat", "some"), "write 1 or more, or auto"),
        ((*AUTO, "--fail-fast"), "whole rounds of new replies"),
        ((*AUTO, "--cache"), "whole rounds of new replies"),
        ((*AUTO, "--cache-ttl", "1h"), "whole rounds of new replies"),
        ((*AUTO, "--shard", "1/1"), "whole rounds of new replies"),
        (("--repeat", "auto", "--against", "../main"), "cannot be the name of a baseline"),
        (("--repeat", "auto", "--against", "mian"), "there is no baseline `mian`"),
        ((*AUTO, "--target", "it,other"), "compares one target"),
        ((*AUTO, "--target", "other"), "no case of this run is in the baseline"),
    ],
)
def test_what_cannot_go_in_rounds_is_refused_before_anything_is_sent(
    project: Project, arguments: tuple[str, ...], said: str
) -> None:
    bless(project, answers(2))
    suite = suite_of(answers(2))
    suite["targets"].append({"name": "other", "provider": "scripted", "replies": ["yes"]})
    project.write("evals.yaml", suite)
    for more in ((), ("--dry-run",)):
        assert said in refusal(project, "run", "evals.yaml", *arguments, *more)
    assert run_folders(project.folder) == []


@pytest.mark.parametrize("keys", [{"repeat": 3}, {"pass": "2 of 3"}])
def test_cases_with_repeats_of_their_own_make_no_equal_rounds(project: Project, keys: Raw) -> None:
    bless(project, answers(3))
    suite = suite_of(answers(3))
    suite["evals"][1] |= keys
    project.write("evals.yaml", suite)
    assert "case `c001` has repeats of its own" in refusal(project, "run", "evals.yaml", *AUTO)
    assert run_folders(project.folder) == []


def test_an_estimate_is_that_of_all_rounds(project: Project) -> None:
    bless(project, answers(2))
    project.write("evals.yaml", suite_of(answers(2)))
    result = project.invoke("run", *AUTO, "--dry-run")
    assert "would run 20 conversations" in result.stdout
    assert "this is for all 10 rounds" in result.stderr


@pytest.mark.slow
def test_another_baseline_of_the_same_name_is_another_plan(project: Project) -> None:
    first = bless(project, answers(12))
    name = run_of(project, answers(3, 9), *AUTO)
    other = run_of(project, answers(12), "--repeat", "10")
    project.run("bless", other)
    before = file_contents(project.folder)
    error = refused(project, "resume", name)
    assert f"was run {first} when this run began, and is run {other} now" in error.message
    assert file_contents(project.folder) == before


def test_a_receipt_from_elsewhere_asks_for_ten_rounds_at_most(project: Project) -> None:
    bless(project, answers(2), repeats=1)
    run_of(project, answers(2), *AUTO)
    path = only_run(project.folder) / "run.json"
    receipt = json.loads(path.read_bytes())
    receipt["options"]["repeat"] = 10**6
    path.write_text(json.dumps(receipt))
    document = project.run_json("resume", "last", code=None)
    assert max(trials_of(document)) == 10


@pytest.mark.slow
def test_errors_end_the_rounds_and_resume_goes_on(project: Project) -> None:
    write_bot(project, lost=())
    project.run("run", "--repeat", "10")
    project.run("bless")
    project.run("runs", "prune", "--keep", "0", "--yes")
    write_bot(project, lost=LOST, breaks=2)
    ended = run_process(project.folder, "run", *AUTO, "--format", "json")
    assert (ended.code, trials_of(ended.document)) == (3, {1: 12, 2: 12})
    write_bot(project, lost=LOST)
    ended = run_process(project.folder, "resume", "last", "--retry-errors", "--format", "json")
    assert (ended.code, trials_of(ended.document)) == (1, dict.fromkeys((1, 2, 3, 4), 12))
    assert "regression on these cases: 36 lost, 0 won after 4 of 10 rounds" in ended.err


@pytest.mark.slow
def test_the_command_goes_on_with_rounds_that_python_began(project: Project) -> None:
    write_bot(project, lost=())
    assert run_process(project.folder, "run", "--repeat", "10").code == 0
    project.run("bless")
    write_bot(project, lost=LOST, breaks=2)
    report = rejoinder.run("evals.yaml", selection=Selection(rounds=Rounds(against="main")))
    assert report.run.reported.repeat == 2
    write_bot(project, lost=LOST)
    ended = run_process(project.folder, "resume", report.run.id, "--retry-errors", "--format", "json")
    assert (ended.code, trials_of(ended.document)) == (1, dict.fromkeys((1, 2, 3, 4), 12))


LOST = tuple(f"c{number}" for number in range(9))
BOT = """
def reply(request):
    with open("calls.log", "a") as calls:
        calls.write(f"{{request.case_id}} {{request.trial}}\\n")
    if request.trial == {breaks} and request.case_id == "c11":
        raise OSError("no line")
    return "no" if request.case_id in {lost} else "yes"
"""


def write_bot(project: Project, lost: tuple[str, ...], breaks: int = 0) -> None:
    """A target of a process of its own, which writes down what it is asked."""
    project.write("bot.py", BOT.format(lost=lost, breaks=breaks))
    evals = [{"id": f"c{n}", "prompt": "Say yes.", "checks": [{"match": "yes"}]} for n in range(12)]
    targets = [{"name": "bot", "provider": "python", "call": "bot:reply", "max_retries": 0}]
    project.write("evals.yaml", {"targets": targets, "target": "bot", "evals": evals})


def calls_of(folder: Path) -> Counter[str]:
    path = folder / "calls.log"
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment",
    [
        *("run.created", "conversation.finished:3", "conversation.finished:12", "told.queued:20"),
        *("results.before_rename:2", "results.written:2", "summary.written:2", "run.closed", "run.closed:3"),
    ],
)
@pytest.mark.every(4)
def test_rounds_survive_the_death_of_their_process(project: Project, moment: str) -> None:
    write_bot(project, lost=())
    run_process(project.folder, "run", "--repeat", "10")
    project.run("bless")
    project.run("runs", "prune", "--keep", "0", "--yes")
    write_bot(project, lost=LOST)
    (project.folder / "calls.log").unlink()
    assert run_process(project.folder, "run", *AUTO, "--workers", "2", REJOINDER_KILL_AT=moment).code == KILLED
    ended = run_process(project.folder, "resume", "last", "--format", "json")
    assert ended.code == 1
    assert trials_of(ended.document) == dict.fromkeys((1, 2, 3, 4), 12)
    assert ended.document["summary"]["failed"] == 36
    assert "regression on these cases: 36 lost, 0 won after 4 of 10 rounds" in ended.err
    calls = calls_of(project.folder)
    assert set(calls) == {f"c{case} {trial}" for case in range(12) for trial in (1, 2, 3, 4)}
    # At most the calls that were under way when the process died are made twice.
    assert sum(calls.values()) <= len(calls) + 2
    assert len(run_folders(project.folder)) == 1


def test_tasks_in_shards_are_not_compared_in_rounds(project: Project) -> None:
    """Conditions of a task are put in different ways: rounds would pool them."""
    shards = {"task": "Say yes.", "pieces": ["Say", "yes."]}
    evals = [{"id": "task", "shards": shards, "checks": [{"match": "yes"}]}]
    suite = {"targets": [scripted("it", "yes", "yes")], "target": "it", "evals": evals}
    run(project, suite)
    project.run("bless")
    assert "has `shards`" in refusal(project, "run", "evals.yaml", *AUTO)
