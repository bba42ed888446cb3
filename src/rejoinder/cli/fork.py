"""Runs that begin with another run: `rejoinder run --fork` and `--failed-from`."""

from __future__ import annotations

import sys
from collections import Counter

import click

from rejoinder.cli.live import LiveDisplay
from rejoinder.cli.output import echo, width_of
from rejoinder.cli.recorded import open_recorded
from rejoinder.engine import run as engine
from rejoinder.engine.conversation import Fork
from rejoinder.engine.options import RunOptions
from rejoinder.engine.plan import plan
from rejoinder.engine.run import RunReport, show_run


def fork_run(
    run: str, options: RunOptions, turn: int, prompt: str | None, system: str | None, *, trust: bool
) -> RunReport:
    """A new run of one conversation of another, which takes another course from a turn on."""
    if len(options.selection.cases) != 1:
        raise click.UsageError("--fork takes up one conversation: name its case with --case ID")
    recorded = open_recorded(run, trust=trust)
    display, fork = LiveDisplay(sys.stderr, width_of(sys.stderr)), Fork(turn=turn, prompt=prompt, system=system)
    report, taken = engine.fork_run(recorded, options, fork, display)
    if taken is not None:
        echo(f"the turns before are those of target `{taken}`, which run {recorded.folder.id} has asked", err=True)
    return report


def failed_cases(run: str, *, trust: bool) -> list[str]:
    """The ids of the cases that did not pass in a run; those that it did not come to have not passed either."""
    recorded = open_recorded(run, trust=trust)
    suites, options = recorded.copies() or recorded.suites(asks=False), recorded.options()
    report = show_run(recorded)
    passed = Counter((one.suite, one.id) for one in report.results if one.status == "passed")
    planned = Counter((job.prepared.suite_name, job.prepared.case.id) for job in plan(suites, options))
    return list(dict.fromkeys(place[1] for place, count in planned.items() if passed[place] < count))
