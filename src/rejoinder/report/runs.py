"""What exports need of a run, and the trials of a case as one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain, groupby
from typing import Protocol

from msgspec import Struct

from rejoinder.model import Receipt, Result, Status, Summary

MOST_KEPT = 3
"""Trials of a case whose conversations are kept to be shown."""
MOST_LISTED = 1_000
"""Trials of a case that are listed one by one."""
LONGEST_S = 1e8
"""Three years."""
LATEST_MS = 7_258_118_400_000
"""The year 2200. Nanoseconds since 1970 fit into 64 bits until 2554."""


class Run(Protocol):
    """What a writer needs of a `RunReport`. The results may be walked through more than once."""

    @property
    def run(self) -> Receipt: ...
    @property
    def summary(self) -> Summary: ...
    @property
    def results(self) -> Iterable[Result]: ...


class Trial(Struct, frozen=True):
    number: int
    status: Status
    duration_s: float


class Tried(Struct, frozen=True, kw_only=True):
    """A case on one target, with all its trials: what other tools call a test."""

    first: Result
    statuses: dict[Status, int]
    duration_s: float
    cost: float | None
    turns: int
    kept: tuple[Result, ...]
    """Those that did not pass, and the first where all did; at most `MOST_KEPT`."""
    listed: tuple[Trial, ...]
    """At most `MOST_LISTED`."""

    @property
    def trials(self) -> int:
        return sum(self.statuses.values())

    @property
    def status(self) -> Status:
        """What went worst: a failure is the model's, whatever else went wrong."""
        order: tuple[Status, ...] = ("failed", "error", "passed", "skipped")
        return next(status for status in order if status in self.statuses)

    @property
    def passed(self) -> int:
        return self.statuses.get("passed", 0)

    @property
    def finished(self) -> int:
        return self.trials - self.statuses.get("skipped", 0)

    @property
    def deciding(self) -> Result:
        """The conversation that says why the case ended as it did."""
        return next((result for result in self.kept if result.status == self.status), self.first)

    @property
    def is_flaky(self) -> bool:
        """Did the same case pass and fail?"""
        return "passed" in self.statuses and "failed" in self.statuses


def tried_cases(results: Iterable[Result]) -> Iterator[Tried]:
    """Trials of a case stand one after the other, so one case at a time is in memory, and few of its conversations."""
    for _, trials in groupby(results, _identity):
        yield _join(trials)


def _identity(result: Result) -> tuple[object, ...]:
    return result.suite, result.file, result.id, result.target, result.variant


def _join(trials: Iterator[Result]) -> Tried:
    first = next(trials)
    statuses: dict[Status, int] = {}
    duration_s, turns = 0.0, 0
    cost: float | None = 0.0
    kept: list[Result] = []
    listed: list[Trial] = []
    for result in chain((first,), trials):
        statuses[result.status] = statuses.get(result.status, 0) + 1
        duration_s += duration_of(result)
        if len(listed) < MOST_LISTED:
            listed.append(Trial(result.trial, result.status, duration_of(result)))
        turns += len(result.turns)
        cost = None if cost is None or result.cost is None else cost + result.cost
        if result.status == "failed" and statuses["failed"] == 1:
            kept.insert(0, result)  # the status of the whole is that of a failure, however late it comes
        elif result.status != "passed":
            kept.append(result)
        del kept[MOST_KEPT:]
    return Tried(
        first=first,
        statuses=statuses,
        duration_s=duration_s,
        cost=cost,
        turns=turns,
        kept=tuple(kept) or (first,),
        listed=tuple(listed),
    )


def duration_of(result: Result) -> float:
    """The time of a conversation in seconds: what its replies took."""
    return sum(bounded(turn.duration_s) for turn in result.turns)


def bounded(seconds: float) -> float:
    """A duration that other formats can hold, whatever a damaged run says."""
    return min(max(0.0, seconds), LONGEST_S)


def milliseconds(time: str | None) -> int:
    """A time of ours in milliseconds since 1970; 0 where it is not known or not a time of our days."""
    try:
        found = 0 if time is None else round(datetime.fromisoformat(time).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return 0
    return found if 0 < found < LATEST_MS else 0


def name_of(result: Result, run: Run) -> str:
    """What a case is called where each name stands once: its id, with what tells it from others of this run."""
    parts = [result.id]
    parts += [result.target] if len(run.summary.by_target) > 1 else []
    parts += [result.variant] if result.variant is not None else []
    return " / ".join(parts)
