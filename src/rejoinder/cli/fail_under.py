"""`rejoinder run --fail-under`: the exit code by the pass rate."""

from __future__ import annotations

import sys

from rejoinder.cli.output import echo
from rejoinder.engine.run_report import RunReport
from rejoinder.gates.rules import Rule
from rejoinder.gates.verbs import gate_report
from rejoinder.report.gate import marks_for, write_rules

_ENDS = {"budget": "the budget was reached", "interrupted": "the run was interrupted"}
"""How a run ended early; what else is neither passed nor failed had errors."""


def decide_exit(report: RunReport, rule: Rule, code: int, *, err: bool) -> int:
    """The exit code of a run that ended with `code`, and a line that says by what it was decided."""
    if code not in (0, 1):  # a rate never hides how a run ended
        reason = _ENDS.get(report.run.status, "the run had errors")
        echo(f"{rule.text} does not decide: {reason}   exit {code}", err=err)
        return code
    found = gate_report(report, [rule])
    code = code or found.exit_code if found.verdict == "cannot-tell" else found.exit_code  # nothing counted is no pass
    [line] = write_rules(found, marks_for(sys.stderr if err else sys.stdout))
    echo(f"{line}   exit {code}", err=err)
    return code
