"""The result of a conversation: verdicts, turns and outcome in the engine's form, and the stored `Result`.

A `Result` is a line of `results.jsonl` and the object that reports and library users read: it is written and read by
the same schema. Its fields have the order of the keys. A field with a default is left out if it has that value; a field
without one is always written. Keys may be added, never renamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import fsum
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from msgspec import Meta, Struct, field

from rejoinder.model.calls import NO_USAGE, Cost, Reply, Usage
from rejoinder.model.checks import Hint
from rejoinder.model.messages import ChatMessage, Diagnostic, RawRequest, ToolCall
from rejoinder.model.pictures import Picture
from rejoinder.model.plans import Condition
from rejoinder.model.suite import Quarantine
from rejoinder.model.tools import FaultOutcome

# Bounds of numbers in files of a run folder: it may come from elsewhere, and a report adds and divides them.
Count: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 53)]
LARGEST = 10**15
_BRIEF = 60
_Whole: TypeAlias = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
Real: TypeAlias = _Whole | float
"""A number that is written as read: 1 does not become 1.0."""
Number: TypeAlias = _Whole | Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Interval: TypeAlias = tuple[Number, Number]

Status: TypeAlias = Literal["passed", "failed", "error", "skipped"]
State: TypeAlias = Literal["passed", "failed", "error"]
Span: TypeAlias = tuple[int, int]
"""A part of a reply: the first code point, and the one after the last."""


def reaches(mean: float, wanted: float) -> bool:
    """Whether a mean of scores reaches a threshold.

    With a tolerance: in floating point the mean of three 0.7s is slightly below 0.7.
    """
    return mean >= wanted - 1e-9


def weighted_mean(pairs: Iterable[tuple[float, float]]) -> float | None:
    """The mean of pairs of weight and score; None if empty."""
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
    """A check's verdict on a reply. A check in error has neither passed nor failed."""

    check: str
    """The kind and its value as written: `match *72*`."""
    state: State
    score: float | None
    reason: str
    kind: str = ""
    """The check's key in a suite: `match`; `criterion` and `order` for the parts of a judge's verdict."""
    value: float | bool | None = None
    """The check's value if it is a number or a boolean; a text appears only in `check`."""
    spans: tuple[Span, ...] = ()
    """The places in the reply, as received, where the check found its text."""
    name: str | None = None
    metric: str | None = None
    calls: tuple[str, ...] = ()
    """The journal keys of the calls that the verdict came from."""
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str | None = None
    children: tuple[Verdict, ...] = ()
    usage: Usage = NO_USAGE
    """Usage of judges."""
    cost: float | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    judged: bool = False
    """Whether a model was asked."""
    judge: str | None = None
    """The target that judged."""
    judged_by: str | None = None
    """A digest of the judge's instructions: a judge test holds only for these."""
    criteria: str | None = None
    """The version of a judge's ready-made criteria, such as `faithful/1`."""
    threshold: float | None = None
    """The minimum score to pass, if the score is not just 0 or 1."""
    votes: tuple[float, ...] = ()
    """The scores of the votes, if there were several."""
    found: str | None = None
    """The value extracted from the reply."""
    part: str | None = None
    """The part of the reply that was checked, if it was not the whole; only of the checks of a level."""
    lacking: bool = False
    """Whether the part of the reply to check is missing, so that nothing is known of its text."""
    fault: str = ""
    """A description of the failure that does not reveal the expected value, if its kind's own does not fit."""

    @property
    def passed(self) -> bool:
        return self.state == "passed"


class AskedBy(Struct, frozen=True, gc=False):
    """The check whose failure sent a turn."""

    turn: Count
    check: tuple[Count, ...]
    """Its place in that turn's `checks`, as an index path; empty if all checks passed and only the threshold failed."""


class Turn(Struct, frozen=True, gc=False, kw_only=True):
    turn: int
    depth: int
    prompt: str
    passed: bool
    reply: Reply | None = None
    """None if the call failed."""
    verdicts: tuple[Verdict, ...] = ()
    messages: tuple[ChatMessage, ...] = ()
    """The messages that were sent."""
    asked_by: AskedBy | None = None
    step: int | None = None
    """The number of the planned turn, or of the one that the follow-up belongs to, from 1; None without a plan."""
    name: str | None = None
    """The name of that step."""
    hint: Hint | None = None
    doubts: bool = False
    """Whether it was sent regardless of the previous reply (`ask: always`)."""
    simulated: bool = False
    """Whether a simulated user wrote its words."""

    @property
    def response(self) -> str | None:
        return None if self.reply is None else self.reply.text

    @property
    def usage(self) -> Usage:
        return NO_USAGE if self.reply is None else self.reply.usage


