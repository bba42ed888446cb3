"""Grading a level: every check of it, in order, groups and all. Nothing is cut short."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from rejoinder.checks import ending, json_text, length, likeness, text
from rejoinder.checks.base import Context, Reach, error_verdict, scored_verdict
from rejoinder.model import (
    And,
    AnyCheck,
    Code,
    Contains,
    ContainsAll,
    ContainsAny,
    ContainsJson,
    EndsWith,
    Equals,
    FinishReason,
    IContains,
    IsJson,
    IsRefusal,
    JsonPath,
    JsonSchema,
    Latency,
    Levenshtein,
    LlmJudge,
    Match,
    MaxCost,
    MaxTokens,
    MaxWords,
    MinTokens,
    MinWords,
    Not,
    NotMatch,
    Or,
    Regex,
    RougeL,
    Semantic,
    Similar,
    StartsWith,
    Verdict,
)

_PLAIN: dict[type, Callable[[Any, Context], Verdict]] = {
    Match: text.judge_match,
    NotMatch: text.judge_not_match,
    Contains: text.judge_contains,
    IContains: text.judge_icontains,
    ContainsAny: text.judge_contains_any,
    ContainsAll: text.judge_contains_all,
    StartsWith: text.judge_starts_with,
    EndsWith: text.judge_ends_with,
    Equals: text.judge_equals,
    Regex: text.judge_regex,
    MinTokens: length.judge_min_tokens,
    MaxTokens: length.judge_max_tokens,
    MinWords: length.judge_min_words,
    MaxWords: length.judge_max_words,
    Latency: length.judge_latency,
    MaxCost: length.judge_cost,
    IsJson: json_text.judge_is_json,
    ContainsJson: json_text.judge_contains_json,
    JsonSchema: json_text.judge_json_schema,
    JsonPath: lambda check, context: json_text.judge_json_path(check, context, grade_plain),
    Levenshtein: likeness.judge_levenshtein,
    RougeL: likeness.judge_rouge_l,
    Similar: likeness.judge_similar,
    IsRefusal: ending.judge_is_refusal,
    FinishReason: ending.judge_finish_reason,
}
"""What looks at the reply and nothing else."""

_MISSING: dict[type, str] = {Semantic: "semantic", Code: "code"}
"""Checks that suites may hold and that this version cannot carry out."""


def grade_plain(checks: tuple[AnyCheck, ...], context: Context) -> tuple[Verdict, ...] | None:
    """The verdicts when no check has to ask anybody; None when one has to."""
    verdicts: list[Verdict] = []
    for check in checks:
        judge = _PLAIN.get(type(check))
        if judge is None:
            return None
        verdicts.append(judge(check, context))
    return tuple(verdicts)


async def grade(checks: tuple[AnyCheck, ...], context: Context) -> tuple[Verdict, ...]:
    """The verdicts on a level's checks. Judges are asked at the same time, begun in document order."""
    tasks: list[asyncio.Task[Verdict]] = []
    pending = [_begin(check, context, tasks) for check in checks]
    try:
        return tuple([await _finish(one) for one in pending])
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def reach_of(check: AnyCheck) -> Reach:
    """What a check and everything in it needs."""
    inner = [item.check for item in check.items if item.check] if isinstance(check, Or | And) else []
    if isinstance(check, Not):
        inner = [check.check]
    parts = [reach_of(one) for one in inner]
    return Reach(
        judge=isinstance(check, LlmJudge) or any(part.judge for part in parts),
        code=isinstance(check, Code) or any(part.code for part in parts),
    )


def unavailable(check: AnyCheck) -> str | None:
    """The name of the first check in it that this version cannot carry out."""
    if isinstance(check, Or | And):
        found = (unavailable(item.check) for item in check.items if item.check)
        return next((name for name in found if name), None)
    if isinstance(check, Not):
        return unavailable(check.check)
    return _MISSING.get(type(check))


_Pending = Verdict | asyncio.Task[Verdict] | Callable[[], Coroutine[Any, Any, Verdict]]


def _begin(check: AnyCheck, context: Context, tasks: list[asyncio.Task[Verdict]]) -> _Pending:
    judge = _PLAIN.get(type(check))
    if judge is not None:
        return judge(check, context)
    if isinstance(check, Or | And):
        children = [_begin(item.check, context, tasks) for item in check.items if item.check]
        return lambda: _group(check, children)
    if isinstance(check, Not):
        inner = _begin(check.check, context, tasks)
        return lambda: _not(check, inner)
    if isinstance(check, LlmJudge):
        from rejoinder.checks.judge import judge_llm_judge  # noqa: PLC0415 - suites without judges do without

        tasks.append(asyncio.ensure_future(judge_llm_judge(check, context)))
        return tasks[-1]
    return error_verdict(check, type(check).__name__.lower(), "this version cannot carry out this check")


async def _finish(pending: _Pending) -> Verdict:
    if isinstance(pending, Verdict):
        return pending
    return await (pending if isinstance(pending, asyncio.Task) else pending())


async def _group(check: Or | And, pending: list[_Pending]) -> Verdict:
    children = tuple([await _finish(one) for one in pending])
    states = [child.state for child in children]
    scores = [child.score for child in children if child.score is not None]
    wanted, label = ("passed", "or") if isinstance(check, Or) else ("failed", "and")
    decided = wanted in states
    count = f"{states.count('passed')} of {len(children)} passed"
    if not decided and "error" in states:
        return error_verdict(check, label, f"{count}; {states.count('error')} could not be decided", children=children)
    passed = decided if isinstance(check, Or) else not decided
    score = (max if isinstance(check, Or) else min)(scores)
    return scored_verdict(check, label, passed, count, score=score, children=children)


async def _not(check: Not, pending: _Pending) -> Verdict:
    inner = await _finish(pending)
    if inner.state == "error":
        return error_verdict(check, "not", inner.reason, children=(inner,))
    score = None if inner.score is None else 1.0 - inner.score
    return scored_verdict(check, "not", not inner.passed, inner.reason, score=score, children=(inner,))
