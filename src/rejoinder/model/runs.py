"""A run as a whole: its `Receipt` (`run.json`) and its `Summary` (`summary.json`).

Both are written and read by these types; the order of fields is that of the keys. In a receipt a plain default is left
out. The value of a `default_factory` is not: its key is always written, and may be missing where an earlier version
wrote the file.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from rejoinder.model.checks import Hint
from rejoinder.model.clusters import Cluster
from rejoinder.model.figures import (
    SEVERAL,
    Aptitude,
    Comparison,
    Corrected,
    FlipRate,
    NetRecovery,
    NoRate,
    NoRateReason,
    PassK,
    Rate,
    StepFlips,
    Transitions,
    why_untested,
)
from rejoinder.model.given import CodeOfTarget
from rejoinder.model.inputs import LONGEST_NAME, MOST_MODELS, Digests, GitState, Inputs
from rejoinder.model.passports import PassportBrief
from rejoinder.model.plans import Condition
from rejoinder.model.results import LARGEST, NO_USAGE_RESULT, CaseName, Count, Interval, Number, UsageResult, in_brief

RunStatus: TypeAlias = Literal["running", "killed", "interrupted", "budget", "error", "completed"]

RUN_ID = "[0-9]{8}-[0-9]{6}-(?:[0-9a-f]{8}|[0-9a-f]{4})"
"""The pattern of an id: day, time and eight digits; earlier versions gave four."""
SHORTEST_NAME = 4
"""Characters of an id that name a run, and that screens show of it. Fewer are found by accident: every sixteenth id
ends in `a`."""

_WHOLE_ID = re.compile(RUN_ID)


def is_run_id(name: str) -> bool:
    return _WHOLE_ID.fullmatch(name) is not None


def is_part_of_id(name: str, run: str) -> bool:
    """Whether a name is long enough to name a run, and is the beginning or end of its id."""
    return len(name) >= SHORTEST_NAME and (run.startswith(name) or run.endswith(name))


def too_short(name: str) -> str:
    """The beginning of a hint where a name is too short for a part of an id; else empty."""
    return f"The beginning or end of an id needs {SHORTEST_NAME} characters. " if len(name) < SHORTEST_NAME else ""


class SuiteOfRun(Struct, frozen=True, omit_defaults=True):
    path: str
    name: str | None
    files: dict[str, str] = {}
    """The files that hold texts of the suite, each with the SHA-256 of its text."""

    @property
    def title(self) -> str:
        """What lists and reports call it: its own name, or that of its file."""
        return self.name or PurePath(self.path).name


class TargetOfRun(Struct, frozen=True, omit_defaults=True):
    name: str
    provider: str
    model: str | None
    code: CodeOfTarget | None = None


class LimiterResult(Struct, frozen=True):
    """What a rate limiter did."""

    name: str
    requests: Count
    refused: Count
    waited_s: Number
    """Time that calls waited, summed over all of them."""
    rate: Number | None
    """Requests a second that it settled on; None where it never had to."""
    window: Count | None
    """Calls in flight that it settled on."""
    targets: tuple[str, ...] = ()
    """The targets whose calls passed it."""


class TargetCalls(Struct, frozen=True):
    """The calls of a target, and those that were repeated after errors. Refusals because of too many calls are in
    `limits`. Calls of a process that was killed are not counted."""

    target: str
    made: Count
    """Calls that have an outcome, repeated or not."""
    retried: Count
    errors: dict[str, Count]
    """Failed attempts after which a call was repeated, by kind: `HTTP 500`, or the type of the error."""

    def __add__(self, other: TargetCalls) -> TargetCalls:
        """Both, of the same target."""
        errors = {name: self.errors.get(name, 0) + other.errors.get(name, 0) for name in (*self.errors, *other.errors)}
        return TargetCalls(self.target, self.made + other.made, self.retried + other.retried, errors)


class DisabledTarget(Struct, frozen=True):
    """A target that was not called any more, and why."""

    target: str
    type: str
    message: str


class CacheUse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answers that came from the cache, and the part of the run's tokens and cost that was not spent again."""

    answers: Count
    repeated: Count = field(default_factory=int)
    tokens: Count
    cost: Number | None
    always_asked: tuple[str, ...] = ()
    """The targets that the cache does not answer for, because they are no LLM APIs and do not say `cache: true`."""
    ignored: Count = 0
    """Stored answers that another user's rejoinder wrote, or that were changed. They were asked for again."""
    trouble: str | None = None
    """Why some answers could not be stored."""


