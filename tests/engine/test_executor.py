"""A run can leave its process: jobs are small references, and calls, limits and budget stay in one place."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from rejoinder.engine.plan import Job, JobFinder, plan, reference_of
from rejoinder.engine.run import start_run
from rejoinder.errors import UsageError
from rejoinder.model import Suite
from rejoinder.runs.loading import load_options
from rejoinder.runs.options import Limits, Pace, RunOptions
from rejoinder.runs.report import RunReport
from rejoinder.testing import Answer, FakeServer, Fault, Received, is_judging, judge
from rejoinder.validation.review import load_suites
from tests.kit import Project, Raw, is_time, journal_of, without
from tests.labs.process_lab import ProcessExecutor

CASES = 12
CODE = "def long(evidence):\n    print('said by a check')\n    return len(evidence.reply) > 3\n"


def reply(request: Received) -> Answer:
    asked = request.raw.decode()
    if is_judging(request):
        return judge(1.0 if "and again" in asked else 0.0)
    return Answer("reply and again" if "Sure?" in asked else "reply", input_tokens=11, output_tokens=7)


@pytest.fixture
def suite(project: Project) -> Raw:
    project.write("own.py", CODE)
    follow_up = {"prompt": "Sure?", "checks": [{"llm_judge": {"criteria": "again?"}}]}
    checks = [{"llm_judge": {"criteria": "good?"}}, {"python": "own:long"}, {"contains": "reply"}, follow_up]
    return {
        "target": "it",
        "evals": [{"id": f"case-{n}", "prompt": f"Question {n}", "checks": checks} for n in range(CASES)],
    }


def play(project: Project, suite: Raw, options: RunOptions, *, processes: int) -> tuple[RunReport, ProcessExecutor]:
    file = project.write("evals.yaml", suite)
    suites, _ = load_suites([file], load_options(options))
    executor = ProcessExecutor([file], options, processes)
    return start_run(suites, options, executor=executor if processes else None), executor


def results_of(report: RunReport) -> list[Raw]:
    return without(report.document()["results"], lambda key: is_time(key) or key == "request_id")


def target(server: FakeServer, **settings: object) -> Raw:
    url = f"{server.url}/v1"
    return {"name": "it", "provider": "openai", "model": "gpt-5-mini", "base_url": url, "api_key": "none", **settings}


@pytest.mark.slow
def test_two_processes_give_the_results_of_one(project: Project, suite: Raw) -> None:
    with FakeServer(reply) as server:
        suite["targets"] = [target(server)]
        options = RunOptions(repeat=2)
        one, _ = play(project, suite, options, processes=0)
        calls = len(server.requests)
        two, executor = play(project, suite, options, processes=2)
        assert len(server.requests) == 2 * calls
    assert len(executor.played_by) == 2
    assert executor.largest_job < 200
    assert results_of(two) == results_of(one)
    assert two.summary.recovered == 2 * CASES
    journals = [journal_of(report.folder.path) for report in (one, two)]
    keys = [sorted(record["key"] for record in journal if record["type"] == "told") for journal in journals]
    assert keys[0] == keys[1]
    replayed = project.run_json("replay", two.folder.id)["results"]
    assert without(replayed, lambda key: is_time(key) or key == "request_id") == results_of(one)


@pytest.mark.slow
def test_one_budget_holds_for_both_processes(project: Project, suite: Raw) -> None:
    with FakeServer(reply) as server:
        suite["targets"] = [target(server, max_tokens=10)]
        options = RunOptions(limits=Limits(budget_tokens=4500))
        report, _ = play(project, suite, options, processes=2)
    assert report.run.status == "budget"
    assert report.run.budget is not None and report.run.budget.spent_tokens <= 4500
    assert 0 < report.summary.finished < CASES


@pytest.mark.slow
def test_one_limiter_slows_both_processes_down(project: Project, suite: Raw) -> None:
    with FakeServer(reply, faults=[Fault("status", status=429)] * 3) as server:
        suite["targets"] = [target(server, retry_initial_delay_ms=1, retry_max_delay_ms=20)]
        report, _ = play(project, suite, RunOptions(pace=Pace(workers=4)), processes=2)
    assert report.summary.passed == CASES
    [limit] = report.run.limits
    assert limit.refused == 3


@pytest.mark.slow
def test_jobs_of_data_sets_are_found_by_reference(project: Project) -> None:
    project.write("rows.jsonl", "".join(json.dumps({"id": f"r{n}", "topic": "x" * 5000}) + "\n" for n in range(40)))
    file = project.write(
        "evals.yaml",
        {
            "target": "scripted/x",
            "cases": "rows.jsonl",
            "defaults": {"prompt": "About {{ topic }}", "checks": [{"match": "*"}]},
        },
    )
    options = RunOptions(repeat=2)
    here, there = (load_suites([file], load_options(options))[0] for _ in range(2))
    finder = JobFinder(there, options)
    jobs = list(plan(here, options))
    for job in (*jobs, *reversed(jobs)):
        found = finder.find(reference_of(job))
        assert (found.number, found.trial, found.prepared.content) == (job.number, job.trial, job.prepared.content)
    assert Path(there[0].path) == file
    assert inspect.iscoroutinefunction(ProcessExecutor.play)


def test_references_are_found_in_any_order_by_one_walk(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs come out of order if a target has `workers`, and if several processes share a plan."""
    cases = [{"id": f"c{n}", "prompt": f"{n}", "checks": [{"match": "*"}]} for n in range(200)]
    file = project.write("evals.yaml", {"target": "scripted/x", "evals": cases})
    suites = load_suites([file], load_options(RunOptions()))[0]
    jobs = list(plan(suites, RunOptions()))
    walks = 0

    def counted(suites: list[Suite], options: RunOptions) -> Iterator[Job]:
        nonlocal walks
        walks += 1
        return plan(suites, options)

    monkeypatch.setattr("rejoinder.engine.plan.plan", counted)
    finder = JobFinder(suites, RunOptions())
    order = Random(1).sample(jobs, len(jobs))
    assert [finder.find(reference_of(job)).number for job in order] == [job.number for job in order]
    assert walks == 1
    with pytest.raises(UsageError, match="is not the same here"):
        finder.find(reference_of(jobs[0])._replace(number=999))
