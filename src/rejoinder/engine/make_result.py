"""The `Result` of a conversation, made from its outcome."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from time import gmtime, strftime
from typing import Any

import msgspec
from msgspec import structs

from rejoinder.engine.plan import Job, Prepared
from rejoinder.engine.setup import Setup
from rejoinder.model import (
    ChatMessage,
    CheckResult,
    Cost,
    Outcome,
    RawRequest,
    Reply,
    Result,
    Target,
    Trouble,
    Turn,
    TurnResult,
    Usage,
    UsageResult,
    User,
    UserOutcome,
    UserResult,
    Verdict,
)
from rejoinder.model.forks import Fork
from rejoinder.model.providers import row_of
from rejoinder.model.results import (
    NO_USAGE_RESULT,
    CleanResult,
    CutOff,
    CutOffResult,
    ErrorResult,
    ForkedFrom,
    SentMessages,
)
from rejoinder.model.spending import add_costs
from rejoinder.runs.results import ResultWriter
from rejoinder.runs.secrets import Mask
from rejoinder.validation.roles import Pair, user_of


class ResultKeeper:
    """Makes the results of a run's conversations, and adds them to the results that are there."""

    def __init__(self, writer: ResultWriter, setup: Setup) -> None:
        self._writer = writer
        self._mask = setup.mask
        self._include_messages = setup.options.selection.include_messages

    def skip(self, job: Job) -> None:
        if job.confirms:
            return  # it was not planned
        self._writer.add(job.number, make_result(job, Outcome(status="skipped")), self._mask)

    def keep(self, job: Job, outcome: Outcome) -> Outcome:
        """Add a result. If it cannot be written, its conversation ends in an error, and the others are kept."""
        try:
            result = make_result(job, outcome, include_messages=self._include_messages)
            self._writer.add(job.number, _without_shifted_spans(result, self._mask), self._mask)
        except (UnicodeError, TypeError, ValueError, RecursionError) as error:
            message = f"the result cannot be written: {type(error).__name__}: {error}"
            trouble = Trouble(type="internal", message=message, turn=len(outcome.turns) or 1)
            outcome = Outcome(status="error", error=trouble)
            self._writer.add(job.number, make_result(job, outcome), self._mask)
        return outcome


def make_result(job: Job, outcome: Outcome, *, include_messages: bool = False) -> Result:
    prepared, case, turns = job.prepared, job.prepared.case, outcome.turns
    explained = _has_explanations(turns)
    spent = turns if outcome.control is None else (*turns, outcome.control)
    clean = outcome.clean
    if clean is not None:
        spent = (*spent, *clean.turns)
        explained = explained or _has_explanations(clean.turns)
    judged = [verdict for turn in spent for verdict in _leaves(turn.verdicts) if verdict.judged] if explained else []
    deciding = list(_leaves(turns[-1].verdicts)) if explained and turns else []
    if clean is not None:
        judged += [one for one in _leaves(clean.conversation_checks) if one.judged]
    if outcome.conversation_checks or outcome.user is not None:
        whole = [*_leaves(outcome.conversation_checks)]
        deciding += whole
        user = outcome.user
        judged += [one for one in (*whole, *(_leaves((*user.audit, *user.goal)) if user else ())) if one.judged]
    every = (outcome,) if clean is None else (outcome, clean)
    cut_off = [attempt for one in every for attempt in one.cut_off]
    lost = [reply for one in every for reply in one.broken_off]
    lost += [reply for attempt in cut_off for reply in attempt.replies]
    others = [reply for attempt in cut_off for reply in attempt.others]
    if clean is not None and clean.user is not None:
        others += clean.user.replies
    fork, turn_results = prepared.opening.fork, _turn_results(turns, prepared.target, include_messages)
    return Result(
        suite=prepared.suite_name,
        id=case.id,
        name=case.name,
        number=case.number,
        title=prepared.title,
        id_written=case.id_written,
        tags=case.tags,
        conversation_id=case.conversation_id,
        metadata=case.metadata,
        target=prepared.target.name,
        trial=job.trial,
        status=outcome.status,
        passed=outcome.status == "passed",
        score=outcome.score,
        succeeded_on_turn=outcome.succeeded_on_turn,
        hits=tuple([hit for verdict in deciding for hit in verdict.hits]),
        misses=tuple([miss for verdict in deciding for miss in verdict.misses]),
        reasoning=_reasoning(deciding),
        turns=turn_results,
        usage=_usage_result([*(turn.usage for turn in spent), *(reply.usage for reply in lost)]),
        cost=add_costs([*(turn.reply.cost for turn in spent if turn.reply is not None), *(one.cost for one in lost)]),
        judge_usage=_usage_result([one.usage for one in (*judged, *others)]),
        judge_cost=add_costs([one.cost for one in (*judged, *others)]),
        raw_request=_raw_request(prepared),
        error=_error_result(outcome),
        cost_breakdown=_breakdown(spent),
        timestamp=turn_results[0].started_at if turn_results else None,
        file=case.file,
        suite_file=prepared.suite_file if prepared.suite_file != case.file else "",
        line=case.line,
        variant=prepared.variant or None,
        fork=None if fork is None else _forked_from(fork, prepared.target),
        control=None if outcome.control is None else _turn_result(outcome.control, prepared.target, None),
        needed=case.needed,
        quarantine=case.quarantine,
        steps=outcome.steps,
        conversation_checks=tuple(map(check_result, outcome.conversation_checks)),
        user=None if outcome.user is None or case.user is None else _user_result(outcome.user, case.user, prepared),
        condition=case.condition,
        cut_off=tuple(map(_cut_off_result, outcome.cut_off)),
        faults=outcome.faults,
        clean=None if clean is None else _clean_result(clean, prepared.target),
        confirming=job.confirms,
    )


