"""The result of all trials of a case together, and the changes of cases between two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from rejoinder.model.results import CaseName, Count, Result, Status

CaseStatus: TypeAlias = Literal["passed", "failed", "error", "skipped", "apart", "spoilt"]
"""The status of a case on one target, all trials together. `apart`: it is in quarantine, and decides nothing. `spoilt`:
its simulated user made all conversations invalid, or so many that the rest cannot decide, and nothing was measured."""


def judge_case(statuses: Mapping[Status, int], first: Result, day: str, spoilt: int = 0) -> CaseStatus:
    """The status of a case. The exit code, every report and `--failed-from` use this one rule.

    `statuses` counts the trials by status, without invalid ones; `first` is one of the trials; `day` is the day of the
    run. A skipped trial counts for nothing. A failure is the model's, so a case fails if it would not have passed
    without its errors either.
    """
    passed, errors = statuses.get("passed", 0), statuses.get("error", 0)
    trials = passed + errors + statuses.get("failed", 0)
    if is_in_quarantine(first, day):
        return "apart"
    if not trials:
        return "spoilt" if spoilt else "skipped"
    if spoilt and first.needed is not None:
        could = passes_together(passed + spoilt, trials + spoilt, first.needed)
        if could and not passes_together(passed, trials + spoilt, first.needed):
            return "spoilt"
    if passes_together(passed, trials, first.needed):
        return "passed"
    return "error" if passes_together(passed + errors, trials, first.needed) else "failed"


def is_flaky(statuses: Mapping[Status, int]) -> bool:
    """Whether a case passed in some trials and failed in others."""
    return statuses.get("passed", 0) > 0 and statuses.get("failed", 0) > 0


def is_in_quarantine(result: Result, day: str) -> bool:
    return result.quarantine is not None and not result.quarantine.is_over(day)


def passes_together(passed: int, trials: int, needed: tuple[int, int] | None = None) -> bool:
    """Whether the trials of a case pass together. `needed` is `(4, 5)` for `pass: "4 of 5"`; by default every trial
    must pass. With more or fewer trials, the share counts. Without trials, the case does not pass."""
    least, of = needed or (1, 1)
    return trials > 0 and passed * of >= least * trials


def lone_names(in_a: Sequence[str], in_b: Sequence[str]) -> tuple[str, str] | tuple[None, None]:
    """The only target, or variant, of each of two runs if they differ: these are compared with each other."""
    return (in_a[0], in_b[0]) if len(in_a) == len(in_b) == 1 and in_a[0] != in_b[0] else (None, None)


class TrialCounts(Struct, frozen=True):
    """The trials of a case in one run, by verdict."""

    passed: Count = 0
    failed: Count = 0
    errors: Count = 0

    @property
    def total(self) -> int:
        return self.passed + self.failed + self.errors


class ChangedCase(Struct, frozen=True):
    """A case whose verdicts differ between two runs."""

    case: CaseName
    """Its name in the later run."""
    is_clear: bool
    """True if all trials passed in one run, and none in the other."""
    before: TrialCounts
    now: TrialCounts
    again: TrialCounts | None = None
    """Additional trials, if it was asked again because it failed."""

    @property
    def broke(self) -> bool:
        """True if a smaller share passed, or an equal share and there are errors."""
        earlier, later = self.before.passed * self.now.total, self.now.passed * self.before.total
        return later < earlier or (later == earlier and self.now.errors > self.before.errors)


class CaseChanges(Struct, frozen=True):
    """Changes of a run's cases against an earlier run, each case by itself. A single change proves nothing: a gate
    decides whether the run is worse."""

    worse: Count = 0
    """Passed in every trial before, and in no trial now."""
    better: Count = 0
    same: Count = 0
    cannot_tell: Count = 0
    """With an error, or with a different share of passed trials."""
    new: Count = 0
    missing: Count = 0
    """Only in the earlier run, or now in quarantine."""
    changed: tuple[ChangedCase, ...] = ()
    """The cases in both runs whose verdicts differ."""

    @property
    def compared(self) -> int:
        """The number of cases in both runs."""
        return self.worse + self.better + self.same + self.cannot_tell
