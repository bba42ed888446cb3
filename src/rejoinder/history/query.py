"""The selection and order of listed runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

from msgspec import Struct, structs

from rejoinder.history.index import History
from rejoinder.history.trend import trend_of
from rejoinder.model.history import Outcome, Page, RunRow, seconds_of
from rejoinder.model.inputs import changes_of
from rejoinder.model.runs import SHORTEST_NAME

Sort: TypeAlias = Literal["created", "success", "cost", "time", "price-performance"]


class Range(Struct, frozen=True):
    """Minimum and maximum of a figure, inclusive. A run without the figure is outside of every range."""

    least: float | None = None
    most: float | None = None

    def holds(self, value: float | None) -> bool:
        if value is None:
            return False
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


class Query(Struct, frozen=True, kw_only=True):
    """All given filters must match; of several values of one filter, any."""

    statuses: tuple[Outcome, ...] = ()
    not_statuses: tuple[Outcome, ...] = ()
    suites: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    """Names of targets or models, whole."""
    model_like: str = ""
    """A part of such a name, in any letter case."""
    tags: tuple[str, ...] = ()
    cost: Range = Range()
    success: Range = Range()
    """In percent."""
    duration_s: Range = Range()
    started: Range = Range()
    """Seconds since 1970."""
    finished: Range = Range()
    sort: Sort = "created"
    reverse: bool = False
    limit: int | None = None
    offset: int = 0

    @property
    def filters(self) -> list[Callable[[Query, RunRow], bool]]:
        """The filters that were given."""
        return [holds for name, holds in _FILTERS.items() if getattr(self, name) != getattr(_ALL, name)]


_ALL = Query()


def _has_status(row: RunRow, statuses: tuple[Outcome, ...]) -> bool:
    return row.status in statuses or row.outcome in statuses


def _models_of(row: RunRow) -> tuple[str, ...]:
    """The names of a row's models: the target, provider and model, or only the model."""
    return (*row.targets, *row.models, *(model.partition("/")[2] for model in row.models))


def _is_named(names: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return not set(names).isdisjoint(wanted)


_FILTERS: dict[str, Callable[[Query, RunRow], bool]] = {
    "statuses": lambda query, row: _has_status(row, query.statuses),
    "not_statuses": lambda query, row: not _has_status(row, query.not_statuses),
    "suites": lambda query, row: _is_named(row.suites, query.suites),
    "models": lambda query, row: _is_named(_models_of(row), query.models),
    "model_like": lambda query, row: any(query.model_like.lower() in name.lower() for name in _models_of(row)),
    "tags": lambda query, row: _is_named(row.tags, query.tags),
    "cost": lambda query, row: query.cost.holds(row.cost),
    "success": lambda query, row: query.success.holds(None if row.rate is None else row.rate * 100),
    "duration_s": lambda query, row: query.duration_s.holds(row.duration_s),
    "started": lambda query, row: query.started.holds(seconds_of(row.started_at)),
    "finished": lambda query, row: query.finished.holds(seconds_of(row.finished_at)),
}
"""Filters, by the query's field."""

_BEST_FIRST: dict[Sort, Callable[[RunRow], float | None]] = {
    "success": lambda row: None if row.rate is None else -row.rate,
    "cost": lambda row: row.cost,
    "time": lambda row: row.duration_s,
    "price-performance": lambda row: None if row.price_performance is None else -row.price_performance,
}
"""Sort keys by which the best run comes first: the highest pass rate, the lowest cost and time."""
SORTS: tuple[Sort, ...] = get_args(Sort)


def find_runs(history: History, query: Query) -> Page:
    filters = query.filters
    found = [row for row in reversed(history.rows) if all(holds(query, row) for holds in filters)]
    before = _before(history)
    rows = [_with_changes(row, before.get(row.id)) for row in _sorted(found, query)[query.offset :][: query.limit]]
    return Page(tuple(rows), len(found), len(history.rows), _shared(history), history.last, trend_of(found))


def _before(history: History) -> dict[str, RunRow]:
    """For each run the one of the same suites before it."""
    latest: dict[tuple[str, ...], RunRow] = {}
    before: dict[str, RunRow] = {}
    for row in history.rows:
        if row.suites in latest:
            before[row.id] = latest[row.suites]
        if not row.is_aside and row.made_from is not None:
            latest[row.suites] = row
    return before


def _with_changes(row: RunRow, before: RunRow | None) -> RunRow:
    if before is None or before.made_from is None or row.made_from is None:
        return row
    return structs.replace(row, changed=tuple(one.words for one in changes_of(before.made_from, row.made_from)))


def _shared(history: History) -> frozenset[str]:
    """Endings of ids that match several runs."""
    uses = Counter(part for row in history.rows for part in {row.id[:SHORTEST_NAME], row.id[-SHORTEST_NAME:]})
    return frozenset(part for part, number in uses.items() if number > 1)


def _sorted(rows: list[RunRow], query: Query) -> list[RunRow]:
    """Sorted rows: the newest first among equals; rows without the figure last, in both directions."""
    figure = _BEST_FIRST.get(query.sort)
    if figure is None:
        return rows[::-1] if query.reverse else rows
    known = [(value, row) for row in rows if (value := figure(row)) is not None]
    known.sort(key=lambda pair: pair[0], reverse=query.reverse)
    return [*(row for _, row in known), *(row for row in rows if figure(row) is None)]
