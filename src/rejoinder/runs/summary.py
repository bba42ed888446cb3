"""The summary of a run, counted from its results in document order.

No counter is kept while a run goes on: a crash could spoil it, and the order in which conversations end would show in
ties and sums. Equal runs have equal summaries. Memory does not grow by the results, and by cases only as `counts` says.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from math import fsum, sqrt
from typing import Any, NamedTuple, TypeVar

from msgspec import structs

from rejoinder.model import (
    CaseName,
    CheckResult,
    Condition,
    Receipt,
    Result,
    Status,
    Summary,
    is_in_quarantine,
    judge_case,
)
from rejoinder.model.cases import CaseStatus, is_flaky
from rejoinder.model.clusters import repeated_turns
from rejoinder.model.figures import NoRateReason
from rejoinder.model.results import NO_USAGE_RESULT
from rejoinder.model.runs import (
    CaseVerdicts,
    ConfirmedCase,
    CostOfParts,
    EmbeddingUse,
    FaultCounts,
    JudgeSummary,
    Metric,
    PairSummary,
    QuarantinedCase,
    Rates,
    Repeated,
    RunStatus,
    SpoiltCounts,
    TargetSummary,
    with_reasons,
)
from rejoinder.model.spending import EmbeddingCosts, add_costs
from rejoinder.model.trials import TrialCounts, count_trial
from rejoinder.runs.clusters import Clusters
from rejoinder.runs.conversation_counts import ConversationCounts, Users
from rejoinder.runs.counts import NO_SCORES, CaseScores, FollowUps, OpenCases, OutOfOrder, Share, Trials
from rejoinder.runs.injections import Injections
from rejoinder.runs.state import CUT_OFF
from rejoinder.stats.sums import ExactSum


def summarise(results: Iterable[Result], run: Receipt) -> Summary:
    """Count results. Embeddings and passports are added by `add_embeddings` and `add_passports`."""
    if not isinstance(results, Iterator):
        with suppress(OutOfOrder):
            return _count(results, run, OpenCases(stay=False))
    return _count(results, run, OpenCases(stay=True))


def _count(results: Iterable[Result], run: Receipt, cases: OpenCases) -> Summary:
    tally = _Tally(run, cases)
    for result in results:
        tally.add(result)
    return with_reasons(tally.summary(run), run)


def _exit_code(statuses: Counter[str], failed: int, unfinished: int, status: RunStatus, *, unmeasured: int = 0) -> int:
    """The first that applies: interrupted, budget, errors, failures, success. `failed`: cases whose trials together did
    not pass. `unmeasured`: cases of which a simulated user spoilt every trial, so that nothing is known of them."""
    if status in CUT_OFF:
        return CUT_OFF[status]
    if statuses["error"] or unfinished or unmeasured or status == "error":
        return 3
    return 1 if failed or statuses["skipped"] else 0


def _of_quarantine(summary: Summary) -> int:
    """The exit code of a run whose conversations are all in quarantine: it cannot tell, so it did not pass."""
    return summary.exit_code or (3 if summary.errors_in_quarantine else 5)


def add_embeddings(summary: Summary, spent: EmbeddingCosts) -> Summary:
    """Add the cost of embeddings: it belongs to the run, because conversations share them."""
    cost = None if None in spent.costs else add_costs(sorted(one for one in spent.costs if one is not None))
    total = summary.total_cost
    judges_known = summary.judge_cost is not None or not summary.judge_usage.total_tokens
    if cost is not None and not summary.unpriced and judges_known:
        total = (total or 0.0) + cost
    elif spent.costs and cost is None and spent.paid:
        total = None  # a part of it is not known
    return structs.replace(
        summary,
        embeddings=EmbeddingUse(len(spent.costs), spent.tokens, cost),
        total_tokens=summary.total_tokens + spent.tokens,
        total_cost=total,
    )


class _Costs:
    """Costs, added up in the order they came; the sum is not known where one of them is not."""

    def __init__(self) -> None:
        self._known: float | None = None
        self._unknown = False

    def add(self, cost: float | None) -> None:
        if cost is None:
            self._unknown = True
        else:
            self._known = cost if self._known is None else self._known + cost

    def total(self, *further: _Costs) -> float | None:
        every = (self, *further)
        if any(costs._unknown for costs in every):
            return None
        return add_costs(costs._known for costs in every if costs._known is not None)


class _Counts:
    """What the whole run and each of its targets count."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.first_try = self.recovered = 0
        self.trials = Trials()
        self.usage = NO_USAGE_RESULT
        self.costs = _Costs()

    def count(self, result: Result, case: int, counted: TrialCounts) -> None:
        self.statuses[result.status] += 1
        self.first_try += counted.first
        self.recovered += counted.gained
        if result.status != "skipped":
            self.trials.add((case, result.condition), counted)

    def close(self, places: Mapping[int, tuple[str, str]]) -> None:
        """The open cases have no further result."""
        self.trials.close(places)

    def spend(self, result: Result) -> None:
        self.usage += result.usage
        if _has_spent(result):
            self.costs.add(result.cost)

    def figures(self, pooled: NoRateReason | None = None) -> dict[str, Any]:
        """The fields that `Summary` and `TargetSummary` share. `pooled`: why the results have no common rate. If every
        conversation ended in an error there are no rates either: nothing was tested."""
        untested = self.statuses["error"] > 0 and not self.statuses["passed"] + self.statuses["failed"]
        rates = None if pooled or untested else self.trials.rates()
        eventual = rates.eventual if rates is not None else None
        return {
            "passed": self.statuses["passed"],
            "failed": self.statuses["failed"],
            "errors": self.statuses["error"],
            "skipped": self.statuses["skipped"],
            "first_try": self.first_try,
            "recovered": self.recovered,
            "pass_rate": eventual.rate if eventual is not None else None,
            "no_rate": pooled,
            "pass_rate_interval": eventual.interval if eventual is not None else None,
            "pass_rate_method": eventual.method if eventual is not None else None,
            "cases": self.trials.cases,
            "usage": self.usage,
            "cost": self.costs.total(),
            "without_errors": None if rates is None else self.trials.without_errors(),
            "rates": rates,
            "net_recovery": None if pooled else self.trials.net_recovery(),
        }