def _clean_result(outcome: Outcome, target: Target) -> CleanResult:
    return CleanResult(
        status=outcome.status,
        turns=_turn_results(outcome.turns, target, include_messages=False),
        conversation_checks=tuple(map(check_result, outcome.conversation_checks)),
        faults=outcome.faults,
        error=_error_result(outcome),
    )


def _cut_off_result(attempt: CutOff) -> CutOffResult:
    return CutOffResult(
        turn=attempt.turn,
        usage=_usage_result([reply.usage for reply in attempt.replies]),
        cost=add_costs([reply.cost for reply in attempt.replies]),
        judge_usage=_usage_result([reply.usage for reply in attempt.others]),
        judge_cost=add_costs([reply.cost for reply in attempt.others]),
    )


def _user_result(told: UserOutcome, user: User, pair: Pair) -> UserResult:
    target = user_of(pair)
    is_local = target is None or row_of(target.provider).local
    unpriced = [reply for reply in told.replies if reply.cost is None and not is_local]
    return UserResult(
        turns=len(told.replies) + bool(user.opening),
        stopped_by=told.stopped_by,
        spoilt=told.spoilt,
        usage=_usage_result([reply.usage for reply in told.replies]),
        cost=add_costs([reply.cost for reply in told.replies]),
        target=user.target,
        unpriced=_model_name(target, unpriced[0]) if unpriced and target is not None else None,
        not_audited_because=next((one.reason for one in told.audit if one.state == "error"), None),
    )


def _has_explanations(turns: tuple[Turn, ...]) -> bool:
    """True if a verdict has hits, misses, reasoning or children. Most suites have none, and need not look for them."""
    for turn in turns:
        for verdict in turn.verdicts:
            if verdict.judged or verdict.children or verdict.reasoning or verdict.hits or verdict.misses:
                return True
    return False


