"""Judge passports: how far a judge can be trusted, measured against replies that people have labelled.

A passport holds for one judge (its model) with one set of instructions (its digest).
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from rejoinder.model.bounds import Count, Interval, Number

PASSPORT_FORMAT = 1
Part = tuple[Count, Count]
"""So many of so many."""


class Labels(Struct, frozen=True):
    file: str
    hash: str
    rows: Count
    scored: Count
    """Rows that the judge gave a verdict on."""


class Rates(Struct, frozen=True, kw_only=True):
    """How far the judge's verdicts agree with people's; None where it cannot be computed."""

    scored: Count = 0
    agreement: Number | None
    agreement_interval: Interval | None = None
    base_rate: Number | None = None
    kappa: Number | None
    kappa_interval: Interval | None = None
    sensitivity: Number | None = None
    sensitivity_interval: Interval | None = None
    specificity: Number | None = None
    specificity_interval: Interval | None = None


class VerdictTable(Struct, frozen=True):
    """People's labels against the judge's verdicts, counted."""

    both_pass: Count = 0
    judge_only: Count = 0
    human_only: Count = 0
    both_fail: Count = 0


class Consistency(Struct, frozen=True, kw_only=True):
    """How steady the judge is over repeats."""

    replies: Count
    total: Count
    pairwise: Number
    unanimous: Number
    unanimous_interval: Interval
    alpha: Number | None


class FirstPlace(Struct, frozen=True, kw_only=True):
    """How often the answer that is shown first wins, where the order decides."""

    rate: Number
    n: Count
    clusters: Count
    standard_error: Number | None
    interval: Interval | None
    method: str | None


class Position(Struct, frozen=True, kw_only=True):
    """What the order of two answers does to the judge's verdict."""

    pairs: Count
    consistent: Number
    consistent_interval: Interval
    to_first: Count
    to_second: Count
    first: FirstPlace | None
    p_value: Number | None
    flips: Number


class Figures(Rates, frozen=True, kw_only=True):
    confusion: VerdictTable = VerdictTable()
    with_errors: Rates | None = None
    """The same rates, with each missing verdict as a wrong one."""
    self_consistency: Consistency | None = None
    position: Position | None = None


class Passport(Struct, frozen=True, kw_only=True):
    format: int = PASSPORT_FORMAT
    judge: str
    """Provider and model."""
    digest: str
    """The digest of the judge's instructions."""
    kind: str
    """The check, such as `llm_judge`."""
    asked: str = ""
    """What the judge was asked, as it was written."""
    labels: Labels
    repeat: Annotated[int, Meta(ge=1)] = 1
    figures: Figures
    passes: Part
    """Of the replies that people pass, how many the judge passes: sensitivity."""
    fails: Part
    """Of the replies that people fail, how many the judge fails: specificity."""
    version: str
    created_at: str

    @property
    def brief(self) -> PassportBrief:
        return PassportBrief(self.labels.scored, self.created_at, self.figures)


class PassportBrief(Struct, frozen=True):
    """What a summary says of a passport."""

    labels: Count
    created_at: str
    figures: Figures


class Finding(Struct, frozen=True):
    """What the judge said of one labelled reply, in all repeats."""

    id: str
    label: bool
    verdicts: list[bool]
    reasons: list[str]
    orders: list[tuple[float, float]]
    """For a comparison: the score of the reply when it was shown first, and when second."""
    troubles: list[str]
    """Why there was no verdict."""

    @property
    def is_wrong(self) -> bool:
        return bool(self.verdicts) and self.verdicts[0] != self.label


def describe_judge(kind: str, written: str) -> str:
    """A judge in one line, as its author wrote it."""
    asked: Any = msgspec.json.decode(written) if written else {}
    criteria = asked.get("criteria") or asked.get("prompt") or ""
    if isinstance(criteria, list):
        texts = (item if isinstance(item, str) else item.get("criterion", item.get("outcome")) for item in criteria)
        criteria = ", ".join(texts)
    return " ".join(f"{kind} {criteria}".split())
