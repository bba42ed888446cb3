"""`rejoinder replay`"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rejoinder.cli.live import LiveDisplay
from rejoinder.cli.output import width_of
from rejoinder.cli.recorded import open_recorded
from rejoinder.cli.results import check_out, output_options, write_report
from rejoinder.cli.trust_options import no_code_option, trust_option
from rejoinder.engine.run import replay_run


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
    check_out(out, form)
    options = recorded.options().changed(no_code=no_code)
    report = replay_run(recorded, options, LiveDisplay(sys.stderr, width_of(sys.stderr)))
    write_report(report, form, out, verbose=verbose, corrected=corrected)
    sys.exit(report.summary.exit_code)
