"""Words of a case that did not pass, as the terminal prints them."""

from __future__ import annotations

from rejoinder.model import Result
from rejoinder.report.failure import write_failed_case
from rejoinder.report.styled import Form
from rejoinder.views.cases import Tried, join_trials

FORM = Form(width=80, symbols=True)


def failure_words(case: Tried) -> str:
    """The failing trial of a case, shortened: its title, the checks that failed, and the last reply."""
    rows = ("".join(piece.text for piece in row).rstrip() for row in write_failed_case(case, FORM))
    words = "\n".join(rows)
    return f"{words}\n  {case.counted}" if case.trials > 1 else words


def explain(result: Result) -> str:
    """The same for one conversation."""
    return failure_words(join_trials((result,), ""))
