"""`rejoinder replay`"""

from __future__ import annotations

import sys
from pathlib import Path

import click
from msgspec import structs

from rejoinder.cli.output import width_of
from rejoinder.cli.results import check_out, output_options, write_report
from rejoinder.engine.earlier import Earlier
from rejoinder.engine.folder import find_run
from rejoinder.engine.loading import suites_of
from rejoinder.engine.receipt import read_options
from rejoinder.engine.run import start_run
from rejoinder.errors import UsageError
from rejoinder.report.live import LiveDisplay
from rejoinder.suite.project import find_root


@click.command("replay")
@click.argument("run", required=False)
@output_options
def command(run: str | None, form: str, out: Path | None, verbose: bool, corrected: bool) -> None:
    """Play a recorded run again (the latest when RUN is not given), without asking anybody.

    Suites are read from their files. What they ask is answered by the recorded run; what it was not asked is an error
    that shows the nearest that it was asked, and how that differs. The result is a run of its own.
    """
    folder = find_run(find_root(Path.cwd(), Path.cwd()), run)
    if not folder.journal.is_file():
        raise UsageError(f"{folder.path} has no journal to play from")
    check_out(out)
    display = LiveDisplay(sys.stderr, width_of(sys.stderr))
    # Nobody is asked, so there is nothing to record, to keep or to pay for. A run that ended with its first failure had
    # some conversations under way; all that were had are had again, whichever comes first this time.
    options = structs.replace(
        read_options(folder),
        record=None,
        replay=None,
        cache=False,
        budget_usd=None,
        budget_tokens=None,
        fail_fast=False,
    )
    report = start_run(suites_of(folder, asks=False), options, display, before=Earlier((folder,)))
    write_report(report, form, out, verbose=verbose, corrected=corrected)
    sys.exit(report.summary["exit_code"])
