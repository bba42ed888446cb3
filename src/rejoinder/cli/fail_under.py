"""`rejoinder run --fail-under`: the exit code by the pass rate."""

from __future__ import annotations

import sys

from rejoinder.cli.output import echo_lines, form_for
from rejoinder.gates.rules import Rule
from rejoinder.gates.verbs import gate_report, why_undecided
from rejoinder.report.gate import write_decision, write_rules
from rejoinder.report.styled import line
from rejoinder.runs.report import RunReport


def decide_exit(report: RunReport, rule: Rule, code: int, *, err: bool) -> int:
    """The exit code of a run that ended with `code`, and a line that says by what it was decided."""
    form = form_for(sys.stderr if err else sys.stdout)
    if code not in (0, 1):  # a rate never hides how a run ended
        undecided = line(f"{rule.text} does not decide: {why_undecided(report)}")
        echo_lines(write_decision([undecided], code, form), err=err)
        return code
    found = gate_report(report, [rule])
    code = code or found.exit_code if found.verdict == "cannot-tell" else found.exit_code  # nothing counted is no pass
    echo_lines(write_decision(write_rules(found, form), code, form), err=err)
    return code
