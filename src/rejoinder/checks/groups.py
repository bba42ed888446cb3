"""Checks that hold other checks: `or`, `and`, `group` and `not`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rejoinder.checks.base import error_verdict, pass_mark, scored_verdict
from rejoinder.checks.registry import joins
from rejoinder.model import And, Check, Group, Not, Or, Span, State, Verdict, parts_of, reaches, weighted_mean
from rejoinder.words.numbers import plural


@joins(Or, And)
def grade_or_and(check: Or | And, children: tuple[Verdict, ...]) -> Verdict:
    states = [_state_by(check.threshold, child) for child in children]
    scores = [child.score for child in children if child.score is not None]
    decided = ("passed" if isinstance(check, Or) else "failed") in states
    count = _count(children)
    if not decided and "error" in states:
        reason = f"{count}; {states.count('error')} could not be decided"
        return error_verdict(check, None, reason, children=children)
    passed = decided if isinstance(check, Or) else not decided
    score = (max if isinstance(check, Or) else min)(scores)
    reason = count if check.threshold is None else f"scored {score:.3g}, and {check.threshold:g} is needed"
    return scored_verdict(check, None, passed, reason, score=score, children=children, threshold=check.threshold)


def _state_by(threshold: float | None, verdict: Verdict) -> State:
    """A check's state, by the threshold of its group if that has one, else by its own."""
    if threshold is None or verdict.score is None:
        return verdict.state
    return "passed" if reaches(verdict.score, threshold) else "failed"


@joins(Group)
def grade_group(check: Group, children: tuple[Verdict, ...]) -> Verdict:
    """Grade by the number of passed checks, or by the mean of their scores."""
    states = [child.state for child in children]
    errors, count = states.count("error"), _count(children)
    pairs = list(zip(parts_of(check), children, strict=True))
    required = [child for part, child in pairs if part.required]
    lacking = [child.name or child.check for child in required if child.state == "failed"]
    score = weighted_mean((part.weight, child.score) for part, child in pairs if child.score is not None)
    if lacking:
        reason = f"{count}; required and not passed: {', '.join(lacking)}"
        return scored_verdict(check, None, False, reason, score=score, children=children)
    all_required = all(child.passed for child in required)
    if check.at_least is not None:
        reached, undecided, reason = _by_count(check.at_least, states, all_required=all_required)
    else:
        reached, undecided, reason = _by_mean(check, pairs, all_required=all_required)
    if undecided or score is None:
        return error_verdict(check, None, f"{count}; {errors} could not be decided", children=children)
    return scored_verdict(check, None, reached, f"{count}, {reason} needed", score=score, children=children)


def _by_count(at_least: int, states: Sequence[str], *, all_required: bool) -> tuple[bool, bool, str]:
    """Whether the number is reached, whether it still could be, and a message."""
    passed, errors = states.count("passed"), states.count("error")
    undecided = (passed if all_required else 0) < at_least <= passed + errors
    return passed >= at_least, undecided, f"and {at_least} {plural(at_least, 'is', 'are')}"


def _by_mean(check: Group, pairs: list[tuple[Check, Verdict]], *, all_required: bool) -> tuple[bool, bool, str]:
    """Like `_by_count` for the mean. A check in error could score 0 or 1: if both lead to the same result,
    that counts."""
    least, most = (
        weighted_mean((part.weight, worth if child.score is None else child.score) for part, child in pairs) or 0
        for worth in (0.0, 1.0)
    )
    reached = reaches(least, pass_mark(check)) and all_required
    errors = any(child.state == "error" for _, child in pairs)
    mean = f"at least {least:.3g}" if errors and reached else f"{'at most ' if errors else ''}{most:.3g}"
    undecided = reaches(most, pass_mark(check)) and not reached
    return reached, undecided, f"their mean is {mean}, and {pass_mark(check):g} is"


def _count(children: tuple[Verdict, ...]) -> str:
    return f"{sum(child.passed for child in children)} of {len(children)} passed"


@joins(Not)
def grade_not(check: Not, children: tuple[Verdict, ...]) -> Verdict:
    [inner] = children
    if inner.state == "error":
        return error_verdict(check, None, inner.reason, children=children)
    score = None if inner.score is None else 1.0 - inner.score
    reason = f"{inner.name or inner.check}: {inner.reason}"
    passed = not inner.passed if check.threshold is None or score is None else reaches(score, check.threshold)
    more = {"children": children, "threshold": check.threshold, "spans": tuple(sorted(set(_spans_in(inner))))}
    return scored_verdict(check, None, passed, reason, score=score, **more)


def _spans_in(verdict: Verdict) -> Iterator[Span]:
    yield from verdict.spans
    for child in verdict.children:
        yield from _spans_in(child)
