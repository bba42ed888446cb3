"""Runs against a baseline (`run --against`): run, then ask newly failing cases again, so that a gate can decide.

The first part is an ordinary run. When all its conversations have ended, the failed cases that passed every trial of
the baseline are known. They are written into the receipt, and the same run continues with more trials of them: a run
that is killed there continues from that point.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from rejoinder.engine.observer import Observer
from rejoinder.engine.run import resume_run, start_run
from rejoinder.errors import UsageError
from rejoinder.gates.baselines import Baseline, matched_to
from rejoinder.gates.new_failures import newly_failing
from rejoinder.gates.rounds import Watcher, comparable_baseline, resume_rounds, start_rounds
from rejoinder.gates.verbs import Pinned, another_baseline, find_baseline, pin_baseline, verdicts_of
from rejoinder.model import CaseName, Suite
from rejoinder.runs.options import Confirm, RunOptions
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.report import RunReport


class Confirmer(Watcher):
    """The observers of a run against a baseline."""

    def confirming(self, cases: tuple[CaseName, ...], times: int) -> Observer | None:  # noqa: ARG002 - for others
        """The observer while these cases are asked again, at most `times` times."""
        return self.observer()


def start_compared(suites: list[Suite], options: RunOptions, watcher: Confirmer) -> RunReport:
    """Start a run that is compared with a baseline: in rounds, with its new failures confirmed, or both."""
    name, before = pinned_baseline(suites, options)
    if options.selection.confirm is None:
        return start_rounds(suites, options, before, watcher)
    confirm = structs.replace(options.selection.confirm, against=name, run=before.run)
    options = options.changed(confirm=confirm)
    if options.selection.rounds is not None:
        report = start_rounds(suites, options, before, watcher)
    else:
        report = start_run(suites, options, watcher.observer())
    # This process has just written the folder.
    recorded = RecordedRun(report.folder, Path(suites[0].root), trust=True)
    return _confirmed(report, recorded, suites, recorded.options(), before, watcher)


def pinned_baseline(suites: list[Suite], options: RunOptions) -> Pinned:
    """The baseline that a run of these suites is compared with. Raises UsageError if it is missing, or if the run
    cannot be compared with it."""
    chosen = options.selection
    if chosen.rounds is not None:
        return Pinned(chosen.rounds.against, comparable_baseline(suites, options))
    if options.pace.fail_fast:
        raise UsageError(
            "--against compares a whole run with the baseline, and --fail-fast ends a run at its first failure",
            "Leave out one of them.",
        )
    return pin_baseline(Path(suites[0].root), _confirm_of(options).against)


def resume_compared(
    recorded: RecordedRun, options: RunOptions, watcher: Confirmer, *, retry_errors: bool = False
) -> RunReport:
    """Finish such a run. A replay or a re-grade of it plays only the recorded calls."""
    if options.answers.runs:
        return resume_run(recorded, options, watcher.observer(), retry_errors=retry_errors)
    if options.selection.confirm is None:
        return resume_rounds(recorded, options, watcher, retry_errors=retry_errors)
    return _resume_against(recorded, options, watcher, retry_errors=retry_errors)


def _resume_against(recorded: RecordedRun, options: RunOptions, watcher: Confirmer, *, retry_errors: bool) -> RunReport:
    """Finish a run against a baseline, and confirm its new failures."""
    confirm = _confirm_of(options)
    before = find_baseline(recorded.root, confirm.against)
    if confirm.run not in ("", before.run):
        raise UsageError(another_baseline(confirm, before), "Put the earlier baseline back, or start a new run.")
    suites = recorded.suites()
    recorded.refuse_foreign_words(suites)
    if options.selection.rounds is not None and not confirm.cases:
        report = resume_rounds(recorded, options, watcher, retry_errors=retry_errors)
    else:
        report = resume_run(recorded, options, watcher.observer(), retry_errors=retry_errors, suites=suites)
    return _confirmed(report, recorded, suites, options, before, watcher)


def _confirm_of(options: RunOptions) -> Confirm:
    confirm = options.selection.confirm
    assert confirm is not None
    return confirm


def _confirmed(
    report: RunReport,
    recorded: RecordedRun,
    suites: list[Suite],
    options: RunOptions,
    before: Baseline,
    watcher: Confirmer,
) -> RunReport:
    """The run with more trials of its new failures. Errors, budgets and interruptions are left to `resume`."""
    confirm, now = _confirm_of(options), verdicts_of(report)
    if report.summary.exit_code not in (0, 1) or report.summary.skipped or not options.answers.asks_candidates:
        return report
    failing = newly_failing(now, matched_to(now, before).baseline)
    if not failing or not confirm.times or set(failing) <= set(confirm.cases):
        return report
    options = options.changed(
        repeat=report.run.reported.repeat, confirm=structs.replace(confirm, run=before.run, cases=failing)
    )
    return resume_run(recorded, options, watcher.confirming(failing, confirm.times), suites=suites)
