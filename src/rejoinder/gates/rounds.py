"""Runs that repeat their cases until the result is clear: whole rounds in one run folder, at most ten.

The run starts with one round. After each, the verdicts are compared with the baseline's by a plan that allows a look
after every round (`stats.look`). Another round is the same run with one more repeat: the receipt records it before its
first call, so a run that is killed continues where it stopped.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from rejoinder.engine.observer import Observer
from rejoinder.engine.plan import plan
from rejoinder.engine.run import resume_run, start_run
from rejoinder.errors import UsageError
from rejoinder.gates.baselines import Baseline, baseline_file, read_baseline
from rejoinder.gates.looks import look_at
from rejoinder.gates.verbs import verdicts_of
from rejoinder.model import Suite
from rejoinder.model.figures import Look
from rejoinder.runs.names import case_name_of
from rejoinder.runs.options import RunOptions
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.report import RunReport


class Watcher:
    """The observers of rounds: the same one for all of them, unless a subclass chooses another."""

    def __init__(self, observer: Observer | None = None) -> None:
        self._observer = observer

    def observer(self) -> Observer | None:
        """The observer of the next round."""
        return self._observer

    def looked(self, found: Look) -> None: ...


def start_rounds(suites: list[Suite], options: RunOptions, before: Baseline, watcher: Watcher) -> RunReport:
    """Start a new run of suites, in rounds until the comparison with `before` (from
    `comparable_baseline`) is clear."""
    rounds = options.selection.rounds
    assert rounds is not None
    options = options.changed(repeat=1, rounds=structs.replace(rounds, run=before.run))
    report = start_run(suites, options, watcher.observer())
    # This process has just written the folder.
    recorded = RecordedRun(report.folder, Path(suites[0].root), trust=True)
    return _go_on(report, recorded, suites, options, before, watcher)


def resume_rounds(
    recorded: RecordedRun, options: RunOptions, watcher: Watcher, *, retry_errors: bool = False
) -> RunReport:
    """Finish the current round of a run, and continue with more until the result is clear."""
    before = _baseline_of(options, recorded.root)
    suites = recorded.suites()
    recorded.refuse_foreign_words(suites)
    report = resume_run(recorded, options, watcher.observer(), retry_errors=retry_errors, suites=suites)
    return _go_on(report, recorded, suites, options, before, watcher)


def _go_on(
    report: RunReport,
    recorded: RecordedRun,
    suites: list[Suite],
    options: RunOptions,
    before: Baseline,
    watcher: Watcher,
) -> RunReport:
    while report.summary.exit_code in (0, 1):  # errors, budgets and interruptions are for `resume` to mend
        found = look_at(verdicts_of(report).cases, before)
        watcher.looked(found)
        if found.verdict != "go-on":
            break
        options = options.changed(repeat=options.repeat + 1)
        report = resume_run(recorded, options, watcher.observer(), suites=suites)
    return report


def _baseline_of(options: RunOptions, root: Path) -> Baseline:
    """The baseline that rounds are compared with. Raises UsageError if it is missing, or was replaced."""
    rounds = options.selection.rounds
    assert rounds is not None
    path = baseline_file(root, rounds.against)
    found = read_baseline(path)
    if found is None:
        hint = f"Make it with `rejoinder baseline save RUN --name {rounds.against}`."
        raise UsageError(f"there is no baseline `{rounds.against}`: {path} is not there", hint)
    if rounds.run not in ("", found.run):
        raise UsageError(
            f"the baseline `{rounds.against}` was run {rounds.run} when this run began, and is run {found.run} now",
            "Put the earlier baseline back, or start a new run.",
        )
    return found


def comparable_baseline(suites: list[Suite], options: RunOptions) -> Baseline:
    """The baseline that rounds of these suites are compared with. Raises UsageError if they cannot be compared."""
    before, answers = _baseline_of(options, Path(suites[0].root)), options.answers
    cached = answers.cache or answers.cache_lifetime_s is not None
    if options.pace.fail_fast or cached or options.selection.shard is not None:
        raise UsageError(
            "--repeat auto needs whole rounds of new replies",
            "Leave out --fail-fast, --cache, --watch and --shard.",
        )
    known = {case.key for case in before.cases if case.trials}
    jobs = [job.prepared for job in plan(suites, options.changed(repeat=1)) if job.trial == 1]
    keys = {case_name_of(one) for one in jobs}
    own = next((one.case for one in jobs if (one.case.repeat or 1) > 1), None)
    if own is not None:
        raise UsageError(
            f"--repeat auto runs every case once a round, and case `{own.id}` has repeats of its own",
            "Leave out its `repeat` and `pass`, or give a number to --repeat.",
        )
    put = next((one.case for one in jobs if one.case.condition is not None), None)
    if put is not None:
        raise UsageError(
            f"--repeat auto compares cases that are put in one way, and case `{put.id}` has `shards`",
            "Give a number to --repeat: each condition is then compared by itself.",
        )
    if len({(key.target, key.variant) for key in keys}) > 1:
        raise UsageError("--repeat auto compares one target with its baseline", "Choose it with --target.")
    if keys and not keys & known:
        raise UsageError(
            f"no case of this run is in the baseline, which is run {before.run}",
            "Cases are matched by file, id and target.",
        )
    return before
