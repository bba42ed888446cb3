"""The summary of a run, counted from its results in document order.

No counter is kept while a run goes on: a crash could spoil it, and the order in which conversations end would show in
ties and sums. Equal runs have equal summaries. Memory grows by some numbers for each case, and not by the results.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest, nsmallest
from itertools import groupby
from math import fsum, sqrt
from typing import TYPE_CHECKING, Any

from msgspec import structs

from rejoinder.engine.results import add_costs
from rejoinder.model import CheckResult, Receipt, Result, Summary
from rejoinder.model.results import NO_USAGE_RESULT
from rejoinder.model.runs import (
    CostOfParts,
    EmbeddingUse,
    JudgeSummary,
    Metric,
    Recovery,
    RunStatus,
    ScoredCase,
    Scores,
    TargetSummary,
)
from rejoinder.stats import wilson

if TYPE_CHECKING:
    from rejoinder.engine.embeddings import Embeddings
    from rejoinder.stats import ClusteredRate

BINS = 5


def summarise(results: Iterable[Result], run: Receipt) -> Summary:
    """Count results. Embeddings and passports are added by `add_embeddings` and `add_passports`."""
    tally = _Tally()
    for result in results:
        tally.add(result)
    return tally.summary(run)


def _exit_code(statuses: Counter[str], unfinished: int, status: RunStatus) -> int:
    """The first that applies: interrupted, budget, errors, failures, success."""
    if status in ("interrupted", "killed", "running"):
        return 130
    if status == "budget":
        return 4
    if statuses["error"] or unfinished or status == "error":
        return 3
    return 1 if statuses["failed"] or statuses["skipped"] else 0


def add_embeddings(summary: Summary, vectors: Embeddings) -> Summary:
    """What embeddings used: they belong to the run, because conversations share them."""
    cost = None if None in vectors.costs else add_costs(sorted(one for one in vectors.costs if one is not None))
    tokens, total = vectors.usage.input_tokens, summary.total_cost
    judges_known = summary.judge_cost is not None or not summary.judge_usage.total_tokens
    if cost is not None and not summary.unpriced and judges_known:
        total = (total or 0.0) + cost
    elif vectors.costs and cost is None and vectors.paid:
        total = None  # a part of it is not known
    return structs.replace(
        summary,
        embeddings=EmbeddingUse(len(vectors.costs), tokens, cost),
        total_tokens=summary.total_tokens + tokens,
        total_cost=total,
    )


class _Rate:
    """A rate over conversations. Trials of one case, and the replies of several targets to it, say less than as many
    cases: where cases count more than once, the interval is clustered by case. Trials of a single case are as many
    observations of that case, and none of any other."""

    def __init__(self) -> None:
        self._passed, self._counted = array("q"), array("q")
        """By the number of the case."""
        self.passed = self.counted = self.cases = 0

    def add(self, case: int, passed: bool) -> None:
        if case >= len(self._counted):
            missing = bytes(8 * (case + 1 - len(self._counted)))
            self._passed.frombytes(missing)
            self._counted.frombytes(missing)
        self.cases += not self._counted[case]
        self._passed[case] += passed
        self._counted[case] += 1
        self.passed += passed
        self.counted += 1

    @property
    def rate(self) -> float | None:
        return self.passed / self.counted if self.counted else None

    def clustered(self) -> ClusteredRate | None:
        """None where there are no clusters: no case counts more than once, or there is only one case."""
        if self.cases in (1, self.counted):
            return None
        from rejoinder.stats import clustered_counts

        pairs = zip(self._passed, self._counted, strict=True)
        return clustered_counts((passed, counted) for passed, counted in pairs if counted)

    def interval(self) -> tuple[tuple[float, float] | None, str | None]:
        """With the name of its method."""
        clustered = self.clustered()
        if clustered is not None:
            return clustered.interval, clustered.method
        interval = wilson(self.passed, self.counted)
        return interval, None if interval is None else "wilson"


class _Costs:
    """Costs in the order they came; the sum is not known where one of them is not."""

    def __init__(self) -> None:
        self._known = array("d")
        self._unknown = False

    def add(self, cost: float | None) -> None:
        if cost is None:
            self._unknown = True
        else:
            self._known.append(cost)

    def total(self, *further: _Costs) -> float | None:
        every = (self, *further)
        if any(costs._unknown for costs in every):
            return None
        return add_costs(cost for costs in every for cost in costs._known)


class _Counts:
    """What the whole run and each of its targets count."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.first_try = 0
        self.rate = _Rate()
        self.usage = NO_USAGE_RESULT
        self.costs = _Costs()

    def count(self, result: Result, case: int) -> None:
        self.statuses[result.status] += 1
        self.first_try += result.first_try
        if result.status != "skipped":
            self.rate.add(case, result.passed)
        self.usage += result.usage
        if _has_spent(result):
            self.costs.add(result.cost)

    def figures(self) -> dict[str, Any]:
        """The fields that `Summary` and `TargetSummary` share."""
        interval, method = self.rate.interval()
        return {
            "passed": self.statuses["passed"],
            "failed": self.statuses["failed"],
            "errors": self.statuses["error"],
            "skipped": self.statuses["skipped"],
            "first_try": self.first_try,
            "pass_rate": self.rate.rate,
            "pass_rate_interval": interval,
            "pass_rate_method": method,
            "cases": self.rate.cases,
            "usage": self.usage,
            "cost": self.costs.total(),
        }


