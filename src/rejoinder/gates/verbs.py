"""What commands and Python programs do with gates: bless a run, and put one to rules. Nothing is called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from rejoinder.engine.folder import find_run
from rejoinder.engine.options import Rounds
from rejoinder.engine.recorded import RecordedRun, open_recorded
from rejoinder.engine.run_report import RunReport, read_run
from rejoinder.errors import UsageError
from rejoinder.gates.baselines import (
    Baseline,
    baseline_file,
    baseline_names,
    baseline_of,
    read_baseline,
    write_baseline,
)
from rejoinder.gates.rules import Rule, decide, refuse_missing_baseline, undecided
from rejoinder.model import file_in_project
from rejoinder.model.figures import GateResult
from rejoinder.run_files import RunDamaged
from rejoinder.spelling import list_words
from rejoinder.stats import selection_words


class Blessed(Struct, frozen=True):
    """A run that is a baseline."""

    name: str
    path: Path
    baseline: Baseline
    replaced: str | None
    """The run that had the name before."""


def bless_run(recorded: RecordedRun, name: str) -> Blessed:
    """Keep the verdicts of a run as a baseline of the project. Raises UsageError for a run that has not finished, and
    RunDamaged for one that is damaged."""
    path = baseline_file(recorded.root, name)
    files = [file_in_project(suite.path, suite.root) for suite in recorded.stored.suites]
    baseline = _whole_verdicts(recorded, files)
    try:
        earlier = read_baseline(path)
    except RunDamaged:
        earlier = None  # a damaged one can be replaced
    return Blessed(name, write_baseline(recorded.root, name, baseline), baseline, earlier and earlier.run)


def gate_run(recorded: RecordedRun, rules: Sequence[Rule], against: Baseline | None) -> GateResult:
    """Put a recorded run to rules. What has not finished cannot be told."""
    refuse_missing_baseline(rules, against)
    report = read_run(recorded)
    if report is None:
        _refuse_broken(recorded)
        return undecided(rules, "the run has not ended: no rate yet")
    return gate_report(report, rules, against)


def gate_report(report: RunReport, rules: Sequence[Rule], against: Baseline | None = None) -> GateResult:
    """The same for a run that is at hand."""
    verdicts, rest = verdicts_of(report), _rest(report)
    return decide(rules, verdicts, against, _rounds_against(report)) if rest is None else undecided(rules, rest)


def find_baseline(root: Path, name: str) -> Baseline:
    """The baseline of that name, else the verdicts of a run."""
    try:
        found = read_baseline(baseline_file(root, name))
    except UsageError:
        found = None  # a folder is no name, and may be that of a run
    if found is not None:
        return found
    try:
        recorded = open_recorded(name)
    except UsageError as error:
        known = baseline_names(root)
        hint = (
            f"The baselines are {list_words(known)}." if known else "Make one with `rejoinder bless RUN --name NAME`."
        )
        raise UsageError(f"there is neither a baseline nor a run `{name}`: {error.message}", hint) from None
    return _whole_verdicts(recorded)


def blessed_run(root: Path, name: str) -> str:
    """The run that a baseline was made from, where `name` is that of a baseline; else the name itself."""
    try:
        found = read_baseline(baseline_file(root, name))
    except UsageError:
        return name
    if found is None:
        return name
    try:
        return str(find_run(root, found.run).path)
    except UsageError:
        what = f"baseline `{name}` was made from run {found.run}, which is not here; a baseline has verdicts alone"
        raise UsageError(what, f"Compare them with `rejoinder gate --against {name}`.") from None


def _whole_verdicts(recorded: RecordedRun, files: Iterable[str] = ()) -> Baseline:
    """Of a run whose conversations have all ended."""
    report = read_run(recorded)
    if report is None:
        _refuse_broken(recorded)
    verdicts = None if report is None else verdicts_of(report, files)
    rest = "it has not ended" if report is None else _rest(report)
    if verdicts is None or rest is not None:
        hint = f"Finish it with `rejoinder resume {recorded.folder.id}`, or start a new run."
        raise UsageError(f"run {recorded.folder.id} is not finished: {rest}", hint)
    return verdicts


def _refuse_broken(recorded: RecordedRun) -> None:
    """Raises where it is not that a run still goes on, or was cut off, but that files are missing."""
    folder = recorded.folder
    receipt = folder.read_receipt()
    if receipt is None:
        raise UsageError(f"{folder.path} holds no run")
    if receipt.status != "running":
        missing = next(path for path in (folder.results, folder.path / "summary.json") if not path.exists())
        raise RunDamaged(missing, "it is missing", f"`rejoinder resume {folder.id}` derives it again.")


def _rest(report: RunReport) -> str | None:
    """What a run has not finished, in words; None where all conversations have ended."""
    run, summary = report.run, report.summary
    if summary.skipped:
        return selection_words(summary.finished, run.planned, stopped=True)
    if run.status == "completed" and not summary.unfinished:
        return None
    planned = summary.finished + summary.unfinished
    return selection_words(summary.finished, planned) or f"it ended early ({run.status}): no rate"


def _rounds_against(report: RunReport) -> str | None:
    """The run that a run was compared with after each of its rounds; None for a run of fixed repeats."""
    try:
        rounds = msgspec.convert(report.run.options.get("rounds"), Rounds | None)
    except msgspec.MsgspecError as error:
        raise RunDamaged(report.folder.path / "run.json", f"options: {error}") from None
    return None if rounds is None else rounds.run


def verdicts_of(report: RunReport, files: Iterable[str] = ()) -> Baseline:
    """What its results say, which have to agree with its summary."""
    summary, embeddings = report.summary, report.summary.embeddings
    shared = 0.0 if embeddings is None or not embeddings.tokens else embeddings.cost
    try:
        verdicts = baseline_of(report.run.id, report.counted, tuple(files), shared)
    except msgspec.MsgspecError as error:
        raise RunDamaged(report.folder.results, str(error)) from None
    statuses = Counter(trial.status for trial in verdicts.trials)
    first_try = sum(trial.first_try for trial in verdicts.trials)
    found = statuses["passed"], statuses["failed"], statuses["error"], first_try
    told = summary.passed, summary.failed, summary.errors, summary.first_try
    counted = summary.finished + summary.skipped + summary.unfinished + summary.apart
    if found != told or counted != report.run.planned:
        raise RunDamaged(report.folder.path / "summary.json", "its figures disagree with the results")
    return verdicts
