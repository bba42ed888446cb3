"""How the cases of a run ended against a baseline, one by one."""

from __future__ import annotations

from collections import Counter

from rejoinder.gates.baselines import Baseline, CaseTrials, matched_to
from rejoinder.gates.new_failures import NOT_CONFIRMED, Confirmations
from rejoinder.model import CaseChanges


def count_changes(before: Baseline, now: Baseline, further: Confirmations = NOT_CONFIRMED) -> CaseChanges:
    """Each case by its own trials alone: what all of them say together is for `gates.rules` to decide. One that passed
    when it was asked again is not worse."""
    earlier = {case.key: case for case in matched_to(now, before).baseline.cases if case.trials}
    present = {case.key: case for case in now.cases if case.trials}
    again = {key for key, one in further.cases.items() if one.passed}
    found = Counter(
        "cannot_tell" if key in again else _change(earlier[key], case)
        for key, case in present.items()
        if key in earlier
    )
    new, missing = len(present.keys() - earlier.keys()), len(earlier.keys() - present.keys())
    return CaseChanges(**found, new=new, missing=missing)


def _change(before: CaseTrials, now: CaseTrials) -> str:
    """A field of `CaseChanges`."""
    if before.errors or now.errors:
        return "cannot_tell"
    if before.passed * len(now.trials) == now.passed * len(before.trials):
        return "same"
    if before.passed == len(before.trials) and not now.passed:
        return "worse"
    return "better" if not before.passed and now.passed == len(now.trials) else "cannot_tell"
