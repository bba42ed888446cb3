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
from rejoinder.engine.run import merge_runs


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
