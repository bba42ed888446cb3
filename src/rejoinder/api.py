"""From Python: the verbs of the command line as functions, with typed options and results.

suite = rejoinder.load("evals.yaml")
report = rejoinder.run(suite, repeat=3, pace=rejoinder.Pace(workers=20))
assert report.summary.failed == 0
for result in report.results: print(result.turns[0].response)

Failed checks and errors of providers are results, not exceptions. SuiteError is raised for a suite with mistakes, and
UsageError for what cannot be run. A run is named by its id, the beginning or end of it, or its folder; None is the
latest run of the working project.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec
from msgspec import structs

from rejoinder.engine import run as engine
from rejoinder.engine.conversation import Fork
from rejoinder.engine.folder import find_run
from rejoinder.engine.interrupts import Deadline
from rejoinder.engine.loading import load_options
from rejoinder.engine.observer import Observer
from rejoinder.engine.options import Answers, Limits, Pace, RunOptions, Selection, Trust
from rejoinder.engine.recorded import RecordedRun
from rejoinder.engine.run import RunReport
from rejoinder.errors import UsageError
from rejoinder.model import Suite
from rejoinder.project import find_root
from rejoinder.review import load_suites

Suites: TypeAlias = Suite | str | Path | Sequence[Suite | str | Path]
"""Suites as loaded, or paths to load them from."""
T = TypeVar("T")


def run(
    suite: Suites,
    *,
    repeat: int = 1,
    selection: Selection = Selection(),
    pace: Pace = Pace(),
    limits: Limits = Limits(),
    answers: Answers = Answers(),
    trust: Trust = Trust(),
    observer: Observer | None = None,
) -> RunReport:
    """Run suites in a new run of their project."""
    options = RunOptions(repeat=repeat, selection=selection, pace=pace, limits=limits, answers=answers, trust=trust)
    options = _checked(options)
    suites = _load(suite, options)
    return _outside_loop(lambda: engine.start_run(suites, options, observer))


def resume(
    run: str | None = None,
    *,
    retry_errors: bool = False,
    pace: Pace | None = None,
    limits: Limits | None = None,
    trust: Trust = Trust(),
    trust_folder: bool = False,
    observer: Observer | None = None,
) -> RunReport:
    """Go on with a run: recorded calls are not made again, except, with `retry_errors`, those that failed. `pace` and
    `limits` replace those that the run was started with. `trust_folder`: use the folder's own copy of its suites."""
    recorded = _open(run, trust_folder)
    changes = {name: group for name, group in {"pace": pace, "limits": limits}.items() if group is not None}
    options = _checked(structs.replace(recorded.options(), trust=trust, **changes))
    return _outside_loop(lambda: engine.resume_run(recorded, options, observer, retry_errors=retry_errors))


def replay(run: str | None = None, *, trust: Trust = Trust(), trust_folder: bool = False) -> RunReport:
    """Play a recorded run again without any call; the result is a run of its own."""
    recorded = _open(run, trust_folder)
    return _outside_loop(lambda: engine.replay_run(recorded, structs.replace(recorded.options(), trust=trust)))


def grade(
    run: str | None = None,
    suite: Suites = (),
    *,
    pace: Pace = Pace(),
    limits: Limits = Limits(),
    trust: Trust = Trust(),
    trust_folder: bool = False,
) -> RunReport:
    """Put the checks of suites, else those of the run's own suites as they are now, on the replies of a run. Only
    judges are called."""
    recorded = _open(run, trust_folder)
    options = _checked(structs.replace(recorded.options(), pace=pace, limits=limits, trust=trust))
    suites = _load(suite, options, asks=False) if suite else recorded.suites(asks=False)
    return _outside_loop(lambda: engine.grade_run(recorded, suites, options))[1]


def fork(
    run: str | None,
    case: str,
    turn: int = 1,
    *,
    prompt: str | None = None,
    system: str | None = None,
    options: RunOptions = RunOptions(),
    trust_folder: bool = False,
) -> RunReport:
    """Go on with one conversation of a run from a turn on, with other words or other instructions; the turns before it
    are taken over."""
    recorded = _open(run, trust_folder)
    chosen, way = _checked(options.changed(cases=(case,))), Fork(turn=turn, prompt=prompt, system=system)
    return _outside_loop(lambda: engine.fork_run(recorded, chosen, way))[0]


def merge(runs: Sequence[str], *, trust_folder: bool = False) -> RunReport:
    """One run of the parts that `Selection(shard=...)` made. No call is made."""
    parts = tuple(_open(run, trust_folder) for run in runs)
    if not parts:
        raise UsageError("there is no run to merge")
    return _outside_loop(lambda: engine.merge_runs(parts))


def show(run: str | None = None, *, trust_folder: bool = False) -> RunReport:
    """A recorded run. Nothing is run, sent or written."""
    recorded = _open(run, trust_folder)
    return _outside_loop(lambda: engine.show_run(recorded))


def _open(run: str | None, trust_folder: bool) -> RecordedRun:
    root = find_root(Path.cwd(), Path.cwd())
    return RecordedRun(find_run(root, run), root, trust=trust_folder)


def _load(suite: Suites, options: RunOptions, *, asks: bool = True) -> list[Suite]:
    given = [suite] if isinstance(suite, Suite | str | Path) else list(suite)
    if not given:
        raise UsageError("there is no suite to run")
    suites: list[Suite] = []
    for one in given:
        loaded = [one] if isinstance(one, Suite) else load_suites([Path(one)], load_options(options, asks=asks))[0]
        suites += loaded
    return suites


def _checked(options: RunOptions) -> RunOptions:
    """The options, with lists as tuples and paths as absolute text. Raises UsageError for a value that is no such
    option."""
    try:
        options = msgspec.convert(msgspec.to_builtins(options, enc_hook=str), RunOptions)
        paths = options.selection.targets_file, options.answers.record, options.answers.replay
        targets_file, record, replay = (path and str(Path(path).resolve()) for path in paths)
        return options.changed(targets_file=targets_file, record=record, replay=replay)
    except msgspec.ValidationError as error:
        raise UsageError(f"an option has a value of the wrong type: {error}") from None


def _outside_loop(work: Callable[[], T]) -> T:
    """Called from a coroutine or a notebook, whose loop cannot be used, the work runs in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        try:
            return work()
        finally:
            Deadline.call_off()  # the program that called us decides when it ends
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()
