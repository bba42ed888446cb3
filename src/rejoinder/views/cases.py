"""What exports need of a run, and the trials of a case as one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain, groupby
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from rejoinder.model import CaseStatus, Receipt, Result, Status, Summary, judge_case
from rejoinder.model.cases import is_flaky
from rejoinder.model.figures import Rate
from rejoinder.model.results import SystemPrompt

MOST_KEPT = 3
"""Trials of a case whose conversations are kept to be shown."""
MOST_MESSAGES = 20
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
    @property
    def confirming(self) -> Iterable[Result]: ...


def every_result(run: Run) -> Iterator[Result]:
    """The results, and behind them those of trials that confirm new failures."""
    yield from run.results
    if run.summary.confirmed:
        yield from run.confirming


class Prompts(Protocol):
    """The system prompts of a run, by its results."""

    def of(self, result: Result, /) -> SystemPrompt: ...


@runtime_checkable
class RunWithPrompts(Run, Protocol):
    """A run whose system prompts are recorded."""

    @property
    def system_prompts(self) -> Prompts: ...


class _NoPrompts:
    def of(self, _result: Result, /) -> SystemPrompt:
        return SystemPrompt()


def prompts_of(run: Run) -> Prompts:
    return run.system_prompts if isinstance(run, RunWithPrompts) else _NoPrompts()


class Selected(Struct, frozen=True):
    """What a document says that has only some of a run's results. Its summary is that of the whole run."""

    results: int
    """How many there are here."""
    of: int
    """How many were chosen, with those that a limit leaves out."""
    total: int
    """How many the run has."""
    options: dict[str, Any]
    """What they were chosen by."""


@runtime_checkable
class PartOfRun(Run, Protocol):
    """A run with only some of its results."""

    @property
    def selected(self) -> Selected: ...


class Trial(Struct, frozen=True):
    number: int
    status: Status
    duration_s: float
    recovered: bool = False


class SameError(Struct):
    """Trials of a case that ended in an error of the same words."""

    first: Result
    number: int = 0


class Tried(Struct, frozen=True, kw_only=True):
    """A case on one target, with all its trials: what other tools call a test."""

    status: CaseStatus
    """As the run itself judges the case."""
    first: Result
    statuses: dict[Status, int]
    """Its trials by how they ended, without those that a simulated user spoilt."""
    duration_s: float
    cost: float | None
    turns: int
    recovered: int = 0
    """Trials that passed after a follow-up."""
    kept: tuple[Result, ...]
    """Those that did not pass, and the first where all did; at most `MOST_KEPT`."""
    deciding: Result
    """The conversation that says why the case ended as it did."""
    listed: tuple[Trial, ...]
    """At most `MOST_LISTED`."""
    errors: dict[str, SameError] = {}
    """By their words; at most `MOST_MESSAGES`."""
    spoilt: Result | None = None
    """The first that a simulated user has spoilt."""

    @property
    def trials(self) -> int:
        return sum(self.statuses.values())

    @property
    def passed(self) -> int:
        return self.statuses.get("passed", 0)

    @property
    def finished(self) -> int:
        return self.trials - self.statuses.get("skipped", 0)

    @property
    def rate(self) -> Rate | None:
        """The share of its trials that passed; None if no trial finished."""
        from rejoinder.stats.intervals import wilson

        if not self.finished:
            return None
        interval = wilson(self.passed, self.finished)
        return Rate(self.passed / self.finished, self.passed, self.finished, 1, interval, "wilson")

    @property
    def is_flaky(self) -> bool:
        return is_flaky(self.statuses)

    @property
    def counted(self) -> str:
        """`4 of 5 passed`, and what was wanted if that is not every trial."""
        wanted = "" if self.first.needed is None else f", {self.first.needed[0]:,} of {self.first.needed[1]:,} needed"
        return f"{self.passed:,} of {self.finished:,} passed{wanted}"

    @property
    def apart(self) -> str | None:
        """Why a case decides nothing, and how it went all the same; None for one that counts."""
        if self.status == "spoilt":
            from rejoinder.views.course import spoilt_of

            return f"invalid because its simulated user {spoilt_of(self.spoilt or self.first)}"
        if self.status != "apart" or self.first.quarantine is None:
            return None
        return f"in quarantine until {self.first.quarantine.until}: {self.first.quarantine.reason}; {self.counted}"


