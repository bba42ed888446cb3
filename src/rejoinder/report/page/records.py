"""What the script shows of a conversation, with every word that is ours.

A `Conversation` is made of a `Result`. It is JSON for the script: fields with their default are left out. Texts are
whole; the script folds long ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct, structs

from rejoinder.model import ChatMessage, CheckResult, Result, State, ToolCall, TurnResult
from rejoinder.model.results import StepStatus
from rejoinder.report.course import (
    CONDITIONS,
    Against,
    Broken,
    against,
    audit_words,
    broken_at,
    called,
    cut_off_words,
    doubt_words,
    not_sent,
    recovery_words,
    turn_words,
    user_words,
)
from rejoinder.report.deeds import not_allowed
from rejoinder.report.page.rows import Row, RowOutcome
from rejoinder.report.runs import bounded
from rejoinder.report.words import count, seconds

MOST_DEEP = 50
"""Levels of checks inside checks that are shown."""
_FORBIDS = frozenset({"not", "not_match", "never"})
"""Kinds of checks that fail where they find something."""


class Check(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """What one check says of a reply, or of the whole conversation."""

    called: str
    """Its name, else what it looks for."""
    label: str
    """Kind and value, as the author wrote them."""
    state: State
    reason: str
    score: float | None = None
    threshold: float | None = None
    judge: str | None = None
    judged_by: str | None = None
    votes: tuple[float, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    """Pairs of code points in the response."""
    forbidden: bool = False
    """Was what it found not to be there?"""
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    children: tuple[Check, ...] = ()


class Tool(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    name: str
    arguments: str
    server: str | None = None
    """The MCP server that it belongs to."""
    result: str | None = None
    status: str | None = None
    note: str | None = None


class AskedBy(Struct, frozen=True, gc=False):
    """Why a follow-up was sent."""

    turn: int
    check: tuple[int, ...]
    """Its place among that turn's checks, as an index path; empty where only the score was too low."""
    because: str
    """`icontains "store credit" failed`."""


class Said(Struct, frozen=True, gc=False):
    role: str
    content: str


class Sent(Struct, frozen=True, gc=False):
    """The request of a turn: so many messages of the request before, and these."""

    kept: int
    added: tuple[Said, ...]


