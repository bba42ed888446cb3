"""`rejoinder run --against`: what is seen while new failures are confirmed, and the exit code by the gate."""

from __future__ import annotations

import sys

from rejoinder.cli.live import live_display
from rejoinder.cli.output import echo, echo_lines, form_for
from rejoinder.cli.rounds import RoundsDisplay
from rejoinder.engine.observer import Observer
from rejoinder.engine.plan import Job
from rejoinder.gates.against import Confirmer
from rejoinder.gates.rules import Rule
from rejoinder.gates.verbs import changes_since, gate_started, why_undecided
from rejoinder.model import CaseName, Outcome
from rejoinder.model.figures import GateResult
from rejoinder.report.gate import write_gate
from rejoinder.runs.folder import RunFolder
from rejoinder.runs.options import Confirm
from rejoinder.runs.report import RunReport
from rejoinder.views.flips import flips_since
from rejoinder.words.numbers import count

MOST_NAMED = 5
MOST_TOLD = 50
"""Cases whose further trials are told."""
ERRORS = 3
"""The exit code of a run with errors."""


class AgainstDisplay(RoundsDisplay, Confirmer):
    """Progress of the run, then of the further trials, on standard error."""

    def observer(self) -> Observer:
        return live_display()

    def confirming(self, cases: tuple[CaseName, ...], times: int) -> Observer:
        named = ", ".join(case.id for case in cases[:MOST_NAMED])
        more = f" and {len(cases) - MOST_NAMED:,} more" if len(cases) > MOST_NAMED else ""
        fails = count(len(cases), "case fails", "cases fail")
        echo(f"{fails} that did not fail before: {named}{more}; asking again, up to {count(times, 'time')}", err=True)
        return _FurtherTrials(times)


class _FurtherTrials(Observer):
    """What the further trials of each case came to."""

    def __init__(self, times: int) -> None:
        self._times = times
        self._made: dict[bytes, int] = {}
        self._told = 0

    def conversation_finished(self, job: Job, outcome: Outcome) -> None:
        if not job.confirms:
            return
        case = job.prepared.content
        self._made[case] = made = self._made.get(case, 0) + 1
        if outcome.status != "passed" and made < self._times:
            return
        self._told += 1
        if self._told <= MOST_TOLD:
            word = (
                f"passed in trial {made} of {self._times}"
                if outcome.status == "passed"
                else f"did not pass in {count(made, 'more trial')}"
            )
            echo(f"  {job.prepared.case.id} {word}", err=True)


def decide_against(report: RunReport, confirm: Confirm, more: list[Rule], code: int, *, err: bool) -> int:
    """Write what the gate says of a run that was started against a baseline and ended with `code`; its exit code."""
    if code not in (0, 1):  # a gate never hides how a run ended
        echo(f"the gate does not decide: {why_undecided(report)}", err=True)
        return code
    found, before = gate_started(report, confirm, more)
    found = with_command(found, report.folder, confirm.against)
    form = form_for(sys.stderr if err else sys.stdout)
    flips = flips_since(changes_since(before, report), report)
    echo_lines(write_gate(found, form, report.summary.quarantined, flips=flips), err=err)
    if found.verdict == "cannot-tell" and _lacks_verdicts(found):
        echo(f"more trials ended in errors; ask them again: rejoinder resume {report.run.id} --retry-errors", err=True)
        return ERRORS
    return found.exit_code


def _lacks_verdicts(found: GateResult) -> bool:
    """Whether errors kept a failure from being confirmed: it is neither chance nor a matter of more cases."""
    return any(case.kind == "unconfirmed" and case.errors for rule in found.rules for case in rule.cases)


def with_command(found: GateResult, folder: RunFolder, name: str) -> GateResult:
    """The answer of a gate with the command that confirms failures, where some are not confirmed."""
    if not found.has_unconfirmed:
        return found
    from msgspec import structs

    from rejoinder.views.actions import confirm_action

    action = confirm_action(folder, name)
    return found if action is None else structs.replace(found, confirm=action.command())
