"""What did not pass in a run, run again: `run --failed` and `run --failed-from`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rejoinder.cli.output import echo
from rejoinder.engine.options import RunOptions
from rejoinder.engine.recorded import RecordedRun
from rejoinder.engine.run import failed_pairs
from rejoinder.model.chosen_names import ChosenNames
from rejoinder.report.words import count


def files_again(recorded: RecordedRun) -> tuple[Path, ...]:
    """The files of a run's suites; none where one of them is gone."""
    files = [recorded.suite_file(suite) for suite in recorded.stored.suites]
    here = Path.cwd()
    found = [file.relative_to(here) if file.is_relative_to(here) else file for file in files if file is not None]
    return tuple(found) if len(found) == len(files) else ()


def only_failed(recorded: RecordedRun, options: RunOptions) -> RunOptions:
    """The options for the chosen cases that did not pass in a run, each on its own target. Where the command
    names targets, they take the place of the run's. No cases where all have passed."""
    run, selection = recorded.folder.id, options.selection
    every, names = failed_pairs(recorded), ChosenNames(selection.cases)
    pairs = tuple(pair for pair in every if not selection.cases or pair.id in names)
    cases = tuple(dict.fromkeys(pair.id for pair in pairs))
    options = options.changed(cases=cases, failed_from=run)
    if not cases:
        what = f"the chosen cases passed in run {run}" if every else f"every case of run {run} passed"
        echo(f"{what}; there is nothing to run", err=True)
        return options
    if selection.targets:
        echo(f"again what did not pass in run {run}: {count(len(cases), 'case')}", err=True)
        return options
    before = recorded.options().selection
    by_target = Counter(pair.target for pair in pairs)
    parts = ", ".join(f"{number:,} on {target}" for target, number in by_target.items())
    echo(f"again what did not pass in run {run}: {parts}", err=True)
    return options.changed(
        pairs=pairs, targets=before.targets, targets_file=selection.targets_file or before.targets_file
    )
