"""The turns of a conversation and the verdicts on their replies, as every layout shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, structs

from rejoinder.model import ChatMessage, CheckResult, Result, ToolCall, TurnResult
from rejoinder.model.clusters import near_repetitions
from rejoinder.model.results import Span, State, check_at
from rejoinder.views.cases import bounded
from rejoinder.views.course import Broken, broken_at, is_nested, places_of, spans_of, turn_words
from rejoinder.views.deeds import fault_of, not_allowed, offered_words
from rejoinder.views.rows import names_model
from rejoinder.words.checks import called, described, found_by, is_over_time, says_no_more
from rejoinder.words.figures import price_words, usage_words
from rejoinder.words.numbers import beginning, count, score_words, seconds, share

MOST_DEEP = 50
"""Levels of checks inside checks that are shown; a suite has fewer."""
_USUAL_STOPS = frozenset(("end_turn", "stop", "completed"))
LONGEST_PART = 200
"""Characters of the checked part of a reply that are shown."""
_FORBIDS = frozenset({"not", "not_match", "never"})
"""Kinds of checks that fail where they find something."""


class VoteView(Struct, frozen=True, gc=False, array_like=True):
    text: str
    passed: bool


class CheckView(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """One check's verdict on a reply, or on the whole conversation."""

    called: str
    """Its name, else what it looks for."""
    label: str
    """Kind and value, as the author wrote them."""
    state: State
    reason: str
    told: str | None = None
    """The reason in fewer words: what a check that forbids found; empty if the reason only repeats that it failed."""
    wanted: str | None = None
    """Kind and value, texts in quotes; None if `called` says the same."""
    name: str | None = None
    """As the author wrote it."""
    decides: str = ""
    """The reason, where a verdict alone does not say enough: which turn decided, or what was extracted."""
    over_time: bool = False
    """Whether it looks at several replies, in their order."""
    score: str = ""
    """`0.67 of 0.70`; empty unless the score is strictly between 0 and 1."""
    scored: str = ""
    """The score of a check with a threshold, as a sentence with votes and judge."""
    judge: str | None = None
    judged_by: str | None = None
    votes: tuple[VoteView, ...] = ()
    spans: tuple[Span, ...] = ()
    """Pairs of code points in the response."""
    forbidden: bool = False
    """Whether it found something that must not be there."""
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    children: tuple[CheckView, ...] = ()

    @property
    def described(self) -> str:
        """`match "*72*"`."""
        return self.called if self.wanted is None else self.wanted


