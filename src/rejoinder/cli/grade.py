"""`rejoinder grade`"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rejoinder.calibration.regrade import Change, compare_grades
from rejoinder.cli.grouping import Values, format_option
from rejoinder.cli.live import live_display
from rejoinder.cli.loading import load_or_exit
from rejoinder.cli.options import LIMITS, PACE, TRUST, changed_options, trust_option
from rejoinder.cli.output import echo, echo_lines, form_for, write_machine
from rejoinder.cli.results import commands_of, relative, traceback_of
from rejoinder.engine.run import grade_run, show_run
from rejoinder.exports.formats import write_json
from rejoinder.model.chosen_names import ChosenNames
from rejoinder.report.ending import write_outcome
from rejoinder.runs.recorded import open_recorded
from rejoinder.runs.report import RunReport
from rejoinder.views.actions import next_actions
from rejoinder.views.choose import Choice, choose
from rejoinder.words.numbers import count

MOST_SHOWN = 50


@click.command("grade")
@click.argument("run", required=False)
@click.option(
    "--suite", "files", multiple=True, type=click.Path(path_type=Path), help="Take the checks of this suite instead."
)
@click.option(
    "--case", "cases", multiple=True, metavar="ID,...", help="Grade only these cases; patterns such as 'refund*'."
)
@changed_options(workers=PACE["workers"], **LIMITS, **TRUST)
@trust_option
@format_option
def command(
    run: str | None, files: tuple[Path, ...], cases: tuple[str, ...], changes: Values, trust: bool, form: str
) -> None:
    """Re-grade the replies of a recorded run (the latest if RUN is not given), without asking for new ones.

    The checks come from the present files of the run's suites, or from --suite. Only judges are asked, and only new
    questions. If new checks would send a follow-up that the run never sent, the conversation ends there. The old grades
    stay; the new ones are stored in the project, in `.rejoinder/grades`.
    """
    recorded = open_recorded(run, trust=trust)
    options = recorded.options().changed(**changes)
    if cases:
        chosen = choose(show_run(recorded), Choice(cases=cases)).results
        options = options.changed(cases=tuple(dict.fromkeys(result.id for result in chosen)))
    # Candidates are not called; whether judges can be is found out when they are opened.
    suites = load_or_exit(files, options, asks=False) if files else recorded.suites(asks=False)
    before, now = grade_run(recorded, suites, options, live_display())
    differences = compare_grades(before, now, ChosenNames(options.selection.cases) if cases else None)
    if form == "json":
        write_machine(write_json(now, changes=differences))
    else:
        _show(now, differences)
    sys.exit(now.summary.exit_code)


def _show(now: RunReport, changes: list[Change]) -> None:
    for change in changes[:MOST_SHOWN]:
        trial = f", trial {change.trial}" if change.trial > 1 else ""
        echo(f"{change.id} on {change.target}{trial}: {_verdicts(change)}")
        echo(*(f"  {' '.join(check.split())}" for check in change.checks))
    if len(changes) > MOST_SHOWN:
        echo(f"and {count(len(changes) - MOST_SHOWN, 'more conversation')}; --format json shows all")
    verdicts = sum(change.before != change.now for change in changes)
    echo(f"{count(verdicts, 'conversation')} graded differently", "")
    echo(f"grades: {relative(now.folder.path)}")
    if (traceback := traceback_of(now)) is not None:
        echo(f"traceback: {traceback}")
    echo_lines(write_outcome(now, form_for(sys.stdout)))
    if not now.run.is_completed:
        echo(*(f"next: {command}" for command, _ in commands_of(next_actions(now))))


def _verdicts(change: Change) -> str:
    if change.before == change.now:
        return f"{change.now} as before, by other checks"
    return f"{change.before or 'not graded'} -> {change.now or 'gone'}"