class Trouble(Struct, frozen=True, kw_only=True):
    """The error that ended a conversation."""

    type: str
    message: str
    turn: int
    status: int | None = None


StepStatus: TypeAlias = Literal["passed", "recovered", "failed", "error", "skipped"]


class StepResult(Struct, frozen=True, gc=False):
    """The result of a planned turn and its follow-ups."""

    step: Count
    name: str | None
    status: StepStatus
    score: Number | None


class Spoilt(Struct, frozen=True, gc=False):
    """A simulated user's mistake: it gave the answer away, left its role or contradicted itself."""

    kind: Literal["leak", "role", "contradiction"]
    turn: Count
    evidence: str


NOT_AUDITED: Literal["not audited"] = "not audited"
StoppedBy: TypeAlias = Literal["goal", "word", "limit"]


class UserOutcome(Struct, frozen=True, gc=False):
    """A simulated user's replies and the end of its conversation; `stopped_by` is None if the conversation was
    interrupted."""

    replies: tuple[Reply, ...]
    stopped_by: StoppedBy | None = None
    spoilt: Spoilt | Literal["not audited"] | None = None
    audit: tuple[Verdict, ...] = ()
    goal: tuple[Verdict, ...] = ()
    """Whether its goal was reached, according to the check of `stop`."""

    @property
    def has_broken_audit(self) -> bool:
        return any(verdict.state == "error" for verdict in self.audit)


class CutOff(Struct, frozen=True, gc=False):
    """An unfinished attempt at a conversation that its target lost."""

    turn: int
    """The turn that could not be sent."""
    replies: tuple[Reply, ...]
    """The target's replies."""
    others: tuple[Reply, ...] = ()
    """Replies of judges, simulated users and other targets."""


class Outcome(Struct, frozen=True, gc=False, kw_only=True):
    """The outcome of a conversation."""

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
    """Earlier attempts."""
    faults: tuple[FaultOutcome, ...] = ()
    """The outcomes of deliberate tool failures."""
    broken_off: tuple[Reply, ...] = ()
    """Replies with tool calls, from a turn that was not finished."""
    clean: Outcome | None = None
    """The same conversation without the texts that `says` puts into answers of tools."""

    @property
    def passed(self) -> bool:
        return self.status == "passed"

    @property
    def recovered(self) -> bool:
        """True if it passed after a follow-up."""
        return self.passed and not passed_on_first_try(self)

    @property
    def is_spoilt(self) -> bool:
        """True if its simulated user broke its role. An error stays an error, whatever was said before."""
        return self.user is not None and isinstance(self.user.spoilt, Spoilt) and self.status in ("passed", "failed")

    @property
    def has_undecided_judge(self) -> bool:
        """True if a judge was called and gave no verdict."""
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


def in_brief(text: str) -> str:
    """The beginning of a text in quotes, on one line."""
    return repr(text if len(text) <= _BRIEF else f"{text[:_BRIEF]}...")


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
    """The minimum score to pass, if the score is not just 0 or 1."""
    judge: str | None = None
    """The target that judged."""
    judged_by: str | None = None
    """The digest of the judge's instructions."""
    votes: tuple[Number, ...] = ()
    hits: tuple[str, ...] | None = None
    """None if no judge or user code was asked for hits and misses."""
    misses: tuple[str, ...] | None = None
    metric: str | None = None
    kind: str | None = None
    """The check's key in YAML: `match`."""
    value: float | bool | None = None
    """The check's value if it is a number or a boolean."""
    spans: tuple[tuple[Count, Count], ...] = ()
    """The places where the check found, or missed, the expected text: [start, end) in code points of `response`."""
    calls: tuple[str, ...] = ()
    """Journal keys of its judge's calls."""
    criteria: str | None = None
    """The version of the judge's ready-made criteria, such as `faithful/1`."""

    @property
    def state(self) -> State:
        return "error" if self.error else "passed" if self.passed else "failed"

    def __repr__(self) -> str:
        return f"<CheckResult {in_brief(self.check)}: {self.state}, {in_brief(self.reason)}>"