def tried_cases(run: Run) -> Iterator[Tried]:
    """Trials of a case stand one after the other, so one case at a time is in memory, and few of its conversations."""
    day = run.run.day
    for _, trials in groupby(run.results, lambda result: result.case):
        yield join_trials(trials, day)


def join_trials(trials: Iterable[Result], day: str) -> Tried:
    """A case of its trials; there must be at least one."""
    trials = iter(trials)
    first = next(trials)
    statuses: dict[Status, int] = {}
    duration_s, turns, recovered = 0.0, 0, 0
    cost: float | None = 0.0
    kept: list[Result] = []
    firsts: dict[Status, Result] = {}
    listed: list[Trial] = []
    spoilt: list[Result] = []
    errors: dict[str, SameError] = {}
    for result in chain((first,), trials):
        taken_s = duration_of(result)
        duration_s += taken_s
        turns += len(result.turns)
        cost = None if cost is None or result.cost is None else cost + result.cost
        if result.is_spoilt:
            spoilt.append(result)
            continue
        statuses[result.status] = statuses.get(result.status, 0) + 1
        recovered += result.recovered
        firsts.setdefault(result.status, result)
        _count_error(errors, result)
        if len(listed) < MOST_LISTED:
            listed.append(Trial(result.trial, result.status, taken_s, result.recovered))
        if result.status == "failed" and statuses["failed"] == 1:
            kept.insert(0, result)  # it may decide the whole, however late it comes
        elif result.status != "passed":
            kept.append(result)
        del kept[MOST_KEPT:]
    status = judge_case(statuses, first, day, len(spoilt))
    return Tried(
        status=status,
        first=first,
        statuses=statuses,
        duration_s=duration_s,
        cost=cost,
        turns=turns,
        recovered=recovered,
        kept=tuple(kept) or (first,),
        deciding=next((firsts[one] for one in _WORST if one in firsts and status in ("apart", one)), first),
        listed=tuple(listed),
        errors=errors,
        spoilt=spoilt[0] if spoilt else None,
    )


def _count_error(errors: dict[str, SameError], result: Result) -> None:
    if result.status != "error" or result.error is None:
        return
    message = result.error.message
    if message not in errors and len(errors) >= MOST_MESSAGES:
        return
    errors.setdefault(message, SameError(result)).number += 1


_WORST: tuple[Status, ...] = ("failed", "error", "passed", "skipped")


def duration_of(result: Result) -> float:
    """The time of a conversation in seconds: what its replies took."""
    return sum(bounded(turn.duration_s) for turn in result.turns)


def bounded(seconds: float) -> float:
    """A duration that other formats can hold, whatever a damaged run says."""
    return min(max(0.0, seconds), LONGEST_S)


def milliseconds(time: str | None) -> int:
    """A time of ours in milliseconds since 1970; 0 if it is not known or not a time of our days."""
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


def eval_name(result: Result, run: Run) -> str:
    """`Eval 3 (trial 2)`: the number, and the names of its suite, target, variant and trial if there are several."""
    parts = [result.suite] if len(run.run.suites) > 1 else []
    parts += [result.target] if len(run.summary.by_target) > 1 else []
    parts += [result.variant] if result.variant is not None else []
    is_repeated = run.run.reported.repeat > 1 or run.summary.has_repeats
    parts += [f"trial {result.trial}"] if is_repeated else []
    return f"Eval {result.number} ({', '.join(parts)})" if parts else f"Eval {result.number}"
