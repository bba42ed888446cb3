"""Random results: any status, plans, users, checks in checks, scores, tools, and texts that would break a layout."""

from __future__ import annotations

from typing import Any, Literal

from hypothesis import strategies as st
from msgspec import structs

from rejoinder.model import AskedBy, CheckResult, Result, Spoilt, StepResult, TurnResult, UsageResult, UserResult
from rejoinder.model.calls import Cost
from rejoinder.model.results import NOT_AUDITED, CutOffResult, ErrorResult, ForkedFrom, StepStatus
from rejoinder.model.tools import FaultOutcome
from tests.report.exports import hostile_texts, result, tool_calls, turn

texts = hostile_texts | st.sampled_from(["yes", "no", "You have 14 days.\r\nKind regards", "a\n\tb\n"])
names = st.none() | texts
parts = st.sampled_from([None, 0.0, 0.001, 0.5, 0.6667, 0.9999, 1.0])
kinds = st.sampled_from(["match", "contains", "not", "not_match", "and", "extract", "llm_judge", "icontains"])


@st.composite
def some_checks(draw: st.DrawFn, depth: int = 2, kind: str = "") -> CheckResult:
    inner = st.lists(some_checks(depth - 1), max_size=2) if depth else st.just([])
    chosen = kind or draw(kinds)
    low = draw(st.integers(0, 9))
    return CheckResult(
        check=draw(st.sampled_from([chosen, f"{chosen} *yes*", f"{chosen} 30 days"]) | texts),
        passed=draw(st.booleans()),
        score=draw(parts),
        reason=draw(texts.filter(str.strip) if kind or chosen == "extract" else texts),
        name=draw(names) if not kind else draw(names | st.sampled_from(["turn 1", "turn 2", "step 1"])),
        error=draw(st.sampled_from([False, False, True])),
        children=tuple(draw(inner)),
        threshold=draw(parts),
        judge=draw(st.sampled_from([None, "judge"])),
        votes=tuple(draw(st.lists(st.floats(0, 1), max_size=2))),
        kind=chosen,
        value=draw(st.sampled_from([None, False, 3.0])),
        spans=draw(st.sampled_from([(), ((low, low + 3),), ((2, 4), (0, 90))])),
    )


@st.composite
def rules(draw: st.DrawFn) -> CheckResult:
    """Checks over time, which look at replies by their turns."""
    rule = draw(some_checks(0, draw(st.sampled_from(["always", "never", "by_turn", "after", "before"]))))
    looked = [structs.replace(draw(some_checks(0)), name=f"turn {n}") for n in range(1, draw(st.integers(1, 4)))]
    return structs.replace(rule, error=rule.error and not rule.passed, children=tuple(looked))


@st.composite
def some_turns(draw: st.DrawFn, number: int, *, planned: bool) -> TurnResult:
    follows = number > 1 and draw(st.booleans())
    about = draw(st.booleans())
    return turn(
        draw(st.none() | texts),
        number,
        depth=int(follows),
        prompt=draw(texts),
        passed=draw(st.booleans()),
        checks=tuple(draw(st.lists(some_checks(), max_size=3))),
        step=draw(st.integers(1, 3)) if planned else None,
        name=draw(names),
        usage=UsageResult(1200, 14, 1214, 3, 5, 0, about),
        cost=draw(st.sampled_from([None, 0.0, 0.00003, 0.0312])),
        cost_breakdown=draw(st.sampled_from([None, Cost(0.0001, 0.0311)])),
        duration_s=draw(st.sampled_from([0.0, 0.4, 59.7, 119.6])),
        model=draw(st.sampled_from([None, "gpt-5"])),
        finish_reason=draw(st.sampled_from(["stop", "length"])),
        asked_by=AskedBy(number - 1, draw(st.sampled_from([(), (0,), (0, 1)]))) if follows else None,
        doubts=follows and draw(st.booleans()),
        simulated=draw(st.booleans()),
        tool_calls=draw(st.sampled_from([(), tool_calls("look\n")])),
        workspace_diff=draw(st.sampled_from([None, "--- a/x\n+++ b/x\n-a\n+b\n"])),
        continued=draw(st.booleans()),
    )


@st.composite
def any_results(draw: st.DrawFn) -> Result:
    planned = draw(st.booleans())
    turns = [draw(some_turns(number, planned=planned)) for number in range(1, draw(st.integers(1, 5)))]
    ways: st.SearchStrategy[StepStatus] = st.sampled_from(["passed", "recovered", "failed", "error", "skipped"])
    steps = [StepResult(n, draw(names), draw(ways), None) for n in (1, 2, 3)] if planned else []
    status = draw(st.sampled_from(["passed", "failed", "error", "skipped"]))
    found: list[Spoilt | Literal["not audited"] | None] = [None, NOT_AUDITED, Spoilt("leak", 1, "it\nsays")]
    spoilt = draw(st.sampled_from(found))
    user = UserResult(2, "word", spoilt, UsageResult(1, 1, 2), 0.002, "guest")
    more: dict[str, Any] = {
        "steps": tuple(steps),
        "conversation_checks": tuple(draw(st.lists(some_checks() | rules(), max_size=3))),
        "user": draw(st.sampled_from([None, user])),
        "error": ErrorResult("server", draw(texts), 1) if status == "error" and draw(st.booleans()) else None,
        "control": draw(st.none() | some_turns(1, planned=False)),
        "fork": draw(st.sampled_from([None, ForkedFrom("20261116-1", 1)])),
        "condition": draw(st.sampled_from([None, "sharded"])),
        "cut_off": draw(st.sampled_from([(), (CutOffResult(2, UsageResult(1, 1, 2), None),)])),
        "faults": draw(st.sampled_from([(), (FaultOutcome("mail", "error", at=2),)])),
        "usage": UsageResult(2400, 28, 2428, approximate=draw(st.booleans())),
        "cost": draw(st.sampled_from([None, 0.0, 0.0624])),
        "cost_breakdown": draw(st.sampled_from([None, Cost(0.0002, 0.0622)])),
        "judge_cost": draw(st.sampled_from([None, 0.01])),
        "score": draw(parts),
        "succeeded_on_turn": draw(st.sampled_from([None, 1, 2])),
        "id_written": draw(st.booleans()),
        "title": draw(texts),
        "file": draw(st.sampled_from(["", "evals.yaml"])),
        "line": draw(st.sampled_from([0, 4])),
    }
    made = result(draw(texts), status=status, passed=status == "passed", **more)
    return structs.replace(made, turns=tuple(turns))
