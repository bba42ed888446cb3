"""The list of runs as CSV: a row for each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rejoinder.exports.csv import Cell, write_cell
from rejoinder.model.history import Page, RunRow

COLUMNS: dict[str, Callable[[RunRow], Cell]] = {
    "id": lambda row: row.id,
    "suites": lambda row: ", ".join(row.suites),
    "targets": lambda row: ", ".join(row.targets),
    "models": lambda row: ", ".join(row.models),
    "status": lambda row: row.status,
    "outcome": lambda row: row.outcome,
    "started_at": lambda row: row.started_at,
    "finished_at": lambda row: row.finished_at,
    "duration_s": lambda row: row.duration_s,
    "planned": lambda row: row.planned,
    **{
        name: lambda row, name=name: None if row.summary is None else getattr(row.summary, name)
        for name in ("total", "passed", "failed", "errors", "skipped", "unfinished", "first_try", "recovered")
    },
    **{
        f"cases_{name}": lambda row, name=name: None if row.summary is None else getattr(row.summary.by_case, name)
        for name in ("passed", "failed", "errors")
    },
    "pass_rate": lambda row: row.rate,
    "tokens": lambda row: None if row.summary is None else row.summary.total_tokens,
    "cost_usd": lambda row: row.cost,
    "price_performance": lambda row: row.price_performance,
    "tags": lambda row: ", ".join(row.tags),
    "note": lambda row: row.note,
    "grade_of": lambda row: row.grade_of,
    "fork_of": lambda row: row.fork_of,
    "replay_of": lambda row: row.replay_of,
}


def write_csv(page: Page) -> Iterator[str]:
    yield ",".join(COLUMNS) + "\n"
    for row in page.rows:
        yield ",".join(write_cell(value(row)) for value in COLUMNS.values()) + "\n"
