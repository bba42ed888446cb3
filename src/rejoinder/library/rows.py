"""Results as flat rows, for data frames and tables. Each kind of row has the columns of one table below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias, TypeVar, get_args

from msgspec import Struct

from rejoinder.errors import UsageError
from rejoinder.model import CaseStatus, CheckResult, Result, TurnResult
from rejoinder.views.cases import Run, Tried, duration_of, tried_cases
from rejoinder.views.reasons import first_reason
from rejoinder.views.rows import why_of

Cell: TypeAlias = str | int | float | bool | None
Row: TypeAlias = dict[str, Cell]
By: TypeAlias = Literal["case", "conversation", "turn", "check"]
T = TypeVar("T")


class CaseVerdict(Struct, frozen=True, kw_only=True):
    """A case on one target, all its trials together."""

    suite: str
    id: str
    title: str
    target: str
    variant: str | None
    tags: tuple[str, ...]
    status: CaseStatus
    trials: int
    """Trials that ended, without those that a simulated user made invalid."""
    passed: int
    failed: int
    errors: int
    flaky: bool
    """True if it passed in some trials and failed in others."""
    duration_s: float
    """Seconds of all replies."""
    cost: float | None
    """Dollars of all trials without judges; None if unknown."""
    why: str
    """The reason in one line; empty if it passed."""

    def __repr__(self) -> str:
        where = self.target if self.variant is None else f"{self.target}, {self.variant}"
        return f"<CaseVerdict {self.id!r} on {where!r}: {self.status}, {self.passed} of {self.trials} passed>"


def verdicts(run: Run) -> Iterator[CaseVerdict]:
    """Each case on each target, judged by its own rule."""
    return map(_verdict, tried_cases(run))


def _verdict(case: Tried) -> CaseVerdict:
    first = case.first
    decides = case.status in ("failed", "error")
    return CaseVerdict(
        suite=first.suite,
        id=first.id,
        title=first.title,
        target=first.target,
        variant=first.variant,
        tags=first.tags,
        status=case.status,
        trials=case.finished,
        passed=case.passed,
        failed=case.statuses.get("failed", 0),
        errors=case.statuses.get("error", 0),
        flaky=case.is_flaky,
        duration_s=case.duration_s,
        cost=case.cost,
        why=_why(case.deciding) if decides else case.apart or "",
    )


def _why(result: Result) -> str:
    return why_of(result, first_reason(result))


class _TurnOf(NamedTuple):
    result: Result
    turn: TurnResult


class _CheckOf(NamedTuple):
    result: Result
    turn: TurnResult | None
    """None for a conversation check."""
    place: str
    check: CheckResult


_Columns: TypeAlias = Mapping[str, Callable[[T], Cell]]

CASE: _Columns[CaseVerdict] = {
    "suite": lambda case: case.suite,
    "id": lambda case: case.id,
    "title": lambda case: case.title,
    "target": lambda case: case.target,
    "variant": lambda case: case.variant,
    "tags": lambda case: ", ".join(case.tags),
    "status": lambda case: case.status,
    "trials": lambda case: case.trials,
    "passed": lambda case: case.passed,
    "failed": lambda case: case.failed,
    "errors": lambda case: case.errors,
    "flaky": lambda case: case.flaky,
    "duration_s": lambda case: case.duration_s,
    "cost": lambda case: case.cost,
    "why": lambda case: case.why,
}
_WHOSE: _Columns[Result] = {
    "suite": lambda result: result.suite,
    "id": lambda result: result.id,
    "target": lambda result: result.target,
    "variant": lambda result: result.variant,
    "trial": lambda result: result.trial,
}
CONVERSATION: _Columns[Result] = {
    **_WHOSE,
    "title": lambda result: result.title,
    "tags": lambda result: ", ".join(result.tags),
    "status": lambda result: result.status,
    "first_try": lambda result: result.first_try,
    "recovered": lambda result: result.recovered,
    "succeeded_on_turn": lambda result: result.succeeded_on_turn,
    "score": lambda result: result.score,
    "turns": lambda result: len(result.turns),
    "prompt": lambda result: result.turns[0].prompt if result.turns else result.raw_request.question,
    "response": lambda result: result.turns[-1].response if result.turns else None,
    "input_tokens": lambda result: result.usage.input_tokens,
    "output_tokens": lambda result: result.usage.output_tokens,
    "cost": lambda result: result.cost,
    "total_cost": lambda result: result.total_cost,
    "duration_s": duration_of,
    "why": _why,
    "error": lambda result: None if result.error is None else result.error.message,
}
TURN: _Columns[_TurnOf] = {
    **{name: lambda one, get=get: get(one.result) for name, get in _WHOSE.items()},
    "turn": lambda one: one.turn.turn,
    "step": lambda one: one.turn.step,
    "depth": lambda one: one.turn.depth,
    "prompt": lambda one: one.turn.prompt,
    "response": lambda one: one.turn.response,
    "passed": lambda one: one.turn.passed,
    "model": lambda one: one.turn.model,
    "finish_reason": lambda one: one.turn.finish_reason,
    "input_tokens": lambda one: one.turn.usage.input_tokens,
    "output_tokens": lambda one: one.turn.usage.output_tokens,
    "cost": lambda one: one.turn.cost,
    "duration_s": lambda one: one.turn.duration_s,
    "cached": lambda one: one.turn.cached,
    "retries": lambda one: one.turn.retries,
}
CHECK: _Columns[_CheckOf] = {
    **{name: lambda one, get=get: get(one.result) for name, get in _WHOSE.items()},
    "turn": lambda one: None if one.turn is None else one.turn.turn,
    "place": lambda one: one.place,
    "kind": lambda one: one.check.kind,
    "check": lambda one: one.check.check,
    "name": lambda one: one.check.name,
    "passed": lambda one: one.check.passed,
    "error": lambda one: one.check.error,
    "score": lambda one: one.check.score,
    "threshold": lambda one: one.check.threshold,
    "reason": lambda one: one.check.reason,
    "judge": lambda one: one.check.judge,
    "metric": lambda one: one.check.metric,
}


def columns_of(by: By) -> tuple[str, ...]:
    """The names of the columns. Raises UsageError for another kind of row."""
    tables = {"case": CASE, "conversation": CONVERSATION, "turn": TURN, "check": CHECK}
    if by not in tables:
        raise UsageError(f"there are no rows by {by!r}", f"Rows are by {', '.join(get_args(By))}.")
    return tuple(tables[by])


def rows_of(run: Run, by: By) -> Iterator[Row]:
    """The rows of a run, one at a time."""
    columns_of(by)
    if by == "case":
        return _rows(CASE, verdicts(run))
    if by == "conversation":
        return _rows(CONVERSATION, run.results)
    if by == "turn":
        return _rows(TURN, (_TurnOf(result, turn) for result in run.results for turn in result.turns))
    return _rows(CHECK, (one for result in run.results for one in _checks(result)))


def _rows(columns: _Columns[T], values: Iterable[T]) -> Iterator[Row]:
    return ({name: get(value) for name, get in columns.items()} for value in values)


def _checks(result: Result) -> Iterator[_CheckOf]:
    for turn in result.turns:
        yield from _inner(result, turn, turn.checks, "")
    yield from _inner(result, None, result.conversation_checks, "")


def _inner(result: Result, turn: TurnResult | None, checks: Iterable[CheckResult], before: str) -> Iterator[_CheckOf]:
    """Checks with the checks inside them, each with its place: `2.1` is the first one inside the second."""
    for number, check in enumerate(checks, 1):
        place = f"{before}{number}"
        yield _CheckOf(result, turn, place, check)
        yield from _inner(result, turn, check.children, f"{place}.")
