"""The summary of a run, counted from its results in document order.

No counter is kept while a run goes on: a crash could spoil it, and the order in which conversations end would show in
ties and sums. Equal runs have equal summaries.
"""

from __future__ import annotations

from heapq import nlargest, nsmallest
from math import fsum, sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from rejoinder.engine.results import Record, add_costs
from rejoinder.run_files import open_file
from rejoinder.stats import wilson

if TYPE_CHECKING:
    from rejoinder.stats import ClusteredRate

BINS = 5
Where = tuple[str, str]
"""A suite and the id of a case in it."""


class _Usage(Struct):
    input_tokens: int
    output_tokens: int
    total_tokens: int
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    approximate: bool = False


class _Tokens:
    """Tokens, added up."""

    def __init__(self) -> None:
        self.total = 0
        self._counts = dict.fromkeys(("input_tokens", "output_tokens", "total_tokens"), 0)
        self._more = dict.fromkeys(("reasoning_tokens", "cached_tokens"), 0)
        self._approximate = False

    def add(self, usage: _Usage) -> None:
        self.total += usage.total_tokens
        self._counts["input_tokens"] += usage.input_tokens
        self._counts["output_tokens"] += usage.output_tokens
        self._counts["total_tokens"] += usage.total_tokens
        self._more["reasoning_tokens"] += usage.reasoning_tokens
        self._more["cached_tokens"] += usage.cached_tokens
        self._approximate = self._approximate or usage.approximate

    def record(self) -> Record:
        more = {name: number for name, number in self._more.items() if number}
        return {**self._counts, **more, **({"approximate": True} if self._approximate else {})}


class _Breakdown(Struct):
    input: float = 0.0
    output: float = 0.0


class _Check(Struct):
    check: str
    passed: bool
    score: float | None
    error: bool = False
    metric: str | None = None
    judge: str | None = None
    judged_by: str | None = None
    children: list[_Check] | None = None


class _Turn(Struct):
    depth: int
    checks: list[_Check]
    usage: _Usage
    duration_s: float
    cost_breakdown: _Breakdown | None = None
    unpriced: str | None = None
    model: str | None = None
    """The model that an API says has answered."""


class _Result(Struct):
    """What of a result counts."""

    suite: str
    id: str
    target: str
    status: str
    passed: bool
    score: float | None
    succeeded_on_turn: int | None
    turns: list[_Turn]
    usage: _Usage
    cost: float | None
    judge_usage: _Usage
    judge_cost: float | None

    @property
    def where(self) -> Where:
        return self.suite, self.id

    @property
    def spent(self) -> bool:
        """Is there something to pay? A conversation that ended before the first reply has no cost, known or not."""
        return self.status not in ("skipped", "error") or self.cost is not None or self.usage.total_tokens > 0


class _Rate:
    """A rate over conversations. Trials of one case, and what several targets make of it, say less than as many cases:
    where cases count more than once, the interval is clustered by case. Trials of a single one are as many
    observations of that case, and none of any other."""

    def __init__(self) -> None:
        self._passed: dict[Where, int] = {}
        self._counted: dict[Where, int] = {}

    def add(self, case: Where, passed: bool) -> None:
        self._passed[case] = self._passed.get(case, 0) + passed
        self._counted[case] = self._counted.get(case, 0) + 1

    @property
    def passed(self) -> int:
        return sum(self._passed.values())

    @property
    def counted(self) -> int:
        return sum(self._counted.values())

    @property
    def cases(self) -> int:
        return len(self._counted)

    @property
    def rate(self) -> float | None:
        return self.passed / self.counted if self._counted else None

    def clustered(self) -> ClusteredRate | None:
        """None where there are no clusters: no case counts more than once, or there is but one."""
        if self.cases in (1, self.counted):
            return None
        from rejoinder.stats import clustered_counts

        return clustered_counts(zip(self._passed.values(), self._counted.values(), strict=True))

    def interval(self) -> tuple[tuple[float, float] | None, str | None]:
        """With the method that it is by."""
        clustered = self.clustered()
        if clustered is not None:
            return clustered.interval, clustered.method
        found = wilson(self.passed, self.counted)
        return found, None if found is None else "wilson"