class ToolView(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    name: str
    arguments: str
    server: str | None = None
    """The MCP server that it belongs to."""
    result: str | None = None
    status: str | None = None
    fault: str | None = None
    """The deliberate failure of this call."""
    note: str | None = None


class AskedByView(Struct, frozen=True, gc=False):
    """Why a follow-up was sent."""

    turn: int
    check: tuple[int, ...]
    """Its place among that turn's checks, as an index path; empty where only the score was too low."""
    because: str
    """`icontains "store credit" failed`."""


class MessageView(Struct, frozen=True, gc=False):
    role: str
    content: str


class RequestView(Struct, frozen=True, gc=False):
    """The request of a turn: the first messages of the request before, and the new ones."""

    kept: int
    added: tuple[MessageView, ...]
    size: str
    """`3 messages`."""


class NearView(Struct, frozen=True, gc=False):
    """An earlier reply of nearly the same words."""

    turn: int
    share: str
    """`92%`: of the words of both."""


class TurnView(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    turn: int
    depth: int
    prompt: str
    outcome: State
    word: str = ""
    """`2 of 3 checks failed`; empty where the outcome says it."""
    response: str | None = None
    """None if there was no reply."""
    part: str = ""
    """The beginning of the part that was checked, if it was not the whole response."""
    same_as: int | None = None
    """The first turn with the same words, if this is the reply to a follow-up."""
    near: NearView | None = None
    """Set if this reply to a follow-up nearly repeats an earlier one."""
    miss: Span | None = None
    """The place of the nearest miss in the response, if no check that failed points at a place."""
    label: str = ""
    nested: bool = False
    """Whether it answers back to a planned turn, or to the last one of a simulated user."""
    by_user: bool = False
    """Whether a simulated user has this part, even if the author wrote the words."""
    checks: tuple[CheckView, ...] = ()
    broke: tuple[CheckView, ...] = ()
    """Checks of the whole conversation that did not pass because of this turn, with what they found in its reply."""
    tools: tuple[ToolView, ...] = ()
    thinking: str | None = None
    thought: str = ""
    """`1,204 characters`: the size of `thinking`."""
    diff: str | None = None
    """An agent's changes in its workspace since the beginning."""
    model: str | None = None
    tokens: int = 0
    used: str = ""
    """`25 tokens (20 in, 5 out)`; empty in a conversation without a model."""
    cost: str = ""
    paid: str = ""
    """The cost with its parts, if they are known."""
    time: str = ""
    """Empty if the time of the reply means nothing."""
    first_token: str = ""
    """The time until a streamed reply began, in words."""
    offered: str = ""
    """`offered: price, stock`: the tools that the model could call, if other turns were offered others."""
    notes: tuple[str, ...] = ()
    asked_by: AskedByView | None = None
    sent: RequestView | None = None
    """None where the run has not kept what it sent."""
    simulated: bool = False
    doubts: bool = False
    hint: str | None = None
    cut_off: bool = False
    """Whether the reply reached max_tokens."""
    continued: bool = False
    """Whether the agent continued its session here after the run was killed."""

    @property
    def spent(self) -> str:
        """`25 tokens (20 in, 5 out), $0.0010`."""
        return ", ".join(filter(None, (self.used, self.paid or self.cost)))


def view_turns(result: Result, same: Mapping[int, int]) -> Iterator[TurnView]:
    """`same`: `repeated_turns` of the conversation."""
    before: tuple[ChatMessage, ...] = ()
    broken, near = broken_at(result), near_repetitions(result.turns)
    has_changing_tools = len({turn.offered for turn in result.turns if turn.response is not None}) > 1
    for turn in result.turns:
        view = view_turn(turn, result)
        more: dict[str, Any] = {}
        if has_changing_tools and turn.response is not None:
            more["offered"] = offered_words(turn)
        if turn.messages is not None:
            more["sent"] = _sent(before, turn.messages)
        if turn.turn in broken:
            more["broke"] = tuple(map(_broken, broken[turn.turn]))
        if turn.turn in same:
            more["same_as"] = same[turn.turn]
        elif turn.turn in near:
            earlier, common = near[turn.turn]
            more["near"] = NearView(earlier, share(common))
        before = turn.messages or ()
        yield structs.replace(view, **more) if more else view


def _broken(one: Broken) -> CheckView:
    """The check of the whole; below it, what was found in the reply. What `never` found is forbidden there."""
    points = structs.replace(one.points, name=None)
    inside = view_check(points, forbids=one.rule.kind == "never")
    return structs.replace(view_check(one.rule), children=(structs.replace(inside, state=one.rule.state),))


def _sent(before: tuple[ChatMessage, ...], messages: tuple[ChatMessage, ...]) -> RequestView:
    pairs = zip(before, messages, strict=False)
    kept = next((place for place, (old, new) in enumerate(pairs) if old != new), min(len(before), len(messages)))
    added = tuple(_message(message) for message in messages[kept:])
    return RequestView(kept, added, count(len(messages), "message"))


def _message(message: ChatMessage) -> MessageView:
    """A message, and below its text the tools that it calls."""
    calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
    return MessageView(message.role, "\n".join([*([message.content] if message.content or not calls else []), *calls]))


def view_turn(turn: TurnResult, result: Result) -> TurnView:
    """One turn by itself, or the control."""
    return TurnView(
        turn=turn.turn,
        depth=turn.depth,
        prompt=turn.prompt,
        outcome=_outcome(turn, result),
        word=_word(turn),
        response=turn.response,
        part=_part(turn),
        miss=_miss(turn),
        label=turn_words(turn, result),
        nested=is_nested(turn, result),
        by_user=result.user is not None and not turn.depth,
        checks=tuple(view_check(check, reply=turn.response or "") for check in turn.checks),
        tools=tuple(_tool(call) for call in turn.tool_calls),
        thinking=turn.thinking,
        thought="" if turn.thinking is None else count(len(turn.thinking), "character"),
        diff=turn.workspace_diff,
        model=turn.model,
        tokens=turn.usage.total_tokens,
        used=usage_words(turn.usage) if names_model(result) else "",
        cost=price_words(turn.cost, turn.usage, None) if turn.cost or names_model(result) else "",
        paid=price_words(turn.cost, turn.usage, turn.cost_breakdown) if turn.cost_breakdown is not None else "",
        time=", ".join(filter(None, (seconds(bounded(turn.duration_s)) if turn.is_timed else "", _first_token(turn)))),
        first_token=_first_token(turn),
        notes=tuple(_notes(turn)),
        asked_by=_asked_by(turn, result.turns),
        simulated=turn.simulated,
        doubts=turn.doubts,
        hint=turn.hint,
        cut_off=turn.finish_reason == "length",
        continued=turn.continued,
    )


def _first_token(turn: TurnResult) -> str:
    """The time until a streamed reply began."""
    began = turn.first_token_s
    return "" if began is None else f"first token after {seconds(bounded(began))}"


def _outcome(turn: TurnResult, result: Result) -> State:
    if turn.passed:
        return "passed"
    broke = result.error is not None and result.error.turn == turn.turn
    return "error" if broke or turn.response is None else "failed"


def _miss(turn: TurnResult) -> Span | None:
    wrong = [check for check in turn.checks if not check.passed]
    if not wrong or not turn.response or next(spans_of(wrong), None) is not None:
        return None
    return next((places[0] for check in wrong if (places := places_of(check, turn.response))), None)


def _word(turn: TurnResult) -> str:
    if turn.response is None:
        return "no reply"
    failed = sum(not check.passed and not check.error for check in turn.checks)
    several = failed and not turn.passed and len(turn.checks) > 1
    return f"{failed:,} of {count(len(turn.checks), 'check')} failed" if several else ""


def _notes(turn: TurnResult) -> Iterator[str]:
    if turn.part is not None:
        yield f"checked: {_part(turn)}"
    if turn.offered:
        yield offered_words(turn)
    if turn.cached:
        yield "from the cache: an earlier run used these tokens and this cost"
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
    if turn.stop_reason is not None and turn.stop_reason not in _USUAL_STOPS:
        yield f"the agent stopped: {turn.stop_reason}"
    if turn.continued:
        yield "the run was killed here, and the agent continued its session from before this turn"


def _part(turn: TurnResult) -> str:
    return "" if turn.part is None else beginning(" ".join(turn.part.split()), LONGEST_PART)


def _asked_by(turn: TurnResult, turns: Iterable[TurnResult]) -> AskedByView | None:
    """The check that sent a follow-up, as the engine recorded it."""
    asked = turn.asked_by
    if asked is None:
        return None
    before = next((one for one in turns if one.turn == asked.turn), None)
    found = None if before is None else check_at(before.checks, asked.check)
    if not asked.check:
        because = "the score is too low"
    else:
        because = "a check failed" if found is None else f"{called(found)} failed"
    return AskedByView(asked.turn, asked.check, because)


def _tool(call: ToolCall) -> ToolView:
    how = {"denied": "not allowed", "failed": "failed", "pending": "not heard of again"}.get(call.status or "", "")
    note = ", ".join(filter(None, (how, fault_of(call.fault))))
    return ToolView(
        name=call.name,
        server=call.server or None,
        arguments=call.arguments,
        result=call.result,
        status=call.status,
        fault=call.fault,
        note=note or None,
    )


# Checks


def view_check(check: CheckResult, forbids: bool = False, depth: int = 0, reply: str = "") -> CheckView:
    """`forbids`: whether it is inside a check that reverses its verdict. `reply`: what it looked at."""
    turned = (check.kind in _FORBIDS or check.value is False) != forbids
    inner = turned if check.kind in _FORBIDS else forbids
    kept = _shown_children(check) if depth < MOST_DEEP else ()
    wanted = described(check)
    name = called(check) if check.name else " ".join(wanted.split())
    over_time = is_over_time(check)
    says = over_time or check.kind == "extract"
    return CheckView(
        called=name,
        label=check.check,
        state=check.state,
        reason=check.reason,
        told=_told(check, reply),
        wanted=None if wanted == name else wanted,
        name=check.name,
        decides=" ".join(check.reason.split()) if says else "",
        over_time=over_time,
        score=_score(check),
        scored=_scored(check),
        judge=check.judge,
        judged_by=check.judged_by,
        votes=tuple(_votes(check)),
        spans=check.spans,
        forbidden=turned and bool(check.spans),
        hits=check.hits or (),
        misses=check.misses or (),
        children=tuple(view_check(child, inner, depth + 1, reply) for child in kept),
    )


def _told(check: CheckResult, reply: str) -> str | None:
    told = found_by(check, reply)
    if check.state == "failed" and says_no_more(told):
        return ""
    return None if told == check.reason else told


def _shown_children(check: CheckResult) -> tuple[CheckResult, ...]:
    """The checks inside of one that say something: where something must never be, the turns in which it is."""
    if check.kind != "never":
        return check.children
    return tuple(structs.replace(one, passed=False) for one in check.children if one.passed or one.error)


def _score(check: CheckResult) -> str:
    if check.score is None or not 0 < check.score < 1:
        return ""
    needed = "" if check.threshold is None else f" of {score_words(check.threshold)}"
    return f"{score_words(check.score)}{needed}"


def _scored(check: CheckResult) -> str:
    if check.threshold is None or check.score is None:
        return ""
    text = f"{check.score:.3g}, and {check.threshold:.3g} is needed"
    if check.votes:
        text += f" (votes {', '.join(f'{vote:.3g}' for vote in check.votes)})"
    return f"{text}; judged by {check.judge}" if check.judge is not None else text


def _votes(check: CheckResult) -> Iterator[VoteView]:
    needed = 0.5 if check.threshold is None else check.threshold
    return (VoteView(score_words(vote), vote >= needed) for vote in check.votes)
