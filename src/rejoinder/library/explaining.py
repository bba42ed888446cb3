"""The words of a result, or of a case with all its trials, for Python programs."""

from __future__ import annotations

from rejoinder.errors import UsageError
from rejoinder.library.rows import CaseVerdict
from rejoinder.model import Result
from rejoinder.report import failure
from rejoinder.report.styled import safe

_SIGNS = {"failed": "FAIL", "error": "ERROR"}


def explain(found: Result | CaseVerdict) -> str:
    """Why a conversation did not pass, in plain text: its checks, the last message and the reply. Of a case: its trials
    and the first reason. If it passed or was skipped, one line."""
    if isinstance(found, CaseVerdict):
        return _explain_case(found)
    if isinstance(found, Result):
        return failure.explain(found)
    raise UsageError(
        f"a result or a case is expected, and not a {type(found).__name__}",
        "Give one of `report.results`, or of `report.cases`.",
    )


def _explain_case(case: CaseVerdict) -> str:
    where = case.target if case.variant is None else f"{case.target}, {case.variant}"
    counted = f"{case.passed} of {case.trials} passed"
    sign = _SIGNS.get(case.status)
    if sign is None:
        return f"{safe(case.id)} on {safe(where)}: {safe(case.why) or case.status}, {counted}"
    title = f"{sign} {safe(case.id)} on {safe(where)}: {safe(case.title)} ({counted})"
    return f"{title}\n  {safe(case.why)}"
