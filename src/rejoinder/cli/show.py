"""`rejoinder show`"""

from __future__ import annotations

import click

from rejoinder.cli.options import trust_option
from rejoinder.cli.output import show_error
from rejoinder.cli.results import Output, output_options, write_report
from rejoinder.engine.recorded import open_recorded
from rejoinder.engine.run import show_run
from rejoinder.engine.verify import find_damage


@click.command("show")
@click.argument("run", required=False)
@trust_option
@output_options
def command(run: str | None, trust: bool, output: Output) -> None:
    """Show a recorded run (the latest when RUN is not given).

    RUN is an id, the beginning or end of one, `last`, `last~1`, the name of a suite, or a run's folder. Nothing is
    run, sent or written.
    """
    recorded = open_recorded(run, trust=trust)
    damage = find_damage(recorded)
    report = show_run(recorded)
    if damage is not None:
        if output.out or output.form != "text":
            raise damage  # another program would take the figures for those of the run
        show_error(damage)
    try:
        write_report(report, output)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        if damage is None:
            raise  # a bug
        raise damage from None
