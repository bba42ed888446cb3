"""What the trials of a case come to together, and how cases ended in two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from rejoinder.model.results import Count, Result, Status

CaseStatus: TypeAlias = Literal["passed", "failed", "error", "skipped", "apart", "spoilt"]
"""How a case on one target ended, all its trials together. `apart`: it is in quarantine, and decides nothing. `spoilt`:
its simulated user has spoilt every conversation, or so many that the others do not decide, and nothing was measured."""


def judge_case(statuses: Mapping[Status, int], first: Result, day: str, spoilt: int = 0) -> CaseStatus:
    """The one rule for a case: for the exit code, for every report and for `--failed-from`.

    `statuses` counts the trials by how they ended, without those that are spoilt; `first` is one of them, and `day` is
    that of the run. A trial that was skipped says nothing. A failure is the model's, so a case fails if it would not
    have passed without its errors either.
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
    """Do the trials of a case pass together? `needed` is `(4, 5)` for `pass: "4 of 5"`; every trial, unless said.
    If there were more or fewer trials than that, the share counts. No trial passes nothing."""
    least, of = needed or (1, 1)
    return trials > 0 and passed * of >= least * trials


def lone_names(in_a: Sequence[str], in_b: Sequence[str]) -> tuple[str, str] | tuple[None, None]:
    """The one target, or variant, of each of two runs, if they are not the same: they are compared with each
    other."""
    return (in_a[0], in_b[0]) if len(in_a) == len(in_b) == 1 and in_a[0] != in_b[0] else (None, None)


class CaseChanges(Struct, frozen=True):
    """How the cases of a run ended against those of an earlier one, each by itself. A single change proves nothing:
    whether the run is worse is for a gate to say."""

    worse: Count = 0
    """Passed in every trial before, and in none now."""
    better: Count = 0
    same: Count = 0
    cannot_tell: Count = 0
    """With an error, or with a part of the trials passed that is another than before."""
    new: Count = 0
    missing: Count = 0
    """Only in the earlier run, or in quarantine now."""
