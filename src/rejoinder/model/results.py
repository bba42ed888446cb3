"""How a conversation ended: verdicts, turns and the outcome as the engine has them, and the `Result` that is kept.

A `Result` is a line of `results.jsonl` and the object that reports and library users read: it is written and read by
the same schema. The order of its fields is that of the keys. A field with a default is left out if it has that
value; a field without one is always written. Keys may be added, never renamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import fsum
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from msgspec import Meta, Struct, field

from rejoinder.model.calls import NO_USAGE, Cost, Reply, Usage
from rejoinder.model.checks import Hint
from rejoinder.model.messages import ChatMessage, Diagnostic, RawRequest, ToolCall
from rejoinder.model.plans import Condition
from rejoinder.model.suite import Quarantine
from rejoinder.model.tools import FaultOutcome

# Bounds of numbers in files of a run folder: it may come from elsewhere, and a report adds and divides them.
Count: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 53)]
LARGEST = 10**15
_Whole: TypeAlias = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
Real: TypeAlias = _Whole | float
"""A number that is written as it was read: 1 does not become 1.0."""
Number: TypeAlias = _Whole | Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Interval: TypeAlias = tuple[Number, Number]

Status: TypeAlias = Literal["passed", "failed", "error", "skipped"]
State: TypeAlias = Literal["passed", "failed", "error"]
Span: TypeAlias = tuple[int, int]
"""A part of a reply, from the first code point to the one behind the last."""


def reaches(mean: float, wanted: float) -> bool:
    """Does a mean of scores reach a threshold?

    With a tolerance: in floating point the mean of three 0.7s is slightly below 0.7.
    """
    return mean >= wanted - 1e-9


def weighted_mean(pairs: Iterable[tuple[float, float]]) -> float | None:
    """The mean of pairs of weight and score; None if there are none."""
    pairs = list(pairs)
    if not pairs:
        return None
    heaviest = max([weight for weight, _ in pairs])
    if not heaviest:
        pairs = [(1.0, score) for _, score in pairs]  # where nothing weighs anything, everything weighs the same
    elif heaviest > LARGEST:
        pairs = [(weight / heaviest, score) for weight, score in pairs]  # very large weights have no finite sum
    return fsum([weight * score for weight, score in pairs]) / fsum([weight for weight, _ in pairs])


class Verdict(Struct, frozen=True, gc=False):
    """What a check says of a reply. A check in error has neither passed nor failed."""

    check: str
    """The kind and its value as written: `match *72*`."""
    state: State
    score: float | None
    reason: str
    kind: str = ""
    """The check's key in a suite: `match`; `criterion` and `order` for the parts of a judge's verdict."""
    value: float | bool | None = None
    """The check's value if it is a number or a truth value; a text stands in `check` alone."""
    spans: tuple[Span, ...] = ()
    """Where in the reply, as it came, the check found what it looked for."""
    name: str | None = None
    metric: str | None = None
    calls: tuple[str, ...] = ()
    """The journal keys of the calls that the verdict came from."""
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str | None = None
    children: tuple[Verdict, ...] = ()
    usage: Usage = NO_USAGE
    """What judges used."""
    cost: float | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    judged: bool = False
    """Was a model asked for it?"""
    judge: str | None = None
    """The target that judged."""
    judged_by: str | None = None
    """What the judge was told to do, as a digest: a judge's passport holds for it alone."""
    threshold: float | None = None
    """The least score that passes, where the score is not 0 or 1."""
    votes: tuple[float, ...] = ()
    """The scores of the single votes, if there were several."""
    found: str | None = None
    """What was extracted from the reply."""

    @property
    def passed(self) -> bool:
        return self.state == "passed"


class AskedBy(Struct, frozen=True, gc=False):
    """The check whose failure sent a turn."""

    turn: Count
    check: tuple[Count, ...]
    """Its place in that turn's `checks`, as an index path; empty where each passed and only the threshold failed."""


