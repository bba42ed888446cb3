"""Changes of a run's cases against a baseline, one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from rejoinder.gates.baselines import Baseline, CaseTrials, matched_to
from rejoinder.gates.new_failures import NOT_CONFIRMED, Confirmations
from rejoinder.model import CaseChanges, CaseName, ChangedCase, TrialCounts
from rejoinder.model.runs import ConfirmedCase


def find_changes(
    before: Baseline, now: Baseline, further: Confirmations = NOT_CONFIRMED, aside: Collection[CaseName] = ()
) -> CaseChanges:
    """Find the changes, each case by its own trials only: `gates.rules` decides about all of them together. A case
    that passed when it was asked again is not worse. `aside`: cases of the run that are in quarantine."""
    earlier = {case.key: case for case in matched_to(now, before).baseline.cases if case.trials}
    present = {case.key: case for case in now.cases if case.trials}
    both = [(earlier[key], case, further.cases.get(key)) for key, case in present.items() if key in earlier]
    kinds = [_change(*one) for one in both]
    differing = (_changed(*one, kind=kind) for one, kind in zip(both, kinds, strict=True) if kind != "same")
    changed = tuple(one for one in differing if one.before != one.now)  # errors in both runs differ in nothing
    new, missing = len(present.keys() - earlier.keys()), len(earlier.keys() - present.keys() - set(aside))
    return CaseChanges(**Counter(kinds), new=new, missing=missing, changed=changed)


def _change(before: CaseTrials, now: CaseTrials, again: ConfirmedCase | None) -> str:
    """The change of a case, as a field of `CaseChanges`."""
    if before.errors or now.errors or (again is not None and again.passed):
        return "cannot_tell"
    if before.passed * len(now.trials) == now.passed * len(before.trials):
        return "same"
    if before.passed == len(before.trials) and not now.passed:
        return "worse"
    return "better" if not before.passed and now.passed == len(now.trials) else "cannot_tell"


def _changed(before: CaseTrials, now: CaseTrials, again: ConfirmedCase | None, *, kind: str) -> ChangedCase:
    asked = (
        None if again is None else TrialCounts(again.passed, again.trials - again.passed - again.errors, again.errors)
    )
    return ChangedCase(now.key, kind in ("worse", "better"), _counts(before), _counts(now), asked)


def _counts(case: CaseTrials) -> TrialCounts:
    return TrialCounts(case.passed, len(case.trials) - case.passed - case.errors, case.errors)
