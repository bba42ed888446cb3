"""Every verb plays conversations where its executor does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rejoinder.engine.calls import Source, Tape
from rejoinder.engine.embeddings import Embeddings
from rejoinder.engine.executor import LocalExecutor
from rejoinder.engine.plan import Job
from rejoinder.engine.run import fork_run, grade_run, merge_runs, replay_run, resume_run, start_run
from rejoinder.model import Outcome, Suite
from rejoinder.model.forks import Fork
from rejoinder.runs.loading import load_options
from rejoinder.runs.options import RunOptions, Selection
from rejoinder.runs.recorded import RecordedRun, open_recorded
from rejoinder.validation.review import load_suites
from tests.kit import Project

SUITE = {
    "targets": [{"name": "demo", "provider": "scripted", "replies": ["no", "yes"]}],
    "target": "demo",
    "evals": [{"id": name, "prompt": name, "checks": [{"match": "no"}]} for name in ("a", "b", "c")],
}


class Noting(LocalExecutor):
    """Plays in this process, and notes what."""

    def __init__(self) -> None:
        super().__init__(2)
        self.played: list[str] = []

    async def play(self, job: Job, sources: tuple[Source, ...], embeddings: Embeddings, tape: Tape | None) -> Outcome:
        self.played.append(job.prepared.case.id)
        return await super().play(job, sources, embeddings, tape)


def resume(run: RecordedRun, suites: list[Suite], executor: Noting) -> object:
    return resume_run(run, run.options(), executor=executor)


def replay(run: RecordedRun, suites: list[Suite], executor: Noting) -> object:
    return replay_run(run, run.options(), executor=executor)


def grade(run: RecordedRun, suites: list[Suite], executor: Noting) -> object:
    return grade_run(run, suites, run.options(), executor=executor)


def merge(run: RecordedRun, suites: list[Suite], executor: Noting) -> object:
    return merge_runs((run,), executor=executor)


def fork(run: RecordedRun, suites: list[Suite], executor: Noting) -> object:
    options = RunOptions(selection=Selection(cases=("b",))).changed(fork=Fork(turn=1, prompt="other words"))
    return fork_run(run, options, executor=executor)


@pytest.mark.parametrize(
    ("verb", "played"),
    [(resume, "abc"), (replay, "abc"), (grade, "abc"), (merge, "abc"), (fork, "b")],
)
def test_every_verb_takes_an_executor(
    verb: Callable[[RecordedRun, list[Suite], Noting], object], played: str, project: Project
) -> None:
    file = project.write("evals.yaml", SUITE)
    suites, _ = load_suites([Path(file)], load_options(RunOptions()))
    report = start_run(suites, RunOptions())
    executor = Noting()
    verb(open_recorded(report.folder.id), suites, executor)
    assert "".join(sorted(executor.played)) == played