class Tally:
    """Takes results one by one; `summary` is what they add up to."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(("passed", "failed", "error", "skipped"), 0)
        self.first_try = 0
        self.scores: list[tuple[float, str]] = []
        self.rate = _Rate()
        self.recovered: dict[int, _Rate] = {}
        """At each depth, of the conversations that were at risk."""
        self.usage = _Tokens()
        self.judge_usage = _Tokens()
        self.costs: list[float | None] = []
        self.paid: list[float | None] = []
        """Of these the ones that somebody wants money for, known or not: a script costs nothing."""
        self.judge_costs: list[float | None] = []
        self.recovery_tokens = 0
        self.breakdown: list[tuple[float, float]] = []
        self.unpriced: dict[str, int] = {}
        self.by_target: dict[str, _TargetTally] = {}
        self.metrics: dict[str, dict[Where, list[float | None]]] = {}
        """The scores of each named measure, by suite and case; None where an error took its place."""
        self.judges: dict[tuple[str, str], _JudgeTally] = {}

    def add(self, result: _Result) -> None:
        self.counts[result.status] += 1
        self.first_try += result.succeeded_on_turn == 1
        if result.status != "skipped":
            self.rate.add(result.where, result.passed)
        if result.score is not None:
            self.scores.append((result.score, result.id))
        self._add_recovery(result)
        self.usage.add(result.usage)
        self.judge_usage.add(result.judge_usage)
        if result.spent:
            self.costs.append(result.cost)
            if result.cost is not None or any(turn.unpriced is not None for turn in result.turns):
                self.paid.append(result.cost)
        if result.judge_usage.total_tokens or result.judge_cost is not None:
            self.judge_costs.append(result.judge_cost)
        if result.turns:
            self._add_checks(result.turns[-1].checks, result.where)
        for turn in result.turns:
            if turn.cost_breakdown is not None:
                self.breakdown.append((turn.cost_breakdown.input, turn.cost_breakdown.output))
            if turn.unpriced is not None:
                self.unpriced[turn.unpriced] = self.unpriced.get(turn.unpriced, 0) + 1
        if result.target not in self.by_target:
            self.by_target[result.target] = _TargetTally()
        self.by_target[result.target].add(result)

    def _add_checks(self, checks: list[_Check], case: Where) -> None:
        """Measures and judges, by the level that decided."""
        for check in checks:
            if check.metric is not None:
                self.metrics.setdefault(check.metric, {}).setdefault(case, []).append(check.score)
            if check.judge is not None and check.judged_by is not None:
                place = check.judge, check.judged_by
                if place not in self.judges:
                    self.judges[place] = _JudgeTally(check.check)
                self.judges[place].add(check, case)
            if check.children is not None:
                self._add_checks(check.children, case)

    def _add_recovery(self, result: _Result) -> None:
        if len(result.turns) < 2:
            return
        last = result.turns[-1].depth
        for depth in {turn.depth for turn in result.turns if turn.depth}:
            if depth not in self.recovered:
                self.recovered[depth] = _Rate()
            self.recovered[depth].add(result.where, result.passed and depth == last)
        self.recovery_tokens += sum(turn.usage.total_tokens for turn in result.turns if turn.depth)

    def summary(self, planned: int, duration_s: float) -> Record:
        counts = self.counts
        finished = counts["passed"] + counts["failed"] + counts["error"]
        interval, method = self.rate.interval()
        return {
            "total": planned,
            "passed": counts["passed"],
            "failed": counts["failed"],
            "errors": counts["error"],
            "skipped": counts["skipped"],
            "unfinished": planned - finished - counts["skipped"],
            "first_try": self.first_try,
            "recovered": counts["passed"] - self.first_try,
            "pass_rate": self.rate.rate,
            "pass_rate_interval": interval,
            "pass_rate_method": method,
            "cases": self.rate.cases,
            "score": self._score(),
            "recovery": [
                {
                    "depth": depth,
                    "at_risk": rate.counted,
                    "recovered": rate.passed,
                    "interval": rate.interval()[0],
                }
                for depth, rate in sorted(self.recovered.items())
            ],
            "recovery_tokens": self.recovery_tokens,
            "usage": self.usage.record(),
            "cost": add_costs(self.costs),
            "cost_breakdown": self._breakdown(),
            "unpriced": self.unpriced,
            "judge_usage": self.judge_usage.record(),
            "judge_cost": add_costs(self.judge_costs),
            "total_cost": self._total_cost(),
            "total_tokens": self.usage.total + self.judge_usage.total,
            "duration_s": duration_s,
            "by_target": {name: one.summary() for name, one in self.by_target.items()},
            "metrics": {name: _metric(by_case) for name, by_case in self.metrics.items()},
            "judges": [
                {"target": target, "digest": digest, **one.record()} for (target, digest), one in self.judges.items()
            ],
        }

    def _total_cost(self) -> float | None:
        """What models and judges cost together; None where a part of it is unknown."""
        return add_costs([*self.paid, *self.judge_costs])

    def _breakdown(self) -> Record | None:
        """Input and output of every call that has a price."""
        if not self.breakdown:
            return None
        return {"input": fsum(one for one, _ in self.breakdown), "output": fsum(one for _, one in self.breakdown)}

    def _by_case(self) -> list[tuple[float, str]]:
        """The mean of each case over its trials and targets."""
        scores: dict[str, list[float]] = {}
        for score, case_id in self.scores:
            scores.setdefault(case_id, []).append(score)
        return [(fsum(values) / len(values), case_id) for case_id, values in scores.items()]

    def _score(self) -> Record:
        values = [score for score, _ in self.scores]
        if not values:
            return dict.fromkeys(("mean", "median", "min", "max", "stdev"), None)
        mean = fsum(values) / len(values)
        cases = self._by_case()
        bins = [0] * BINS
        for value in values:
            bins[min(BINS - 1, int(value * BINS))] += 1
        return {
            "mean": mean,
            "median": _median(values),
            "min": min(values),
            "max": max(values),
            "stdev": sqrt(fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
            if max(values) > min(values)
            else 0.0,
            "histogram": bins,
            "best": [_named(one) for one in nlargest(3, cases, key=lambda one: one[0])],
            "worst": [_named(one) for one in nsmallest(3, cases, key=lambda one: one[0])],
        }


def summarise(results: Path, planned: int, duration_s: float) -> Record:
    """Count the results of a file."""
    tally = Tally()
    decode = msgspec.json.Decoder(_Result).decode
    with open_file(results) as stream:
        for line in stream:
            tally.add(decode(line))
    return tally.summary(planned, duration_s)


def exit_code(summary: Record, status: str) -> int:
    """The first that applies: interrupted, errors, failures, success."""
    if status in ("interrupted", "killed", "running"):
        return 130
    if status == "budget":
        return 4
    if summary["errors"] or summary["unfinished"] or status == "error":
        return 3
    return 1 if summary["failed"] or summary["skipped"] else 0


class _JudgeTally:
    """What one judge, told to do one thing, said of the replies that decided."""

    def __init__(self, check: str) -> None:
        self._check = check
        self._rate = _Rate()
        self._errors = 0

    def add(self, check: _Check, case: Where) -> None:
        if check.error:
            self._errors += 1
        else:
            self._rate.add(case, check.passed)

    def record(self) -> Record:
        clustered = self._rate.clustered()
        return {
            "check": self._check,
            "judged": self._rate.counted,
            "passed": self._rate.passed,
            "errors": self._errors,
            "cases": self._rate.cases,
            "standard_error": clustered.standard_error if clustered is not None else None,
        }


def _metric(by_case: dict[Where, list[float | None]]) -> Record:
    """The mean over cases, each of which counts once however often it was repeated. An error has no score; where
    there was one, the mean is told with it as a failure as well."""
    known = [[score for score in scores if score is not None] for scores in by_case.values()]
    means = [fsum(scores) / len(scores) for scores in known if scores]
    n = len(means)
    mean = fsum(means) / n if n else None
    error = sqrt(fsum((one - (mean or 0.0)) ** 2 for one in means) / (n * (n - 1))) if n > 1 else None
    failed = [fsum(score or 0.0 for score in scores) / len(scores) for scores in by_case.values()]
    return {
        "mean": mean,
        "cases": n,
        "total_cases": len(by_case),
        "errors": sum(scores.count(None) for scores in by_case.values()),
        "mean_with_errors": fsum(failed) / len(failed),
        "standard_error": error,
        "min": min(means, default=None),
        "max": max(means, default=None),
    }


class _TargetTally:
    """What one target's results add up to."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(("passed", "failed", "error", "skipped"), 0)
        self.first_try = 0
        self.rate = _Rate()
        self.usage = _Tokens()
        self.costs: list[float | None] = []
        self.seconds: list[float] = []
        """How long each reply took."""

    def add(self, result: _Result) -> None:
        self.counts[result.status] += 1
        self.first_try += result.succeeded_on_turn == 1
        if result.status != "skipped":
            self.rate.add(result.where, result.passed)
        self.usage.add(result.usage)
        if result.spent:
            self.costs.append(result.cost)
        # How fast a script answers says nothing about it.
        self.seconds += [turn.duration_s for turn in result.turns if turn.model is not None]

    def summary(self) -> Record:
        counts = self.counts
        interval, method = self.rate.interval()
        return {
            "total": sum(counts.values()),
            "passed": counts["passed"],
            "failed": counts["failed"],
            "errors": counts["error"],
            "skipped": counts["skipped"],
            "first_try": self.first_try,
            "pass_rate": self.rate.rate,
            "pass_rate_interval": interval,
            "pass_rate_method": method,
            "cases": self.rate.cases,
            "usage": self.usage.record(),
            "cost": add_costs(self.costs),
            "duration_s": round(_median(self.seconds), 6) if self.seconds else None,
        }


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _named(scored: tuple[float, str]) -> Record:
    return {"id": scored[1], "score": scored[0]}