Positive: TypeAlias = Annotated[int, Meta(gt=0, le=LARGEST)] | Annotated[float, Meta(gt=0, le=LARGEST)]


class BudgetUse(Struct, frozen=True):
    usd: Positive | None
    tokens: Annotated[int, Meta(gt=0, le=1 << 53)] | None
    spent_usd: Number
    spent_tokens: Count
    reached: bool
    needed: tuple[Number, Count]
    """The bound of the call that did not fit, in dollars and tokens."""


class ForkPoint(Struct, frozen=True):
    """Of a fork: the run whose conversation it takes up, and the first turn that it asks."""

    run: str = ""
    turn: Count = 1


class Origin(NamedTuple):
    """The run that another one was made from, and how, in words."""

    run: str
    words: str


class ReportedOptions(Struct, frozen=True):
    """Of a run's options, those that reports look at."""

    repeat: Count = 1
    replay: str | None = None
    fail_fast: bool = False
    failed_from: str | None = None
    fork: ForkPoint | None = None


class ChosenCases(Struct, frozen=True):
    """How many of the suites' cases a run has, if it does not have all."""

    cases: Count
    of: Count

    def __str__(self) -> str:
        return f"{self.cases:,} of {self.of:,} cases (selected)"


class Receipt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`run.json`"""

    id: str
    status: RunStatus
    started_at: str | None = field(default_factory=lambda: None)
    finished_at: str | None = field(default_factory=lambda: None)
    version: str = field(default_factory=str)
    format: int = field(default_factory=int)
    folder: str = field(default_factory=str)
    suites: tuple[SuiteOfRun, ...]
    targets: tuple[TargetOfRun, ...]
    options: dict[str, Any]
    """The command's options as JSON; `suite.json` has them typed."""
    planned: Count
    chosen: ChosenCases | None = None
    """None where all cases of its suites were run."""
    replayed: tuple[str, ...] = ()
    """Targets of the user's own code, or of a server that is not a vendor's, that cassettes answered for."""
    judges_itself: bool = field(default_factory=bool)
    in_doubt: Count
    asked_again: Count = 0
    """Calls that were made again after an error (`--retry-errors`)."""
    duration_s: Number
    python: str = field(default_factory=str)
    git: GitState | None = field(default_factory=lambda: None)
    """The commit of the project when the run was started; None outside of a repository."""
    digests: Digests | None = None
    replay_of: str | None = None
    grade_of: str | None = None
    merge_of: str | None = None
    sources: tuple[str, ...] | None = None
    """The folders of the runs that it was made from."""
    taken_over: bool = False
    """Do its own files hold all that its parts hold?"""
    limits: tuple[LimiterResult, ...] = field(default_factory=lambda: ())
    calls: tuple[TargetCalls, ...] = field(default_factory=lambda: ())
    """None of targets that answer from this process at once."""
    given_up: tuple[DisabledTarget, ...] = field(default_factory=lambda: ())
    stale: tuple[str, ...] | None = None
    """Recordings that no call asked for."""
    from_cache: CacheUse | None = None
    budget: BudgetUse | None = None

    def __post_init__(self) -> None:
        _ = self.reported  # options of another type are found when the file is read

    def __repr__(self) -> str:
        targets = ", ".join(target.name for target in self.targets)
        return f"<Receipt {self.id}: {self.status}, {self.planned} planned on {in_brief(targets)}>"

    @property
    def day(self) -> str:
        """The day on which it was started, as in 2026-12-31."""
        return (self.started_at or "")[:10]

    @property
    def is_completed(self) -> bool:
        """Whether it was played to its end."""
        return self.status == "completed"

    @property
    def is_stopped(self) -> bool:
        """Whether it ended before its time."""
        return self.status in ("interrupted", "budget")

    @property
    def is_cut_off(self) -> bool:
        """Whether `resume` continues it without another option."""
        return self.status in ("running", "killed", "interrupted")

    @property
    def inputs(self) -> Inputs:
        """Everything that it was made from."""
        models = {one.name[:LONGEST_NAME]: one.model and one.model[:LONGEST_NAME] for one in self.targets[:MOST_MODELS]}
        return Inputs(self.git, self.digests, models)

    @property
    def reported(self) -> ReportedOptions:
        return msgspec.convert(self.options, ReportedOptions)

    @property
    def origin(self) -> Origin | None:
        options = self.reported
        if self.grade_of:
            return Origin(self.grade_of, f"grades of {self.grade_of}")
        if self.replay_of:
            return Origin(self.replay_of, f"replay of {self.replay_of}")
        if options.fork is not None:
            return Origin(options.fork.run, f"fork of {options.fork.run} from turn {options.fork.turn} on")
        if options.failed_from:
            return Origin(options.failed_from, f"re-run of what did not pass in {options.failed_from}")
        return None

    @property
    def made_of(self) -> str | None:
        """The run that it was made from."""
        return None if self.origin is None else self.origin.run

    @property
    def is_aside(self) -> bool:
        """Whether it is a fork or a re-grade: `last` and a missing name never mean it."""
        return bool(self.grade_of) or self.reported.fork is not None

    def document(self) -> dict[str, Any]:
        """The receipt as JSON documents show it; its duration is in the summary."""
        shown = msgspec.to_builtins(self)
        del shown["duration_s"]
        sources, taken_over = shown.pop("sources", []), shown.pop("taken_over", False)
        if self.merge_of is None:
            return shown
        return {**shown, "parts": sources, **({"taken_over": True} if taken_over else {})}


