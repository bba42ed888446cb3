"""Small promises: whose failure a doubt names, what a cancelled call gives back, how long a provider is waited for."""

from __future__ import annotations

import asyncio
import json
from shutil import rmtree

import pytest

from rejoinder.engine.budget import Budget
from rejoinder.engine.retries import NO_REFUSALS, Refusals, Retries, Tries, decide_retry
from rejoinder.model.spending import Amount
from rejoinder.providers.base import ProviderError
from tests.kit import Project, case, run, run_process, scripted


def test_what_was_granted_to_a_call_that_is_cancelled_is_given_back() -> None:
    async def play() -> None:
        budget = Budget(None, 10)
        first = await budget.reserve(Amount(0.0, 10))
        waiting = asyncio.ensure_future(budget.reserve(Amount(0.0, 10)))
        await asyncio.sleep(0)
        budget.settle(first, Amount(0.0, 0))  # now the waiting call is let through
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert budget.reserved.tokens == 0
        budget.settle(await budget.reserve(Amount(0.0, 10)), Amount(0.0, 10))
        assert budget.spent.tokens == 10

    asyncio.run(asyncio.wait_for(play(), 10))


def test_a_doubt_beside_a_failed_check_names_the_check_that_failed(project: Project) -> None:
    """The doubt stands at a check that passed, so it is no failure of that check which sends it."""
    doubt = {"match": "*yes*", "prompt": "Sure?", "ask": "always", "checks": [{"match": "*yes*"}]}
    evals = [case("one", doubt, {"match": "*please*"})]
    project.write("evals.yaml", {"targets": [scripted("it", "yes", "yes")], "target": "it", "evals": evals})
    [result] = project.run_json("run", code=None)["results"]
    first, second = result["turns"]
    assert [check["passed"] for check in first["checks"]] == [True, False]
    assert second["asked_by"] == {"turn": 1, "check": [1]}


@pytest.mark.parametrize(("asked_s", "ends"), [(599.0, False), (600.0, False), (601.0, True)])
def test_a_wait_of_ten_minutes_is_waited_and_a_longer_one_ends_the_target(asked_s: float, ends: bool) -> None:
    error = ProviderError("busy", retryable=True, status=503, retry_after_s=asked_s)
    assert decide_retry(error, Retries(), Tries(), NO_REFUSALS).ends_target is ends


@pytest.mark.parametrize(("seconds", "ends"), [(600.0, False), (601.0, True)])
def test_refusals_for_more_than_ten_minutes_end_the_target(seconds: float, ends: bool) -> None:
    error = ProviderError("too many", retryable=True, status=429, pressure="rate")
    refusals = Refusals(seconds, has_answered=True)
    assert decide_retry(error, Retries(), Tries(), refusals).ends_target is ends


TRIALS = """
def reply(request):
    return "yes" if request.trial == 1 else "no"
"""


def test_a_case_with_skipped_trials_is_run_again_though_its_rule_is_met(project: Project) -> None:
    """One of three trials is enough, the second fails, and `--fail-fast` skips the third: it is not done."""
    project.write("bot.py", TRIALS)
    evals = [case("lucky", {"match": "yes"}, repeat=3, **{"pass": "1 of 3"})]
    targets = [{"name": "bot", "provider": "python", "call": "bot:reply"}]
    document = run(project, {"targets": targets, "target": "bot", "evals": evals}, "--fail-fast", "--workers", "1")
    assert [result["status"] for result in document["results"]] == ["passed", "failed", "skipped"]
    again = project.run_json("run", "--failed", code=None)
    assert [result["id"] for result in again["results"]] == ["lucky"] * 3


INTERRUPTED = """
import os, signal, time
from pathlib import Path

def reply(request):
    state = Path("state").read_text()
    if request.case_id == "c0" and state == "down":
        raise OSError("no line")
    if state == "interrupts":
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)  # the signal arrives before the run can end
    return "yes"
"""


@pytest.mark.slow
def test_a_merged_run_needs_no_parts_though_it_was_interrupted_later(project: Project) -> None:
    project.write("bot.py", INTERRUPTED)
    targets = [{"name": "bot", "provider": "python", "call": "bot:reply", "max_retries": 0}]
    evals = [case(f"c{number}", {"match": "yes"}) for number in range(6)]
    project.write("evals.yaml", {"targets": targets, "target": "bot", "evals": evals})
    project.write("state", "down")
    parts = [
        run_process(project.folder, "run", "--shard", f"{part}/2", "--format", "json").document["run"]["folder"]
        for part in (1, 2)
    ]
    merged = run_process(project.folder, "merge", *parts, "--format", "json").document["run"]["id"]
    project.write("state", "interrupts")
    assert run_process(project.folder, "resume", merged, "--retry-errors").code == 130
    for part in parts:
        rmtree(part)
    project.write("state", "up")
    ended = run_process(project.folder, "resume", merged, "--retry-errors", "--format", "json")
    assert (ended.code, ended.document["summary"]["passed"]) == (0, 6), ended.err


@pytest.mark.parametrize(("inherited", "own"), [("criteria", "outcome"), ("outcome", "criteria")])
def test_the_outcome_of_a_case_takes_the_place_of_other_words_for_it(
    project: Project, inherited: str, own: str
) -> None:
    """`criteria` is AgentV's word for `outcome`; a case that says one does not inherit the other."""
    turns = [{"input": "q", "assertions": [{"type": "contains", "value": "x"}]}]
    suite = {
        "targets": [scripted("t", "x", judge=[True])],
        "target": "t",
        "defaults": {"mode": "conversation", inherited: "Be nice."},
        "evals": [
            {"id": "own", "mode": "conversation", "turns": turns, own: "Says x."},
            {"id": "inherits", "turns": turns},
        ],
    }
    assert project.errors(suite) == []
    shown = {one["id"]: json.dumps(one["judge_prompts"]) for one in project.prompts(suite, "--judge", "--reply", "x")}
    assert "Says x." in shown["own"] and "Be nice." not in shown["own"]
    assert "Be nice." in shown["inherits"]
