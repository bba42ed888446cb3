"""`rejoinder show`"""

from __future__ import annotations

import click

from rejoinder.cli.options import trust_option
from rejoinder.cli.results import Output, output_options, write_report
from rejoinder.engine.recorded import open_recorded
from rejoinder.engine.run import show_run
from rejoinder.engine.run_report import is_consistent
from rejoinder.run_files import RunDamaged


@click.command("show")
@click.argument("run", required=False)
@trust_option
@output_options
def command(run: str | None, trust: bool, output: Output) -> None:
    """Show a recorded run (the latest when RUN is not given).

    RUN is an id, the beginning or end of one, `last`, `last~1`, the name of a suite, or a run's folder. Nothing is
    run, sent or written.
    """
    report = show_run(open_recorded(run, trust=trust))
    try:
        write_report(report, output)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        if report.derived is not None or is_consistent(report):
            raise  # a bug
        raise RunDamaged(report.folder.path / "summary.json", "its figures disagree with the results") from None
