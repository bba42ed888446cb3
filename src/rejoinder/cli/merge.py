"""`rejoinder merge`"""

from __future__ import annotations

import sys
from pathlib import Path

import click
from msgspec import structs

from rejoinder.cli.output import width_of
from rejoinder.cli.results import check_out, output_options, write_report
from rejoinder.engine.earlier import Earlier
from rejoinder.engine.folder import RunFolder, find_run
from rejoinder.engine.loading import suites_of
from rejoinder.engine.plan import file_of
from rejoinder.engine.receipt import read_options, stored_suites
from rejoinder.engine.run import start_run
from rejoinder.errors import UsageError
from rejoinder.model import Suite
from rejoinder.report.live import LiveDisplay
from rejoinder.suite.project import find_root

_SELECTING = ("repeat", "cases", "tags", "limit", "targets", "system_prompt", "fork")
"""Options that say which conversations a run has, but for its part of them."""


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
    for folder in folders:
        if not folder.journal.is_file():
            raise UsageError(f"{folder.path} has no journal")
        _refuse_other(folder, folders[0])
    check_out(out)
    # Nobody is asked now; but whoever resumes the run asks under the same budget.
    options = structs.replace(read_options(folders[0]), shard=None, fail_fast=False, record=None)
    display = LiveDisplay(sys.stderr, width_of(sys.stderr))
    suites = [_at_home(suite, root) for suite in suites_of(folders[0], asks=False)]
    report = start_run(suites, options, display, before=Earlier(folders, "merge"), root=root)
    write_report(report, form, out, verbose=verbose, corrected=corrected)
    sys.exit(report.summary["exit_code"])


def _refuse_other(one: RunFolder, first: RunFolder) -> None:
    """Parts of one run are of the same suites, wherever those lay, and were begun with the same options."""
    files = [[file_of(suite) for suite in stored_suites(folder)] for folder in (one, first)]
    if files[0] != files[1]:
        raise UsageError(f"run {one.id} is of other suites than run {first.id}")
    options = [read_options(folder) for folder in (one, first)]
    for name in _SELECTING:
        if getattr(options[0], name) != getattr(options[1], name):
            raise UsageError(
                f"run {one.id} was begun with another --{name.removesuffix('s').replace('_', '-')} than {first.id}"
            )
    models = [Earlier((folder,)).models() for folder in (one, first)]
    for target in models[0].keys() & models[1].keys():
        asked = models[0][target], models[1][target]
        if None not in asked and asked[0] != asked[1]:  # a variable may name it, and differ from machine to machine
            raise UsageError(
                f"run {one.id} has asked the model `{asked[0]}` as target `{target}`, and run {first.id} `{asked[1]}`",
                "Parts of one run ask the same models. Have one of them again.",
            )


def _at_home(suite: Suite, root: Path) -> Suite:
    """A suite of a machine that had the project elsewhere: the whole is kept in the project that is here."""
    if Path(suite.root).is_dir():
        return suite
    return structs.replace(suite, root=str(root), path=str(root / file_of(suite)))
