"""Marks and bars of outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rejoinder.report.page.markup import Markup, element
from rejoinder.views.board import Outcomes
from rejoinder.views.rows import RowOutcome

LEAST_PART = 12
"""Of a thousand: parts of a bar are never so narrow that they cannot be seen."""
PARTS: tuple[tuple[RowOutcome, str], ...] = (
    ("first", "First try"),
    ("recovered", "Recovered"),
    ("failed", "Failed"),
    ("error", "Errors"),
    ("skipped", "Not sent"),
)
MARKS: dict[RowOutcome, str] = {
    "first": "first",
    "recovered": "rec",
    "failed": "fail",
    "error": "err",
    "skipped": "skip",
}
"""The class of an outcome's mark, which gives its colour and its shape."""


def mark(outcome: RowOutcome, turns: int | None = None) -> Markup:
    """The mark of an outcome, beside its words. One that recovered has the number of its turn."""
    turn = turns if outcome == "recovered" else None
    return element("b", {"class": f"mark {MARKS[outcome]}", "data-t": turn, "aria-hidden": "true"})


def counts_of(outcomes: Outcomes) -> dict[RowOutcome, int]:
    return {
        "first": outcomes.first,
        "recovered": outcomes.recovered,
        "failed": outcomes.failed,
        "error": outcomes.errors,
        "skipped": outcomes.skipped,
    }


def outcome_bar(outcomes: Outcomes, places: dict[RowOutcome, str] | None = None) -> Markup:
    """Outcomes as parts of one bar, which lead to these conversations; words beside it say the same."""
    parts: list[Markup] = []
    for outcome, start, width in bar_parts(outcomes):
        place = {"x": f"{start:.1f}", "width": f"{width:.1f}", "y": 0, "height": 12}
        part = element("rect", {"class": f"seg {MARKS[outcome]}", **place})
        parts.append(part if places is None else element("a", {"href": places[outcome], "tabindex": -1}, part))
    bar = {"class": "bar", "viewBox": "0 0 1000 12", "preserveAspectRatio": "none", "aria-hidden": "true"}
    return element("svg", bar, parts)


class BarPart(NamedTuple):
    outcome: RowOutcome
    start: float
    """Of a bar that is 1,000 wide."""
    width: float


def bar_parts(outcomes: Outcomes) -> Iterator[BarPart]:
    """The parts of a bar, with a gap behind each."""
    counts = counts_of(outcomes)
    total = max(1, sum(counts.values()))
    widths: dict[RowOutcome, int] = {
        outcome: max(LEAST_PART, 1000 * counts[outcome] // total) for outcome, _ in PARTS if counts[outcome]
    }
    scale, start = 1000 / max(1, sum(widths.values())), 0.0
    for outcome, width in widths.items():
        yield BarPart(outcome, start, max(1.0, width * scale - 2))
        start += width * scale
