"""`rejoinder run --fail-under`: the exit code by the pass rate."""

from __future__ import annotations

import sys

from rejoinder.cli.output import echo
from rejoinder.engine.run_report import RunReport
from rejoinder.gates.rules import Rule
from rejoinder.gates.verbs import gate_report
from rejoinder.report.gate import EXIT_CODES, marks_for, write_rules

_OTHERS = {3: "the run had errors", 4: "the budget was reached", 130: "the run was interrupted"}
"""Exit codes that a rate never hides."""


def decide_exit(report: RunReport, rule: Rule, code: int, *, err: bool) -> int:
    """The exit code of a run that ended with `code`, and a line that says by what it was decided."""
    if code in _OTHERS:
        echo(f"{rule.text} does not decide: {_OTHERS[code]}   exit {code}", err=err)
        return code
    found = gate_report(report, [rule])
    code = EXIT_CODES[found.verdict] if found.verdict != "cannot-tell" else code
    [line] = write_rules(found, marks_for(sys.stderr if err else sys.stdout))
    echo(f"{line}   exit {code}", err=err)
    return code
