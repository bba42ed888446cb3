"""`rejoinder gate`"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click
import msgspec

from rejoinder.cli.against import with_command
from rejoinder.cli.grouping import format_option
from rejoinder.cli.output import echo, echo_lines, form_for, look, look_options, write_data
from rejoinder.gates.baselines import Baseline, baseline_names
from rejoinder.gates.rules import COMPARING, read_rule
from rejoinder.gates.verbs import changes_since, find_baseline, gate_run
from rejoinder.model import CaseChanges
from rejoinder.report.gate import write_gate, write_verdict
from rejoinder.runs.folder import listed_receipt, runs_folder
from rejoinder.runs.recorded import RecordedRun, open_recorded
from rejoinder.runs.report import read_run
from rejoinder.views.flips import NO_FLIPS, flips_since
from rejoinder.views.notes import replayed_words


@click.command("gate")
@click.argument("run", required=False)
@click.option("--against", metavar="NAME|RUN", help="Compare with this baseline or run.")
@click.option(
    "--rule",
    "rules",
    multiple=True,
    metavar="RULE",
    default=COMPARING,
    help="A rule the run must meet. Can be given several times.  [default: no-regression and no-new-failures]",
)
@click.option("--partial", is_flag=True, help="Judge a run that has only some cases of its suites.")
@format_option
@look_options
def command(run: str | None, against: str | None, rules: tuple[str, ...], partial: bool, form: str) -> None:
    """Decide by rules whether a recorded run is good enough (the latest run when RUN is not given).

    RULE is `no-regression` (all cases together), `no-new-failures` (each case that passed every time before),
    `rate>=90%` (of trials), `cases>=90%` (of cases, each by its own `pass` rule), `lower>=85%` (the lower end of the
    rate's interval), `pass^3>=70%`, `cost<=1.50`, `latency_p95<=4s`, or one of them for the cases of a tag:
    `tag:safety:rate>=100%`. Nothing is sent: `run --against NAME` also asks newly failing cases again.
    A run of selected cases is refused without --partial. Exit code 0 if all rules pass, 1 if a rule fails, 5 if a
    rule cannot tell, 3 if the run is damaged.
    """
    wanted = [read_rule(rule) for rule in rules]
    recorded = open_recorded(run)
    before = None if against is None else find_baseline(recorded.root, against)
    found = gate_run(recorded, wanted, before, partial=partial)
    if against is not None:
        found = with_command(found, recorded.folder, against)
    if form == "json":
        write_data(msgspec.to_builtins(found))
    else:
        screen = form_for(sys.stdout)
        commands = tuple(_next_commands(recorded, against, before)) if screen.commands else ()
        if look().quiet:
            echo_lines(write_verdict(found, screen, commands))
        else:
            report = read_run(recorded)
            quarantined = () if report is None else report.summary.quarantined
            changes = CaseChanges() if report is None or before is None else changes_since(before, report)
            flips = NO_FLIPS if report is None else flips_since(changes, report)
            echo_lines(write_gate(found, screen, quarantined, commands, flips))
            if report is not None and report.run.replayed:
                echo(replayed_words(report.run.replayed), err=True)
    sys.exit(found.exit_code)


def _next_commands(recorded: RecordedRun, against: str | None, before: Baseline | None) -> Iterator[tuple[str, str]]:
    """What to type next, of which the project has what it needs."""
    folder, root = recorded.folder, recorded.root
    if before is None or folder.path.parent != runs_folder(root):
        return
    if before.run != folder.id and (runs_folder(root) / before.run).is_dir():
        yield f"rejoinder compare {before.run} {folder.id}", "what changed"
    if against in baseline_names(root):
        receipt = listed_receipt(folder)
        partial = " --partial" if receipt is not None and receipt.chosen is not None else ""
        yield f"rejoinder baseline save {folder.id} --name {against}{partial}", "save it as the new baseline"