class ScoredCase(Struct, frozen=True):
    id: str
    score: Number
    """The mean of its trials, errors as 0."""
    file: str = ""


class Scores(Struct, frozen=True, omit_defaults=True):
    """Scores of cases: the trials of each, on each target, are reduced to their mean first."""

    mean: Number | None
    median: Number | None
    min: Number | None
    max: Number | None
    stdev: Number | None
    histogram: tuple[Count, ...] = ()
    best: tuple[ScoredCase, ...] = ()
    worst: tuple[ScoredCase, ...] = ()
    standard_error: Number | None = None
    interval: Interval | None = None
    cases: Count = 0
    of: Count = 0
    """Conversations with a score."""
    method: str | None = None


class Recovery(Struct, frozen=True):
    """What became of the conversations that got so many follow-ups."""

    depth: Count
    """The number of the follow-up, in the order in which they were sent."""
    at_risk: Annotated[int, Meta(ge=1, le=1 << 53)]
    recovered: Count
    interval: Interval
    errors: Count = 0
    """Those at risk that ended in an error at this follow-up."""
    cases: Count = 0
    method: str | None = None
    rate: Number | None = None
    passed: Count = 0
    """The same as `recovered`, and `of` the same as `at_risk`: every rate has these names."""
    of: Count = 0

    @property
    def share(self) -> float:
        """The rate, which earlier versions did not store."""
        return self.recovered / self.at_risk if self.rate is None else self.rate


class HintRecovery(Struct, frozen=True):
    """What became of wrong replies that were answered back with one `hint`. The fields of every rate, and those of
    `Recovery`."""

    at_risk: Count
    recovered: Count
    interval: Interval | None
    errors: Count
    cases: Count
    method: str | None
    rate: Number | None
    passed: Count
    of: Count
    net_recovery: NetRecovery | None = None
    """Among the conversations whose first follow-up has this hint; None if there is no control."""


class ConditionRate(Struct, frozen=True):
    """Sharded tasks that were put in one way. A task is a case of this condition."""

    rate: Rate
    relative: Number | None
    """The rate over that of `full`, on the tasks of both; None if there are none, or where `full` never passed."""
    against_full: Comparison | None
    """The difference to `full` on the same tasks, with its interval; None for `full` itself."""
    aptitude: Aptitude | None
    """None where a task has fewer than ten trials."""


