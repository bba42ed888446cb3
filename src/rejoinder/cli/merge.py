"""`rejoinder merge`"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rejoinder.cli.live import LiveDisplay
from rejoinder.cli.output import width_of
from rejoinder.cli.recorded import open_recorded
from rejoinder.cli.results import check_out, output_options, write_report
from rejoinder.cli.trust_options import trust_option
from rejoinder.engine.earlier import Earlier
from rejoinder.engine.recorded import RecordedRun
from rejoinder.engine.run import start_run
from rejoinder.errors import UsageError


@click.command("merge")
@click.argument("runs", nargs=-1, required=True)
@trust_option
@output_options
def command(runs: tuple[str, ...], trust: bool, form: str, out: Path | None, verbose: bool, corrected: bool) -> None:
    """Make one run of the parts that `run --shard` had on several machines.

    RUNS are ids or folders of runs of the same suites. Nobody is asked: what no part has is left unfinished, and
    `rejoinder resume` can ask it.
    """
    parts = tuple(open_recorded(run, trust=trust) for run in runs)
    check_out(out, form)
    report = merge_runs(parts, LiveDisplay(sys.stderr, width_of(sys.stderr)))
    write_report(report, form, out, verbose=verbose, corrected=corrected)
    sys.exit(report.summary.exit_code)


def _refuse_other(part: RecordedRun, first: RecordedRun) -> None:
    """Parts of one run are of the same suites, wherever those lay, and were begun with the same options."""
    ids = part.folder.id, first.folder.id
    if part.files != first.files:
        raise UsageError(f"run {ids[0]} is of other suites than run {ids[1]}")
    options = part.stored.options, first.stored.options
    for name in _SELECTING:
        if getattr(options[0], name) != getattr(options[1], name):
            raise UsageError(
                f"run {ids[0]} was begun with another --{name.removesuffix('s').replace('_', '-')} than {ids[1]}"
            )
    models = [Earlier((one,)).models() for one in (part, first)]
    for target in models[0].keys() & models[1].keys():
        asked = models[0][target], models[1][target]
        if None not in asked and asked[0] != asked[1]:  # a variable may name it, and differ from machine to machine
            raise UsageError(
                f"run {ids[0]} has asked the model `{asked[0]}` as target `{target}`, and run {ids[1]} `{asked[1]}`",
                "Parts of one run ask the same models. Have one of them again.",
            )
