"""A stored run: its receipt and summary, and its results, read from the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize

import msgspec
from msgspec import Struct, structs

from rejoinder._version import __version__
from rejoinder.model import Receipt, Summary
from rejoinder.model.runs import with_reasons
from rejoinder.model.spending import EmbeddingCosts
from rejoinder.runs.folder import RUN_FORMAT, RunFolder
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.results import CountedResults, EveryResult, Results
from rejoinder.runs.summary import add_embeddings, summarise

if TYPE_CHECKING:
    from rejoinder.runs.differences import Unlike
    from rejoinder.runs.system_prompts import SystemPrompts


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
        from rejoinder.runs.system_prompts import SystemPrompts

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
    summary = _with_passports(with_reasons(summary, run), run, recorded.root)  # a judge may have been tested since
    return RunReport(run, summary, folder)


def different_figures(report: RunReport) -> Iterator[Unlike]:
    """The figures of a summary that disagree with the results. Raises what counting damaged results raises.

    Counts have to be equal. What is computed from them is compared only where this version made it: another one may
    compute it in another way."""
    from rejoinder.runs.differences import unlike

    summary, run = report.summary, report.run
    every = EveryResult(report.results.path)
    counted = summarise(every, structs.replace(run, duration_s=summary.duration_s))
    if run.version == __version__ and run.format == RUN_FORMAT:
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


def count_results(run: Receipt, results: Path, embeddings: EmbeddingCosts, root: Path) -> Summary:
    return _with_passports(add_embeddings(summarise(EveryResult(results), run), embeddings), run, root)


def _with_passports(summary: Summary, run: Receipt, root: Path) -> Summary:
    if not summary.judges:
        return summary
    from rejoinder.runs.passports import add_passports

    return add_passports(summary, run, root)