def _has_spent(result: Result) -> bool:
    """Whether there is something to pay. A conversation that ended before the first reply has no cost, known or not."""
    return result.status not in ("skipped", "error") or result.cost is not None or result.usage.total_tokens > 0


class _Spending:
    """Tokens and costs of conversations, judges and simulated users."""

    def __init__(self) -> None:
        self.paid = _Costs()
        """The costs of conversations that are billed, known or not: a script costs nothing."""
        self.judge_usage = NO_USAGE_RESULT
        self.judge_costs = _Costs()
        self.user_usage = NO_USAGE_RESULT
        self.user_costs = _Costs()
        self.breakdown = ExactSum(), ExactSum()
        self.unpriced: Counter[str] = Counter()

    def add(self, result: Result) -> None:
        is_billed = result.cost is not None or any(turn.unpriced is not None for turn in result.turns)
        if is_billed and _has_spent(result):
            self.paid.add(result.cost)
        if result.judge_usage != NO_USAGE_RESULT:
            self.judge_usage += result.judge_usage
        if result.judge_usage.total_tokens or result.judge_cost is not None:
            self.judge_costs.add(result.judge_cost)
        if result.user is not None:
            self.user_usage += result.user.usage
            if result.user.unpriced is not None or result.user.cost is not None:
                self.user_costs.add(result.user.cost)
            if result.user.unpriced is not None:
                calls = sum(turn.simulated for turn in result.turns) + (result.user.stopped_by == "word")
                self.unpriced[result.user.unpriced] += max(1, calls)
        for turn in result.turns if result.control is None else (*result.turns, result.control):
            if turn.cost_breakdown is not None:
                self.breakdown[0].add(turn.cost_breakdown.input)
                self.breakdown[1].add(turn.cost_breakdown.output)
            if turn.unpriced is not None:
                self.unpriced[turn.unpriced] += 1

    def total_tokens(self, own: int) -> int:
        """`own`: those of the conversations' targets."""
        return own + self.judge_usage.total_tokens + self.user_usage.total_tokens


