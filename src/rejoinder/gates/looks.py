"""Looks at a run whose cases are repeated until they tell (`--repeat auto`), after whole rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rejoinder.engine.options import MOST_ROUNDS
from rejoinder.gates.baselines import Baseline, CaseTrials
from rejoinder.model.figures import Look
from rejoinder.stats import Trials, compare_runs, count_pairs, look


def look_at(cases: Sequence[CaseTrials], before: Baseline, *, in_plan: bool = True) -> Look:
    """Trial r of a case is paired with trial r of the baseline; a pair with an error says nothing and is left out.
    Where cases have unequal numbers of trials, the plan is broken."""
    earlier = {case.key: case for case in before.cases}
    matched = [(earlier[case.key], case) for case in cases if case.key in earlier]
    sizes = {len(case.trials) for case in cases}
    done, rounds = max(sizes, default=0), rounds_of(case for case, _ in matched)
    compared = compare_runs((trials_of(a), trials_of(b)) for a, b in matched)
    is_planned = in_plan and len(sizes) == 1 and done <= rounds
    return look(count_pairs(_pair(*one) for one in matched), done, rounds, compared=compared, in_plan=is_planned)


def rounds_of(cases: Iterable[CaseTrials]) -> int:
    """The most rounds: as many as the baseline has trials of each case, and ten."""
    return max(1, min([MOST_ROUNDS, *(len(case.trials) for case in cases)]))


def trials_of(case: CaseTrials) -> Trials:
    return Trials(case.passed, len(case.trials), case.errors, case.spoilt)


def _pair(before: CaseTrials, now: CaseTrials) -> tuple[list[bool], list[bool]]:
    known = {trial.trial: trial.status for trial in before.trials if trial.status != "error"}
    both = [(known[one.trial], one.status) for one in now.trials if one.trial in known and one.status != "error"]
    return [a == "passed" for a, _ in both], [b == "passed" for _, b in both]
