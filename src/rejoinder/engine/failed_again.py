"""The failed cases of a run, run again: their suites and the options for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rejoinder.engine.run import not_passed
from rejoinder.errors import RejoinderError, UsageError
from rejoinder.model.chosen_names import ChosenNames
from rejoinder.project.folders import find_root
from rejoinder.runs.folder import latest_first, list_runs, runs_folder
from rejoinder.runs.options import RunOptions
from rejoinder.runs.recorded import RecordedRun
from rejoinder.runs.state import state_of
from rejoinder.runs.verify import find_damage
from rejoinder.suite.discover import find_files
from rejoinder.words.numbers import count


class FailedAgain(NamedTuple):
    """The options for the cases that did not pass, and in words which these are. No cases if all have passed."""

    options: RunOptions
    said: str


def latest_run(paths: tuple[Path, ...], tell: Callable[[str], None], *, trust: bool) -> RecordedRun:
    """The latest run whose failures can be run again: of exactly the named suites, or of any suites if no paths are
    given. Runs that are damaged or still running are passed over; `tell` gets a line about each. Raises UsageError if
    there is no such run."""
    root = find_root(Path.cwd(), Path.cwd())
    wanted = {file.resolve() for file in find_files(paths)[0]} if paths else None
    for folder in latest_first(list_runs(root)):
        recorded = RecordedRun(folder, root, trust=trust)
        try:
            if wanted is not None and {file.resolve() for file in files_of_suites(recorded) if file} != wanted:
                continue
            still = "is still running" if state_of(folder).status == "running" else None
            why = still or ("is damaged" if find_damage(recorded) else None)
        except RejoinderError:
            why = "cannot be read"
        if why is None:
            return recorded
        tell(f"run {folder.id} {why}, and is passed over")
    named = "" if wanted is None else f" of {', '.join(map(str, paths))}"
    raise UsageError(
        f"there are no runs{named} in {runs_folder(root)} whose failures could be run again",
        "Start one without --failed, or name one with --failed-from RUN; `rejoinder runs` lists them.",
    )


def files_of_suites(recorded: RecordedRun) -> list[Path | None]:
    """The file of each suite of a run; None for one that is gone."""
    return [recorded.suite_file(suite) for suite in recorded.stored.suites]


def files_again(recorded: RecordedRun) -> tuple[Path, ...]:
    """The files of a run's suites; no files if one of them is gone."""
    files = files_of_suites(recorded)
    here = Path.cwd()
    found = [file.relative_to(here) if file.is_relative_to(here) else file for file in files if file is not None]
    return tuple(found) if len(found) == len(files) else ()


def only_failed(recorded: RecordedRun, options: RunOptions) -> FailedAgain:
    """The options for the chosen cases that did not pass in a run, each on its own target. Targets that the options
    name take the place of the run's."""
    run, selection = recorded.folder.id, options.selection
    before, names = not_passed(recorded), ChosenNames(selection.cases)
    pairs = tuple(pair for pair in before.cases if not selection.cases or pair.id in names)
    cases = tuple(dict.fromkeys(pair.id for pair in pairs))
    options = options.changed(cases=cases, failed_from=run)
    if not cases:
        what = f"the chosen cases passed in run {run}" if before.cases else f"every case of run {run} passed"
        return FailedAgain(options, f"{what}; there is nothing to run")
    unasked = sum(pair in before.unasked for pair in pairs)
    rest = f" ({unasked:,} not finished before)" if unasked else ""
    again = f"again what did not pass in run {run}"
    if selection.targets:
        return FailedAgain(options, f"{again}: {count(len(cases), 'case')}{rest}")
    earlier = recorded.options().selection
    by_target = Counter(pair.target for pair in pairs)
    parts = ", ".join(f"{number:,} on {target}" for target, number in by_target.items())
    targets_file = selection.targets_file or earlier.targets_file
    options = options.changed(pairs=pairs, targets=earlier.targets, targets_file=targets_file, given=earlier.given)
    return FailedAgain(options, f"{again}: {parts}{rest}")
