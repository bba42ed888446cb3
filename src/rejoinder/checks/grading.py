"""Grading a level: every check of it, in order, groups and all. Nothing is cut short."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any

from msgspec import structs

from rejoinder.checks import ending, json_text, length, likeness, text, tools
from rejoinder.checks.base import Context, Reach, error_verdict, pass_mark, scored_verdict
from rejoinder.model import (
    And,
    AnyCheck,
    Code,
    Compare,
    Contains,
    ContainsAll,
    ContainsAny,
    ContainsJson,
    Custom,
    EndsWith,
    Equals,
    FinishReason,
    Group,
    IContains,
    IContainsAll,
    IContainsAny,
    IsJson,
    IsRefusal,
    JsonPath,
    JsonSchema,
    Judged,
    Latency,
    Level,
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
    PythonCheck,
    Regex,
    RougeL,
    Rubric,
    Semantic,
    Similar,
    StartsWith,
    State,
    ToolCalls,
    Verdict,
    Webhook,
    parts_of,
    reaches,
    walk_check,
)

_PLAIN: dict[type, Callable[[Any, Context], Verdict]] = {
    Match: text.judge_match,
    NotMatch: text.judge_not_match,
    Contains: text.judge_contains,
    IContains: text.judge_icontains,
    ContainsAny: text.judge_contains_any,
    ContainsAll: text.judge_contains_all,
    IContainsAny: text.judge_icontains_any,
    IContainsAll: text.judge_icontains_all,
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
    ToolCalls: tools.judge_tool_calls,
}
"""What looks at the reply and nothing else."""

_ASKING: dict[type, tuple[str, str]] = {
    LlmJudge: ("judge", "judge_llm_judge"),
    Rubric: ("rubric", "judge_rubric"),
    Compare: ("compare", "judge_compare"),
    Semantic: ("semantic", "judge_semantic"),
    Code: ("own", "judge_code"),
    PythonCheck: ("own", "judge_python"),
    Custom: ("own", "judge_custom"),
    Webhook: ("own", "judge_webhook"),
}
"""What has to ask somebody: the module, which is imported when a suite has such a check, and the function in it."""


def grade_plain(checks: tuple[AnyCheck, ...], context: Context) -> tuple[Verdict, ...] | None:
    """The verdicts when no check has to ask anybody; None when one has to."""
    verdicts: list[Verdict] = []
    for check in checks:
        judge = _PLAIN.get(type(check))
        if judge is None:
            return None
        found = judge(check, context)
        verdicts.append(found if check.metric is None else _counted(check, found))
    return tuple(verdicts)


async def grade(checks: tuple[AnyCheck, ...], context: Context) -> tuple[Verdict, ...]:
    """The verdicts on a level's checks. Judges are asked at the same time, begun in document order."""
    tasks: list[asyncio.Task[Verdict]] = []
    pending = [_begin(check, context, tasks) for check in checks]
    try:
        return tuple([await _finish(one) for one in pending])
    except Exception:
        await asyncio.gather(*tasks, return_exceptions=True)  # what is under way may have to be paid for
        raise
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def asks_nobody(level: Level) -> bool:
    """Has a level nothing but checks that look at the reply, and nothing to say when they fail?"""
    return all(item.follow_up is None and type(item.check) in _PLAIN for item in level.items)


def reach_of(check: AnyCheck) -> Reach:
    """What a check and everything in it needs."""
    parts = list(walk_check(check))
    return Reach(
        judge=any(isinstance(part, Judged) for part in parts),
        code=any(isinstance(part, Code | PythonCheck | Custom) for part in parts),
    )


_Pending = Verdict | asyncio.Task[Verdict] | Callable[[], Coroutine[Any, Any, Verdict]]


def _begin(check: AnyCheck, context: Context, tasks: list[asyncio.Task[Verdict]]) -> _Pending:
    judge = _PLAIN.get(type(check))
    if judge is not None:
        return _counted(check, judge(check, context))
    if isinstance(check, Or | And | Group | Not):
        inner = [_begin(part, context, tasks) for part in parts_of(check)]
        return lambda: _group(check, inner)
    tasks.append(asyncio.ensure_future(_ask(check, context)))
    return tasks[-1]


async def _ask(check: AnyCheck, context: Context) -> Verdict:
    module, function = _ASKING[type(check)]
    return _counted(check, await getattr(import_module(f"rejoinder.checks.{module}"), function)(check, context))