class _Metrics:
    """The scores of metrics by case: of first replies, in a plan those of each of its turns, and of the whole."""

    def __init__(self) -> None:
        self._open: dict[int, dict[str, list[float | None]]] = {}
        """None where an error took the place of a score."""
        self._silent: Counter[int] = Counter()
        """Conversations of each open case that ended in an error before any check."""
        self._metrics: dict[str, _MetricTally] = {}
        self._untold: Counter[int] = Counter()
        """How many cases had only such conversations, by their number: they are errors of every metric."""

    def add(self, result: Result, case: int) -> None:
        if result.status == "error" and not any(turn.checks for turn in result.turns):
            self._silent[case] += 1
        whole = ((check.metric, check) for check in result.conversation_checks if check.metric is not None)
        for name, check in (*_first_checks(result, lambda check: check.metric), *whole):
            self._metrics.setdefault(name, _MetricTally())
            self._open.setdefault(case, {}).setdefault(name, []).append(check.score)

    def close(self) -> None:
        if not self._open and not self._silent:
            return
        for case, metrics in sorted(self._open.items()):
            silent = self._silent.pop(case, 0)
            for name, scores in metrics.items():
                self._metrics[name].add([*scores, *[None] * silent])
        self._untold.update(self._silent.values())
        self._open.clear()
        self._silent.clear()

    def metrics(self) -> dict[str, Metric]:
        return {name: tally.metric(self._untold) for name, tally in self._metrics.items()}


class _MetricTally:
    """One metric over cases, each of which counts once however often it was repeated."""

    def __init__(self) -> None:
        self._means, self._failed = array("d"), ExactSum()
        """The mean of each case, and the sum of those in which an error counts as a failure."""
        self._cases = self._errors = self._replies = 0

    def add(self, scores: Sequence[float | None]) -> None:
        known = [score for score in scores if score is not None]
        if known:
            self._means.append(fsum(known) / len(known))
        self._failed.add(fsum(known) / len(scores))
        self._cases += 1
        self._errors += len(scores) - len(known)
        self._replies += len(known)

    def metric(self, untold: Counter[int]) -> Metric:
        """`untold`: conversations without any metric, of so many cases. An error has no score; if there was one, a
        second mean counts it as a failure."""
        means, n = self._means, len(self._means)
        mean = fsum(means) / n if n else None
        cases, errors = self._cases + untold.total(), self._errors + sum(one * times for one, times in untold.items())
        return Metric(
            mean=mean,
            cases=n,
            total_cases=cases,
            errors=errors,
            mean_with_errors=self._failed.total() / cases if cases else None,
            replies=self._replies,
            total_replies=self._replies + errors,
            standard_error=sqrt(fsum((one - (mean or 0.0)) ** 2 for one in means) / (n * (n - 1))) if n > 1 else None,
            min=min(means, default=None),
            max=max(means, default=None),
        )


class _Judges:
    """The verdicts of judges on first replies."""

    def __init__(self) -> None:
        self._tallies: dict[_JudgeKey, _JudgeTally] = {}

    def add(self, result: Result, case: int) -> None:
        for key, check in _first_checks(result, _judge_key):
            self._tallies.setdefault(key, _JudgeTally(check.check)).add(check, case)

    def close(self) -> None:
        for tally in self._tallies.values():
            tally.close()

    def summaries(self) -> tuple[JudgeSummary, ...]:
        return tuple(tally.summary(*key) for key, tally in self._tallies.items())


_JudgeKey = tuple[str, str, str | None]
_Key = TypeVar("_Key")


def _judge_key(check: CheckResult) -> _JudgeKey | None:
    """Target, instructions and name."""
    return None if check.judge is None or check.judged_by is None else (check.judge, check.judged_by, check.name)


def _first_checks(result: Result, key_of: Callable[[CheckResult], _Key | None]) -> Iterator[tuple[_Key, CheckResult]]:
    """The checks that have a key, those of each key from the turn in which it first appears, anew in each planned turn.
    What follows a follow-up is a selection."""
    earlier: set[tuple[int | None, _Key]] = set()
    for turn in result.turns:
        keyed = [(key, check) for check in _every_check(turn.checks) if (key := key_of(check)) is not None]
        if keyed:
            yield from [(key, check) for key, check in keyed if (turn.step, key) not in earlier]
            earlier.update([(turn.step, key) for key, _ in keyed])


def _every_check(checks: Iterable[CheckResult]) -> Iterator[CheckResult]:
    for check in checks:
        yield check
        if check.children:
            yield from _every_check(check.children)