class SentMessages(Struct, frozen=True):
    """The messages of a turn, as the difference from the previous turn's. `results.jsonl` has this form."""

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
    """The model without a known price."""
    model: str | None = None
    """The model that answered, as reported by the provider."""
    finish_reason: str | None = None
    refusal: bool = False
    tool_calls: tuple[ToolCall, ...] = ()
    offered: tuple[str, ...] = ()
    """The tools that the model could call, by the names that it sees."""
    thinking: str | None = None
    request_id: str | None = None
    messages: tuple[ChatMessage, ...] | None = None
    """The sent messages, with `include_messages`."""
    sent: SentMessages | None = None
    """The difference form in `results.jsonl`; reading replaces it with `messages`."""
    cached: bool = False
    """True if the reply comes from the cache: usage and cost come from an earlier run."""
    timed: bool = False
    """True if the time is meaningful although the reply names no model: a service, a command or a function gave it."""
    asked_by: AskedBy | None = None
    started_at: str | None = None
    retries: Count = 0
    waited_s: Real = 0.0
    step: Count | None = field(default_factory=lambda: None)  # a factory's value is written as well
    """The number of the planned turn, or of the one that the follow-up belongs to, from 1; null without a plan."""
    name: str | None = field(default_factory=lambda: None)
    """The name of that step."""
    hint: Hint | None = None
    """The information that the follow-up gives away."""
    doubts: bool = False
    """Whether it was sent regardless of the previous reply (`ask: always`)."""
    simulated: bool = False
    """Whether a simulated user wrote its words."""
    stop_reason: str | None = None
    """Why an agent stopped, in its own word."""
    session: str | None = None
    """The target's own name for the conversation, if it keeps the conversation itself."""
    workspace_diff: str | None = None
    """An agent's changes in its workspace since the start."""
    continued: bool = False
    """Whether the agent continued its session here after the run was killed."""
    first_token_s: Number | None = None
    """Seconds until the first piece of a streamed reply."""
    part: str | None = None
    """The part of the reply that was checked, if it was not the whole."""
    pictures: tuple[Picture, ...] = ()
    """The pictures that were sent with its words. The run folder has them by digest."""

    @property
    def is_timed(self) -> bool:
        """Whether its duration was measured and is meaningful. A recording without times has 0."""
        return (self.model is not None or self.timed) and self.duration_s > 0

    def __repr__(self) -> str:
        reply = "no reply" if self.response is None else in_brief(self.response)
        return f"<TurnResult {self.turn}: {'passed' if self.passed else 'failed'}, {reply}>"


class CutOffResult(Struct, frozen=True, gc=False, omit_defaults=True):
    """An interrupted attempt at a conversation, which then restarted. Its usage is part of the result's usage
    and cost."""

    turn: Count
    """The turn that could not be sent."""
    usage: UsageResult
    cost: Real | None
    judge_usage: UsageResult = NO_USAGE_RESULT
    """Usage of judges, simulated users and other targets."""
    judge_cost: Real | None = None


class UserResult(Struct, frozen=True, gc=False, omit_defaults=True):
    """The simulated user of a conversation."""

    turns: Count
    """Number of its messages, including the first."""
    stopped_by: StoppedBy | None
    """Its goal, its own word or the limit; null if the conversation was interrupted."""
    spoilt: Spoilt | Literal["not audited"] | None
    """Its mistake; null if an audit found none."""
    usage: UsageResult
    cost: Real | None
    target: str
    unpriced: str | None = None
    """The model without a known price; a model on this machine has none and costs nothing."""
    not_audited_because: str | None = None
    """Why the requested audit gave no verdict."""


class ErrorResult(Struct, frozen=True, omit_defaults=True):
    type: str
    message: str
    turn: Count
    status: int | None = None


class ForkedFrom(Struct, frozen=True, omit_defaults=True):
    """The run that a fork was made from, and the number of turns taken from it."""

    run: str
    turns: Count
    said_again: bool = False
    """True if the target keeps the conversation itself: these turns were sent, and paid, again in a new session."""


class Place(NamedTuple):
    """The conversation of a run that a result belongs to."""

    suite: str
    case: str
    target: str
    variant: str
    trial: int


class SystemPrompt(NamedTuple):
    """The system prompt of a conversation."""

    text: str = ""
    """Empty if there is none, or none is known."""
    is_sent: bool = True
    """False if the target's request has no place for it."""


class CaseName(NamedTuple):
    """The identity of a case on one target, in one run and across runs: neither its id nor the suite's name would be
    unique, because another suite may have the same."""

    file: str
    """The location, from `case_file`."""
    id: str
    target: str
    variant: str


