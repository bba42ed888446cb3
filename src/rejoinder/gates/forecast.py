"""Foresees the calls and the cost of a run, before anything is sent."""

from __future__ import annotations

from typing import NamedTuple

from rejoinder.engine.estimate import Estimate, bounds_of, estimate
from rejoinder.engine.plan import survey_plan
from rejoinder.gates.against import pinned_baseline
from rejoinder.model import Suite
from rejoinder.model.estimates import RunBounds
from rejoinder.runs.options import MOST_ROUNDS, RunOptions


class Forecast(NamedTuple):
    """The calls of a run by target, and their bounds in tokens and dollars."""

    estimate: Estimate
    bounds: RunBounds


def foresee(suites: list[Suite], options: RunOptions) -> Forecast:
    """Estimate a run; a run in rounds has all of them. Raises UsageError if the run itself would be refused."""
    if options.selection.is_compared:
        pinned_baseline(suites, options)
    if options.selection.rounds is not None:
        options = options.changed(repeat=MOST_ROUNDS)
    survey_plan(suites, options)
    found = estimate(suites, options)
    return Forecast(found, bounds_of(found, suites, options))
