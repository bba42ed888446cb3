"""A run in a comparison, and the counts of each result for its case."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, cast

import msgspec
from msgspec import Struct

from rejoinder.model.comparisons import CaseState
from rejoinder.model.results import CaseName, CheckResult, Result
from rejoinder.model.trials import TrialCounts, count_trial
from rejoinder.stats.comparison import Trials
from rejoinder.stats.recovery import Tries, tries_of


class Side(Struct, frozen=True):
    """A run in a comparison."""

    run: str
    results: Iterable[Result]
    """They are read twice, one at a time."""
    target: str | None = None
    """Only this target's results count, and its cases match another target's."""
    variant: str | None = None
    """Like `target`, for a variant; empty for results without one."""

    def counted(self) -> Iterator[Result]:
        return filter(self._counts, self.results)

    def _counts(self, result: Result) -> bool:
        is_of_target = self.target is None or result.target == self.target
        return is_of_target and (self.variant is None or (result.variant or "") == self.variant)

    def name_of(self, result: Result) -> CaseName:
        """The name by which the result's case is matched."""
        name = result.case
        target = "" if self.target is not None else name.target
        return name._replace(target=target, variant="" if self.variant is not None else name.variant)

    def named(self, name: CaseName) -> CaseName:
        """The case with its target and variant, if it was matched without them."""
        target = name.target if self.target is None else self.target
        return name._replace(target=target, variant=name.variant if self.variant is None else self.variant)


class Tally(NamedTuple):
    """The sums over a case's trials. Its fields are columns of the table of cases."""

    place: int = 0
    question: int = 0
    """An equal number for the same question and checks; 0 if nothing was checked."""
    said: int = 0
    """A digest of the replies: the sum of the trials' digests, whatever their order."""
    tags: str = ""
    skipped: int = 0
    trials: int = 0
    """This and the next eleven fields match `TrialCounts`."""
    passed: int = 0
    first: int = 0
    gained: int = 0
    opened: int = 0
    errors: int = 0
    failed: int = 0
    recovered: int = 0
    controlled: int = 0
    against: int = 0
    afresh: int = 0
    unjudged: int = 0
    cost: float = 0.0
    costs: int = 0
    seconds: float = 0.0
    replies: int = 0
    tokens: int = 0
    conversations: int = 0
    passing: int | None = None
    """The position of the first result that passed; the next field has the first that did not."""
    failing: int | None = None
    condition: str = ""
    """The form of its task, if it has shards."""
    spoilt: int = 0
    """Invalid conversations; no other number includes them."""

    @property
    def eventual(self) -> Trials:
        return trials_of(self.passed, self.trials, self.errors, self.spoilt)

    @property
    def first_try(self) -> Trials:
        return trials_of(self.first, self.trials, self.errors, self.spoilt)

    @property
    def tries(self) -> Tries:
        return tries_of(TrialCounts(*cast("tuple[int, ...]", self[_TRIALS])))

    @property
    def state(self) -> CaseState:
        if 0 < self.passed < self.trials:
            return "flaky"
        return "passed" if self.passed else "error" if self.errors == self.trials else "failed"

    def says_as(self, other: Tally) -> bool:
        """True if both have the same replies; with unequal numbers of trials, each in the same share of them."""
        if self.trials == other.trials:
            return self.said == other.said
        return (self.said * other.trials - other.said * self.trials) & KEPT == 0

    @property
    def spent(self) -> tuple[float | None, float | None, float | None]:
        """The mean cost of a conversation, seconds per reply and tokens per conversation."""
        return (
            self.cost / self.costs if self.costs else None,
            self.seconds / self.replies if self.replies else None,
            self.tokens / self.conversations if self.conversations else None,
        )


@lru_cache(maxsize=1 << 12)
def trials_of(passed: int, trials: int, errors: int, spoilt: int = 0) -> Trials:
    """Trial counts, cached: cases are many and their counts few, so equal ones share one value."""
    return Trials(passed, trials, errors, spoilt)


_TRIALS = slice(Tally._fields.index("trials"), Tally._fields.index("unjudged") + 1)
KEPT = (1 << 61) - 1
"""Bits of a digest that are kept: two digests can be added."""
_encode = msgspec.json.Encoder().encode


def tally_of(result: Result, number: int) -> Tally:
    """The counts of one result. `number`: its position among its side's results."""
    tags = tags_in_text(result.tags) if result.tags else ""
    if result.status == "skipped":
        return Tally(skipped=1, tags=tags, condition=result.condition or "")
    if result.is_spoilt:
        return Tally(place=result.number, spoilt=1, tags=tags, condition=result.condition or "")
    checks = tuple(check.check for check in result.turns[0].checks) if result.turns else ()
    replies = tuple(turn.response for turn in result.turns)
    timed, has_reply = result.reply_times, any(reply is not None for reply in replies)
    return Tally(
        result.number,
        hash((_encode(result.raw_request), checks)) & KEPT if checks else 0,
        hash(f"{hash(replies)}") & KEPT,  # sums of hashes of tuples are too often equal
        tags,
        0,
        *count_trial(result),
        cost=0.0 if result.cost is None else float(result.cost),
        costs=int(result.cost is not None),
        seconds=float(sum(timed)),
        replies=len(timed),
        tokens=result.usage.total_tokens if has_reply else 0,
        conversations=int(has_reply),
        passing=number if result.passed else None,
        failing=None if result.passed else number,
        condition=result.condition or "",
    )


@lru_cache(maxsize=1 << 10)
def tags_in_text(tags: tuple[str, ...]) -> str:
    """One tag per line, so that the tags of several trials can be joined."""
    return "".join(f"{json.dumps(tag)}\n" for tag in tags)


@lru_cache(maxsize=1 << 10)
def read_tags(text: str) -> frozenset[str]:
    return frozenset(json.loads(line) for line in text.split("\n") if line)


def votes_of(checks: Iterable[CheckResult]) -> Iterator[tuple[str, tuple[float, ...]]]:
    """The checks with several votes of a judge, and the votes."""
    for check in checks:
        if check.judge is not None and len(check.votes) > 1:
            yield check.check, tuple(map(float, check.votes))
        yield from votes_of(check.children)
