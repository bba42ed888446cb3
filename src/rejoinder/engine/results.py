"""Results: one record a conversation, in document order, made from what the conversation came to.

Conversations end in any order. Their records are kept on disk, in a file beside the results, and put in order at the
end, so that memory does not grow with the run.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from rejoinder.engine.crash_points import reached
from rejoinder.engine.plan import Job
from rejoinder.engine.secrets import Mask
from rejoinder.engine.shapes import Count
from rejoinder.model import (
    NO_USAGE,
    ChatMessage,
    Cost,
    Diagnostic,
    Outcome,
    Reply,
    Span,
    Target,
    ToolCall,
    Turn,
    Usage,
    Verdict,
    title_of,
)
from rejoinder.model.providers import row_of
from rejoinder.run_files import RunDamaged, lines_of, open_draft, open_file, replace_file

Record = dict[str, Any]


class UsageRecord(Struct, frozen=True):
    input_tokens: Count
    output_tokens: Count
    total_tokens: Count
    reasoning_tokens: Count | msgspec.UnsetType = msgspec.UNSET
    cached_tokens: Count | msgspec.UnsetType = msgspec.UNSET
    cache_write_tokens: Count | msgspec.UnsetType = msgspec.UNSET
    approximate: bool | msgspec.UnsetType = msgspec.UNSET
    """True where nobody counted and we estimated."""


class CheckRecord(Struct, frozen=True):
    check: str
    passed: bool
    score: float | None
    reason: str
    name: str | msgspec.UnsetType = msgspec.UNSET
    error: bool | msgspec.UnsetType = msgspec.UNSET
    children: list[CheckRecord] | msgspec.UnsetType = msgspec.UNSET
    diagnostics: tuple[Diagnostic, ...] | msgspec.UnsetType = msgspec.UNSET
    threshold: float | msgspec.UnsetType = msgspec.UNSET
    """The least score that passes, where the score is not 0 or 1."""
    judge: str | msgspec.UnsetType = msgspec.UNSET
    """The target that judged."""
    judged_by: str | msgspec.UnsetType = msgspec.UNSET
    """What the judge was told to do, as a digest."""
    votes: tuple[float, ...] | msgspec.UnsetType = msgspec.UNSET
    hits: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    misses: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    metric: str | msgspec.UnsetType = msgspec.UNSET
    kind: str | msgspec.UnsetType = msgspec.UNSET
    """The check's key in a suite."""
    value: float | bool | msgspec.UnsetType = msgspec.UNSET
    """The check's value where it is a number or a truth value."""
    spans: tuple[Span, ...] | msgspec.UnsetType = msgspec.UNSET
    """Where in the response the check found what it looked for: [start, end) in code points."""
    calls: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """The journal keys of the calls that the verdict came from."""


class TurnRecord(Struct, frozen=True):
    turn: Count
    depth: Count
    prompt: str
    response: str | None
    passed: bool
    checks: list[CheckRecord]
    usage: UsageRecord
    cost: float | None
    duration_s: float
    cost_breakdown: Cost | msgspec.UnsetType = msgspec.UNSET
    unpriced: str | msgspec.UnsetType = msgspec.UNSET
    """The model that nobody knows a price of."""
    model: str | msgspec.UnsetType = msgspec.UNSET
    finish_reason: str | msgspec.UnsetType = msgspec.UNSET
    refusal: bool | msgspec.UnsetType = msgspec.UNSET
    tool_calls: tuple[ToolCall, ...] | msgspec.UnsetType = msgspec.UNSET
    thinking: str | msgspec.UnsetType = msgspec.UNSET
    request_id: str | msgspec.UnsetType = msgspec.UNSET
    messages: tuple[ChatMessage, ...] | msgspec.UnsetType = msgspec.UNSET
    cached: bool | msgspec.UnsetType = msgspec.UNSET
    """True where the reply comes from the cache: usage and cost are those of an earlier run."""


class ErrorRecord(Struct, frozen=True):
    type: str
    message: str
    turn: Count
    status: int | msgspec.UnsetType = msgspec.UNSET


class ResultRecord(Struct, frozen=True, kw_only=True):
    """The object of `results.jsonl`. Keys may be added, never renamed."""

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
    status: str
    passed: bool
    score: float | None
    succeeded_on_turn: int | None
    hits: list[str]
    misses: list[str]
    reasoning: str | None
    turns: list[TurnRecord]
    usage: UsageRecord
    cost: float | None
    judge_usage: UsageRecord
    judge_cost: float | None
    raw_request: msgspec.Raw
    error: ErrorRecord | None
    cost_breakdown: Cost | msgspec.UnsetType = msgspec.UNSET