class _Cases:
    """Cases on a target, the trials of each judged together; results come in document order, trials side by side."""

    def __init__(self, today: str) -> None:
        self._today = today
        self._first: Result | None = None
        self._name: CaseName | None = None
        self._statuses: dict[Status, int] = {}
        self._spoilt = 0
        """Of the trials of this case; the others are counted by how they ended."""
        self._verdicts: Counter[tuple[str, str | None, CaseStatus]] = Counter()
        """By target and variant."""
        self._flaky: Counter[tuple[str, str | None]] = Counter()
        self.unmeasured: Counter[tuple[str, str | None]] = Counter()
        """Cases on each target, in each variant, of which every trial is spoilt."""
        self.quarantined: list[QuarantinedCase] = []
        self.faults = [0, 0, 0]
        """Failures of tools: wanted, landed, and landed in conversations that passed."""

    def count_faults(self, result: Result) -> None:
        for fault in result.faults:
            if fault.fault == "says":  # it is no failure, and has figures of its own
                continue
            landed = bool(fault.landed)
            self.faults = [sum(pair) for pair in zip(self.faults, (1, landed, landed and result.passed), strict=True)]

    def add(self, result: Result) -> None:
        if (name := result.case) != self._name:
            self.end()
            self._first, self._name = result, name
        if result.is_spoilt:
            self._spoilt += 1
        else:
            self._statuses[result.status] = self._statuses.get(result.status, 0) + 1

    def end(self) -> None:
        """Judge the trials that came since the last case."""
        first, statuses, self._first, self._statuses = self._first, self._statuses, None, {}
        spoilt, self._spoilt = self._spoilt, 0
        trials = sum(statuses.values()) - statuses.get("skipped", 0)
        if first is None or not trials + spoilt:
            return
        status = judge_case(statuses, first, self._today, spoilt)
        if first.quarantine is not None:
            until, reason = first.quarantine.until, first.quarantine.reason
            passed, errors, active = statuses.get("passed", 0), statuses.get("error", 0), status == "apart"
            self.quarantined.append(
                QuarantinedCase(first.id, first.file, first.target, until, reason, passed, trials, errors, active)
            )
        place = first.target, first.variant
        self._verdicts[*place, status] += 1
        if status == "spoilt":
            self.unmeasured[place] += 1
        elif status != "apart":
            self._flaky[place] += is_flaky(statuses)

    def verdicts(self, target: str = "", variant: str = "") -> CaseVerdicts:
        """Of all targets and variants, or of the one that is named."""
        found: Counter[CaseStatus] = Counter()
        for (name, other, status), number in self._verdicts.items():
            if target in ("", name) and variant in ("", other):
                found[status] += number
        flaky = sum(
            number for (name, other), number in self._flaky.items() if target in ("", name) and variant in ("", other)
        )
        return CaseVerdicts(found["passed"], found["failed"], found["error"], flaky)


def _confirmed(case: CaseName, trials: Sequence[Result]) -> ConfirmedCase:
    statuses = Counter(trial.status for trial in trials if not trial.is_spoilt)
    costs = [trial.total_cost for trial in trials]
    return ConfirmedCase(
        id=case.id,
        target=case.target,
        variant=case.variant or None,
        trials=statuses.total(),
        passed=statuses["passed"],
        errors=statuses["error"],
        file=case.file,
        cost=None if None in costs else fsum(cost for cost in costs if cost is not None),
        tokens=sum(trial.usage.total_tokens + trial.judge_usage.total_tokens for trial in trials),
    )


