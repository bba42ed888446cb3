"""Rules of a gate: read from the command line, and decided from verdicts only.

    no-regression   no-new-failures   rate>=90%   cases>=90%   lower>=85%   pass^3>=70%   cost<=1.50   latency_p95<=4s
    tag:NAME:RULE

With several targets, each must meet the rule, and the worst decides. The cost is the total.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import fsum
from typing import TypeAlias

from msgspec import Struct, structs

from rejoinder.durations import seconds_of
from rejoinder.errors import UsageError
from rejoinder.gates.baselines import Baseline, CaseTrials, matched_to
from rejoinder.gates.looks import look_at, trials_of
from rejoinder.gates.new_failures import (
    NOT_CONFIRMED,
    Confirmations,
    chance_of_new_failure,
    find_new_failures,
    new_failures_rule,
)
from rejoinder.model import CaseName
from rejoinder.model.figures import GateResult, GroupComparison, Rate, RuleResult
from rejoinder.spelling import did_you_mean
from rejoinder.stats.alarms import REGRESSION_LEVEL
from rejoinder.stats.comparison import LEAST_OF_GROUP, Pair, compare_groups
from rejoinder.stats.gates import at_most, gate, look_rule, lower_rule, no_regression_rule, pass_rule, rate_rule
from rejoinder.stats.intervals import kept_by
from rejoinder.stats.rates import rate_of
from rejoinder.stats.repeats import pass_hat_k
from rejoinder.words.numbers import count, listed, money_against, seconds_alike

NO_REGRESSION, NO_NEW_FAILURES = "no-regression", "no-new-failures"
COMPARING = (NO_REGRESSION, NO_NEW_FAILURES)
"""The rules that compare with a baseline. They apply if none is named."""
LOOK_LEVEL = 0.05
"""The rate at which repeats that stop early call an unchanged suite worse."""
MOST_NAMED, LONGEST_NAME = 3, 60
"""Maximum cases that are named if only one run has them, and maximum characters of a name."""
Cases: TypeAlias = Sequence[CaseTrials]


class Rule(Struct, frozen=True, kw_only=True):
    text: str
    """The rule as written."""
    measure: str
    """A name of `MEASURES`, or of `COMPARING`."""
    bound: float = 0.0
    k: int = 1
    tag: str | None = None


class Measure(Struct, frozen=True):
    """A number of a run, and the conditions that a rule may set."""

    sign: str
    read: Callable[[str], float | None]
    """Reads the bound; None for an invalid text."""
    decide: Callable[[Rule, Cases], RuleResult]
    example: str
    is_pooled: bool = False
    """Whether all targets are decided together."""


def read_rule(text: str) -> Rule:
    """Read a rule. Raises UsageError that names the valid ones."""
    rest, tag = text.strip(), None
    if rest.startswith("tag:"):
        tag, _, rest = rest.removeprefix("tag:").rpartition(":")
        if not tag:
            raise _unknown(text)
    if rest in COMPARING:
        return Rule(text=text, measure=rest, tag=tag)
    found = _SHAPE.fullmatch(rest)
    measure = None if found is None else MEASURES.get(found["name"])
    if found is None or measure is None or bool(found["k"]) is not (found["name"] == "pass^"):
        raise _unknown(text)
    bound = measure.read(found["bound"])
    if bound is None or found["sign"] not in (measure.sign, ":") or found["k"] == "0":
        raise UsageError(f"`{text}` is not a rule", f"Write it like `{measure.example}`.")
    return Rule(text=text, measure=found["name"], bound=bound, k=int(found["k"] or 1), tag=tag)


_SHAPE = re.compile(r"(?P<name>[a-z_0-9]+|pass\^)(?P<k>(?<=\^)[0-9]{1,4})?\s*(?P<sign>[<>]=?|==?|:)\s*(?P<bound>\S+)")


def read_fail_under(text: str) -> Rule | None:
    """The rule of `--fail-under 90%` or `--fail-under lower:85%`; None for an invalid text."""
    name, _, bound = text.strip().rpartition(":")
    found = _share(bound)
    if found is None or name not in ("", "lower"):
        return None
    measure = name or "rate"
    return Rule(text=f"{measure}>={bound}", measure=measure, bound=found)


def _unknown(text: str) -> UsageError:
    name = text.rpartition(":")[2]
    if name in MEASURES or re.fullmatch(r"pass\^\d+", name):
        example = MEASURES["pass^" if name.startswith("pass^") else name].example
        without = example.replace(">=", ":").replace("<=", ":")
        return UsageError(
            f"the rule `{text}` has no bound; without quotes the shell takes `>` and `<` for files",
            f"Put it in quotes, `--rule '{example}'`, or write `--rule {without}`.",
        )
    examples = [*COMPARING, *(measure.example for measure in MEASURES.values())]
    meant = did_you_mean(text, examples)
    rules = listed([f"`{example}`" for example in examples])
    return UsageError(f"there is no rule `{text}`{meant}", f"The rules are {rules}, each also as `tag:NAME:RULE`.")


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{0,15})?", text) else None


def _share(text: str) -> float | None:
    """A share such as `90%` or `0.9`."""
    number = _number(text.removesuffix("%"))
    share = number / 100 if number is not None and text.endswith("%") else number
    return share if share is not None and 0 <= share <= 1 else None


def _dollars(text: str) -> float | None:
    return _number(text.removeprefix("$"))


def _rate(cases: Cases) -> Rate:
    return rate_of(((case.passed, len(case.trials)) for case in cases), sum(case.errors for case in cases))


def _decide_pass(rule: Rule, cases: Cases) -> RuleResult:
    counts = ((case.passed, len(case.trials)) for case in cases)
    return pass_rule(rule.text, pass_hat_k(counts, rule.k), rule.bound)


def _decide_cost(rule: Rule, cases: Cases) -> RuleResult:
    costs = [trial.cost for case in cases for trial in case.trials]
    known = [cost for cost in costs if cost is not None]
    return _cost_rule(rule, known, len(costs) - len(known))


def _cost_rule(rule: Rule, known: Sequence[float], unknown: int) -> RuleResult:
    total = round(fsum(known), 9)  # sums of cents must not fail by rounding
    verdict, told = at_most(total, rule.bound), money_against(total, rule.bound)[0]
    if not unknown:
        return RuleResult(rule.text, verdict, told)
    reason = f"{told} and {unknown:,} without a known price"
    # What is known may be too much already.
    return RuleResult(rule.text, "fail" if verdict == "fail" else "cannot-tell", reason)


def _decide_latency(rule: Rule, cases: Cases) -> RuleResult:
    times = [time for case in cases for trial in case.trials for time in trial.latency_s]
    if not times:
        return RuleResult(rule.text, "cannot-tell", "the time of no reply is known")
    found = kept_by(times, 0.95)
    reason = f"{seconds_alike(found, rule.bound)[0]}, {count(len(times), 'reply', 'replies')}"
    return RuleResult(rule.text, at_most(found, rule.bound), reason)


def _decide_cases(rule: Rule, cases: Cases) -> RuleResult:
    passed = sum(case.passes_together for case in cases)
    reason = f"{passed:,} of {count(len(cases), 'case')} passed by their own rules"
    return RuleResult(rule.text, "pass" if passed >= rule.bound * len(cases) - 1e-9 else "fail", reason)


MEASURES: Mapping[str, Measure] = {
    "rate": Measure(">=", _share, lambda rule, cases: rate_rule(rule.text, _rate(cases), rule.bound), "rate>=90%"),
    "cases": Measure(">=", _share, _decide_cases, "cases>=90%"),
    "lower": Measure(">=", _share, lambda rule, cases: lower_rule(rule.text, _rate(cases), rule.bound), "lower>=85%"),
    "pass^": Measure(">=", _share, _decide_pass, "pass^3>=70%"),
    "cost": Measure("<=", _dollars, _decide_cost, "cost<=1.50", is_pooled=True),
    "latency_p95": Measure("<=", seconds_of, _decide_latency, "latency_p95<=4s"),
}


def decide(
    rules: Iterable[Rule],
    now: Baseline,
    before: Baseline | None = None,
    rounds_against: str | None = None,
    further: Confirmations = NOT_CONFIRMED,
    aside: Collection[CaseName] = (),
) -> GateResult:
    """Decide rules for a run whose conversations have all ended. `before`: the verdicts to compare with.
    `rounds_against`: the run that this one was compared with after each round, to see if it could stop. `further`:
    results of new failures that were asked again. `aside`: cases of the run that are in quarantine."""
    rules = list(rules)
    refuse_undecidable(rules, before)
    compared = _Compared(rules, now, before, rounds_against, further, aside)
    found = gate([_decide(rule, now, compared) for rule in rules])
    return structs.replace(found, false_alarms=compared.false_alarms(rules))


class NoBaseline(UsageError):
    """A rule compares, and there is nothing to compare with."""


def refuse_undecidable(rules: Sequence[Rule], before: Baseline | None) -> None:
    """Raises UsageError if there is no rule, and NoBaseline if a rule compares and there is nothing to compare with."""
    if not rules:
        raise UsageError(
            "a gate without a rule decides nothing", "Give at least one, such as `rate>=90%` or `no-regression`."
        )
    for rule in rules:
        if rule.measure in COMPARING and before is None:
            raise NoBaseline(f"`{rule.text}` compares with an earlier run", "Name it with --against NAME or RUN.")


def replaced_regressions(found: GateResult, rules: Iterable[Rule], reason: str) -> GateResult:
    """The same result, with "cannot tell" and a reason for rules about regressions."""
    compares = {rule.text for rule in rules if rule.measure in COMPARING}
    told = (RuleResult(one.rule, "cannot-tell", reason) if one.rule in compares else one for one in found.rules)
    return gate(list(told))


def doubt_replayed(found: GateResult, rules: Iterable[Rule], names: Sequence[str]) -> GateResult:
    """The same result, without a pass of rules that compare: these targets were replayed, and not asked."""
    compares = {rule.text for rule in rules if rule.measure in COMPARING}
    why = f"cannot tell about {_named(names)}: the replies were replayed"
    told = [
        structs.replace(one, verdict="cannot-tell", reason=f"{why}; {one.reason}")
        if one.rule in compares and one.verdict == "pass"
        else one
        for one in found.rules
    ]
    return structs.replace(found, verdict=gate(told).verdict, rules=tuple(told))


def undecided(rules: Iterable[Rule], reason: str) -> GateResult:
    """ "Cannot tell" for all rules, with one reason."""
    return gate([RuleResult(rule.text, "cannot-tell", reason) for rule in rules])


def _decide(rule: Rule, now: Baseline, compared: _Compared) -> RuleResult:
    cases = _chosen(now.cases, rule.tag)
    if not cases:
        known = {tag for case in now.cases for tag in case.tags}
        reason = f"no case has the tag `{rule.tag}`{did_you_mean(rule.tag, known)}" if rule.tag else "no conversation"
        return RuleResult(rule.text, "cannot-tell", reason)
    if rule.measure in COMPARING:
        return compared.decide(rule)
    measure = MEASURES[rule.measure]
    if rule.measure == "cost" and rule.tag is None and now.shared_cost != 0:
        return _whole_cost(rule, now)
    if measure.is_pooled:
        return measure.decide(rule, cases)
    return _worst(rule, {name: measure.decide(rule, group) for name, group in _by_target(cases).items()})


def _whole_cost(rule: Rule, now: Baseline) -> RuleResult:
    """The total cost, including shared calls, which belong to no case."""
    costs = [*(trial.cost for trial in now.trials), now.shared_cost]
    known = [cost for cost in costs if cost is not None]
    return _cost_rule(rule, known, len(costs) - len(known))


def _worst(rule: Rule, found: Mapping[str, RuleResult]) -> RuleResult:
    """The worst of the targets' results."""
    if len(found) == 1:
        return next(iter(found.values()))
    together = gate(list(found.values()))
    return RuleResult(rule.text, together.verdict, "; ".join(f"{name}: {one.reason}" for name, one in found.items()))


