"""Runs played again from their journals, without calls."""

from __future__ import annotations

from msgspec import structs

from rejoinder.engine.answers import EndIfMissing
from rejoinder.engine.calls import Source
from rejoinder.engine.loops import complete
from rejoinder.engine.make_result import ResultKeeper
from rejoinder.engine.observer import Observer
from rejoinder.engine.setup import Setup
from rejoinder.engine.worker import Worker
from rejoinder.errors import UsageError
from rejoinder.model import Suite
from rejoinder.model.results import Place
from rejoinder.runs.journal import read_journal
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.report import RunReport, Scratch, count_results
from rejoinder.runs.results import ResultWriter
from rejoinder.runs.state import unfinished_status


def derive_run(recorded: RecordedRun, suites: list[Suite], then: tuple[Source, ...] = ()) -> RunReport:
    """The run as its journal gives it. `then` answers what the journal does not hold."""
    folder = recorded.folder
    run = folder.read_receipt()
    if run is None or not folder.journal.exists():
        raise UsageError(f"{folder.path} holds no run that can be shown")
    setup = Setup(suites, recorded.options(), makes_calls=False)
    history = read_journal(folder.journal, recorded.mask_for(setup.mask))
    scratch = Scratch()
    writer = ResultWriter(scratch.path)
    worker = Worker(setup, folder, ResultKeeper(writer, setup), Observer())
    ending = complete(worker.read(history, scratch.delete, then))
    if ending.failure is not None:
        scratch.delete()
        raise ending.failure
    status, planned = unfinished_status(folder), setup.survey.planned
    run = structs.replace(run, status=status, planned=planned, finished_at=None, in_doubt=ending.in_doubt)
    summary = count_results(run, writer.finish(), worker.embeddings.spent, recorded.root)
    return RunReport(run, summary, folder, scratch)


def play_journal(recorded: RecordedRun, suites: list[Suite], skipped: frozenset[Place] | None) -> RunReport:
    """The `verify.Play` of this package."""
    return derive_run(recorded, suites, () if skipped is None else (EndIfMissing(skipped),))
