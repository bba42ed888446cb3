"""The trials of a case, counted: what rates and net recovery are computed from."""

from __future__ import annotations

from operator import add
from typing import NamedTuple

from rejoinder.model.results import Result, is_in_error


class TrialCounts(NamedTuple):
    """Sums over the trials of a case. A trial that was skipped is none."""

    trials: int = 0
    passed: int = 0
    first: int = 0
    """Those that were right on the first try; where right replies are doubted, they may have failed in the end."""
    gained: int = 0
    """Those that passed, and not on the first try."""
    opened: int = 0
    """Those whose first turn passed: the whole conversation, unless it is planned."""
    errors: int = 0
    failed: int = 0
    """First turns that failed and got a follow-up, and those of them that passed after the first one:"""
    recovered: int = 0
    controlled: int = 0
    """The same, where the first turn was also asked afresh:"""
    against: int = 0
    afresh: int = 0
    """Those of `controlled` that passed when asked afresh."""
    unjudged: int = 0
    """Those whose first turn ended in an error: it is neither right nor wrong."""

    def plus(self, other: TrialCounts) -> TrialCounts:
        return TrialCounts(*map(add, self, other))

    def with_failures_of(self, some: TrialCounts) -> TrialCounts:
        """All trials, with the failures of only some of them: the others say what asking afresh would have given."""
        return self._replace(
            failed=some.failed,
            recovered=some.recovered,
            controlled=some.controlled,
            against=some.against,
            afresh=some.afresh,
        )


NO_TRIALS = TrialCounts()


def count_trial(result: Result) -> TrialCounts:
    """What one result counts."""
    if result.status == "skipped":
        return NO_TRIALS
    passed, errors = int(result.passed), int(result.status == "error")
    opened = int(bool(result.turns) and result.turns[0].passed and result.user is None)
    unjudged = int(not result.turns or is_in_error(result.turns[0], result)) if errors else 0
    if not result.was_answered_back:
        return TrialCounts(trials=1, passed=passed, first=passed, opened=opened, errors=errors, unjudged=unjudged)
    # What a simulated user says first is never the same: other trials are no control.
    is_answered_back = result.failed_at_once and result.user is None
    at_once = is_answered_back and result.recovered_at_once
    control = result.control if is_answered_back and result.has_control else None
    first = int(result.first_try)
    return TrialCounts(
        trials=1,
        passed=passed,
        first=first,
        gained=int(passed > first),
        opened=opened,
        errors=errors,
        failed=int(is_answered_back),
        recovered=int(at_once),
        controlled=int(control is not None),
        against=int(control is not None and at_once),
        afresh=int(control is not None and control.passed),
    )