def _has_spent(result: Result) -> bool:
    """Is there something to pay? A conversation that ended before the first reply has no cost, known or not."""
    return result.status not in ("skipped", "error") or result.cost is not None or result.usage.total_tokens > 0


class _CaseNumbers:
    """Cases by number, in the order of their first result."""

    def __init__(self) -> None:
        self.numbers: dict[str, dict[str, int]] = {}
        """The number of each case, by its suite and id."""
        self.ids: list[str] = []


class _Spending:
    """Tokens and costs of conversations and judges."""

    def __init__(self) -> None:
        self.paid = _Costs()
        """The costs of conversations that are billed, known or not: a script costs nothing."""
        self.judge_usage = NO_USAGE_RESULT
        self.judge_costs = _Costs()
        self.breakdown = array("d"), array("d")
        self.unpriced: Counter[str] = Counter()


class _Tally(_Counts):
    """Takes results one by one; `summary` is their sum."""

    def __init__(self) -> None:
        super().__init__()
        self._cases = _CaseNumbers()
        self._scores = array("d")
        self._scored = array("q")
        """The case of each score."""
        self._recovered: dict[int, _Rate] = {}
        """At each depth, of the conversations that were at risk."""
        self._recovery_tokens = 0
        self._spending = _Spending()
        self._targets: dict[str, _TargetTally] = {}
        self._metrics: dict[str, dict[int, list[float | None]]] = {}
        """The scores of each metric by case; None where an error took the place of a score."""
        self._judges: dict[tuple[str, str], _JudgeTally] = {}

    def add(self, result: Result) -> None:
        case = self._number(result)
        self.count(result, case)
        if result.target not in self._targets:
            self._targets[result.target] = _TargetTally()
        self._targets[result.target].add(result, case)
        if result.score is not None:
            self._scores.append(result.score)
            self._scored.append(case)
        self._add_recovery(result, case)
        self._add_costs(result)
        self._add_checks(result.deciding_checks, case)

    def _number(self, result: Result) -> int:
        numbers = self._cases.numbers.setdefault(result.suite, {})
        if result.id not in numbers:
            numbers[result.id] = len(self._cases.ids)
            self._cases.ids.append(result.id)
        return numbers[result.id]

    def _add_recovery(self, result: Result, case: int) -> None:
        if len(result.turns) < 2:
            return
        last = result.turns[-1].depth
        for depth in {turn.depth for turn in result.turns if turn.depth}:
            if depth not in self._recovered:
                self._recovered[depth] = _Rate()
            self._recovered[depth].add(case, result.passed and depth == last)
        self._recovery_tokens += sum(turn.usage.total_tokens for turn in result.turns if turn.depth)

    def _add_costs(self, result: Result) -> None:
        is_billed = result.cost is not None or any(turn.unpriced is not None for turn in result.turns)
        if is_billed and _has_spent(result):
            self._spending.paid.add(result.cost)
        self._spending.judge_usage += result.judge_usage
        if result.judge_usage.total_tokens or result.judge_cost is not None:
            self._spending.judge_costs.add(result.judge_cost)
        for turn in result.turns:
            if turn.cost_breakdown is not None:
                self._spending.breakdown[0].append(turn.cost_breakdown.input)
                self._spending.breakdown[1].append(turn.cost_breakdown.output)
            if turn.unpriced is not None:
                self._spending.unpriced[turn.unpriced] += 1

    def _add_checks(self, checks: Iterable[CheckResult], case: int) -> None:
        """Metrics and judges."""
        for check in checks:
            if check.metric is not None:
                self._metrics.setdefault(check.metric, {}).setdefault(case, []).append(check.score)
            if check.judge is not None and check.judged_by is not None:
                key = check.judge, check.judged_by
                if key not in self._judges:
                    self._judges[key] = _JudgeTally(check.check)
                self._judges[key].add(check, case)
            self._add_checks(check.children, case)

    def summary(self, run: Receipt) -> Summary:
        unfinished = run.planned - self.statuses.total()
        input_costs, output_costs = self._spending.breakdown
        return Summary(
            **self.figures(),
            total=run.planned,
            unfinished=unfinished,
            recovered=self.statuses["passed"] - self.first_try,
            score=self._score(),
            recovery=tuple(_recovery(depth, rate) for depth, rate in sorted(self._recovered.items())),
            recovery_tokens=self._recovery_tokens,
            cost_breakdown=CostOfParts(fsum(input_costs), fsum(output_costs)) if input_costs else None,
            unpriced=dict(self._spending.unpriced),
            judge_usage=self._spending.judge_usage,
            judge_cost=self._spending.judge_costs.total(),
            total_cost=self._spending.paid.total(self._spending.judge_costs),
            total_tokens=self.usage.total_tokens + self._spending.judge_usage.total_tokens,
            duration_s=run.duration_s,
            by_target={name: tally.summary() for name, tally in self._targets.items()},
            metrics={name: _metric(list(by_case.values())) for name, by_case in self._metrics.items()},
            judges=tuple(tally.summary(*key) for key, tally in self._judges.items()),
            exit_code=_exit_code(self.statuses, unfinished, run.status),
            limits=run.limits,
        )

    def _score(self) -> Scores:
        values = self._scores
        if not values:
            return Scores(None, None, None, None, None)
        mean, least, most = fsum(values) / len(values), min(values), max(values)
        bins = [0] * BINS
        for value in values:
            bins[min(BINS - 1, int(value * BINS))] += 1
        deviation = sqrt(fsum((value - mean) ** 2 for value in values) / (len(values) - 1)) if most > least else 0.0
        best = nlargest(3, self._scored_cases(), key=lambda case: case.score)
        worst = nsmallest(3, self._scored_cases(), key=lambda case: case.score)
        return Scores(mean, _median(values), least, most, deviation, tuple(bins), tuple(best), tuple(worst))

    def _scored_cases(self) -> Iterator[ScoredCase]:
        """The mean of each case over its trials and targets; cases of one id in several suites count as one."""
        first: dict[str, int] = {}
        for number, case_id in enumerate(self._cases.ids):
            first.setdefault(case_id, number)

        def case_of(place: int) -> int:
            return first[self._cases.ids[self._scored[place]]]

        for number, places in groupby(sorted(range(len(self._scores)), key=case_of), key=case_of):
            scores = [self._scores[place] for place in places]
            yield ScoredCase(self._cases.ids[number], fsum(scores) / len(scores))


