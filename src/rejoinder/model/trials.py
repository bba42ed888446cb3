"""The trials of a case, counted: the basis of rates and net recovery."""

from __future__ import annotations

from operator import add
from typing import NamedTuple

from rejoinder.model.results import Result, is_in_error


class TrialCounts(NamedTuple):
    """Sums over the trials of a case. Skipped trials do not count."""

    trials: int = 0
    passed: int = 0
    first: int = 0
    """Trials that passed on the first try; if right replies are doubted, they may still have failed later."""
    gained: int = 0
    """Trials that passed, but not on the first try."""
    opened: int = 0
    """Trials whose first turn passed: the whole conversation, unless it is planned."""
    errors: int = 0
    failed: int = 0
    """First turns that failed and got a follow-up; `recovered`: those that passed after the first follow-up."""
    recovered: int = 0
    controlled: int = 0
    """Like `failed` and `recovered`, for trials whose first turn was also asked again in a new conversation."""
    against: int = 0
    afresh: int = 0
    """Trials in `controlled` that passed when asked again."""
    unjudged: int = 0
    """Trials whose first turn ended in an error: it is neither right nor wrong."""

    def plus(self, other: TrialCounts) -> TrialCounts:
        return TrialCounts(*map(add, self, other))

    def with_failures_of(self, some: TrialCounts) -> TrialCounts:
        """All trials, but with the failures of only some: the other trials serve as the control for these."""
        return self._replace(
            failed=some.failed,
            recovered=some.recovered,
            controlled=some.controlled,
            against=some.against,
            afresh=some.afresh,
        )


NO_TRIALS = TrialCounts()


def count_trial(result: Result) -> TrialCounts:
    """The counts of one result."""
    if result.status == "skipped":
        return NO_TRIALS
    passed, errors = int(result.passed), int(result.status == "error")
    opened = int(bool(result.turns) and result.turns[0].passed and result.user is None)
    unjudged = int(not result.turns or is_in_error(result.turns[0], result)) if errors else 0
    if not result.was_answered_back:
        return TrialCounts(trials=1, passed=passed, first=passed, opened=opened, errors=errors, unjudged=unjudged)
    # A simulated user's first words always differ, so other trials cannot serve as a control.
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
