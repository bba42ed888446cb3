"""`rejoinder merge`"""

from __future__ import annotations

import click

from rejoinder.cli.live import live_display
from rejoinder.cli.options import trust_option
from rejoinder.cli.results import Output, exit_with, output_options
from rejoinder.engine.run import merge_runs
from rejoinder.runs.recorded import open_recorded


@click.command("merge")
@click.argument("runs", nargs=-1, required=True)
@trust_option
@output_options
def command(runs: tuple[str, ...], trust: bool, output: Output) -> None:
    """Make one run of the parts that `run --shard` made on several machines.

    RUNS are ids or folders of runs of the same suites. No call is made: what no part has is left unfinished, and
    `rejoinder resume` can ask it.
    """
    parts = tuple(open_recorded(run, trust=trust) for run in runs)
    output.check(*parts)
    exit_with(merge_runs(parts, live_display()), output)
