"""Runs that begin with another run: `rejoinder run --fork` and `--failed-from`."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from msgspec import structs

from rejoinder.cli.output import width_of
from rejoinder.engine.conversation import Fork
from rejoinder.engine.folder import find_run
from rejoinder.engine.forking import recorded_conversation
from rejoinder.engine.loading import suites_of
from rejoinder.engine.plan import RunOptions
from rejoinder.engine.receipt import read_options
from rejoinder.engine.run import RunReport, derive_run, read_run, start_run
from rejoinder.report.live import LiveDisplay
from rejoinder.suite.project import find_root


def fork_run(run: str, options: RunOptions, turn: int, prompt: str | None, system: str | None) -> RunReport:
    """A new run of one conversation of another, which takes another course from a turn on."""
    if len(options.cases) != 1:
        raise click.UsageError("--fork takes up one conversation: name its case with --case ID")
    folder = find_run(find_root(Path.cwd(), Path.cwd()), run)
    suites, before = suites_of(folder), read_options(folder)
    tape = recorded_conversation(folder, suites, before, options.cases[0], turn)
    chosen = structs.replace(
        options,
        targets=options.targets or before.targets,
        targets_file=options.targets_file or before.targets_file,
        system_prompt=options.system_prompt or before.system_prompt,
        fork=Fork(turn=turn, prompt=prompt, system=system),
    )
    return start_run(suites, chosen, LiveDisplay(sys.stderr, width_of(sys.stderr)), tape=tape)


def failed_cases(run: str) -> list[str]:
    """The ids of the cases that did not pass in a run."""
    folder = find_run(find_root(Path.cwd(), Path.cwd()), run)
    report = read_run(folder) or derive_run(folder, suites_of(folder), read_options(folder))
    return list(dict.fromkeys(one.id for one in report.results.outlines() if one.status != "passed"))
