"""Looks at a run whose cases are repeated until the result is clear (`--repeat auto`), after whole rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rejoinder.gates.baselines import Baseline, CaseTrials
from rejoinder.model.figures import Look
from rejoinder.runs.options import MOST_ROUNDS
from rejoinder.stats.comparison import Trials, compare_runs
from rejoinder.stats.sequential import count_pairs, look


def look_at(cases: Sequence[CaseTrials], before: Baseline, *, in_plan: bool = True) -> Look:
    """The look at a run. Trial r of a case is paired with trial r of the baseline; a pair with an error is excluded. If
    cases have unequal numbers of trials, the plan is broken."""
    earlier = {case.key: case for case in before.cases}
    matched = [(earlier[case.key], case) for case in cases if case.key in earlier]
    sizes = {len(case.trials) for case in cases}
    done, rounds = max(sizes, default=0), rounds_of(case for case, _ in matched)
    compared = compare_runs((trials_of(a), trials_of(b)) for a, b in matched)
    is_planned = in_plan and len(sizes) == 1 and done <= rounds
    return look(count_pairs(_pair(*one) for one in matched), done, rounds, compared=compared, in_plan=is_planned)


def rounds_of(cases: Iterable[CaseTrials]) -> int:
    """Maximum rounds: the baseline's trials per case, and at most ten."""
    return max(1, min([MOST_ROUNDS, *(len(case.trials) for case in cases)]))


def trials_of(case: CaseTrials) -> Trials:
    return Trials(case.passed, len(case.trials), case.errors, case.spoilt)


def _pair(before: CaseTrials, now: CaseTrials) -> tuple[list[bool], list[bool]]:
    known = {trial.trial: trial.status for trial in before.trials if trial.status != "error"}
    both = [(known[one.trial], one.status) for one in now.trials if one.trial in known and one.status != "error"]
    return [a == "passed" for a, _ in both], [b == "passed" for _, b in both]