class _Tally(_Counts):
    """Takes results one by one; `summary` is their sum."""

    def __init__(self, run: Receipt, cases: OpenCases) -> None:
        super().__init__()
        self._open = cases
        self._spending = _Spending()
        self._targets: defaultdict[str, _TargetTally] = defaultdict(_TargetTally)
        self._variants: defaultdict[str, _TargetTally] = defaultdict(_TargetTally)
        self._asked: set[_Asked] = set()
        self._judges = _Judges()
        self._today = run.day
        self._cases = _Cases(run.day)
        self._apart = self._spoilt = 0
        self._confirmed: dict[CaseName, list[Result]] = {}
        self._pairs: dict[tuple[str, str], _TargetTally] = {}
        """Each target and variant."""
        self._clusters = Clusters()

    def add(self, result: Result) -> None:
        if result.confirming:
            self._confirmed.setdefault(result.case, []).append(structs.replace(result, turns=()))
            return
        if self._open.ends_with(result):
            self._close()
        case = self._open.number(result)
        self._asked.add(_Asked(result.target, result.variant, result.condition))
        tallies = [self._targets[result.target]]
        if result.variant is not None:
            tallies += [self._variants[result.variant], self._pair(result.target, result.variant)]
        self.spend(result)
        for tally in tallies:
            tally.spend(result)
        self._spending.add(result)
        self._cases.add(result)
        if is_in_quarantine(result, self._today):
            self._apart += 1
            return
        for tally in tallies:
            tally.conversations.users.add(result)
        if result.is_spoilt:
            self._spoilt += 1
            return
        self._cases.count_faults(result)
        counted = count_trial(result)
        self.count(result, case, counted)
        for tally in tallies:
            tally.add(result, case, counted)
        self._judges.add(result, case)
        self._clusters.add(result)

    def _pair(self, target: str, variant: str) -> _TargetTally:
        return self._pairs.setdefault((target, variant), _TargetTally())

    def _close(self) -> None:
        for tally in (self, *self._targets.values(), *self._variants.values(), *self._pairs.values()):
            tally.close(self._open.places)
        self._judges.close()
        self._open.close()

    def summary(self, run: Receipt) -> Summary:
        self._close()
        self._cases.end()
        for (target, variant), cases in self._cases.unmeasured.items():
            self._targets[target].conversations.users.unmeasured += cases
            if variant is not None:
                self._variants[variant].conversations.users.unmeasured += cases
                self._pairs[target, variant].conversations.users.unmeasured += cases
        unfinished = run.planned - self.statuses.total() - self._apart - self._spoilt
        input_costs, output_costs = self._spending.breakdown
        targets = {
            name: tally.summary(
                _pooled(one for one in self._asked if one.target == name), self._cases.verdicts(target=name)
            )
            for name, tally in self._targets.items()
        }
        variants = {
            name: tally.summary(
                _pooled(one for one in self._asked if one.variant == name), self._cases.verdicts(variant=name)
            )
            for name, tally in self._variants.items()
        }
        pooled = _pooled(self._asked)
        only = next(iter(targets.values())) if len(targets) == 1 and not _is_of_several(pooled) else None
        follow_ups = [tally.follow_ups for tally in self._targets.values()]
        figures = self.figures(pooled)
        verdicts = self._cases.verdicts()
        found = Summary(
            **figures,
            total=run.planned,
            unfinished=unfinished,
            apart=self._apart,
            score=(None if only is None else only.score) or NO_SCORES,
            recovery=() if only is None else only.recovery,
            recovery_tokens=sum(one.tokens for one in follow_ups),
            recovery_cost=FollowUps.cost_of(follow_ups),
            repeats=None if only is None else only.repeats,
            answered_back=None if only is None else only.answered_back,
            by_hint={} if only is None else only.by_hint,
            transitions=None if only is None else only.transitions,
            repeated=None if only is None else only.repeated,
            clusters=self._clusters.largest(),
            caves=None if only is None else only.caves,
            step_flips=None if only is None else only.step_flips,
            by_condition={} if only is None else only.by_condition,
            spoilt=self._spoilt_counts(figures["rates"]),
            faults=FaultCounts(*self._cases.faults) if self._cases.faults[0] else None,
            injection=None if only is None else only.injection,
            by_case=verdicts,
            confirmed=tuple(_confirmed(case, trials) for case, trials in self._confirmed.items()),
            quarantined=tuple(self._cases.quarantined),
            cost_breakdown=CostOfParts(input_costs.total(), output_costs.total()) if input_costs else None,
            unpriced=dict(self._spending.unpriced),
            judge_usage=self._spending.judge_usage,
            judge_cost=self._spending.judge_costs.total(),
            user_usage=self._spending.user_usage,
            user_cost=self._spending.user_costs.total(),
            total_cost=self._spending.paid.total(self._spending.judge_costs, self._spending.user_costs),
            total_tokens=self._spending.total_tokens(self.usage.total_tokens),
            duration_s=run.duration_s,
            by_target=targets,
            by_variant=variants,
            by_pair=self._by_pair() if len(targets) > 1 and len(variants) > 1 else (),
            metrics={} if only is None else only.metrics,
            judges=self._judges.summaries(),
            exit_code=_exit_code(
                self.statuses,
                verdicts.failed,
                unfinished,
                run.status,
                unmeasured=self._cases.unmeasured.total(),
            ),
            limits=run.limits,
        )
        return structs.replace(found, exit_code=_of_quarantine(found)) if found.all_in_quarantine else found

    def _by_pair(self) -> tuple[PairSummary, ...]:
        """In the order of the targets, each with its variants in theirs."""
        found: list[PairSummary] = []
        for target, variant in product(self._targets, self._variants):
            if (tally := self._pairs.get((target, variant))) is not None:
                asked = (one for one in self._asked if (one.target, one.variant) == (target, variant))
                summary = tally.summary(_pooled(asked), self._cases.verdicts(target, variant))
                found.append(PairSummary(**structs.asdict(summary), target=target, variant=variant))
        return tuple(found)

    def _spoilt_counts(self, rates: Rates | None) -> SpoiltCounts | None:
        users = Users()
        for tally in self._targets.values():
            users.include(tally.conversations.users)
        return users.spoilt(rates)


