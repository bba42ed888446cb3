"""Runs in a list: one row per run, the user's notes on it, and the trend of a suite."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from rejoinder.model.boards import Verdict
from rejoinder.model.figures import NoRateReason
from rejoinder.model.inputs import Inputs
from rejoinder.model.results import Count, Number
from rejoinder.model.runs import CaseVerdicts, RunStatus

ListedStatus: TypeAlias = RunStatus | Literal["damaged"]
Phase: TypeAlias = Literal["running", "killed", "ended", "damaged"]
"""A status without how the run ended."""
Outcome: TypeAlias = ListedStatus | Literal["passed", "failed"]
Tag: TypeAlias = Annotated[str, Meta(pattern=r"^[\w.-]{1,64}\Z")]
Name: TypeAlias = Annotated[str, Meta(max_length=200)]
Names: TypeAlias = Annotated[tuple[Name, ...], Meta(max_length=20)]
LONGEST_NOTE = 10_000
MOST_TAGS = 100


_OUTCOMES: dict[int, Outcome] = {0: "passed", 1: "failed"}
"""By the exit code of a completed run."""


class Notes(Struct, frozen=True):
    """`notes.json`: the user's notes on a run."""

    tags: Annotated[tuple[Tag, ...], Meta(max_length=MOST_TAGS)] = ()
    note: Annotated[str, Meta(max_length=LONGEST_NOTE)] = ""


class RowFigures(Struct, frozen=True, kw_only=True):
    """The figures of a summary that a list shows; the names are the summary's."""

    total: Count
    passed: Count
    failed: Count
    errors: Count
    skipped: Count
    unfinished: Count
    first_try: Count
    recovered: Count
    pass_rate: Number | None
    no_rate: NoRateReason | None = None
    total_tokens: Count
    total_cost: Number | None
    duration_s: Number
    exit_code: Annotated[int, Meta(ge=0, le=255)]
    by_case: CaseVerdicts = CaseVerdicts()
    listening: tuple[Verdict, ...] = ()
    """Of each target, variant or both that had something to recover from; at most 100."""
    listeners: Names = ()
    """The names of those that listen, if the run has several rows; at most 20."""

    @property
    def has_repeats(self) -> bool:
        """Whether cases were tried more than once. Earlier versions did not count cases."""
        return 0 < self.by_case.total < self.finished

    @property
    def finished(self) -> int:
        return self.passed + self.failed + self.errors


class RunRow(Struct, frozen=True, kw_only=True):
    """A run, or a re-grade of one, in a list."""

    id: str
    status: ListedStatus
    started_at: Name | None = None
    finished_at: Name | None = None
    suites: Names = ()
    targets: Names = ()
    models: Names = ()
    """`provider/model` of each target that has one."""
    planned: Count | None = None
    begun: Count | None = None
    """Conversations with calls in an unfinished run's journal; None if not counted."""
    part: bool = False
    """Whether only a part of the cases was chosen."""
    replay_of: Name | None = None
    grade_of: Name | None = None
    fork_of: Name | None = None
    """The run whose conversation a fork continues."""
    summary: RowFigures | None = None
    tags: tuple[Tag, ...] = ()
    note: str = ""
    made_from: Inputs | None = None
    changed: tuple[str, ...] = ()
    """Differences from the previous run of the same suites; a listing finds them."""

    @property
    def is_live(self) -> bool:
        return self.status == "running"

    @property
    def is_going(self) -> bool:
        """Whether its end is not written: it is running, or was killed."""
        return self.status in ("running", "killed")

    @property
    def is_stopped(self) -> bool:
        """Whether it ended before its time."""
        return self.status in ("interrupted", "budget")

    @property
    def has_ended(self) -> bool:
        return self.status not in ("running", "killed", "damaged")

    @property
    def is_completed(self) -> bool:
        """Whether it was played to its end."""
        return self.status == "completed"

    @property
    def is_whole(self) -> bool:
        """Whether it was played to its end, and is neither a fork nor a re-grade."""
        return self.is_completed and not self.is_aside

    @property
    def is_aside(self) -> bool:
        """Whether it is a fork or a re-grade, which is never the latest run."""
        return self.grade_of is not None or self.fork_of is not None

    @property
    def outcome(self) -> Outcome:
        """The status; for a completed run, whether all passed."""
        if not self.is_completed or self.summary is None:
            return self.status
        return _OUTCOMES.get(self.summary.exit_code, "error")

    @property
    def rate(self) -> float | None:
        """The pass rate of a completed run, if it has one. The figures of an earlier end do not count."""
        return None if self.summary is None or not self.is_completed else self.summary.pass_rate

    @property
    def cost(self) -> float | None:
        return None if self.summary is None else self.summary.total_cost

    @property
    def duration_s(self) -> float | None:
        return None if self.summary is None else self.summary.duration_s

    @property
    def price_performance(self) -> float | None:
        """vibecheck's score: percent passed, divided by the effort (1,000 per dollar and 0.1 per second)."""
        rate, cost, duration_s = self.rate, self.cost, self.duration_s
        if rate is None or cost is None or duration_s is None or not 0 <= rate <= 1:
            return None
        spent = cost * 1000 + duration_s * 0.1
        return rate * 100 / spent if spent > 0 else None

    def document(self) -> dict[str, Any]:
        return {**msgspec.to_builtins(self), "price_performance": self.price_performance}


def seconds_of(time: str | None) -> float | None:
    """A time of a receipt in seconds since 1970; None if unknown or invalid."""
    try:
        return None if time is None else datetime.fromisoformat(time).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


class Trend(Struct, frozen=True):
    """The pass rates of a suite's runs, the oldest first."""

    suite: str
    runs: int
    rates: tuple[float, ...]
    """Rates of the latest runs."""


class Page(Struct, frozen=True):
    """The result of a query: the rows to show, and the total number."""

    rows: tuple[RunRow, ...]
    total: int
    known: int
    """Runs in the project."""
    shared: frozenset[str] = frozenset()
    """Endings of ids that match several runs."""
    last: str | None = None
    """The id that `last` refers to."""
    trend: Trend | None = None
    baselines: dict[str, tuple[str, ...]] = {}
    """The names of the baselines made from each run, by run id."""