class Turn(Struct, frozen=True, gc=False, kw_only=True):
    turn: int
    depth: int
    prompt: str
    passed: bool
    reply: Reply | None = None
    """None where the call failed."""
    verdicts: tuple[Verdict, ...] = ()
    messages: tuple[ChatMessage, ...] = ()
    """The list that was sent."""
    asked_by: AskedBy | None = None
    step: int | None = None
    """The planned turn that it is, or answers back to, from 1; None without a plan."""
    name: str | None = None
    """The name of that step."""
    hint: Hint | None = None
    doubts: bool = False
    """Whether it was sent whether the reply before was right or wrong (`ask: always`)."""
    simulated: bool = False
    """Did a simulated user think of its words?"""

    @property
    def response(self) -> str | None:
        return None if self.reply is None else self.reply.text

    @property
    def usage(self) -> Usage:
        return NO_USAGE if self.reply is None else self.reply.usage


class Trouble(Struct, frozen=True, kw_only=True):
    """Why a conversation ended as `error`."""

    type: str
    message: str
    turn: int
    status: int | None = None


StepStatus: TypeAlias = Literal["passed", "recovered", "failed", "error", "skipped"]


class StepResult(Struct, frozen=True, gc=False):
    """What became of a planned turn and its follow-ups."""

    step: Count
    name: str | None
    status: StepStatus
    score: Number | None


class Spoilt(Struct, frozen=True, gc=False):
    """What a simulated user did wrong: it gave the answer away, fell out of its role or contradicted itself."""

    kind: Literal["leak", "role", "contradiction"]
    turn: Count
    evidence: str


NOT_AUDITED: Literal["not audited"] = "not audited"
StoppedBy: TypeAlias = Literal["goal", "word", "limit"]


class UserOutcome(Struct, frozen=True, gc=False):
    """What a simulated user said and how it ended; `stopped_by` is None where the conversation broke off."""

    replies: tuple[Reply, ...]
    stopped_by: StoppedBy | None = None
    spoilt: Spoilt | Literal["not audited"] | None = None
    audit: tuple[Verdict, ...] = ()
    goal: tuple[Verdict, ...] = ()
    """Whether its goal was reached, by the check of `stop`."""

    @property
    def has_broken_audit(self) -> bool:
        return any(verdict.state == "error" for verdict in self.audit)


class CutOff(Struct, frozen=True, gc=False):
    """An attempt at a conversation that did not get to its end, because its target lost it."""

    turn: int
    """The turn that could not be asked."""
    replies: tuple[Reply, ...]
    """What the candidate said."""
    others: tuple[Reply, ...] = ()
    """What judges, simulated users and other targets said."""


class Outcome(Struct, frozen=True, gc=False, kw_only=True):
    """How a conversation ended."""

    status: Status
    turns: tuple[Turn, ...] = ()
    score: float | None = None
    succeeded_on_turn: int | None = None
    error: Trouble | None = None
    control: Turn | None = None
    """The first turn, asked again in a new conversation."""
    steps: tuple[StepResult, ...] = ()
    conversation_checks: tuple[Verdict, ...] = ()
    user: UserOutcome | None = None
    cut_off: tuple[CutOff, ...] = ()
    """Attempts before this one."""
    faults: tuple[FaultOutcome, ...] = ()
    """What became of the failures of tools that were wanted."""
    broken_off: tuple[Reply, ...] = ()
    """Replies with calls of tools, of a turn that came to no end."""

    @property
    def has_undecided_judge(self) -> bool:
        """True if a judge was called and came to no verdict."""
        verdicts = [verdict for turn in self.turns for verdict in turn.verdicts]
        verdicts += self.conversation_checks
        verdicts += (*self.user.audit, *self.user.goal) if self.user is not None else ()
        while verdicts:
            verdict = verdicts.pop()
            if verdict.state == "error" and verdict.judged:
                return True
            verdicts += verdict.children
        return False


class UsageResult(Struct, frozen=True, gc=False, omit_defaults=True):
    input_tokens: Count
    output_tokens: Count
    total_tokens: Count
    reasoning_tokens: Count = 0
    cached_tokens: Count = 0
    cache_write_tokens: Count = 0
    approximate: bool = False
    """Estimated, because the provider did not count."""

    def __add__(self, other: UsageResult) -> UsageResult:
        return UsageResult(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.total_tokens + other.total_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.approximate or other.approximate,
        )