def _leaves(verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
    """Verdicts without their groups; a judge's verdict stands for the criteria of its rubric."""
    for verdict in verdicts:
        if verdict.children and not verdict.judged:
            yield from _leaves(verdict.children)
        else:
            yield verdict


def _reasoning(verdicts: list[Verdict]) -> str | None:
    """The words of judges, each under its name."""
    texts = [f"{verdict.name or verdict.check}: {verdict.reasoning}" for verdict in verdicts if verdict.reasoning]
    return " | ".join(texts) or None


def _usage_result(usages: list[Usage]) -> UsageResult:
    if not usages:
        return NO_USAGE_RESULT
    usage = sum(usages[1:], usages[0])
    return UsageResult(
        usage.input_tokens,
        usage.output_tokens,
        usage.total_tokens,
        usage.reasoning_tokens,
        usage.cached_tokens,
        usage.cache_write_tokens,
        usage.approximate,
    )


def _breakdown(turns: tuple[Turn, ...]) -> Cost | None:
    """Input and output of what has a price."""
    priced = [turn.reply.price for turn in turns if turn.reply is not None and turn.reply.price is not None]
    return sum(priced[1:], priced[0]) if priced else None


def _turn_results(turns: tuple[Turn, ...], target: Target, include_messages: bool) -> tuple[TurnResult, ...]:
    results: list[TurnResult] = []
    before: tuple[ChatMessage, ...] = ()
    shown: set[int] = set()
    """The messages with pictures that earlier turns had."""
    for turn in turns:
        sent = _difference(before, turn.messages) if include_messages else None
        result = _turn_result(turn, target, sent)
        new = [one for one in turn.messages if one.pictures and one.role == "user" and id(one) not in shown]
        if new:
            shown.update(map(id, new))
            pictures = tuple(picture for message in new for picture in message.pictures)
            result = structs.replace(result, pictures=pictures)
        results.append(result)
        before = turn.messages
    return tuple(results)


def _forked_from(fork: Fork, target: Target) -> ForkedFrom:
    return ForkedFrom(fork.run, fork.turn - 1, target.name in fork.said_again)


def _raw_request(prepared: Prepared) -> RawRequest:
    request, schema = prepared.prompt.raw_request, prepared.case.output_schema
    return request if schema is None else structs.replace(request, output_schema=_decoded(schema.document))


@lru_cache(maxsize=64)
def _decoded(schema: str) -> Any:
    return msgspec.json.decode(schema)


def _turn_result(turn: Turn, target: Target, sent: SentMessages | None) -> TurnResult:
    reply = turn.reply or _NO_REPLY
    row = row_of(target.provider)
    has_cost = reply is _NO_REPLY or reply.cost is not None or row.local
    return TurnResult(
        turn=turn.turn,
        depth=turn.depth,
        prompt=turn.prompt,
        response=turn.response,
        passed=turn.passed,
        checks=tuple(map(check_result, turn.verdicts)),
        usage=_usage_result([reply.usage]),
        cost=reply.cost,
        duration_s=reply.latency_s or 0.0,
        timed=not row.at_once and reply.model is None and reply is not _NO_REPLY,
        cost_breakdown=reply.price,
        unpriced=None if has_cost else _model_name(target, reply),
        model=reply.model or None,
        finish_reason=reply.finish_reason or None,
        refusal=reply.refusal,
        tool_calls=reply.tool_calls,
        offered=reply.offered,
        thinking=reply.thinking or None,
        request_id=reply.request_id or None,
        sent=sent,
        cached=reply.cached,
        asked_by=turn.asked_by,
        started_at=_time(reply.started_at),
        retries=reply.retries,
        waited_s=reply.waited_s,
        step=turn.step,
        name=turn.name,
        hint=turn.hint,
        doubts=turn.doubts,
        simulated=turn.simulated,
        stop_reason=reply.stop_reason,
        session=reply.session,
        workspace_diff=reply.workspace_diff,
        continued=reply.continued,
        first_token_s=reply.first_token_s,
        part=next((verdict.part for verdict in turn.verdicts), None),
    )


_NO_REPLY = Reply("")


def _time(seconds: float | None) -> str | None:
    """A time in UTC, as ISO 8601 has it."""
    if seconds is None:
        return None
    return f"{_second(int(seconds))}.{int(seconds % 1 * 1000):03d}Z"


@lru_cache(maxsize=64)  # many calls start in the same second
def _second(seconds: int) -> str:
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(seconds))


def _model_name(target: Target, reply: Reply) -> str:
    if row_of(target.provider).runs_code:
        return target.name
    model = target.settings.get("model") or reply.model
    if model and "${{" in model:
        model = reply.model
    return f"{target.provider}/{model}" if model else target.name


def check_result(verdict: Verdict) -> CheckResult:
    explains = verdict.judged or bool(verdict.hits or verdict.misses)
    return CheckResult(
        check=verdict.check,
        passed=verdict.passed,
        score=verdict.score,
        reason=verdict.reason,
        name=verdict.name,
        error=verdict.state == "error",
        children=tuple(map(check_result, verdict.children)),
        diagnostics=verdict.diagnostics,
        threshold=verdict.threshold,
        judge=verdict.judge or None,
        judged_by=verdict.judged_by or None,
        votes=verdict.votes,
        hits=verdict.hits if explains else None,
        misses=verdict.misses if explains else None,
        metric=verdict.metric or None,
        kind=verdict.kind or None,
        value=verdict.value,
        spans=verdict.spans,
        calls=verdict.calls,
        criteria=verdict.criteria,
    )


def _error_result(outcome: Outcome) -> ErrorResult | None:
    trouble = outcome.error
    return None if trouble is None else ErrorResult(trouble.type, trouble.message, trouble.turn, trouble.status)


def _without_shifted_spans(result: Result, mask: Mask) -> Result:
    """The result without the spans of replies that are stored with the name of a secret in its place."""
    if not mask:
        return result
    shifted = {turn.turn for turn in result.turns if turn.response and mask.hide_text(turn.response) != turn.response}
    if not shifted:
        return result
    turns = tuple(
        structs.replace(turn, checks=tuple(map(_without_spans, turn.checks))) if turn.turn in shifted else turn
        for turn in result.turns
    )
    return structs.replace(
        result, turns=turns, conversation_checks=tuple(map(_without_spans, result.conversation_checks))
    )


def _without_spans(check: CheckResult) -> CheckResult:
    return structs.replace(check, spans=(), children=tuple(map(_without_spans, check.children)))


def _difference(before: tuple[ChatMessage, ...], messages: tuple[ChatMessage, ...]) -> SentMessages:
    pairs = zip(before, messages, strict=False)
    kept = next((place for place, (old, new) in enumerate(pairs) if old != new), min(len(before), len(messages)))
    return SentMessages(kept, messages[kept:])
