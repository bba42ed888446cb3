"""What did not pass in a run, run again: `run --failed` and `run --failed-from`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rejoinder.cli.output import echo
from rejoinder.engine.folder import latest_first, list_runs, runs_folder
from rejoinder.engine.options import RunOptions
from rejoinder.engine.recorded import RecordedRun
from rejoinder.engine.run import not_passed
from rejoinder.engine.verify import find_damage
from rejoinder.errors import RejoinderError, UsageError
from rejoinder.model.chosen_names import ChosenNames
from rejoinder.project import find_root
from rejoinder.report.words import count
from rejoinder.suite import find_files


def latest_run(paths: tuple[Path, ...], *, trust: bool) -> RecordedRun:
    """The latest run that can be used: of exactly the suites that are named, or of any where none are. Runs that are
    damaged or open are passed over, and named. Raises UsageError where there
    is none."""
    root = find_root(Path.cwd(), Path.cwd())
    wanted = {file.resolve() for file in find_files(paths)[0]} if paths else None
    for folder in latest_first(list_runs(root)):
        recorded = RecordedRun(folder, root, trust=trust)
        try:
            if wanted is not None and {file.resolve() for file in _files_of(recorded) if file is not None} != wanted:
                continue
            why = "is open in another process" if folder.is_busy else "is damaged" if find_damage(recorded) else None
        except RejoinderError:
            why = "cannot be read"
        if why is None:
            return recorded
        echo(f"run {folder.id} {why}, and is passed over", err=True)
    named = "" if wanted is None else f" of {', '.join(map(str, paths))}"
    raise UsageError(
        f"there are no runs{named} in {runs_folder(root)} whose failures could be run again",
        "Start one without --failed, or name one with --failed-from RUN; `rejoinder runs` lists them.",
    )


def _files_of(recorded: RecordedRun) -> list[Path | None]:
    """The file of each suite of a run; None for one that is gone."""
    return [recorded.suite_file(suite) for suite in recorded.stored.suites]


def files_again(recorded: RecordedRun) -> tuple[Path, ...]:
    """The files of a run's suites; none where one of them is gone."""
    files = _files_of(recorded)
    here = Path.cwd()
    found = [file.relative_to(here) if file.is_relative_to(here) else file for file in files if file is not None]
    return tuple(found) if len(found) == len(files) else ()


def only_failed(recorded: RecordedRun, options: RunOptions) -> RunOptions:
    """The options for the chosen cases that did not pass in a run, each on its own target. Where the command
    names targets, they take the place of the run's. No cases where all have passed."""
    run, selection = recorded.folder.id, options.selection
    before, names = not_passed(recorded), ChosenNames(selection.cases)
    pairs = tuple(pair for pair in before.cases if not selection.cases or pair.id in names)
    cases = tuple(dict.fromkeys(pair.id for pair in pairs))
    options = options.changed(cases=cases, failed_from=run)
    if not cases:
        what = f"the chosen cases passed in run {run}" if before.cases else f"every case of run {run} passed"
        echo(f"{what}; there is nothing to run", err=True)
        return options
    unasked = sum(pair in before.unasked for pair in pairs)
    rest = f" ({unasked:,} not finished before)" if unasked else ""
    if selection.targets:
        echo(f"again what did not pass in run {run}: {count(len(cases), 'case')}{rest}", err=True)
        return options
    earlier = recorded.options().selection
    by_target = Counter(pair.target for pair in pairs)
    parts = ", ".join(f"{number:,} on {target}" for target, number in by_target.items())
    echo(f"again what did not pass in run {run}: {parts}{rest}", err=True)
    return options.changed(
        pairs=pairs, targets=earlier.targets, targets_file=selection.targets_file or earlier.targets_file
    )
