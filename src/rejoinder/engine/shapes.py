"""The shape of a run's receipt and summary, checked when they are read: a folder may come from elsewhere."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=0, le=1 << 53)]
Number = Annotated[float, Meta(ge=-1e15, le=1e15)]
Interval = tuple[Number, Number]


class _Suite(Struct):
    path: str
    name: str | None


class _Target(Struct):
    name: str
    provider: str
    model: str | None


class _Limiter(Struct):
    name: str
    requests: Count
    refused: Count
    waited_s: Number
    rate: Number | None
    window: Count | None


class _GivenUp(Struct):
    target: str
    type: str
    message: str


class _FromCache(Struct):
    answers: Count
    tokens: Count
    cost: Number | None
    repeated: Count = 0
    trouble: str | None = None


class _Budget(Struct):
    usd: Annotated[float, Meta(gt=0, le=1e15)] | None
    tokens: Annotated[int, Meta(gt=0, le=1 << 53)] | None
    spent_usd: Number
    spent_tokens: Count
    reached: bool
    needed: tuple[Number, Count]


class _Options(Struct):
    """Of the options, those that a report looks at."""

    repeat: Count = 1
    replay: str | None = None


class Receipt(Struct):
    """`run.json`"""

    id: str
    status: str
    suites: list[_Suite]
    targets: list[_Target]
    options: _Options
    planned: Count
    in_doubt: Count
    duration_s: Number
    started_at: str | None = None
    finished_at: str | None = None
    version: str = ""
    format: int = 0
    folder: str = ""
    judges_itself: bool = False
    limits: list[_Limiter] = []
    given_up: list[_GivenUp] = []
    stale: list[str] = []
    from_cache: _FromCache | None = None
    budget: _Budget | None = None
    sources: list[str] = []
    taken_over: bool = False
    replay_of: str | None = None
    grade_of: str | None = None
    merge_of: str | None = None


class _Usage(Struct):
    input_tokens: Count
    output_tokens: Count
    total_tokens: Count
    reasoning_tokens: Count = 0
    cached_tokens: Count = 0
    approximate: bool = False


class _Named(Struct):
    id: str
    score: Number


class _Score(Struct):
    mean: Number | None
    median: Number | None
    min: Number | None
    max: Number | None
    stdev: Number | None
    histogram: list[Count] = []
    best: list[_Named] = []
    worst: list[_Named] = []


class _Recovery(Struct):
    depth: Count
    at_risk: Annotated[int, Meta(ge=1, le=1 << 53)]
    recovered: Count
    interval: Interval


class _ByTarget(Struct):
    total: Count
    passed: Count
    errors: Count
    skipped: Count
    first_try: Count
    pass_rate: Number | None
    pass_rate_interval: Interval | None
    usage: _Usage
    cost: Number | None
    duration_s: Number | None


class _Metric(Struct):
    mean: Number | None
    cases: Count
    standard_error: Number | None = None
    total_cases: Count = 0
    errors: Count = 0
    mean_with_errors: Number | None = None


class _Judge(Struct):
    target: str
    digest: str
    check: str
    judged: Count
    passed: Count
    errors: Count
    cases: Count = 0
    standard_error: Number | None = None


class _Breakdown(Struct):
    input: Number
    output: Number


class _Embeddings(Struct):
    tokens: Count = 0
    cost: Number | None = None


class Summary(Struct):
    """`summary.json`"""

    total: Count
    passed: Count
    failed: Count
    errors: Count
    score: _Score
    by_target: dict[str, _ByTarget]
    exit_code: Annotated[int, Meta(ge=0, le=255)]
    skipped: Count
    unfinished: int
    first_try: Count
    recovered: Count
    pass_rate: Number | None
    pass_rate_interval: Interval | None
    recovery: list[_Recovery]
    usage: _Usage
    cost: Number | None
    cost_breakdown: _Breakdown | None
    unpriced: dict[str, Count]
    judge_usage: _Usage
    judge_cost: Number | None
    total_cost: Number | None
    total_tokens: Count
    duration_s: Number
    cases: Count | None = None
    metrics: dict[str, _Metric] = {}
    judges: list[_Judge] = []
    embeddings: _Embeddings | None = None


_SHAPES: dict[str, Any] = {"run.json": Receipt, "summary.json": Summary}


def check_shape(name: str, content: bytes) -> dict[str, Any]:
    """The content of a file as plain data. Raises msgspec.MsgspecError where something has another type."""
    if name in _SHAPES:
        msgspec.json.decode(content, type=_SHAPES[name])
    return msgspec.json.decode(content, type=dict[str, Any])