def _recovery(depth: int, rate: _Rate) -> Recovery:
    interval, _ = rate.interval()
    return Recovery(depth, rate.counted, rate.passed, interval or (0.0, 1.0))


class _JudgeTally:
    """The verdicts of one judge with one set of instructions."""

    def __init__(self, check: str) -> None:
        self._check = check
        self._rate = _Rate()
        self._errors = 0

    def add(self, check: CheckResult, case: int) -> None:
        if check.error:
            self._errors += 1
        else:
            self._rate.add(case, check.passed)

    def summary(self, target: str, digest: str) -> JudgeSummary:
        clustered = self._rate.clustered()
        return JudgeSummary(
            target=target,
            digest=digest,
            check=self._check,
            judged=self._rate.counted,
            passed=self._rate.passed,
            errors=self._errors,
            cases=self._rate.cases,
            standard_error=clustered.standard_error if clustered is not None else None,
        )


class _TargetTally(_Counts):
    """The sums of one target's results."""

    def __init__(self) -> None:
        super().__init__()
        self._seconds = array("d")
        """The duration of each reply."""

    def add(self, result: Result, case: int) -> None:
        self.count(result, case)
        # How fast a script answers says nothing about it.
        self._seconds.extend(turn.duration_s for turn in result.turns if turn.model is not None)

    def summary(self) -> TargetSummary:
        seconds = round(_median(self._seconds), 6) if self._seconds else None
        return TargetSummary(**self.figures(), total=self.statuses.total(), duration_s=seconds)


def _metric(cases: list[list[float | None]]) -> Metric:
    """The mean over cases, each of which counts once however often it was repeated. An error has no score; where there
    was one, a second mean counts it as a failure."""
    known = [[score for score in scores if score is not None] for scores in cases]
    means = [fsum(scores) / len(scores) for scores in known if scores]
    n = len(means)
    mean = fsum(means) / n if n else None
    failed = [fsum(score or 0.0 for score in scores) / len(scores) for scores in cases]
    return Metric(
        mean=mean,
        cases=n,
        total_cases=len(cases),
        errors=sum(scores.count(None) for scores in cases),
        mean_with_errors=fsum(failed) / len(failed),
        standard_error=sqrt(fsum((one - (mean or 0.0)) ** 2 for one in means) / (n * (n - 1))) if n > 1 else None,
        min=min(means, default=None),
        max=max(means, default=None),
    )


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