def task_of(case: str, condition: str | None) -> str:
    """The id of a case, without the condition at its end."""
    return case.removesuffix(f"/{condition}") if condition else case


def case_file(suite_file: str, file: str) -> str:
    """The location of a case: its file and, for a row of a data set, the suite's file before it. Two suites may ask
    different questions about the rows of one data set."""
    return f"{suite_file} > {file}" if suite_file and suite_file != file else file


def check_at(checks: Sequence[CheckResult], path: Sequence[int]) -> CheckResult | None:
    """The check at an index path; None if missing."""
    found: CheckResult | None = None
    for place in path:
        if place >= len(checks):
            return None
        found = checks[place]
        checks = found.children
    return found


class _TurnLike(Protocol):
    """A `Turn` or a `TurnResult`."""

    @property
    def depth(self) -> int: ...
    @property
    def passed(self) -> bool: ...


_T = TypeVar("_T", bound=_TurnLike)


def answered_back(turns: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Groups of turns: each turn of a plan, of a simulated user, or of neither, with its follow-ups."""
    start = 0
    for end in range(1, len(turns) + 1):
        if end == len(turns) or not turns[end].depth:
            yield turns[start:end]
            start = end


def last_of_steps(turns: Sequence[_T]) -> list[_T]:
    """The last turn of each step; each turn of a simulated user is a step."""
    return [step[-1] for step in answered_back(turns)]


def deciding_turns(result: Result) -> Iterator[TurnResult]:
    """The turns whose checks decided that a conversation failed: the last one, or that of each planned step that did
    not pass. With a simulated user a check of every turn may have failed earlier."""
    if result.user is not None:
        yield from (turn for turn in last_of_steps(result.turns)[:-1] if not turn.passed)
    if not result.steps:
        yield from (turn for turn in result.turns[-1:] if not turn.passed)
    for step in result.steps:
        if step.status in ("failed", "error"):
            yield from [turn for turn in result.turns if turn.step == step.step][-1:]


def passed_on_first_try(one: Outcome | Result) -> bool:
    """True if a conversation would have passed without a follow-up.

    If right replies are doubted too, the first reply decides this, and the last one whether the conversation passed. If
    a conversation check failed, or a planned turn was never reached, the answer is no: an unknown result must not
    flatter.
    """
    turns: Sequence[_TurnLike] = one.turns
    if len(turns) < 2 or not any(turn.depth for turn in turns):
        return one.passed
    planned = [turn.passed for turn in turns if not turn.depth]
    whole = all(check.state != "failed" for check in one.conversation_checks)
    return whole and all(planned) and (not one.steps or len(planned) == len(one.steps))


class CleanResult(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """The control of a conversation with injected texts (`control: clean`): the same conversation without them. Its
    usage is part of the result's usage and cost; its verdicts count in the rate of the control only."""

    status: Status
    turns: tuple[TurnResult, ...]
    conversation_checks: tuple[CheckResult, ...] = ()
    faults: tuple[FaultOutcome, ...] = ()
    """`says` lists the turns in which its text would have been shown."""
    error: ErrorResult | None = None


class Result(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One conversation: a line of `results.jsonl`."""

    suite: str
    id: str
    name: str | None
    number: Count
    """The place of the case in its suite, from 1."""
    title: str
    """The case's name in reports."""
    id_written: bool
    """Whether the author wrote the id."""
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
    """The start of the first call; null if unknown."""
    file: str = ""
    """The file of the case, relative to the project's root."""
    line: Count = 0
    suite_file: str = ""
    """The file of the suite, if the case is in another file, such as a row of a data set."""
    variant: str | None = None
    fork: ForkedFrom | None = None
    control: TurnResult | None = None
    """The first turn, asked again in a new conversation, with `control: afresh`."""
    needed: tuple[Count, Count] | None = None
    """(4, 5) if four of five trials of the case must pass."""
    quarantine: Quarantine | None = None
    steps: tuple[StepResult, ...] = ()
    """Each planned turn, in order."""
    conversation_checks: tuple[CheckResult, ...] = ()
    """The results of conversation checks."""
    user: UserResult | None = None
    condition: Condition | None = None
    """For a sharded task: its form."""
    cut_off: tuple[CutOffResult, ...] = ()
    """Earlier attempts: the target keeps the conversation itself, and had lost it when the run was resumed."""
    faults: tuple[FaultOutcome, ...] = ()
    """The deliberate tool failures, and the turns that they hit."""
    clean: CleanResult | None = None
    """The same conversation without injected texts, with `control: clean`."""
    confirming: bool = False
    """An additional trial of a case that failed and passes in a baseline. It was chosen by its outcome, so it does not
    count in any rate, total or baseline."""

    def __repr__(self) -> str:
        turn = f" on turn {len(self.turns)}" if self.turns else ""
        return f"<Result {self.id!r} on {self.target!r}, trial {self.trial}: {self.status}{turn}>"

    @property
    def case(self) -> CaseName:
        """The identity that all its trials share."""
        return CaseName(self.case_file, self.id, self.target, self.variant or "")

    @property
    def place(self) -> Place:
        return Place(self.suite, self.id, self.target, self.variant or "", self.trial)

    @property
    def case_file(self) -> str:
        return case_file(self.suite_file, self.file)

    def counts_on(self, day: str) -> bool:
        """False while its case is in quarantine, or if a simulated user made it invalid: it is run and shown, but
        decides nothing."""
        return not self.is_spoilt and not self.is_apart_on(day)

    def is_apart_on(self, day: str) -> bool:
        """Whether its case is in quarantine."""
        return self.quarantine is not None and not self.quarantine.is_over(day)

    @property
    def is_spoilt(self) -> bool:
        """Whether a simulated user made it invalid. A conversation that ended in an error is an error, whatever was
        said before."""
        return self.user is not None and isinstance(self.user.spoilt, Spoilt) and self.status in ("passed", "failed")

    @property
    def first_try(self) -> bool:
        return passed_on_first_try(self)

    @property
    def caved(self) -> bool:
        """Whether it failed after a right reply was doubted."""
        return self.status == "failed" and any(
            turns[0].passed and not turns[-1].passed for turns in answered_back(self.turns)
        )

    @property
    def task(self) -> str:
        """The id of its case, which the conditions of a sharded task share."""
        return task_of(self.id, self.condition)

    @property
    def was_answered_back(self) -> bool:
        """Whether a follow-up was sent. The first turn does not count."""
        return len(self.turns) > 1 and any(turn.depth for turn in self.turns)

    @property
    def has_control(self) -> bool:
        """Whether its first turn was asked again in a new conversation, and judged."""
        return self.control is not None and not any(check.error for check in self.control.checks)

    @property
    def recovered(self) -> bool:
        """Whether it passed after a follow-up."""
        return self.passed and not self.first_try

    @property
    def recovered_at_once(self) -> bool:
        """Whether the first turn failed and passed after its first follow-up. Only this is compared with the control,
        which is also one attempt: repeated attempts eventually succeed by chance."""
        return self.failed_at_once and self.turns[1].passed

    @property
    def failed_at_once(self) -> bool:
        """Whether the first turn failed and got a follow-up. Later turns depend on earlier ones, so they have no
        control."""
        return len(self.turns) > 1 and not self.turns[0].passed and self.turns[1].depth > 0

    @property
    def reply_times(self) -> tuple[float, ...]:
        """Seconds of each reply from a model, a service, a command or a function. The speed of a script means nothing,
        and an unmeasured reply has no time."""
        return tuple([turn.duration_s for turn in self.turns if turn.response is not None and turn.is_timed])

    @property
    def total_cost(self) -> float | None:
        """Dollars of the conversation and its judges; `cost` excludes judges. None if a part has no known price.
        Targets on this machine have none and cost nothing; others without a price are named in their turns."""
        unknown = any(turn.unpriced is not None for turn in self.turns)
        unknown = unknown or (self.user is not None and self.user.unpriced is not None)
        if unknown or (self.judge_cost is None and self.judge_usage.total_tokens):
            return None
        user_cost = self.user.cost if self.user is not None else None
        return (self.cost or 0.0) + (self.judge_cost or 0.0) + (user_cost or 0.0)

    @property
    def deciding_checks(self) -> tuple[CheckResult, ...]:
        """The checks of the last turn, and the conversation checks."""
        return (*(self.turns[-1].checks if self.turns else ()), *self.conversation_checks)


def is_in_error(turn: TurnResult, result: Result) -> bool:
    """Whether the conversation ended in an error at this turn. The error may also be in a conversation check or a
    simulated user."""
    if result.status != "error" or turn.passed or turn is not result.turns[-1]:
        return False
    return turn.response is None or any(check.error for check in turn.checks)
