"""`rejoinder bless`"""

from __future__ import annotations

import click

from rejoinder.cli.grouping import format_option
from rejoinder.cli.output import echo, write_data
from rejoinder.cli.results import relative
from rejoinder.engine.recorded import open_recorded
from rejoinder.gates.verbs import Blessed, bless_run
from rejoinder.report.words import count

ERRORS = (
    "a case with an error never counts as a new failure against this baseline; ask it again and bless again: "
    "`rejoinder resume {run} --retry-errors`"
)
ONE_TRIAL = "each case was tried once, so chance is in it; make a run for it: `rejoinder run --repeat 5`"


@click.command("bless")
@click.argument("run", required=False)
@click.option("--name", default="main", show_default=True, metavar="NAME", help="Name the baseline.")
@click.option("--partial", is_flag=True, help="Keep a run that has only some cases of its suites.")
@format_option
def command(run: str | None, name: str, partial: bool, form: str) -> None:
    """Keep the verdicts of a run as a baseline (the latest run when RUN is not given).

    A baseline is a file in .rejoinder/baselines that can be committed. It has the verdict, cost and times of every
    trial, and no replies. `rejoinder gate --against NAME` compares a run with it. A damaged or unfinished run is
    refused, and one of some cases without --partial. An earlier baseline of the same name is replaced. The greenest of
    several runs is a lucky one: better make one with --repeat for it.
    """
    blessed = bless_run(open_recorded(run), name, partial=partial)
    if form == "json":
        write_data(_document(blessed))
    else:
        echo(*_lines(blessed))


def _document(blessed: Blessed) -> dict[str, object]:
    return {
        "name": blessed.name,
        "run": blessed.baseline.run,
        "file": str(blessed.path),
        "replaced": blessed.replaced,
        "cases": len(blessed.baseline.cases),
        "trials": sum(1 for _ in blessed.baseline.trials),
    }


def _lines(blessed: Blessed) -> list[str]:
    trials = list(blessed.baseline.trials)
    passed = sum(trial.status == "passed" for trial in trials)
    errors = sum(trial.status == "error" for trial in trials)
    with_errors = f", {count(errors, 'error')}" if errors else ""
    was = blessed.replaced
    before = f" (before: {was})" if was is not None and was != blessed.baseline.run else ""
    return [
        f"{blessed.name} is run {blessed.baseline.run}{before}: {passed:,} of {len(trials):,} passed{with_errors}",
        f"  {'file':10}{relative(blessed.path)}",
        *([f"  {'advice':10}{ERRORS.format(run=blessed.baseline.run)}"] if errors else []),
        *([f"  {'advice':10}{ONE_TRIAL}"] if blessed.baseline.is_of_one_trial else []),
    ]
