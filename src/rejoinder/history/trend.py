"""The trend of the suite with the most runs: its pass rates over time."""

from __future__ import annotations

from collections.abc import Iterable

from rejoinder.model.history import RunRow, Trend

LEAST_RUNS = 4
"""Minimum runs for a trend."""
MOST_RATES = 40


def trend_of(rows: Iterable[RunRow]) -> Trend | None:
    """The trend of rows, which are sorted newest first. Runs are comparable if they have the same suites and targets,
    all cases, and fresh answers."""
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[float]] = {}
    for row in rows:
        if row.rate is not None and row.suites and not row.part and row.replay_of is None and row.grade_of is None:
            alike.setdefault((row.suites, row.targets), []).append(row.rate)
    if not alike:
        return None
    (suites, targets), rates = max(alike.items(), key=lambda one: len(one[1]))
    if len(rates) < LEAST_RUNS:
        return None
    several = sum(suites == other for other, _ in alike) > 1
    name = f"{', '.join(suites)} on {', '.join(targets)}" if several else ", ".join(suites)
    return Trend(name, len(rates), tuple(reversed(rates[:MOST_RATES])))
