"""`rejoinder baseline`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rejoinder.cli.grouping import format_option
from rejoinder.cli.output import echo, write_data
from rejoinder.cli.results import relative
from rejoinder.errors import UsageError
from rejoinder.gates.baselines import baseline_file, baseline_names, delete_baseline, read_baseline
from rejoinder.gates.verbs import Blessed, bless_run
from rejoinder.project.folders import find_root
from rejoinder.run_files import RunDamaged
from rejoinder.runs.recorded import open_recorded
from rejoinder.words.numbers import count, listed

NO_VERDICT = "{cases} ended only in errors: if one fails later, no rule can say whether that is new"
ERRORS = "trials that ended in an error say nothing about their cases"
ASK_AGAIN = "ask them again and save again: `rejoinder resume {run} --retry-errors`"
ONE_TRIAL = "each case was tried once, so chance is in it; make a run for it: `rejoinder run --repeat 5`"


@click.group("baseline")
def command() -> None:
    """Save runs as baselines that later runs are compared with, list them, and delete them.

    A baseline is a file in .rejoinder/baselines that you can commit. It has the verdict, cost and times of every trial,
    and no replies. `rejoinder run --against NAME` and `rejoinder gate --against NAME` compare with it.
    """


@command.command("save")
@click.argument("run", required=False)
@click.option("--name", default="main", show_default=True, metavar="NAME", help="Name the baseline.")
@click.option("--partial", is_flag=True, help="Save a run that has only some cases of its suites.")
@format_option
def save(run: str | None, name: str, partial: bool, form: str) -> None:
    """Save the verdicts of a run as a baseline (the latest run when RUN is not given).

    A damaged or unfinished run is refused, and one of some cases without --partial. An earlier baseline of the same
    name is replaced.
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
        *([f"  {'advice':10}{_advice(blessed)}"] if errors else []),
        *([f"  {'advice':10}{ONE_TRIAL}"] if blessed.baseline.is_of_one_trial else []),
    ]


def _advice(blessed: Blessed) -> str:
    """For a baseline with errors."""
    undecided = sum(case.errors == len(case.trials) for case in blessed.baseline.cases if case.trials)
    why = NO_VERDICT.format(cases=count(undecided, "case")) if undecided else ERRORS
    return f"{why}; {ASK_AGAIN.format(run=blessed.baseline.run)}"


@command.command("list")
@format_option
def list_baselines(form: str) -> None:
    """List the baselines of the project."""
    root = find_root(Path.cwd(), Path.cwd())
    rows = [_row(root, name) for name in baseline_names(root)]
    if form == "json":
        write_data(rows)
        return
    longest = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        echo(f"{row['name']:{longest}}  {_words(row)}")
    if not rows:
        echo("there are no baselines; `rejoinder baseline save` makes one of the latest run", err=True)


def _row(root: Path, name: str) -> dict[str, Any]:
    """A damaged file is listed, too: it can be deleted, or saved again."""
    try:
        found = read_baseline(baseline_file(root, name))
    except RunDamaged as error:
        return {"name": name, "damaged": error.reason}
    trials = [] if found is None else list(found.trials)
    return {
        "name": name,
        "run": None if found is None else found.run,
        "cases": 0 if found is None else len(found.cases),
        "trials": len(trials),
        "passed": sum(trial.status == "passed" for trial in trials),
    }


def _words(row: dict[str, Any]) -> str:
    if "damaged" in row:
        return f"damaged: {row['damaged']}"
    return f"run {row['run']}: {row['passed']:,} of {row['trials']:,} passed, {count(row['cases'], 'case')}"


@command.command("rm")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def remove(names: tuple[str, ...]) -> None:
    """Delete baselines; their runs stay."""
    root = find_root(Path.cwd(), Path.cwd())
    for name in names:
        if name not in baseline_names(root):
            known = baseline_names(root)
            hint = f"The baselines are {listed(known)}." if known else "There are none."
            raise UsageError(f"there is no baseline `{name}`", hint)
    for name in dict.fromkeys(names):
        delete_baseline(root, name)
        echo(f"deleted {name}")