NO_USAGE_RESULT = UsageResult(0, 0, 0)


class CheckResult(Struct, frozen=True, gc=False, omit_defaults=True):
    check: str
    """The kind and its value as written: `match *72*`."""
    passed: bool
    score: Number | None
    reason: str
    name: str | None = None
    error: bool = False
    children: tuple[CheckResult, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    threshold: Real | None = None
    """The least score that passes, where the score is not 0 or 1."""
    judge: str | None = None
    """The target that judged."""
    judged_by: str | None = None
    """The digest of the judge's instructions."""
    votes: tuple[Number, ...] = ()
    hits: tuple[str, ...] | None = None
    """None where no judge or user code was asked for hits and misses."""
    misses: tuple[str, ...] | None = None
    metric: str | None = None
    kind: str | None = None
    """The check's key in YAML: `match`."""
    value: float | bool | None = None
    """The check's value if it is a number or a truth value."""
    spans: tuple[tuple[Count, Count], ...] = ()
    """Where the check found, or missed, what it wants: [start, end) in code points of `response`."""
    calls: tuple[str, ...] = ()
    """Journal keys of its judge's calls."""

    @property
    def state(self) -> State:
        return "error" if self.error else "passed" if self.passed else "failed"


class SentMessages(Struct, frozen=True):
    """The messages of a turn, as the difference to those of the turn before. `results.jsonl` has them in this form."""

    kept: Count
    added: tuple[ChatMessage, ...]


class TurnResult(Struct, frozen=True, gc=False, omit_defaults=True):
    turn: Count
    depth: Count
    prompt: str
    response: str | None
    passed: bool
    checks: tuple[CheckResult, ...]
    usage: UsageResult
    cost: Real | None
    duration_s: Real
    cost_breakdown: Cost | None = None
    unpriced: str | None = None
    """The model that has no known price."""
    model: str | None = None
    """The model that the provider says has answered."""
    finish_reason: str | None = None
    refusal: bool = False
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: str | None = None
    request_id: str | None = None
    messages: tuple[ChatMessage, ...] | None = None
    """What was sent, with `include_messages`."""
    sent: SentMessages | None = None
    """The same in `results.jsonl`; reading replaces it by `messages`."""
    cached: bool = False
    """True where the reply comes from the cache: usage and cost are those of an earlier run."""
    timed: bool = False
    """True if the time says something although the reply names no model: a service, a command or a function gave it."""
    asked_by: AskedBy | None = None
    started_at: str | None = None
    retries: Count = 0
    waited_s: Real = 0.0
    step: Count | None = field(default_factory=lambda: None)  # a factory's value is written as well
    """The planned turn that it is, or answers back to, from 1; null without a plan."""
    name: str | None = field(default_factory=lambda: None)
    """The name of that step."""
    hint: Hint | None = None
    """How much the follow-up gives away."""
    doubts: bool = False
    """Whether it was sent whether the reply before was right or wrong (`ask: always`)."""
    simulated: bool = False
    """Did a simulated user think of its words?"""
    stop_reason: str | None = None
    """Why an agent stopped, in its own word."""
    session: str | None = None
    """The target's own name for the conversation, where it keeps that itself."""
    workspace_diff: str | None = None
    """What an agent has changed in its workspace since the beginning."""
    continued: bool = False
    """Did the agent go on with its session here after the run had been killed?"""

    @property
    def is_timed(self) -> bool:
        """Whether its duration was measured and says something. A recording without times has 0."""
        return (self.model is not None or self.timed) and self.duration_s > 0


class CutOffResult(Struct, frozen=True, gc=False, omit_defaults=True):
    """An attempt at a conversation that was cut off, after which it began anew. What it used is part of the result's
    usage and cost."""

    turn: Count
    """The turn that could not be asked."""
    usage: UsageResult
    cost: Real | None
    judge_usage: UsageResult = NO_USAGE_RESULT
    """Of judges, simulated users and others that were asked beside the candidate."""
    judge_cost: Real | None = None


class UserResult(Struct, frozen=True, gc=False, omit_defaults=True):
    """The simulated user of a conversation."""

    turns: Count
    """How often it spoke, its opening included."""
    stopped_by: StoppedBy | None
    """By its goal, by its own word or at the limit; null where the conversation broke off."""
    spoilt: Spoilt | Literal["not audited"] | None
    """What it did wrong; null where an audit found nothing."""
    usage: UsageResult
    cost: Real | None
    target: str
    unpriced: str | None = None
    """The model that has no known price; one on this machine has none and costs nothing."""
    not_audited_because: str | None = None
    """Why the audit that was asked for gave no verdict."""


class ErrorResult(Struct, frozen=True, omit_defaults=True):
    type: str
    message: str
    turn: Count
    status: int | None = None


class ForkedFrom(Struct, frozen=True, omit_defaults=True):
    """The run that a fork was made from, and how many of its turns were taken over."""

    run: str
    turns: Count
    said_again: bool = False
    """True if the target keeps the conversation itself: these turns were said, and paid, again in a new session."""


class CaseName(NamedTuple):
    """What a case on one target is known by, in a run and in others: never by its id alone, and never by the name of
    its suite, which another suite may have as well."""

    file: str
    """As `case_file` says."""
    id: str
    target: str
    variant: str


def task_of(case: str, condition: str | None) -> str:
    """The id of a case, without the condition that is behind it."""
    return case.removesuffix(f"/{condition}") if condition else case


def case_file(suite_file: str, file: str) -> str:
    """Where a case is found: its file and, for a row of a data set, that of the suite before it. Two suites may put
    other questions to the rows of one data set."""
    return f"{suite_file} > {file}" if suite_file and suite_file != file else file


def answered_back(turns: Sequence[TurnResult]) -> Iterator[Sequence[TurnResult]]:
    """Each turn of a plan, of a simulated user, or of neither, with the follow-ups that answer back to it."""
    start = 0
    for end in range(1, len(turns) + 1):
        if end == len(turns) or not turns[end].depth:
            yield turns[start:end]
            start = end


class Result(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One conversation: a line of `results.jsonl`."""

    suite: str
    id: str
    name: str | None
    number: Count
    """The place of the case in its suite, from 1."""
    title: str
    """What reports call the case."""
    id_written: bool
    """Did the author write the id?"""
    tags: tuple[str, ...]
    conversation_id: str | None
    metadata: dict[str, Any]
    target: str
    trial: Count
    status: Status
    passed: bool
    score: Number | None
    succeeded_on_turn: Count | None
    hits: tuple[str, ...]
    misses: tuple[str, ...]
    reasoning: str | None
    turns: tuple[TurnResult, ...]
    usage: UsageResult
    cost: Real | None
    judge_usage: UsageResult
    judge_cost: Real | None
    raw_request: RawRequest
    error: ErrorResult | None
    cost_breakdown: Cost | None = None
    timestamp: str | None = field(default_factory=lambda: None)  # a factory's value is written as well
    """The start of the first call; null if it is not known."""
    file: str = ""
    """The file of the case, as seen from the project's root."""
    line: Count = 0
    suite_file: str = ""
    """The file of the suite, where the case stands in another one, such as a row in a data set."""
    variant: str | None = None
    fork: ForkedFrom | None = None
    control: TurnResult | None = None
    """The first turn, asked again in a new conversation, with `control: afresh`."""
    needed: tuple[Count, Count] | None = None
    """(4, 5) where four of five trials of the case have to pass."""
    quarantine: Quarantine | None = None
    steps: tuple[StepResult, ...] = ()
    """Each planned turn, in order."""
    conversation_checks: tuple[CheckResult, ...] = ()
    """What checks say of the whole conversation."""
    user: UserResult | None = None
    condition: Condition | None = None
    """Of a sharded task: how it was put."""
    cut_off: tuple[CutOffResult, ...] = ()
    """Attempts before this one: its target keeps the conversation itself, and had lost it when the run was resumed."""
    faults: tuple[FaultOutcome, ...] = ()
    """The failures of tools that were wanted, and where they landed."""
    confirming: bool = False
    """A further trial of a case that had failed and passes in a baseline. It was chosen by its outcome, so it counts in
    no rate, total or baseline."""

    @property
    def case(self) -> CaseName:
        """What all its trials have in common."""
        return CaseName(self.case_file, self.id, self.target, self.variant or "")

    @property
    def case_file(self) -> str:
        return case_file(self.suite_file, self.file)

    def counts_on(self, day: str) -> bool:
        """False while its case is in quarantine, or where a simulated user has spoilt it: it is run and shown, and
        decides nothing."""
        return not self.is_spoilt and not self.is_apart_on(day)

    def is_apart_on(self, day: str) -> bool:
        """Is its case in quarantine?"""
        return self.quarantine is not None and not self.quarantine.is_over(day)

    @property
    def is_spoilt(self) -> bool:
        """Has a simulated user spoilt it? One that ended in an error is an error, whatever was said before."""
        return self.user is not None and isinstance(self.user.spoilt, Spoilt) and self.status in ("passed", "failed")

    @property
    def first_try(self) -> bool:
        """Would it have passed without being answered back? Where right replies are doubted too, the first reply says
        so, and the last one whether it passed. Where a check of the whole conversation failed, or a planned turn was
        never reached, it would not: what can no longer be known does not flatter."""
        if not self.was_answered_back:
            return self.passed
        planned = [turn.passed for turn in self.turns if not turn.depth]
        whole = all(check.passed or check.error for check in self.conversation_checks)
        return whole and all(planned) and (not self.steps or len(planned) == len(self.steps))

    @property
    def caved(self) -> bool:
        """Did it fail, and was a reply right until it was doubted?"""
        return self.status == "failed" and any(
            turns[0].passed and not turns[-1].passed for turns in answered_back(self.turns)
        )

    @property
    def task(self) -> str:
        """The id of its case, which the conditions of a sharded task share."""
        return task_of(self.id, self.condition)

    @property
    def was_answered_back(self) -> bool:
        """Was a follow-up sent? The first turn is none."""
        return len(self.turns) > 1 and any(turn.depth for turn in self.turns)

    @property
    def has_control(self) -> bool:
        """Was its first turn asked again in a new conversation, and judged?"""
        return self.control is not None and not any(check.error for check in self.control.checks)

    @property
    def recovered(self) -> bool:
        """Did it pass after it was answered back?"""
        return self.passed and not self.first_try

    @property
    def recovered_at_once(self) -> bool:
        """Was the first turn wrong, and right after its first follow-up? Only that is compared with asking afresh,
        which happens once: who is asked again and again is right by chance sooner or later."""
        return self.failed_at_once and self.turns[1].passed

    @property
    def failed_at_once(self) -> bool:
        """Was the first turn wrong, and answered back? What is said later depends on what was said before, so it cannot
        be asked afresh."""
        return len(self.turns) > 1 and not self.turns[0].passed and self.turns[1].depth > 0

    @property
    def reply_times(self) -> tuple[float, ...]:
        """The seconds that each reply took, of a model, a service, a command or a function. How fast a script answers
        says nothing, and what was not measured has no time."""
        return tuple([turn.duration_s for turn in self.turns if turn.response is not None and turn.is_timed])

    @property
    def total_cost(self) -> float | None:
        """Dollars of the conversation and its judges; `cost` is without judges. None where a part has no known price.
        Targets on this machine have none and cost nothing; others without a price are named in their turns."""
        unknown = any(turn.unpriced is not None for turn in self.turns)
        unknown = unknown or (self.user is not None and self.user.unpriced is not None)
        if unknown or (self.judge_cost is None and self.judge_usage.total_tokens):
            return None
        user_cost = self.user.cost if self.user is not None else None
        return (self.cost or 0.0) + (self.judge_cost or 0.0) + (user_cost or 0.0)

    @property
    def deciding_checks(self) -> tuple[CheckResult, ...]:
        """The checks of the last turn, and those of the whole conversation."""
        return (*(self.turns[-1].checks if self.turns else ()), *self.conversation_checks)


def is_in_error(turn: TurnResult, result: Result) -> bool:
    """Did the conversation end in an error at this turn? Elsewhere it may have: at a check of the whole, or where a
    simulated user failed."""
    if result.status != "error" or turn.passed or turn is not result.turns[-1]:
        return False
    return turn.response is None or any(check.error for check in turn.checks)
