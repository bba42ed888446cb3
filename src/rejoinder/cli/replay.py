"""`rejoinder replay`"""

from __future__ import annotations

import click

from rejoinder.cli.live import live_display
from rejoinder.cli.options import TRUST, trust_option
from rejoinder.cli.results import Output, exit_with, output_options
from rejoinder.engine.run import replay_run
from rejoinder.runs.recorded import open_recorded


@click.command("replay")
@click.argument("run", required=False)
@TRUST["no_code"]
@trust_option
@output_options
def command(run: str | None, no_code: bool, trust: bool, output: Output) -> None:
    """Play a recorded run again (the latest when RUN is not given), without any call.

    Suites are read from the project's files, and the code of their checks runs. Their calls are answered by the
    recorded run; a call that it does not hold is an error that shows the nearest recorded call, and how it differs. The
    result is a run of its own.
    """
    recorded = open_recorded(run, trust=trust)
    output.check(recorded)
    exit_with(replay_run(recorded, recorded.options().changed(no_code=no_code), live_display()), output)
