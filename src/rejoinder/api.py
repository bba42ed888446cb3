"""From Python: load a suite and run it, and get what the command line gets.

suite = rejoinder.load("evals.yaml")
report = rejoinder.run(suite, repeat=3)
assert report.summary["failed"] == 0
for result in report.results: ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from rejoinder.engine.plan import RunOptions
from rejoinder.engine.run import Observer, RunReport, start_run
from rejoinder.model import Suite
from rejoinder.suite import load


def run(
    suite: Suite | str | Path | Sequence[Suite | str | Path], *, observer: Observer | None = None, **options: Any
) -> RunReport:
    """Run suites, given as loaded or as paths. Options are those of `RunOptions`: `repeat`, `workers`, `targets` ...

    Raises SuiteError for a suite with mistakes and UsageError for what cannot be run; failed checks and errors of
    providers are results, not exceptions.
    """
    given = [suite] if isinstance(suite, Suite | str | Path) else list(suite)
    lists = {name: tuple(value) for name, value in options.items() if isinstance(value, list)}
    chosen: RunOptions = cast("Any", RunOptions)(**{**options, **lists})
    suites = [one if isinstance(one, Suite) else load(one) for one in given]
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return start_run(suites, chosen, observer)
    # Called from a coroutine or a notebook, whose loop cannot be used: a thread has one of its own.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(start_run, suites, chosen, observer).result()