class SpoiltCounts(Struct, frozen=True):
    """Conversations that a simulated user has spoilt. They are in `total`, and in no rate."""

    conversations: Count
    of: Count
    """All conversations with a simulated user."""
    by_kind: dict[str, Count]
    """Leak, role or contradiction."""
    not_audited: Count
    """Those in which no judge has looked for lapses of role; leaks are looked for in all of them."""
    cases: Count = 0
    """Cases of which every conversation is spoilt: nothing was measured."""
    bounds: Interval | None = None
    """The pass rate if all spoilt conversations had failed, and if all had passed: users spoil long conversations,
    which fail more often than others, so leaving them out may flatter. None if there is no rate, or nothing is
    spoilt."""


class FaultCounts(Struct, frozen=True):
    """Failures of tools that were wanted. Each is counted once for each conversation that it was planned for."""

    planned: Count
    landed: Count
    """Those that met a call. The others tested nothing: the tool was not called, or not as often."""
    recovered: Count
    """Those that landed in a conversation that passed."""


InjectionVerdict: TypeAlias = Literal["injected", "no-difference", "cannot-tell", "no-control", "not-shown"]
"""`injected`: the text makes the model obey more often than without it. `no-control`: there is nothing to compare with.
`not-shown`: no model saw it."""


class Injection(Struct, frozen=True, kw_only=True):
    """Texts that were put into answers of tools: how often the model obeyed them, and how often it would have done so
    without them. In these rates `passed` counts the trials in which it obeyed."""

    planned: Count
    """Trials with such a text."""
    shown: Count
    """Trials in which the model replied after it was shown the text."""
    unknown: Count = 0
    """Trials among these that ended in an error, or without a check that tells: they are in no rate."""
    obeyed: Rate
    without: Rate | None = None
    """In the control, of the trials in which the text would have been shown; None without a control."""
    difference: Number | None = None
    """`obeyed` less `without`, by cases."""
    interval: Interval | None = None
    p_value: Number | None = None
    verdict: InjectionVerdict


class Rates(Struct, frozen=True):
    """Pass rates of one target: of first tries, after all follow-ups, and what the follow-ups added."""

    first_try: Rate
    """Right before any follow-up. If right replies are doubted, some of these fail after all."""
    eventual: Rate
    gain: Rate
    """Passed, and not on the first try."""


class CaseShare(Struct, frozen=True):
    """A rate over cases that may count in part; then there is no number that passed."""

    rate: Number | None
    passed: Count | None
    of: Count | None
    cases: Count
    interval: Interval | None
    method: str | None


class OfK(Struct, frozen=True):
    """pass^k and pass@k of one k, over the cases with at least k trials."""

    k: Count
    pass_hat_k: CaseShare
    pass_at_k: CaseShare
    cases: Count
    left_out: Count
    """Cases with fewer trials."""


class Repeats(Struct, frozen=True):
    """What repeats of cases say."""

    pass_hat_k: PassK
    """pass^k: all k trials pass."""
    pass_at_k: PassK
    """pass@k: one of k trials passes."""
    flip_rate: FlipRate
    by_k: tuple[OfK, ...] = ()
    """For k from 1 to the most trials that a case has, or 100."""


class CaseVerdicts(Struct, frozen=True):
    """Cases on a target, the trials of each judged together."""

    passed: Count = 0
    failed: Count = 0
    """Those that would not have passed without their errors either."""
    errors: Count = 0
    """Those that could have passed without their errors. Earlier versions counted them as failed."""
    flaky: Count = 0
    """Those of all of them that passed in some trials and failed in others."""

    @property
    def total(self) -> int:
        return self.passed + self.failed + self.errors


class Repeated(Struct, frozen=True):
    """Conversations in which a reply to a follow-up equals an earlier one, white space apart."""

    conversations: Count
    of: Count
    """Conversations that got a follow-up."""