class Turn(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    turn: int
    depth: int
    prompt: str
    outcome: State
    response: str | None = None
    """None if there was no reply."""
    label: str = ""
    failed: int = 0
    """Checks that did not pass."""
    checks: tuple[Check, ...] = ()
    broke: tuple[Check, ...] = ()
    """Checks of the whole conversation that did not pass because of this turn, with what they found in its reply."""
    tools: tuple[Tool, ...] = ()
    thinking: str | None = None
    diff: str | None = None
    """What an agent has changed in its workspace since the beginning."""
    model: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    ms: int = 0
    notes: tuple[str, ...] = ()
    asked_by: AskedBy | None = None
    sent: Sent | None = None
    """None where the run has not kept what it sent."""
    simulated: bool = False
    doubts: bool = False
    hint: str | None = None


class Reason(Struct, frozen=True, gc=False, omit_defaults=True):
    """Why it ended as it did, in one sentence."""

    outcome: RowOutcome
    what: str
    """The check, or what kind of error it was."""
    text: str
    more: int = 0
    """Further checks that failed."""
    turn: int | None = None
    """Where to look."""


class Step(Struct, frozen=True, gc=False, omit_defaults=True):
    step: int
    name: str | None
    status: StepStatus


class Fork(Struct, frozen=True, gc=False):
    run: str
    turns: int
    """How many were taken over."""


class Trouble(Struct, frozen=True, gc=False):
    type: str
    message: str
    turn: int


class Conversation(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    row: Row
    file: str = ""
    line: int = 0
    word: str
    """`Recovered on turn 2`."""
    reason: Reason | None = None
    system: str = ""
    """The system prompt, as it was sent."""
    turns: tuple[Turn, ...] = ()
    checks: tuple[Check, ...] = ()
    """Of the whole conversation."""
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    fork: Fork | None = None
    control: Turn | None = None
    """The first turn, asked afresh."""
    error: Trouble | None = None


def to_bytes(value: object) -> bytes:
    """A value as JSON for the script. Halves of characters, which UTF-8 cannot hold, become U+FFFD."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        from rejoinder.report.inert import to_json

        return to_json(value).encode()


def conversation_of(result: Result, row: Row, system: str = "") -> Conversation:
    """`system`: the system prompt that was sent, if it is known."""
    return Conversation(
        row=row,
        file=result.file,
        line=result.line,
        word=word_of(result),
        reason=_reason(result, row),
        system=system,
        turns=tuple(_turns(result)),
        checks=tuple(_check(check) for check in result.conversation_checks),
        steps=tuple(Step(step.step, step.name, step.status) for step in result.steps),
        notes=tuple(_notes(result, row)),
        fork=None if result.fork is None else Fork(result.fork.run, result.fork.turns),
        control=None if result.control is None else _turn(result.control, result, None),
        error=None if result.error is None else Trouble(result.error.type, result.error.message, result.error.turn),
    )


def word_of(result: Result) -> str:
    """How a conversation ended, in a few words."""
    if result.status == "passed":
        return f"Recovered on {recovery_words(result)[0]}" if result.recovered else "Passed on the first try"
    if result.status == "failed":
        return f"Failed after {count(len(result.turns), 'turn')}"
    if result.status == "skipped":
        return "Skipped"
    return f"Error on turn {result.error.turn}" if result.error is not None else "Error"


def _reason(result: Result, row: Row) -> Reason | None:
    if result.status == "error" and result.error is not None:
        what = "a check could not decide" if result.error.type == "check" else result.error.type
        return Reason("error", what, result.error.message, turn=result.error.turn)
    if result.status == "failed":
        found = against(result)
        return _against(found) if found else None
    if row.outcome != "recovered":
        return None
    wrong = next((turn for turn in result.turns if not turn.passed), None)
    failed = [check for check in wrong.checks if not check.passed] if wrong is not None else []
    if wrong is None or not failed:
        return None
    return Reason("recovered", called(failed[0]), failed[0].reason, len(failed) - 1, wrong.turn)


def _against(found: Sequence[Against]) -> Reason:
    one = found[0]
    what = f"{one.where}: {one.what}" if one.where and one.where != "conversation" else one.what
    return Reason("failed", what, one.why, len(found) - 1, None if one.turn is None else one.turn.turn)


def _notes(result: Result, row: Row) -> Iterator[str]:
    """What is known of it besides its turns, as sentences."""
    if row.aside is not None:
        yield f"It decides nothing: {row.aside}."
    if result.fork is not None:
        how = "said again in a new session" if result.fork.said_again else "taken over"
        yield f"Forked from run {result.fork.run}, of which {count(result.fork.turns, 'turn')} were {how}."
    if result.cut_off:
        yield f"It {cut_off_words(result)}."
    if (left := not_sent(result)) is not None:
        yield f"{left}."
    if (doubted := doubt_words(result)) is not None:
        yield f"Doubted: {doubted}."
    if result.user is not None:
        yield f"Simulated user: {user_words(result.user, len(result.turns))}."
        yield f"Audit of the simulated user: {audit_words(result.user)}."
    if result.condition is not None:
        yield f"Sharded task, {CONDITIONS[result.condition]}."


# Turns


def _turns(result: Result) -> Iterator[Turn]:
    before: tuple[ChatMessage, ...] = ()
    broken = broken_at(result)
    for turn in result.turns:
        sent = None if turn.messages is None else _sent(before, turn.messages)
        before = turn.messages or ()
        broke = tuple(_broken(one) for one in broken.get(turn.turn, ()))
        yield structs.replace(_turn(turn, result, sent), broke=broke)


def _broken(one: Broken) -> Check:
    """The check of the whole; below it, what was found in the reply. What `never` found is forbidden there."""
    points = structs.replace(one.points, name=None)
    inside = _check(points, forbids=one.rule.kind == "never")
    return structs.replace(_check(one.rule), children=(structs.replace(inside, state=one.rule.state),))


def _sent(before: tuple[ChatMessage, ...], messages: tuple[ChatMessage, ...]) -> Sent:
    pairs = zip(before, messages, strict=False)
    kept = next((place for place, (old, new) in enumerate(pairs) if old != new), min(len(before), len(messages)))
    return Sent(kept, tuple(_said(message) for message in messages[kept:]))


def _said(message: ChatMessage) -> Said:
    """A message with the tools that it calls, which stand beside its text."""
    calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
    return Said(message.role, "\n".join([*([message.content] if message.content or not calls else []), *calls]))


def _turn(turn: TurnResult, result: Result, sent: Sent | None) -> Turn:
    return Turn(
        turn=turn.turn,
        depth=turn.depth,
        prompt=turn.prompt,
        outcome=_outcome(turn, result),
        response=turn.response,
        label=turn_words(turn, result),
        failed=sum(not check.passed and not check.error for check in turn.checks),
        checks=tuple(_check(check) for check in turn.checks),
        tools=tuple(_tool(call) for call in turn.tool_calls),
        thinking=turn.thinking,
        diff=turn.workspace_diff,
        model=turn.model,
        input_tokens=turn.usage.input_tokens,
        output_tokens=turn.usage.output_tokens,
        cost=turn.cost,
        ms=round(1000 * bounded(turn.duration_s)),
        notes=tuple(_turn_notes(turn)),
        asked_by=_asked_by(turn, result.turns),
        sent=sent,
        simulated=turn.simulated,
        doubts=turn.doubts,
        hint=turn.hint,
    )


def _outcome(turn: TurnResult, result: Result) -> State:
    if turn.passed:
        return "passed"
    broke = result.error is not None and result.error.turn == turn.turn
    return "error" if broke or turn.response is None else "failed"


def _turn_notes(turn: TurnResult) -> Iterator[str]:
    if turn.cached:
        yield "from the cache: tokens and cost are those of an earlier run"
    if turn.retries:
        yield f"asked {count(turn.retries + 1, 'time')}, because calls failed"
    if turn.waited_s >= 0.05:
        yield f"waited {seconds(bounded(turn.waited_s))} before it was sent"
    if turn.refusal:
        yield "the model refused"
    if turn.finish_reason == "length":
        yield "cut off: it reached max_tokens"
    if turn.unpriced is not None and "/" in turn.unpriced and turn.turn == 1:  # once, and not of a function
        yield f"no price is known for {turn.unpriced}"
    if (denied := not_allowed(turn)) is not None:
        yield denied
    if turn.stop_reason is not None:
        yield f"the agent stopped: {turn.stop_reason}"
    if turn.continued:
        yield "the run was killed here, and the agent went on with its session as it was before this turn"


def _asked_by(turn: TurnResult, turns: Iterable[TurnResult]) -> AskedBy | None:
    """Which check sent a follow-up, as the engine has recorded it."""
    asked = turn.asked_by
    if asked is None:
        return None
    before = next((one for one in turns if one.turn == asked.turn), None)
    found = None if before is None else check_at(before.checks, asked.check)
    if not asked.check:
        because = "the score is too low"
    else:
        because = "a check failed" if found is None else f"{called(found)} failed"
    return AskedBy(asked.turn, asked.check, because)


def check_at(checks: Sequence[CheckResult], path: Sequence[int]) -> CheckResult | None:
    """The check at an index path; None if there is none."""
    found: CheckResult | None = None
    for place in path:
        if place >= len(checks):
            return None
        found = checks[place]
        checks = found.children
    return found


def _tool(call: ToolCall) -> Tool:
    how = {"denied": "not allowed", "failed": "failed", "pending": "not heard of again"}.get(call.status or "", "")
    note = ", ".join(filter(None, (how, f"{call.fault} on purpose" if call.fault else "")))
    return Tool(
        name=call.name,
        server=call.server or None,
        arguments=call.arguments,
        result=call.result,
        status=call.status,
        note=note or None,
    )


def _told(check: CheckResult) -> tuple[CheckResult, ...]:
    """The checks inside of one that say something: where something must never be, the turns in which it is."""
    if check.kind != "never":
        return check.children
    return tuple(structs.replace(one, passed=False) for one in check.children if one.passed or one.error)


def _check(check: CheckResult, forbids: bool = False, depth: int = 0) -> Check:
    """`forbids`: is it inside of a check that turns its verdict around?"""
    turned = (check.kind in _FORBIDS or check.value is False) != forbids
    inner = turned if check.kind in _FORBIDS else forbids
    kept = _told(check) if depth < MOST_DEEP else ()
    return Check(
        called=called(check),
        label=check.check,
        state=check.state,
        reason=check.reason,
        score=check.score,
        threshold=check.threshold,
        judge=check.judge,
        judged_by=check.judged_by,
        votes=check.votes,
        spans=check.spans,
        forbidden=turned and bool(check.spans),
        hits=check.hits or (),
        misses=check.misses or (),
        children=tuple(_check(child, inner, depth + 1) for child in kept),
    )
