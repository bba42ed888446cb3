"""A run against its baseline: the one that it was started with, else the newest one before it of the same suites."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePath

from rejoinder.errors import RejoinderError
from rejoinder.gates.baselines import Baseline, baseline_file, baseline_names, read_baseline
from rejoinder.gates.rules import COMPARING, read_rule
from rejoinder.gates.verbs import changes_since, confirm_of, find_baseline, gate_as_started, gate_report
from rejoinder.model import Receipt
from rejoinder.model.clusters import ClusterKey
from rejoinder.model.inputs import changes_of
from rejoinder.model.runs import is_run_id
from rejoinder.runs.folder import RunFolder, grades_folders, runs_folder
from rejoinder.runs.report import RunReport
from rejoinder.runs.results import EveryResult
from rejoinder.views.clusters import known_clusters
from rejoinder.views.flips import NO_FLIPS, SinceBaseline, flips_since

MOST_BYTES = 1 << 25
"""Of the results of a baseline's run whose reasons are read."""


def since_baseline(root: Path, report: RunReport) -> SinceBaseline | None:
    """None if no baseline has cases of this run, or if none can be read."""
    with suppress(RejoinderError, OSError):
        confirm = confirm_of(report)
        if confirm is not None:
            before = find_baseline(root, confirm.against)
            gate = gate_as_started(report, list(map(read_rule, COMPARING)), confirm, before)
            known = known_reasons(root, before.run)
            return SinceBaseline(confirm.against, changes_since(before, report), gate, known=known, run=before.run)
        for name, before in baselines_before(root, report.run):
            changes = changes_since(before, report)
            if changes.compared:
                gate = gate_report(report, list(map(read_rule, COMPARING)), before)
                return SinceBaseline(name, changes, gate, known=known_reasons(root, before.run), run=before.run)
    return None


def since_named(root: Path, report: RunReport, name: str) -> SinceBaseline:
    """Against this baseline or run, with the replies of changed cases. Raises UsageError if it is missing."""
    before = find_baseline(root, name)
    gate = gate_report(report, list(map(read_rule, COMPARING)), before)
    changes = changes_since(before, report)
    made = () if before.made_from is None else changes_of(before.made_from, report.run.inputs)
    flips = flips_since(changes, report) if changes.changed else NO_FLIPS
    changed = tuple(one.words for one in made)
    return SinceBaseline(name, changes, gate, flips, known_reasons(root, before.run), changed, before.run)


def baselines_before(root: Path, receipt: Receipt) -> Iterator[tuple[str, Baseline]]:
    """Baselines of earlier runs of the same suites, the newest first, with their names."""
    found: list[tuple[str, Baseline]] = []
    files = {PurePath(suite.path).name for suite in receipt.suites}
    for name in baseline_names(root):
        with suppress(RejoinderError):
            baseline = read_baseline(baseline_file(root, name))
            if baseline is not None and baseline.run < receipt.id and _is_of(baseline, files):
                found.append((name, baseline))
    return iter(sorted(found, key=lambda one: one[1].run, reverse=True))


def _is_of(baseline: Baseline, files: set[str]) -> bool:
    """Baselines of Python programs name no files: their cases decide."""
    return not baseline.suites or {PurePath(file).name for file in baseline.suites} == files


def known_reasons(root: Path, run: str) -> frozenset[ClusterKey] | None:
    """The reasons of a baseline's run. A baseline stores verdicts only, so its run may be missing."""
    with suppress(RejoinderError, OSError):
        for parent in (runs_folder(root), *grades_folders(root)) if is_run_id(run) else ():
            results = RunFolder(parent / run).results
            if results.is_file() and results.stat().st_size <= MOST_BYTES:
                return known_clusters(EveryResult(results))
    return None