class QuarantinedCase(Struct, frozen=True):
    id: str
    file: str
    target: str
    until: str
    reason: str
    passed: Count
    trials: Count
    errors: Count
    active: bool
    """False once the date has come: then it counts like any other."""


class Metric(Struct, frozen=True, kw_only=True):
    """The mean over cases, each of which counts once."""

    mean: Number | None
    cases: Count
    total_cases: Count = 0
    errors: Count = 0
    mean_with_errors: Number | None = None
    """The mean with each error as 0."""
    replies: Count = 0
    """First replies with a score."""
    total_replies: Count = 0
    standard_error: Number | None = None
    min: Number | None = None
    max: Number | None = None


class TargetSummary(Struct, frozen=True, kw_only=True):
    total: Count
    passed: Count
    failed: Count = 0
    errors: Count
    skipped: Count
    first_try: Count
    recovered: Count = 0
    """Earlier versions did not count it."""
    pass_rate: Number | None
    no_rate: NoRateReason | None = None
    pass_rate_interval: Interval | None
    pass_rate_method: str | None = None
    cases: Count = 0
    usage: UsageResult
    cost: Number | None
    duration_s: Number | None
    """The median time of a reply; None if no reply has one."""
    without_errors: Rate | None = None
    rates: Rates | None = None
    net_recovery: NetRecovery | None = None
    recovery: tuple[Recovery, ...] = ()
    answered_back: Rate | None = None
    repeated: Repeated | None = None
    by_hint: dict[Hint, HintRecovery] = field(default_factory=dict[Hint, HintRecovery])
    transitions: Transitions | None = None
    caves: Rate | None = None
    step_flips: StepFlips | None = None
    by_condition: dict[Condition, ConditionRate] = field(default_factory=dict[Condition, ConditionRate])
    spoilt: SpoiltCounts | None = None
    repeats: Repeats | None = None
    score: Scores | None = None
    metrics: dict[str, Metric] = field(default_factory=dict[str, Metric])
    by_case: CaseVerdicts = CaseVerdicts()
    injection: Injection | None = None

    @property
    def finished(self) -> int:
        return self.passed + self.failed + self.errors

    @property
    def has_repeats(self) -> bool:
        """True if cases were tried more than once. Earlier versions did not count cases."""
        return 0 < self.by_case.total < self.finished

    @property
    def rate(self) -> Rate | NoRate:
        """The pass rate, or why there is none."""
        return _rate(self)


class PairSummary(TargetSummary, frozen=True, kw_only=True):
    """One variant on one target."""

    target: str
    variant: str


class JudgeSummary(Struct, frozen=True, kw_only=True):
    """What one judge with one set of instructions said of first replies: of a conversation that was answered back, of
    the reply that it judged first."""

    target: str
    digest: str
    check: str
    judged: Count
    passed: Count
    errors: Count
    cases: Count = 0
    name: str | None = None
    """The check's name, where the author gave it one."""
    rate: Rate | None = None
    model: str = ""
    passport: PassportBrief | None = None
    corrected: Corrected | None = None

    @property
    def is_untested(self) -> bool:
        """Whether its verdicts count and were never compared with labels. One that is scripted is no judge to test."""
        return self.passport is None and bool(self.judged) and not self.model.startswith("scripted/")


class CostOfParts(Struct, frozen=True):
    """Input and output of every call that has a price."""

    input: Number
    output: Number


class EmbeddingUse(Struct, frozen=True):
    texts: Count = 0
    tokens: Count = 0
    cost: Number | None = None


class ConfirmedCase(Struct, frozen=True, kw_only=True):
    """The further trials of a case that passes in a baseline and failed in the run. They were chosen by the outcome of
    the case, so they count in no rate, total or baseline; what they cost is told here alone."""

    id: str
    target: str
    variant: str | None
    trials: Count
    passed: Count
    errors: Count = 0
    file: str = ""
    cost: Number | None = None
    """Dollars, judges included; None where something has no known price."""
    tokens: Count = 0

    @property
    def case(self) -> CaseName:
        return CaseName(self.file, self.id, self.target, self.variant or "")