def _counted(check: AnyCheck, verdict: Verdict) -> Verdict:
    """The verdict with the name of the measure that it counts for."""
    return verdict if check.metric is None else structs.replace(verdict, metric=check.metric)


async def _finish(pending: _Pending) -> Verdict:
    if isinstance(pending, Verdict):
        return pending
    return await (pending if isinstance(pending, asyncio.Task) else pending())


async def _group(check: Or | And | Group | Not, pending: list[_Pending]) -> Verdict:
    children = tuple([await _finish(one) for one in pending])
    if isinstance(check, Not):
        return _counted(check, _not(check, children[0]))
    if isinstance(check, Group):
        return _counted(check, _some(check, children))
    return _counted(check, _all_or_any(check, children))


def _all_or_any(check: Or | And, children: tuple[Verdict, ...]) -> Verdict:
    states = [_state_by(check.threshold, child) for child in children]
    scores = [child.score for child in children if child.score is not None]
    wanted, label = ("passed", "or") if isinstance(check, Or) else ("failed", "and")
    decided = wanted in states
    count = _count(children)
    if not decided and "error" in states:
        return error_verdict(check, label, f"{count}; {states.count('error')} could not be decided", children=children)
    passed = decided if isinstance(check, Or) else not decided
    score = (max if isinstance(check, Or) else min)(scores)
    reason = count if check.threshold is None else f"scored {score:.3g}, and {check.threshold:g} is needed"
    return scored_verdict(check, label, passed, reason, score=score, children=children, threshold=check.threshold)


def _state_by(threshold: float | None, verdict: Verdict) -> State:
    """How a check ended: by its own mark, or by the one that stands beside the checks which it is one of."""
    if threshold is None or verdict.score is None:
        return verdict.state
    return "passed" if reaches(verdict.score, threshold) else "failed"


def _some(check: Group, children: tuple[Verdict, ...]) -> Verdict:
    """So many of the checks, or a mean of their scores."""
    states = [child.state for child in children]
    passed, errors, count = states.count("passed"), states.count("error"), _count(children)
    pairs = list(zip(parts_of(check), children, strict=True))
    required = [child for part, child in pairs if part.required]
    lacking = [child.name or child.check for child in required if child.state == "failed"]
    score = _weighted_mean([(part.weight, child.score) for part, child in pairs if child.score is not None])
    if lacking:
        reason = f"{count}; required and not passed: {', '.join(lacking)}"
        return scored_verdict(check, "group", False, reason, score=score, children=children)
    if check.at_least is not None:
        known = passed if all(child.passed for child in required) else 0
        undecided = known < check.at_least <= passed + errors
        reached, reason = (
            passed >= check.at_least,
            f"{count}, and {check.at_least} {'is' if check.at_least == 1 else 'are'} needed",
        )
    else:
        # What could not be decided may be worth nothing or all: where both come to the same, that is what it comes to.
        least, most = (
            _weighted_mean([(part.weight, worth if child.score is None else child.score) for part, child in pairs]) or 0
            for worth in (0.0, 1.0)
        )
        reached = reaches(least, pass_mark(check)) and all(child.passed for child in required)
        undecided = reaches(most, pass_mark(check)) and not reached
        mean = f"at least {least:.3g}" if errors and reached else f"{'at most ' if errors else ''}{most:.3g}"
        reason = f"{count}, their mean is {mean}, and {pass_mark(check):g} is needed"
    if undecided or score is None:
        return error_verdict(check, "group", f"{count}; {errors} could not be decided", children=children)
    return scored_verdict(check, "group", reached, reason, score=score, children=children)


def _weighted_mean(scored: list[tuple[float, float]]) -> float | None:
    if not scored:
        return None
    weights = sum(weight for weight, _ in scored)
    if not weights:  # where nothing weighs anything, everything weighs the same
        return sum(score for _, score in scored) / len(scored)
    return sum(weight * score for weight, score in scored) / weights


def _count(children: tuple[Verdict, ...]) -> str:
    return f"{sum(child.passed for child in children)} of {len(children)} passed"


def _not(check: Not, inner: Verdict) -> Verdict:
    if inner.state == "error":
        return error_verdict(check, "not", inner.reason, children=(inner,))
    score = None if inner.score is None else 1.0 - inner.score
    reason = f"{inner.name or inner.check}: {inner.reason}"
    passed = not inner.passed if check.threshold is None or score is None else reaches(score, check.threshold)
    return scored_verdict(check, "not", passed, reason, score=score, children=(inner,), threshold=check.threshold)
