"""`rejoinder gate`"""

from __future__ import annotations

import sys

import click
import msgspec

from rejoinder.cli.grouping import format_option
from rejoinder.cli.output import echo, write_data
from rejoinder.engine.recorded import open_recorded
from rejoinder.gates.rules import NO_REGRESSION, read_rule
from rejoinder.gates.verbs import find_baseline, gate_run
from rejoinder.report.gate import marks_for, write_gate


@click.command("gate")
@click.argument("run", required=False)
@click.option("--against", metavar="NAME|RUN", help="Compare with this baseline or run.")
@click.option(
    "--rule",
    "rules",
    multiple=True,
    metavar="RULE",
    default=(NO_REGRESSION,),
    help="Want this of the run; repeatable.  [default: no-regression]",
)
@format_option
def command(run: str | None, against: str | None, rules: tuple[str, ...], form: str) -> None:
    """Decide by rules whether a recorded run is good enough (the latest run when RUN is not given).

    RULE is `no-regression`, `rate>=90%`, `lower>=85%` (the lower end of the rate's interval), `pass^3>=70%`,
    `cost<=1.50`, `latency_p95<=4s`, or one of them for the cases of a tag: `tag:safety:rate>=100%`. Nothing is sent.
    Exit code 0 when all rules pass, 1 when one fails, 5 when it cannot be told, 3 for a damaged run.
    """
    wanted = [read_rule(rule) for rule in rules]
    recorded = open_recorded(run)
    found = gate_run(recorded, wanted, None if against is None else find_baseline(recorded.root, against))
    if form == "json":
        write_data(msgspec.to_builtins(found))
    else:
        echo(*write_gate(found, marks_for(sys.stdout)))
    sys.exit(found.exit_code)
