"""A conversation in a list: the facts of its row."""

from __future__ import annotations

from collections import Counter
from typing import get_args

from msgspec import Struct

from rejoinder.model import Receipt, Result
from rejoinder.model.clusters import repeated_turns
from rejoinder.model.results import Span
from rejoinder.views.cases import duration_of
from rejoinder.views.course import (
    RowOutcome,
    outcome_of,
    outcome_words,
    recovery_turn,
    recovery_words,
    spoilt_of,
)
from rejoinder.views.reasons import Reason, first_reason, said_of
from rejoinder.words.clusters import cluster_keys
from rejoinder.words.figures import usage_words
from rejoinder.words.numbers import count, money, score_words, seconds, shortened

OUTCOMES: tuple[RowOutcome, ...] = get_args(RowOutcome)
"""In the order that columns number them by."""
LONGEST_REPLY = 80
"""Characters of a reply that a cell of the grid has room for."""
LONGEST_WHY = 200
"""Characters of the line that says why."""


class Frame(Struct, frozen=True):
    """The facts of a run that its rows need."""

    day: str = ""
    """The day of the run: a quarantine may be over."""
    clashing: frozenset[str] = frozenset()
    """Names that several of its suites have. These are told apart by their files."""


PLAIN = Frame()


def frame_of(receipt: Receipt) -> Frame:
    named = Counter(suite.name for suite in receipt.suites if suite.name)
    return Frame(receipt.day, frozenset(name for name, times in named.items() if times > 1))


class RowView(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """One conversation in the list. A number to sort by is beside its text."""

    at: int
    """Its place in the results, from 0."""
    suite: str
    case: str
    title: str
    target: str
    trial: int
    outcome: RowOutcome
    word: str
    """`Recovered on turn 2`."""
    turns: int
    length: str
    """`3 turns`."""
    tags: tuple[str, ...] = ()
    variant: str | None = None
    score: str = ""
    """Empty unless some score is strictly between 0 and 1."""
    tokens: int = 0
    used: str = ""
    """`25 tokens (20 in, 5 out)`; empty without a model."""
    ms: int = 0
    time: str = ""
    """`1.5 s`; empty if no reply has a meaningful time."""
    dollars: float | None = None
    cost: str = ""
    """`$0.0010`, with the cost of judges."""
    recovered_on: int = 0
    """The turn with which it recovered; 0 for others."""
    why: str = ""
    """In one line: what failed last; of one that recovered, what had failed first."""
    said: str = ""
    """In one line: the part of the reply that `why` is about."""
    span: Span | None = None
    """The place of the evidence in it."""
    reply: str = ""
    """In one line: the first words of the last reply, or those that decided against it."""
    same_as: int | None = None
    """The first turn whose words the reply to a follow-up repeats."""
    same: str = ""
    """`same words three times`; empty if no reply to a follow-up repeats an earlier one."""
    hit: str = ""
    """In one line: the part of the transcript with the words of a search; empty outside of searches."""
    clusters: tuple[str, ...] = ()
    """The names of its clusters, tags apart."""
    aside: str | None = None
    """Why it decides nothing: invalid because of its simulated user, or in quarantine."""


def row_of(result: Result, at: int, frame: Frame = PLAIN) -> RowView:
    reason, repeated = first_reason(result), repeated_turns(result.turns)
    has_model, taken_s, dollars = names_model(result), duration_of(result), result.total_cost
    return RowView(
        at=at,
        suite=suite_of(result, frame),
        case=result.id,
        title=result.title,
        target=result.target,
        trial=result.trial,
        outcome=outcome_of(result),
        word=outcome_words(result),
        turns=len(result.turns),
        length=count(len(result.turns), "turn"),
        tags=result.tags,
        variant=result.variant,
        score=score_words(result.score) if result.score is not None and has_part_scores(result) else "",
        tokens=result.usage.total_tokens,
        used=usage_words(result.usage) if has_model else "",
        ms=round(1000 * taken_s),
        time=seconds(taken_s) if result.reply_times else "",
        dollars=None if dollars is None else round(dollars, 9),
        cost=money(dollars) if has_model or dollars else "",
        recovered_on=recovery_turn(result) if result.recovered else 0,
        why=why_of(result, reason),
        said="" if reason is None else reason.said,
        span=None if reason is None else reason.span,
        reply=said_of(result, LONGEST_REPLY),
        same_as=next(iter(repeated.values()), None),
        same=_same_words(repeated),
        clusters=tuple(key.name for key in cluster_keys(result) if key.kind != "tag"),
        aside=aside_of(result, frame),
    )


def _same_words(repeated: dict[int, int]) -> str:
    if not repeated:
        return ""
    times = 1 + max(Counter(repeated.values()).values())
    return f"same words {_TIMES.get(times, f'{times:,} times')}"


_TIMES = {2: "twice", 3: "three times"}


def quoted_words(row: RowView) -> str:
    """`it said “You have 14 days.” · contains "30 days"`"""
    return " · ".join(filter(None, (row.said and f"it said “{row.said}”", row.why, row.same)))


def names_model(result: Result) -> bool:
    """Whether a model answered: the tokens and the time of a script mean nothing."""
    return any(turn.model is not None for turn in result.turns)


def has_part_scores(result: Result) -> bool:
    """Whether some score of a conversation says more than passed or failed."""
    if result.score is not None and 0 < result.score < 1:
        return True
    checks = [*result.conversation_checks, *(check for turn in result.turns for check in turn.checks)]
    while checks:
        check = checks.pop()
        if check.score is not None and 0 < check.score < 1:
            return True
        checks += check.children
    return False


def suite_of(result: Result, frame: Frame) -> str:
    """The suite's name, with its file where another suite of the run has the same name."""
    return (
        suite_word(result.suite, result.suite_file or result.file) if result.suite in frame.clashing else result.suite
    )


def suite_word(name: str, file: str) -> str:
    """The name of a suite that distinguishes it from others of the same name."""
    return f"{name} ({file})"


def aside_of(result: Result, frame: Frame) -> str | None:
    """Why a conversation decides nothing; None for one that counts."""
    if result.counts_on(frame.day):
        return None
    if result.is_spoilt:
        return f"invalid because its simulated user {spoilt_of(result)}"
    quarantine = result.quarantine
    return None if quarantine is None else f"in quarantine until {quarantine.until}: {quarantine.reason}"


def why_of(result: Result, reason: Reason | None) -> str:
    """Why it ended as it did, in one line; empty for one that passed at once."""
    if reason is None:
        return shortened(recovery_words(result)[1], LONGEST_WHY) if result.recovered else ""
    parts = (reason.where, reason.what if result.status != "error" else "", reason.told)
    return shortened(": ".join(filter(None, parts)), LONGEST_WHY)
