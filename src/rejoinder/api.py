"""From Python: load a suite and run it, and get what the command line gets.

suite = rejoinder.load("evals.yaml")
report = rejoinder.run(suite, repeat=3)
assert report.summary.failed == 0
for result in report.results: ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from rejoinder.engine.interrupts import Deadline
from rejoinder.engine.loading import load_options
from rejoinder.engine.observer import Observer
from rejoinder.engine.options import RunOptions, read_options
from rejoinder.engine.run import RunReport, start_run
from rejoinder.errors import UsageError
from rejoinder.model import Suite
from rejoinder.review import load_suites
from rejoinder.spelling import did_you_mean


def run(
    suite: Suite | str | Path | Sequence[Suite | str | Path], *, observer: Observer | None = None, **options: Any
) -> RunReport:
    """Run suites, given as loaded or as paths. Options are those of `RunOptions`: `repeat`, `workers`, `targets` ...

    Raises SuiteError for a suite with mistakes and UsageError for what cannot be run; failed checks and errors of
    providers are results, not exceptions.
    """
    given = [suite] if isinstance(suite, Suite | str | Path) else list(suite)
    if not given:
        raise UsageError("there is no suite to run")
    chosen = _options(options)
    suites: list[Suite] = []
    for one in given:
        suites += [one] if isinstance(one, Suite) else load_suites([Path(one)], load_options(chosen))[0]
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        try:
            return start_run(suites, chosen, observer)
        finally:
            Deadline.call_off()  # the program that called us decides when it ends
    # Called from a coroutine or a notebook, whose loop cannot be used: a thread has one of its own.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(start_run, suites, chosen, observer).result()


def _options(given: dict[str, Any]) -> RunOptions:
    """The options by name, with lists for tuples and a single text for a list of one."""
    fields = set(RunOptions().flat())
    unknown = [name for name in given if name not in fields]
    if unknown:
        known = sorted(fields)
        raise UsageError(
            f"there is no option `{unknown[0]}`{did_you_mean(unknown[0], known)}", f"Options: {', '.join(known)}."
        )
    several = ("cases", "tags", "targets")
    lists = {name: [given[name]] for name in several if isinstance(given.get(name), str)}
    try:
        return read_options({**given, **lists})
    except msgspec.ValidationError as error:
        raise UsageError(f"an option has a value of the wrong type: {error}") from None
