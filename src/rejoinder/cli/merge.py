"""`rejoinder merge`"""

from __future__ import annotations

import sys
from pathlib import Path

import click
from msgspec import structs

from rejoinder.cli.output import width_of
from rejoinder.cli.results import check_out, output_options, write_report
from rejoinder.engine.folder import find_run
from rejoinder.engine.loading import suites_of
from rejoinder.engine.receipt import read_options, suite_paths
from rejoinder.engine.run import Earlier, start_run
from rejoinder.errors import UsageError
from rejoinder.report.live import LiveDisplay
from rejoinder.suite.project import find_root


@click.command("merge")
@click.argument("runs", nargs=-1, required=True)
@output_options
def command(runs: tuple[str, ...], form: str, out: Path | None, verbose: bool, corrected: bool) -> None:
    """Make one run of the parts that `run --shard` had on several machines.

    RUNS are ids or folders of runs of the same suites. Nobody is asked: what no part has is left unfinished, and
    `rejoinder resume` can ask it.
    """
    root = find_root(Path.cwd(), Path.cwd())
    folders = tuple(find_run(root, run) for run in runs)
    first = [path.name for path in suite_paths(folders[0])]
    for folder in folders:
        if not folder.journal.is_file():
            raise UsageError(f"{folder.path} has no journal")
        if [path.name for path in suite_paths(folder)] != first:
            raise UsageError(f"run {folder.id} is of other suites than run {folders[0].id}")
    check_out(out)
    options = structs.replace(read_options(folders[0]), shard=None)
    display = LiveDisplay(sys.stderr, width_of(sys.stderr))
    report = start_run(suites_of(folders[0]), options, display, before=Earlier(folders, "merge"))
    write_report(report, form, out, verbose=verbose, corrected=corrected)
    sys.exit(report.summary["exit_code"])