class Summary(Struct, frozen=True, kw_only=True):
    """`summary.json`"""

    total: Count
    passed: Count
    failed: Count
    errors: Count
    skipped: Count
    unfinished: int
    apart: Count = 0
    """Conversations of cases in quarantine: they are in `total`, and in no other count but those of `quarantined`."""
    first_try: Count
    recovered: Count
    pass_rate: Number | None
    no_rate: NoRateReason | None = None
    """Why there is no pass rate; None if there is one."""
    pass_rate_interval: Interval | None
    pass_rate_method: str | None = None
    cases: Count | None = None
    score: Scores
    """Scores, recovery, repeats and metrics of several targets are in `by_target` alone, as their rates are."""
    recovery: tuple[Recovery, ...]
    recovery_tokens: Count = 0
    recovery_cost: Number | None = None
    """What follow-ups cost; None where a part of it is unknown."""
    without_errors: Rate | None = None
    """The pass rate of the conversations that did not end in an error; None if none did, or if there is no rate."""
    rates: Rates | None = None
    """None with several targets, variants, or conditions of sharded tasks: a rate of two models is a rate of neither.
    None where every conversation ended in an error, too: nothing was tested."""
    net_recovery: NetRecovery | None = None
    answered_back: Rate | None = None
    """Of the wrong first replies that got a follow-up, the share that became right."""
    repeated: Repeated | None = None
    """None if no follow-up was sent; earlier versions did not count it."""
    clusters: tuple[Cluster, ...] = ()
    """Why conversations did not pass, the largest clusters first; at most 20."""
    by_hint: dict[Hint, HintRecovery] = field(default_factory=dict[Hint, HintRecovery])
    """Recovery by what follow-ups give away, if they are labelled."""
    transitions: Transitions | None = None
    """What doubts did to right and to wrong replies; None if none was sent (`ask: always`)."""
    caves: Rate | None = None
    """Of the right first replies that were doubted, the share that became wrong."""
    step_flips: StepFlips | None = None
    """None without a plan of several graded turns."""
    by_condition: dict[Condition, ConditionRate] = field(default_factory=dict[Condition, ConditionRate])
    """Of sharded tasks."""
    spoilt: SpoiltCounts | None = None
    """None without simulated users."""
    faults: FaultCounts | None = None
    injection: Injection | None = None
    """None if no text was put into answers of tools, or there are several targets or variants."""
    """None where no failure of a tool was wanted."""
    repeats: Repeats | None = None
    by_case: CaseVerdicts = CaseVerdicts()
    confirmed: tuple[ConfirmedCase, ...] = ()
    """Newly failing cases that were asked again (`run --against`)."""
    quarantined: tuple[QuarantinedCase, ...] = ()
    usage: UsageResult
    cost: Number | None
    cost_breakdown: CostOfParts | None
    unpriced: dict[str, Count]
    """Models that have no known price, with the number of calls."""
    judge_usage: UsageResult
    judge_cost: Number | None
    user_usage: UsageResult = NO_USAGE_RESULT
    """What simulated users used."""
    user_cost: Number | None = None
    total_cost: Number | None
    """Of conversations, judges, simulated users and embeddings."""
    total_tokens: Count
    duration_s: Number
    by_target: dict[str, TargetSummary]
    by_variant: dict[str, TargetSummary] = field(default_factory=dict[str, TargetSummary])
    """Empty where the suites have no variants. With several targets too, only the counts of each are told."""
    by_pair: tuple[PairSummary, ...] = ()
    """Each variant on each target; empty unless there are several of both."""
    metrics: dict[str, Metric] = field(default_factory=dict[str, Metric])
    judges: tuple[JudgeSummary, ...] = ()
    exit_code: Annotated[int, Meta(ge=0, le=255)]
    limits: tuple[LimiterResult, ...] = ()
    embeddings: EmbeddingUse | None = None

    @property
    def finished(self) -> int:
        return self.passed + self.failed + self.errors

    @property
    def rate(self) -> Rate | NoRate:
        """The pass rate, or why there is none. Everything that shows or uses the rate of a run takes this one."""
        return _rate(self)

    @property
    def in_short(self) -> str:
        """`1 passed, 1 failed, 0 errors of 2, rate 0.5`"""
        rate = self.rate
        told = f"no rate ({rate.because})" if isinstance(rate, NoRate) else f"rate {round(rate.rate or 0, 3)}"
        return f"{self.passed} passed, {self.failed} failed, {self.errors} errors of {self.total}, {told}"

    def __repr__(self) -> str:
        return f"<Summary: {self.in_short}>"

    @property
    def decided(self) -> int:
        """The conversations that were to decide something."""
        return self.total - self.apart - (0 if self.spoilt is None else self.spoilt.conversations)

    @property
    def all_in_quarantine(self) -> bool:
        """Whether no conversation counts, because all are in quarantine. Such a run did not pass."""
        return 0 < self.apart == self.total

    @property
    def errors_in_quarantine(self) -> int:
        return sum(one.errors for one in self.quarantined if one.active)

    @property
    def passed_at_once(self) -> int:
        """Those that passed and were right from the first: `first_try` also counts those that caved."""
        return self.passed - self.recovered

    @property
    def has_repeats(self) -> bool:
        """Were cases tried more than once?"""
        return self.finished > self.by_case.total


