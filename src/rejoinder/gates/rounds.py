"""Runs that repeat their cases until they tell: whole rounds in one run folder, at most ten.

The run starts with one round. After each, the verdicts are compared with the baseline's by a plan that allows a look
after every round (`stats.look`). Another round is the same run with one repeat more: the receipt says so before its
first call, so a run that is killed goes on where it was.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from rejoinder.engine.observer import Observer
from rejoinder.engine.options import RunOptions
from rejoinder.engine.plan import case_name_of, plan
from rejoinder.engine.recorded import RecordedRun
from rejoinder.engine.run import resume_run, start_run
from rejoinder.engine.run_report import RunReport
from rejoinder.errors import UsageError
from rejoinder.gates.baselines import Baseline, baseline_file, read_baseline
from rejoinder.gates.looks import look_at
from rejoinder.gates.verbs import verdicts_of
from rejoinder.model import Suite
from rejoinder.model.figures import Look


class Watcher:
    """What is to be seen of rounds: one observer for all of them, unless a class says another."""

    def __init__(self, observer: Observer | None = None) -> None:
        self._observer = observer

    def observer(self) -> Observer | None:
        """Of the next round."""
        return self._observer

    def looked(self, found: Look) -> None: ...


def start_rounds(suites: list[Suite], options: RunOptions, watcher: Watcher) -> RunReport:
    """A new run of suites, in rounds until they tell."""
    root = Path(suites[0].root)
    before = baseline_of_rounds(options, root)
    _refuse_others(suites, options, before)
    rounds = options.selection.rounds
    assert rounds is not None
    options = options.changed(repeat=1, rounds=structs.replace(rounds, run=before.run))
    report = start_run(suites, options, watcher.observer())
    # This process has just written the folder.
    return _go_on(report, RecordedRun(report.folder, root, trust=True), suites, options, before, watcher)


def resume_rounds(
    recorded: RecordedRun, options: RunOptions, watcher: Watcher, *, retry_errors: bool = False
) -> RunReport:
    """Finish the round that a run was in, and go on with others until they tell."""
    before = baseline_of_rounds(options, recorded.root)
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


def baseline_of_rounds(options: RunOptions, root: Path) -> Baseline:
    """The baseline that rounds are compared with. Raises UsageError if it is gone, or another one."""
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


def _refuse_others(suites: list[Suite], options: RunOptions, before: Baseline) -> None:
    """Before anything is sent: what cannot be compared in rounds."""
    answers = options.answers
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