def _chosen(cases: Iterable[CaseTrials], tag: str | None) -> list[CaseTrials]:
    """The cases of a tag with at least one trial."""
    return [case for case in _tagged(cases, tag) if case.trials]


def _tagged(cases: Iterable[CaseTrials], tag: str | None) -> list[CaseTrials]:
    return [case for case in cases if tag is None or tag in case.tags]


def _by_target(cases: Iterable[CaseTrials]) -> dict[str, list[CaseTrials]]:
    """Cases by target. A variant of a prompt counts as another target, and so does a condition of sharded tasks: a task
    is one case in every form."""
    groups: dict[str, list[CaseTrials]] = {}
    for case in cases:
        name = ", ".join(filter(None, (case.target, case.variant, case.condition)))
        groups.setdefault(name, []).append(case)
    return groups


class _Compared:
    """The rules that compare with a baseline, for the whole run and for tags.

    `no-regression` is decided by target. Tests of several targets, and of several tags, are corrected for their number
    (Holm): otherwise one of twenty true nulls would be called worse. A run whose repeats stopped early is judged by its
    plan, and the answer is about these cases; but only against the run that the plan was made for. Against any other
    run it counts as a run of that many repeats. `no-new-failures` is decided case by case.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        now: Baseline,
        before: Baseline | None,
        rounds_against: str | None,
        further: Confirmations,
        aside: Collection[CaseName],
    ) -> None:
        self._now = now
        self._aside = frozenset(aside)
        self._further = further
        self._before, self._notes = (None, ()) if before is None else matched_to(now, before)
        self._rounds_against = rounds_against
        earlier = () if self._before is None else self._before.cases
        self._earlier = {case.key: case for case in earlier if case.trials}
        spoilt = () if self._before is None else self._before.unmeasured
        self._put = self._earlier | {case.key: case for case in spoilt}
        tags = {rule.tag for rule in rules if rule.measure == NO_REGRESSION}
        self._compared = self._compare({None} & tags, least=0) | self._compare(tags - {None}, least=LEAST_OF_GROUP)

    def _compare(self, tags: Iterable[str | None], *, least: int) -> dict[tuple[str | None, str], GroupComparison]:
        """Comparisons by tag and target, one family of tests."""
        groups = {
            (tag, name): self._pairs(group)
            for tag in sorted(tags, key=str)
            for name, group in _by_target([*_chosen(self._now.cases, tag), *_tagged(self._now.unmeasured, tag)]).items()
        }
        found = compare_groups({str(place): pairs for place, pairs in enumerate(groups.values())}, least=least)
        return dict(zip(groups, found, strict=True))

    def _pairs(self, cases: Cases) -> list[Pair]:
        """Pairs of trials, including cases that are entirely invalid in one of the runs."""
        return [(trials_of(self._put[case.key]), trials_of(case)) for case in cases if case.key in self._put]

    def decide(self, rule: Rule) -> RuleResult:
        found = self._new_failures(rule) if rule.measure == NO_NEW_FAILURES else self._regression(rule)
        notes = [found.reason, *self._notes, self._left_out(rule.tag)]
        if rule.measure == NO_REGRESSION and self._rounds_against not in (None, self._before and self._before.run):
            notes.insert(1, "its repeats ended by another baseline")
        return structs.replace(found, reason="; ".join(note for note in notes if note))

    def _new_failures(self, rule: Rule) -> RuleResult:
        cases = _chosen(self._now.cases, rule.tag)
        compared = sum(case.key in self._earlier for case in cases)
        found = find_new_failures(cases, self._earlier, self._further)
        with_target = len({case.target for case in self._now.cases}) > 1
        return new_failures_rule(rule.text, found, compared, with_target=with_target)

    def false_alarms(self, rules: Iterable[Rule]) -> dict[str, float]:
        """The probability of each rule to fail for an unchanged suite like this one."""
        found: dict[str, float] = {}
        for rule in rules:
            if not any(case.key in self._earlier for case in _chosen(self._now.cases, rule.tag)):
                continue
            if rule.measure == NO_REGRESSION:
                found[rule.text] = LOOK_LEVEL if self._looks else REGRESSION_LEVEL
            elif rule.measure == NO_NEW_FAILURES:
                chance = chance_of_new_failure(_chosen(self._now.cases, rule.tag), self._earlier, self._further)
                found |= {} if chance is None else {rule.text: round(chance, 6)}
        return found

    @property
    def _looks(self) -> bool:
        """Whether its repeats stopped by a plan that was made for this baseline."""
        return self._before is not None and self._rounds_against == self._before.run

    def _regression(self, rule: Rule) -> RuleResult:
        if self._before is not None and self._looks:
            cases = _chosen(self._now.cases, rule.tag)
            return look_rule(rule.text, look_at(cases, self._before, in_plan=rule.tag is None))
        groups = {name: one for (tag, name), one in self._compared.items() if tag == rule.tag}
        return _worst(rule, {name: self._decide(rule, one) for name, one in groups.items()})

    def _decide(self, rule: Rule, group: GroupComparison) -> RuleResult:
        found = group.comparison
        if group.verdict != "too-few":
            found = structs.replace(found, p_value=group.p_value, verdict=group.verdict)
        elif rule.tag is not None:
            cases = count(found.cases, "case")
            reason = f"too few: {cases} of the tag in both runs, {LEAST_OF_GROUP} would do"
            return RuleResult(rule.text, "cannot-tell", reason)
        return no_regression_rule(rule.text, found)

    def _left_out(self, tag: str | None) -> str:
        """The cases that only one of the runs has: they carry no information about a change, and are named."""
        every = {case.key for case in self._now.cases} | self._aside
        cases = [*self._now.cases, *self._earlier.values()]
        with_target = len({case.target for case in cases}) > 1
        new = [case for case in _chosen(self._now.cases, tag) if case.key not in self._earlier]
        gone = [case for case in _tagged(self._earlier.values(), tag) if case.key not in every]
        parts = [f"new: {_named([_called(case, with_target) for case in new])}"] if new else []
        parts += [f"not in this run: {_named([_called(case, with_target) for case in gone])}"] if gone else []
        return "; ".join(parts)


def _called(case: CaseTrials, with_target: bool) -> str:
    """`refund`, `refund (small, terse)`"""
    where = ", ".join(filter(None, (case.target if with_target else "", case.variant)))
    return f"{case.id[:LONGEST_NAME]} ({where})" if where else case.id[:LONGEST_NAME]


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{more}"