_NOTHING_USED = UsageRecord(0, 0, 0)


def result_record(job: Job, outcome: Outcome, *, include_messages: bool = False) -> ResultRecord:
    """The object of `results.jsonl` for one conversation."""
    prepared, case, turns = job.prepared, job.prepared.case, outcome.turns
    worded = _are_worded(turns)
    judges = [one for turn in turns for one in _opinions(turn.verdicts) if one.judged] if worded else []
    deciding = list(_opinions(turns[-1].verdicts)) if worded else []
    return ResultRecord(
        suite=prepared.suite_name,
        id=case.id,
        name=case.name,
        number=case.number,
        title=title_of(case),
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
        hits=[hit for verdict in deciding for hit in verdict.hits],
        misses=[miss for verdict in deciding for miss in verdict.misses],
        reasoning=_reasoning(deciding),
        turns=[_turn_record(turn, prepared.target, include_messages) for turn in turns],
        usage=_total_usage(turns),
        cost=add_costs([turn.reply.cost for turn in turns if turn.reply is not None]),
        judge_usage=_usage_record(sum((one.usage for one in judges), NO_USAGE)) if judges else _NOTHING_USED,
        judge_cost=add_costs(verdict.cost for verdict in judges),
        raw_request=prepared.raw_request,
        error=_error_record(outcome),
        cost_breakdown=_breakdown(turns),
    )


def _are_worded(turns: tuple[Turn, ...]) -> bool:
    """May somebody have been asked for an opinion? In most suites nobody is."""
    for turn in turns:
        for verdict in turn.verdicts:
            if verdict.judged or verdict.children or verdict.reasoning or verdict.hits or verdict.misses:
                return True
    return False


def _total_usage(turns: tuple[Turn, ...]) -> UsageRecord:
    if len(turns) == 1:
        return _usage_record(turns[0].usage)
    return _usage_record(sum((turn.usage for turn in turns), NO_USAGE)) if turns else _NOTHING_USED


def _breakdown(turns: tuple[Turn, ...]) -> Cost | msgspec.UnsetType:
    """Input and output of what has a price."""
    priced = [turn.reply.price for turn in turns if turn.reply is not None and turn.reply.price is not None]
    return sum(priced[1:], priced[0]) if priced else msgspec.UNSET


def add_costs(costs: Iterable[float | None]) -> float | None:
    """The sum; None as soon as nobody knows one of them, or when there is none."""
    total: float | None = None
    for cost in costs:
        if cost is None:
            return None
        total = cost if total is None else total + cost
    return total


def _usage_record(usage: Usage) -> UsageRecord:
    given, made = usage.input_tokens, usage.output_tokens
    reasoning, cached = usage.reasoning_tokens or msgspec.UNSET, usage.cached_tokens or msgspec.UNSET
    written, guessed = usage.cache_write_tokens or msgspec.UNSET, usage.approximate or msgspec.UNSET
    return UsageRecord(given, made, given + made, reasoning, cached, written, guessed)


def _turn_record(turn: Turn, target: Target, include_messages: bool) -> TurnRecord:
    reply, info = turn.reply, row_of(target.provider)
    checks = [_check_record(verdict) for verdict in turn.verdicts]
    messages = turn.messages if include_messages else msgspec.UNSET
    if reply is None:
        place = turn.turn, turn.depth, turn.prompt
        return TurnRecord(*place, None, turn.passed, checks, _NOTHING_USED, None, 0.0, messages=messages)
    return TurnRecord(
        turn.turn,
        turn.depth,
        turn.prompt,
        reply.text,
        turn.passed,
        checks,
        _usage_record(reply.usage),
        reply.cost,
        reply.latency_s,
        cost_breakdown=reply.price or msgspec.UNSET,
        unpriced=_model_name(target, reply) if reply.cost is None and not info.local else msgspec.UNSET,
        model=reply.model or msgspec.UNSET,
        finish_reason=reply.finish_reason or msgspec.UNSET,
        refusal=reply.refusal or msgspec.UNSET,
        tool_calls=reply.tool_calls or msgspec.UNSET,
        thinking=reply.thinking or msgspec.UNSET,
        request_id=reply.request_id or msgspec.UNSET,
        messages=messages,
        cached=reply.cached or msgspec.UNSET,
    )


