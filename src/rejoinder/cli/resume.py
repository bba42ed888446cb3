"""`rejoinder resume`"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rejoinder.cli.grouping import Values
from rejoinder.cli.live import live_display
from rejoinder.cli.options import LIMITS, PACE, TRUST, changed_options, fail_under_option, trust_option
from rejoinder.cli.output import echo
from rejoinder.cli.results import Output, exit_with, output_options
from rejoinder.engine.run import resume_run
from rejoinder.runs.options import RunOptions
from rejoinder.runs.recorded import RecordedRun, open_recorded, open_unfinished
from rejoinder.runs.report import RunReport

if TYPE_CHECKING:
    from rejoinder.gates.rules import Rule


@click.command("resume")
@click.argument("run", required=False)
@click.option("--retry-errors", is_flag=True, help="Make calls again that ended in an error.")
@changed_options(**PACE, **LIMITS, **TRUST)
@fail_under_option
@trust_option
@output_options
def command(
    run: str | None, retry_errors: bool, changes: Values, fail_under: Rule | None, trust: bool, output: Output
) -> None:
    """Continue a run that was interrupted or killed (the latest unfinished one if RUN is not given).

    Recorded calls are not made again. Suites are read from the project's files: cases that you edited are asked again,
    and the others are kept. If a file is gone, the run's own copy is used, provided that your rejoinder wrote it. Exit
    codes as for `run`; with --fail-under the pass rate decides between 0 and 1.
    """
    if run is not None:
        recorded = open_recorded(run, trust=trust)
    else:
        recorded = open_unfinished(retry_errors=retry_errors, trust=trust)
        echo(f"resuming run {recorded.folder.id}", err=True)
    options = recorded.options().changed(**changes)
    output.check(recorded)
    exit_with(_resume(recorded, options, retry_errors), output, fail_under)


def _resume(recorded: RecordedRun, options: RunOptions, retry_errors: bool) -> RunReport:
    if not options.selection.is_compared:
        return resume_run(recorded, options, live_display(), retry_errors=retry_errors)
    from rejoinder.cli.against import AgainstDisplay
    from rejoinder.gates.against import resume_compared

    return resume_compared(recorded, options, AgainstDisplay(), retry_errors=retry_errors)
