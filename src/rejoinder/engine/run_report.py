"""What a run came to: read from its files, or derived from its journal if it has not ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize

import msgspec
from msgspec import Struct, structs

from rejoinder._version import __version__
from rejoinder.engine.calls import Source
from rejoinder.engine.embeddings import Embeddings
from rejoinder.engine.folder import RunFolder
from rejoinder.engine.journal import read_journal
from rejoinder.engine.observer import Observer
from rejoinder.engine.recorded import RecordedRun
from rejoinder.engine.results import CountedResults, EveryResult, Results, ResultWriter
from rejoinder.engine.setup import Setup
from rejoinder.engine.summary import add_embeddings, summarise
from rejoinder.engine.worker import Worker
from rejoinder.errors import UsageError
from rejoinder.model import Receipt, Suite, Summary

if TYPE_CHECKING:
    from rejoinder.engine.differences import Unlike
    from rejoinder.engine.system_prompts import SystemPrompts


class Scratch:
    """A folder that is deleted with this object, or when the process ends."""

    def __init__(self, prefix: str = "rejoinder-") -> None:
        from shutil import rmtree
        from tempfile import mkdtemp

        self.path = Path(mkdtemp(prefix=prefix))
        self.delete = finalize(self, rmtree, self.path, ignore_errors=True)


class RunReport(Struct, frozen=True):
    """What a run came to. Results are read from the disk, one at a time."""

    run: Receipt
    summary: Summary
    folder: RunFolder
    derived: Scratch | None = None
    """Where results lie that were derived only to be shown; it goes with the report."""

    @property
    def results(self) -> Results:
        if self.derived is None:
            return Results(self.folder.results)
        return Results(self.derived.path / "results.jsonl", self.derived)

    @property
    def confirming(self) -> Results:
        """The further trials of newly failing cases, which count in no rate, total or baseline."""
        return Results(self.results.path, self.derived, confirming=True)

    @property
    def counted(self) -> CountedResults:
        """The results that decide something: those of cases in quarantine do not."""
        return CountedResults(self.results, self.run.day)

    @property
    def put(self) -> CountedResults:
        """These, and the conversations that simulated users spoilt: what might have been counted."""
        return CountedResults(self.results, self.run.day, with_spoilt=True)

    @property
    def system_prompts(self) -> SystemPrompts:
        """What the first requests began with."""
        from rejoinder.engine.system_prompts import SystemPrompts

        return SystemPrompts(self.folder)

    def document(self) -> dict[str, Any]:
        """The whole run as `--format json` writes it."""
        document = {"run": self.run.document(), "summary": self.summary, "results": [*self.results, *self.confirming]}
        return msgspec.json.decode(msgspec.json.encode(document))


def read_run(recorded: RecordedRun) -> RunReport | None:
    """A run that has ended, as it was written; None for one that has not."""
    folder = recorded.folder
    run, summary = folder.read_receipt(), folder.read_summary()
    if run is None or summary is None or run.status == "running" or not folder.results.exists():
        return None
    return RunReport(run, _with_passports(summary, run, recorded.root), folder)  # a judge may have been tested since


def different_figures(report: RunReport) -> Iterator[Unlike]:
    """The figures of a summary that disagree with the results. Raises what counting damaged results raises.

    Counts have to be equal. What is computed from them is compared only where this version made it: another one may
    compute it in another way."""
    from rejoinder.engine.differences import unlike

    summary, run = report.summary, report.run
    every = EveryResult(report.results.path)
    counted = summarise(every, structs.replace(run, duration_s=summary.duration_s))
    if run.version == __version__:
        fields = [field.name for field in structs.fields(Summary) if field.name not in _FILLED_IN_LATER]
        for name in fields:
            yield from unlike(getattr(summary, name), getattr(counted, name), name)
        return
    for name in COUNTS:
        yield from unlike(getattr(summary, name), getattr(counted, name), name)
    for target in dict.fromkeys((*summary.by_target, *counted.by_target)):
        one, other = summary.by_target.get(target), counted.by_target.get(target)
        for name in ("total", *_COUNTS_OF_TARGET):
            yield from unlike(getattr(one, name, None), getattr(other, name, None), f"by_target.{target}.{name}")


_COUNTS_OF_TARGET = ("passed", "errors", "skipped", "first_try")
COUNTS = ("total", "failed", "unfinished", "recovered", *_COUNTS_OF_TARGET)
"""What every version counts in the same way."""
_FILLED_IN_LATER = frozenset({"judges", "total_tokens", "total_cost", "embeddings", "limits"})
"""Parts of a summary that also come from passports, embeddings and rate limits, and not from results alone."""


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
    worker = Worker(setup, folder, writer, Observer())
    ending = asyncio.run(worker.read(history, scratch.delete, then))
    if ending.failure is not None:
        scratch.delete()
        raise ending.failure
    status, planned = "running" if folder.is_busy else "killed", setup.survey.planned
    run = structs.replace(run, status=status, planned=planned, finished_at=None, in_doubt=ending.in_doubt)
    summary = count_results(run, writer.finish(), worker.embeddings, recorded.root)
    return RunReport(run, summary, folder, scratch)


def count_results(run: Receipt, results: Path, embeddings: Embeddings, root: Path) -> Summary:
    return _with_passports(add_embeddings(summarise(EveryResult(results), run), embeddings), run, root)


def _with_passports(summary: Summary, run: Receipt, root: Path) -> Summary:
    if not summary.judges:
        return summary
    from rejoinder.engine.passports import add_passports

    return add_passports(summary, run, root)