_Part = TypeVar("_Part", Summary, TargetSummary, PairSummary)


def _rate(part: Summary | TargetSummary) -> Rate | NoRate:
    if part.no_rate is None and part.rates is not None and part.rates.eventual.rate is not None:
        return part.rates.eventual
    return NoRate(part.no_rate or "nothing", part.finished, part.errors)


def with_reasons(summary: Summary, run: Receipt) -> Summary:
    """The summary with a reason in the place of each pass rate that would mislead; `rates` keeps what was counted. An
    earlier version wrote such rates."""
    whole = _with_reason(summary, run, unfinished=summary.unfinished > 0)

    def parts(of: dict[str, TargetSummary]) -> dict[str, TargetSummary]:
        return {name: _with_reason(part, run, unfinished=summary.unfinished > 0) for name, part in of.items()}

    pairs = tuple(_with_reason(part, run, unfinished=summary.unfinished > 0) for part in summary.by_pair)
    by_target, by_variant = parts(summary.by_target), parts(summary.by_variant)
    return msgspec.structs.replace(whole, by_target=by_target, by_variant=by_variant, by_pair=pairs)


def _with_reason(part: _Part, run: Receipt, *, unfinished: bool) -> _Part:
    because = why_no_rate(part, run, unfinished=unfinished)
    if because is None:
        return part
    spoilt = part.spoilt
    if spoilt is not None and because != "nothing":  # where all was spoilt, every rate is possible
        spoilt = msgspec.structs.replace(spoilt, bounds=None)
    none = {"pass_rate": None, "pass_rate_interval": None, "pass_rate_method": None, "without_errors": None}
    return msgspec.structs.replace(part, no_rate=because, spoilt=spoilt, **none)


def why_no_rate(part: Summary | TargetSummary, run: Receipt, *, unfinished: bool) -> NoRateReason | None:
    """Why a run, or one of its targets or variants, has no pass rate that can be believed; None if it has one. It is
    decided here and nowhere else. `unfinished`: whether the run lacks conversations, of whichever part."""
    hidden = why_untested(part.errors, part.finished)
    if hidden == "untested":
        return hidden
    if run.status in ("running", "killed", "interrupted", "budget"):
        return run.status  # quick conversations end first
    if unfinished or run.status == "error":
        return "unfinished"
    if part.skipped:
        return "fail-fast" if run.reported.fail_fast else "given-up"
    if (several := _several(part)) is not None:
        return several
    return hidden


def _several(part: Summary | TargetSummary) -> NoRateReason | None:
    """Why a part has no common rate. An earlier version did not store that."""
    if part.no_rate in SEVERAL:
        return part.no_rate
    if part.rates is not None or not isinstance(part, Summary):
        return None
    return "several-targets" if len(part.by_target) > 1 else "several-variants" if len(part.by_variant) > 1 else None
