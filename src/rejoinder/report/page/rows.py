"""One conversation in a list: what a row says of a `Result`, and all rows of a run in columns.

The script filters and counts by these; a column is a third of the size of as many objects.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct

from rejoinder.model import Receipt, Result
from rejoinder.report.course import Against, against, called, recovery_turn, recovery_words, spoilt_of
from rejoinder.report.runs import duration_of
from rejoinder.report.words import shortened

RowOutcome: TypeAlias = Literal["first", "recovered", "failed", "error", "skipped"]
OUTCOMES: tuple[RowOutcome, ...] = get_args(RowOutcome)
"""In the order that columns number them by."""
LONGEST_WHY = 200
"""Characters of the line that says why."""


class Frame(Struct, frozen=True):
    """What rows need to know of their run."""

    day: str = ""
    """The day of the run: a quarantine may be over."""
    clashing: frozenset[str] = frozenset()
    """Names that several of its suites have. These are told apart by their files."""


PLAIN = Frame()


def frame_of(receipt: Receipt) -> Frame:
    named = Counter(suite.name for suite in receipt.suites if suite.name)
    return Frame(receipt.day, frozenset(name for name, times in named.items() if times > 1))


class Row(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """One conversation in the list."""

    at: int
    """Its place in the results, from 0."""
    suite: str
    case: str
    title: str
    target: str
    trial: int
    outcome: RowOutcome
    turns: int
    tokens: int
    ms: int
    tags: tuple[str, ...] = ()
    variant: str | None = None
    score: float | None = None
    cost: float | None = None
    recovered_on: int = 0
    """The turn with which it recovered; 0 for others."""
    why: str = ""
    """In one line: what failed last; of one that recovered, what had failed first."""
    aside: str | None = None
    """Why it decides nothing: spoilt by its simulated user, or in quarantine."""


def row_of(result: Result, at: int, frame: Frame = PLAIN) -> Row:
    return Row(
        at=at,
        suite=suite_of(result, frame),
        case=result.id,
        title=result.title,
        target=result.target,
        trial=result.trial,
        outcome=outcome_of(result),
        turns=len(result.turns),
        tokens=result.usage.total_tokens,
        ms=round(1000 * duration_of(result)),
        tags=result.tags,
        variant=result.variant,
        score=None if result.score is None else round(result.score, 4),
        cost=result.total_cost,
        recovered_on=recovery_turn(result) if result.recovered else 0,
        why=why_of(result),
        aside=aside_of(result, frame),
    )


def suite_of(result: Result, frame: Frame) -> str:
    """The suite's name, with its file where another suite of the run has the same name."""
    return (
        suite_word(result.suite, result.suite_file or result.file) if result.suite in frame.clashing else result.suite
    )


def suite_word(name: str, file: str) -> str:
    """What tells a suite from others of its name."""
    return f"{name} ({file})"


def outcome_of(result: Result) -> RowOutcome:
    if result.status == "passed":
        return "recovered" if result.recovered else "first"
    return result.status


def aside_of(result: Result, frame: Frame) -> str | None:
    """Why a conversation decides nothing; None for one that counts."""
    if result.counts_on(frame.day):
        return None
    if result.is_spoilt:
        return f"spoilt by its simulated user, which {spoilt_of(result)}"
    quarantine = result.quarantine
    return None if quarantine is None else f"in quarantine until {quarantine.until}: {quarantine.reason}"


def why_of(result: Result) -> str:
    """Why it ended as it did, in one line; empty for one that passed at once."""
    if result.status == "error":
        return shortened(result.error.message if result.error is not None else "", LONGEST_WHY)
    if result.status == "failed":
        return shortened(next(map(_line, against(result)), ""), LONGEST_WHY)
    return shortened(failed_first(result), LONGEST_WHY) if result.recovered else ""


def failed_first(result: Result) -> str:
    """What had failed before a conversation recovered."""
    wrong = next((turn for turn in result.turns if not turn.passed), None)
    check = next((check for check in wrong.checks if not check.passed), None) if wrong is not None else None
    return recovery_words(result)[1] if check is None else f"{called(check)}: {check.reason}"


def _line(one: Against) -> str:
    return ": ".join(text for text in (one.where, one.what, one.why) if text)


class RunNames(Struct, frozen=True):
    """Two runs that are compared."""

    a: str
    b: str


class Head(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the script knows of the run."""

    run: str
    title: str
    """Its suites."""
    targets: tuple[str, ...]
    variants: tuple[str, ...]
    block: int
    """Conversations of a block."""
    judges: dict[str, str]
    """What is known of each judge, by the digest of its instructions."""
    fork: bool = False
    """May the command that forks be offered?"""
    version: str
    pair: RunNames | None = None
    """The two runs of a comparison."""


class Case(Struct, frozen=True, array_like=True):
    """A case, as the index lists it."""

    suite: str
    case: str
    title: str
    tags: tuple[str, ...]


class Columns(Struct, frozen=True):
    """All rows of a run, column by column: an entry for each conversation in each."""

    case: list[int]
    target: list[int]
    variant: list[int]
    """-1 without one."""
    trial: list[int]
    outcome: list[int]
    """Places in `OUTCOMES`."""
    turns: list[int]
    tokens: list[int]
    ms: list[int]
    score: list[float | None]
    cost: list[float | None]
    recovered_on: list[int]
    why: list[str]
    aside: list[str | None]
    body: list[int]
    """The place of the conversation in the blocks; -1 if it is left out."""


class Index:
    """Collects the rows of a run into columns."""

    def __init__(self) -> None:
        self.cases: list[Case] = []
        self.targets: list[str] = []
        self.variants: list[str] = []
        self.columns = Columns(*([] for _ in Columns.__struct_fields__))
        self._cases: dict[Case, int] = {}
        self._targets: dict[str, int] = {}
        self._variants: dict[str, int] = {}

    def add(self, row: Row, body: int) -> None:
        """`body`: its place in the blocks, or -1."""
        columns = self.columns
        case = Case(row.suite, row.case, row.title, row.tags)
        columns.case.append(_place(case, self._cases, self.cases))
        columns.target.append(_place(row.target, self._targets, self.targets))
        columns.variant.append(-1 if row.variant is None else _place(row.variant, self._variants, self.variants))
        columns.trial.append(row.trial)
        columns.outcome.append(OUTCOMES.index(row.outcome))
        columns.turns.append(row.turns)
        columns.tokens.append(row.tokens)
        columns.ms.append(row.ms)
        columns.score.append(row.score)
        columns.cost.append(row.cost)
        columns.recovered_on.append(row.recovered_on)
        columns.why.append(row.why)
        columns.aside.append(row.aside)
        columns.body.append(body)

    def document(self, head: Head) -> dict[str, Any]:
        return {
            "head": head,
            "cases": self.cases,
            "targets": self.targets,
            "variants": self.variants,
            "columns": self.columns,
        }


def _place(name: Any, places: dict[Any, int], names: list[Any]) -> int:
    place = places.setdefault(name, len(names))
    if place == len(names):
        names.append(name)
    return place
