"""`rejoinder replay`"""

from __future__ import annotations

import sys
from pathlib import Path

import click
from msgspec import structs

from rejoinder.cli.output import width_of
from rejoinder.cli.recorded import open_recorded
from rejoinder.cli.results import check_out, output_options, write_report
from rejoinder.cli.trust_options import no_code_option, trust_option
from rejoinder.engine.earlier import Earlier
from rejoinder.engine.folder import RunBusy
from rejoinder.engine.run import start_run
from rejoinder.errors import UsageError
from rejoinder.report.live import LiveDisplay


@click.command("replay")
@click.argument("run", required=False)
@no_code_option
@trust_option
@output_options
def command(
    run: str | None, no_code: bool, trust: bool, form: str, out: Path | None, verbose: bool, corrected: bool
) -> None:
    """Play a recorded run again (the latest when RUN is not given), without asking anybody.

    Suites are read from the project's files, and the code of their checks runs. What they ask is answered by the
    recorded run; what it was not asked is an error that shows the nearest that it was asked, and how that differs. The
    result is a run of its own.
    """
    recorded = open_recorded(run, trust=trust)
    folder = recorded.folder
    if not folder.journal.is_file():
        raise UsageError(f"{folder.path} has no journal to play from")
    if folder.is_busy:
        raise RunBusy(f"run {folder.id} is open in another process", "Replay it when it has ended.")
    check_out(out, form)
    display = LiveDisplay(sys.stderr, width_of(sys.stderr))
    # Nobody is asked, so there is nothing to record, to keep or to pay for. A run that ended with its first failure had
    # some conversations under way; all that were had are had again, whichever comes first this time.
    options = structs.replace(
        recorded.options(),
        no_code=no_code,
        record=None,
        replay=None,
        cache=False,
        budget_usd=None,
        budget_tokens=None,
        fail_fast=False,
    )
    suites = recorded.suites(asks=False)
    before, sealed = Earlier((recorded,)), not recorded.uses_copy
    report = start_run(suites, options, display, before=before, root=recorded.root, sealed=sealed)
    write_report(report, form, out, verbose=verbose, corrected=corrected)
    sys.exit(report.summary["exit_code"])