class _Asked(NamedTuple):
    """What some results are of."""

    target: str
    variant: str | None
    condition: Condition | None
    """None of a case that is no sharded task."""


def _pooled(asked: Iterable[_Asked]) -> NoRateReason | None:
    """Why results of these have no common rate."""
    every = list(asked)
    if len({one.target for one in every}) > 1:
        return "several-targets"
    if len({one.variant for one in every}) > 1:
        return "several-variants"
    return "several-conditions" if len({one.condition for one in every} - {None}) > 1 else None


def _is_of_several(pooled: NoRateReason | None) -> bool:
    """Are they of several targets or variants? These have figures of their own elsewhere; conditions have not."""
    return pooled in ("several-targets", "several-variants")


class _JudgeTally:
    """The first verdicts of one judge with one set of instructions."""

    def __init__(self, check: str) -> None:
        self._check = check
        self._share = Share()
        self._errors = 0

    def add(self, check: CheckResult, case: int) -> None:
        if check.error:
            self._errors += 1
        else:
            self._share.add(case, check.passed)

    def close(self) -> None:
        self._share.close()

    def summary(self, target: str, digest: str, name: str | None) -> JudgeSummary:
        rate = self._share.rate()
        return JudgeSummary(
            target=target,
            digest=digest,
            check=self._check,
            judged=rate.of,
            passed=rate.passed,
            errors=self._errors,
            cases=rate.cases,
            name=name,
            rate=rate,
        )


class _TargetTally(_Counts):
    """The sums of one target's results."""

    def __init__(self) -> None:
        super().__init__()
        self.follow_ups = FollowUps()
        self._scores = CaseScores()
        self._metrics = _Metrics()
        self._injections = Injections()
        self.conversations = ConversationCounts()
        self._repeats = self._followed_up = 0
        """Conversations that got a follow-up, and those in which the reply to one repeats an earlier reply."""
        self._seconds = array("d")
        """The duration of each reply of a model."""

    def add(self, result: Result, case: int, counted: TrialCounts) -> None:
        self.count(result, case, counted)
        self.follow_ups.add(case, result)
        self._scores.add(case, result)
        self._metrics.add(result, case)
        self._injections.add(result)
        self.conversations.add(case, result, counted)
        if result.was_answered_back:
            self._followed_up += 1
            self._repeats += bool(repeated_turns(result.turns))
        self._seconds.extend(result.reply_times)

    def close(self, places: Mapping[int, tuple[str, str]]) -> None:
        self.conversations.close(self.trials.open)
        super().close(places)
        self.follow_ups.close()
        self._scores.close(places)
        self._metrics.close()

    def _repeated(self) -> Repeated | None:
        return Repeated(self._repeats, self._followed_up) if self._followed_up else None

    def summary(self, pooled: NoRateReason | None, verdicts: CaseVerdicts) -> TargetSummary:
        """`pooled`: why the results have no common rate."""
        from rejoinder.stats.intervals import percentile

        seconds = round(percentile(self._seconds, 0.5), 6) if self._seconds else None
        several = _is_of_several(pooled)
        figures = self.figures(pooled)
        return TargetSummary(
            **figures,
            **self.conversations.figures(figures["rates"], pooled=several),
            total=self.statuses.total(),
            duration_s=seconds,
            recovery=() if several else tuple(self.follow_ups.rows()),
            answered_back=None if several else self.follow_ups.answered_back(),
            repeated=None if several else self._repeated(),
            repeats=None if pooled else self.trials.repeats(),
            score=None if pooled else self._scores.scores(),
            metrics={} if several else self._metrics.metrics(),
            by_case=verdicts,
            injection=None if several else self._injections.figure(),
        )