def _model_name(target: Target, reply: Reply) -> str:
    if row_of(target.provider).runs_code:
        return target.name
    model = target.settings.get("model") or reply.model
    if model and "${{" in model:
        model = reply.model
    return f"{target.provider}/{model}" if model else target.name


def _check_record(verdict: Verdict) -> CheckRecord:
    worded = verdict.judged or bool(verdict.hits or verdict.misses)
    return CheckRecord(
        verdict.check,
        verdict.state == "passed",
        verdict.score,
        verdict.reason,
        msgspec.UNSET if verdict.name is None else verdict.name,
        True if verdict.state == "error" else msgspec.UNSET,
        [_check_record(child) for child in verdict.children] if verdict.children else msgspec.UNSET,
        verdict.diagnostics or msgspec.UNSET,
        msgspec.UNSET if verdict.threshold is None else verdict.threshold,
        verdict.judge or msgspec.UNSET,
        verdict.judged_by or msgspec.UNSET,
        verdict.votes or msgspec.UNSET,
        verdict.hits if worded else msgspec.UNSET,
        verdict.misses if worded else msgspec.UNSET,
        verdict.metric or msgspec.UNSET,
        verdict.kind or msgspec.UNSET,
        msgspec.UNSET if verdict.value is None else verdict.value,
        verdict.spans or msgspec.UNSET,
        verdict.calls or msgspec.UNSET,
    )


def _opinions(verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
    """The verdicts of whoever has something to say: a judge speaks for the criteria of its rubric."""
    for verdict in verdicts:
        if verdict.children and not verdict.judged:
            yield from _opinions(verdict.children)
        else:
            yield verdict


def _reasoning(verdicts: list[Verdict]) -> str | None:
    """What judges said, each under its name."""
    said = [f"{verdict.name or verdict.check}: {verdict.reasoning}" for verdict in verdicts if verdict.reasoning]
    return " | ".join(said) or None


def _error_record(outcome: Outcome) -> ErrorRecord | None:
    trouble = outcome.error
    if trouble is None:
        return None
    status = msgspec.UNSET if trouble.status is None else trouble.status
    return ErrorRecord(trouble.type, trouble.message, trouble.turn, status)


class Spool:
    """Finished records in the order they come, and `results.jsonl` in document order at the end."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "results.jsonl"
        self._unordered, self._stream = open_draft(self._path)
        self._starts = array("q")
        self._encode = msgspec.json.Encoder().encode
        self._end = 0

    def add(self, number: int, record: ResultRecord, mask: Mask | None = None) -> None:
        line = self._encode(record) + b"\n"
        if mask:
            line = mask.hide(line)
        while len(self._starts) <= number:
            self._starts.append(-1)
        self._starts[number] = self._end
        self._end += len(line)
        self._stream.write(line)

    def abandon(self) -> None:
        """Let go of what was kept; a resumed run derives it again."""
        with contextlib.suppress(OSError):
            self._stream.close()
        with contextlib.suppress(OSError):
            self._unordered.unlink()

    def finish(self) -> Path:
        """Write `results.jsonl`, whole or not at all."""
        with self._stream as records, replace_file(self._path) as ordered:
            records.seek(0)
            position = 0
            for start in self._starts:
                if start >= 0:
                    if start != position:  # seeking throws the buffer away, and most records are in order
                        records.seek(start)
                    line = records.readline()
                    position = start + len(line)
                    ordered.write(line)
            reached("results.before_rename")
        self._unordered.unlink()
        reached("results.written")
        return self._path


class Outline(Struct):
    """The head of a result, and the result itself for whoever wants it."""

    suite: str
    id: str
    status: str
    succeeded_on_turn: Count | None
    number: Count = 0
    line: bytes = b""
    place: str = ""
    """The file and the line."""

    def read(self) -> Record:
        """Raises RunDamaged where the record is not what rejoinder wrote."""
        try:
            msgspec.json.decode(self.line, type=ResultRecord)
            return msgspec.json.decode(self.line)
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            raise RunDamaged(Path(self.place), str(error)) from None


def read_outlines(path: Path) -> Iterator[Outline]:
    decode = msgspec.json.Decoder(Outline).decode
    with open_file(path) as stream:
        for number, line in enumerate(lines_of(stream, path), 1):
            try:
                outline = decode(line)
            except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
                raise RunDamaged(path, f"line {number}: {error}") from None
            outline.line, outline.place = line, f"{path}, line {number},"
            yield outline
