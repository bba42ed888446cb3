"""`no-new-failures`: cases that passed every time, or most times, in the baseline and no longer pass.

`no-regression` asks about a population of such cases; this rule asks about these very cases. It finds a single broken
case, which no test of all cases together can detect. Repeated trials exclude chance: `run --against` asks each newly
failing case again, until it passes once. A case that was flaky may fail all of them by chance: it is called broken only
if a test says so, and else the rule cannot tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import comb

from msgspec import Struct, structs

from rejoinder.gates.baselines import Baseline, CaseTrials
from rejoinder.model import CaseName
from rejoinder.model.figures import NewFailure, NewFailureKind, RuleResult
from rejoinder.model.runs import ConfirmedCase
from rejoinder.stats.alarms import Outcome, new_failure_chance
from rejoinder.stats.distributions import fisher_one_sided, holm
from rejoinder.words.numbers import count

LEAST_NOW, LEAST_TOGETHER = 3, 5
"""Minimum trials that make a case fail: of this run, all without a pass, and of both runs together."""
FLAKY_LEVEL = 0.02
"""Level of the test of cases that were flaky in the baseline."""
_SETTLED: tuple[NewFailureKind, ...] = ("flaky", "error")
MOST_NAMED, LONGEST_NAME = 5, 60


class Confirmations(Struct, frozen=True):
    """The results of repeated trials of newly failing cases."""

    times: int = 0
    """Maximum repeats of a case; 0 for a run that repeats none."""
    cases: Mapping[CaseName, ConfirmedCase] = {}


NOT_CONFIRMED = Confirmations()


def find_new_failures(
    now: Iterable[CaseTrials], earlier: Mapping[CaseName, CaseTrials], further: Confirmations
) -> list[NewFailure]:
    """The cases that passed no trial of the run, and every or most trials of the baseline. Failed cases without a
    verdict in the baseline are among them, because they may be new failures; cases that were flaky are not, as long as
    they have failed fewer than three times."""
    pairs = [(earlier.get(case.key), case) for case in now]
    flaky = [(before, case) for before, case in pairs if before is not None and _was_flaky(before, case)]
    broken = _broken_beyond_chance(flaky, further)
    found = [_newly_failing(before, case, further, broken) for before, case in pairs if _is_in_question(before, case)]
    return [one for one in found if not one.before_failed or one.kind in _SETTLED or one.failed >= LEAST_NOW]


def newly_failing(now: Baseline, before: Baseline) -> tuple[CaseName, ...]:
    """The cases of a run that failed, and passed every or most trials of the baseline, or have no verdict there: these
    are asked again. Empty if no case is in both. `before` has the names of the run (`matched_to`)."""
    earlier = {case.key: case for case in before.cases}
    if not any(case.key in earlier for case in now.cases):
        return ()
    pairs = ((earlier.get(case.key), case) for case in now.cases)
    return tuple(case.key for before, case in pairs if _is_in_question(before, case) and _told(case))


def _is_in_question(before: CaseTrials | None, now: CaseTrials) -> bool:
    if before is None or not _told(before):
        return _told(now) > 0 and not now.passed
    return _is_newly_failing(before, now)


def _is_newly_failing(before: CaseTrials, now: CaseTrials) -> bool:
    """Whether a case is newly failing. An error in the baseline carries no information, so it does not excuse
    the case."""
    return before.passed * 2 > _told(before) and bool(now.trials) and not now.passed


def _was_flaky(before: CaseTrials, now: CaseTrials) -> bool:
    """Whether a newly failing case failed in the baseline, too."""
    return _is_newly_failing(before, now) and before.passed < _told(before)


def _told(case: CaseTrials) -> int:
    """Number of trials with a verdict."""
    return len(case.trials) - case.errors


def _broken_beyond_chance(flaky: Sequence[tuple[CaseTrials, CaseTrials]], further: Confirmations) -> set[CaseName]:
    """Find the flaky cases that pass less often than in the baseline: Fisher's one-sided test of each, with Holm.

    Only the repeated trials count for the run: its other trials are the reason why the case is tested at all."""
    chances: list[float] = []
    for before, case in flaky:
        asked = further.cases.get(case.key)
        failed = 0 if asked is None or asked.passed else asked.trials - asked.errors
        chances.append(fisher_one_sided((before.passed, _told(before)), (0, failed)))
    return {case.key for (_, case), chance in zip(flaky, holm(chances), strict=True) if chance <= FLAKY_LEVEL}


def _newly_failing(
    before: CaseTrials | None, now: CaseTrials, further: Confirmations, broken: set[CaseName]
) -> NewFailure:
    asked = further.cases.get(now.key)
    failed, passed = _told(now), 0
    if asked is not None:
        failed, passed = failed + asked.trials - asked.passed - asked.errors, asked.passed
    found = NewFailure(
        id=now.id,
        target=now.target,
        variant=now.variant,
        file=now.file,
        before=0 if before is None else _told(before),
        before_failed=0 if before is None or not before.passed else _told(before) - before.passed,
        failed=failed,
        passed=passed,
        errors=now.errors + (0 if asked is None else asked.errors),
        kind="error",
    )
    if not _told(now):
        return found
    if found.before_failed and not passed:
        is_asked = asked is not None and not asked.errors
        return structs.replace(found, kind=_kind_of_flaky(is_broken=now.key in broken, is_asked=is_asked))
    return structs.replace(found, kind=_kind(found))


def _kind_of_flaky(*, is_broken: bool, is_asked: bool) -> NewFailureKind:
    """The kind of a failed case that was flaky. `is_asked`: its repeated trials all have a verdict."""
    return "new" if is_broken else "undecided" if is_asked else "unconfirmed"


def _kind(found: NewFailure) -> NewFailureKind:
    if found.passed:
        return "flaky"
    if not found.before:
        return "unknown"
    return "new" if found.failed >= LEAST_NOW and found.failed + found.before >= LEAST_TOGETHER else "unconfirmed"


def new_failures_rule(rule: str, found: Sequence[NewFailure], compared: int, *, with_target: bool) -> RuleResult:
    """The rule's result: it fails for a new failure. For a case with too few trials, or with errors only, it cannot
    tell, nor for a failed case that the baseline does not know. `compared`: the number of cases in both runs."""
    by_kind: dict[NewFailureKind, list[NewFailure]] = {}
    for one in found:
        by_kind.setdefault(one.kind, []).append(one)
    in_doubt = {"unconfirmed", "undecided", "error", "unknown"} & by_kind.keys()
    verdict = "fail" if "new" in by_kind else "cannot-tell" if in_doubt else "pass"
    parts = [
        f"{len(by_kind[kind]):,} {words[len(by_kind[kind]) > 1]}: {_named(by_kind[kind], with_target=with_target)}"
        for kind, words in _WORDS.items()
        if kind in by_kind
    ]
    if not compared:
        return RuleResult(rule, "cannot-tell", "; ".join(["no case is in both runs", *parts]), tuple(found))
    if not {"new", "unconfirmed", "undecided"} & by_kind.keys():
        parts.insert(0, f"no new failure in {count(compared, 'case')}")
    return RuleResult(rule, verdict, "; ".join(parts), tuple(found))


_WORDS: Mapping[NewFailureKind, tuple[str, str]] = {
    "new": ("new failure", "new failures"),
    "unconfirmed": ("unconfirmed failure", "unconfirmed failures"),
    "undecided": ("always fails now and was flaky before", "always fail now and were flaky before"),
    "flaky": ("passed when asked again", "passed when asked again"),
    "error": ("ended in an error", "ended in an error"),
    "unknown": ("failed that the baseline does not know", "failed that the baseline does not know"),
}


def _named(found: Sequence[NewFailure], *, with_target: bool) -> str:
    more = f" and {len(found) - MOST_NAMED:,} more" if len(found) > MOST_NAMED else ""
    return ", ".join(_described(one, with_target=with_target) for one in found[:MOST_NAMED]) + more


def _described(one: NewFailure, *, with_target: bool) -> str:
    """`refund on gpt-5 (0 of 8 now, 1 of 1 before)`"""
    where = f" on {one.target}" if with_target else ""
    where += f", {one.variant}" if one.variant is not None else ""
    now = f"{one.passed} of {one.failed + one.passed} now" if one.kind != "error" else "no verdict now"
    before = f"{one.before - one.before_failed} of {one.before} before" if one.before else "no verdict before"
    return f"{one.id[:LONGEST_NAME]}{where} ({now}, {before})"


def chance_of_new_failure(
    now: Sequence[CaseTrials], earlier: Mapping[CaseName, CaseTrials], further: Confirmations
) -> float | None:
    """The probability that the rule fails for an unchanged suite like this one; None if it cannot fail at all."""
    pairs = [(earlier[case.key], case) for case in now if case.key in earlier]
    trials = [(_told(before), len(case.trials), further.times) for before, case in pairs]
    outcomes = [found for one in trials if (found := tuple(_called_failures(*one)))]
    if not outcomes:
        return None
    broken = {one.case for one in find_new_failures(now, earlier, further) if one.kind == "new"}
    steady = ((a, b) for a, b in pairs if b.key not in broken)  # what has changed is not flaky
    counts = ((a.passed + b.passed, _told(a) + _told(b)) for a, b in steady)
    return new_failure_chance(counts, outcomes)


def _called_failures(before: int, now: int, further: int) -> Iterator[Outcome]:
    """The outcomes of a case's trials that make it a new failure if it is the only one in question."""
    every = now + further
    if before and every >= LEAST_NOW and before + every >= LEAST_TOGETHER:
        yield Outcome(1, before, every)
    for passed in range(before // 2 + 1, before) if every >= LEAST_NOW else ():
        if fisher_one_sided((passed, before), (0, further)) <= FLAKY_LEVEL:
            yield Outcome(comb(before, passed), passed, before - passed + every)
