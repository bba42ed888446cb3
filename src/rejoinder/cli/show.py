"""`rejoinder show`"""

from __future__ import annotations

from pathlib import Path

import click

from rejoinder.cli.results import output_options, write_report
from rejoinder.engine.folder import find_run
from rejoinder.engine.loading import suites_of
from rejoinder.engine.receipt import read_options
from rejoinder.engine.run import derive_run, read_run
from rejoinder.suite.project import find_root


@click.command("show")
@click.argument("run", required=False)
@output_options
def command(run: str | None, form: str, out: Path | None, verbose: bool, corrected: bool) -> None:
    """Show a recorded run (the latest when RUN is not given).

    RUN is an id, the beginning or end of one, or a run's folder.
    """
    folder = find_run(find_root(Path.cwd(), Path.cwd()), run)
    report = read_run(folder) or derive_run(folder, suites_of(folder, asks=False), read_options(folder))
    write_report(report, form, out, verbose=verbose, corrected=corrected)
