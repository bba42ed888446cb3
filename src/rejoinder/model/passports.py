"""Judge tests: the reliability of a judge, measured against human labels.

A result holds for one judge (its model) with one set of instructions (its digest).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from rejoinder.model.results import Count, Interval, Number

PASSPORT_FORMAT = 1
Part = tuple[Count, Count]
"""A count of replies, and the total."""


class Labels(Struct, frozen=True):
    file: str
    hash: str
    rows: Count
    scored: Count
    """Rows with a verdict of the judge."""


class Rates(Struct, frozen=True, kw_only=True):
    """The agreement of the judge's verdicts with human labels; None if it cannot be computed."""

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
    """Human labels against the judge's verdicts, counted."""

    both_pass: Count = 0
    judge_only: Count = 0
    """The judge passes, the human fails."""
    human_only: Count = 0
    """The human passes, the judge fails."""
    both_fail: Count = 0


class SelfConsistency(Struct, frozen=True):
    """The rate at which a judge repeats its own verdict on the same reply."""

    replies: Count
    """Replies judged at least twice; only these count here."""
    total: Count
    pairwise: Number
    """The mean, over replies, of the share of equal pairs of verdicts."""
    unanimous: Number
    """The share of replies with equal verdicts only."""
    unanimous_interval: Interval
    """Wilson, over replies."""
    alpha: Number | None
    """Krippendorff's, over the repeats."""


class ClusteredRate(Struct, frozen=True):
    """A rate over clustered observations: several of one reply are worth less than the same number from different
    replies."""

    rate: Number
    n: Count
    clusters: Count
    standard_error: Number | None = None
    interval: Interval | None = None
    method: Literal["clustered t", "wilson"] | None = None


class PositionBias(Struct, frozen=True):
    """The effect of the order of two answers on a judge that compares them."""

    pairs: Count
    consistent: Number
    """The share of pairs with the same verdict in both orders."""
    consistent_interval: Interval
    """Wilson, over pairs."""
    to_first: Count
    """Pairs in which an answer does better in the first position."""
    to_second: Count
    first: ClusteredRate | None
    """The rate at which the first position wins, over the orders without a tie, clustered by pair; None if all are
    ties."""
    p_value: Number | None
    """Exact and two-sided, of to_first against to_second; None if no pair depends on the order."""
    flips: Number
    """The share of pairs whose verdict changes with the order."""


class Figures(Rates, frozen=True, kw_only=True):
    confusion: VerdictTable = VerdictTable()
    with_errors: Rates | None = None
    """The same rates with each missing verdict counted as wrong."""
    self_consistency: SelfConsistency | None = None
    position: PositionBias | None = None


class Passport(Struct, frozen=True, kw_only=True):
    format: int = PASSPORT_FORMAT
    judge: str
    """Provider and model."""
    digest: str
    """The digest of the judge's instructions."""
    kind: str
    """The check, such as `llm_judge`."""
    asked: str = ""
    """The judge's instructions as written."""
    labels: Labels
    repeat: Annotated[int, Meta(ge=1)] = 1
    figures: Figures
    passes: Part
    """Replies that the judge passes, of those that the human passes: sensitivity."""
    fails: Part
    """Replies that the judge fails, of those that the human fails: specificity."""
    version: str
    created_at: str

    @property
    def brief(self) -> PassportBrief:
        return PassportBrief(self.labels.scored, self.created_at, self.figures)


class PassportBrief(Struct, frozen=True):
    """The summary's part of a judge test."""

    labels: Count
    created_at: str
    figures: Figures


class Finding(Struct, frozen=True):
    """The judge's verdicts on one labelled reply, in all repeats."""

    id: str
    label: bool
    verdicts: list[bool]
    reasons: list[str]
    orders: list[tuple[float, float]]
    """For a comparison: the reply's score in the first position, and in the second."""
    troubles: list[str]
    """Reasons for missing verdicts."""
    reply: str = ""

    @property
    def is_wrong(self) -> bool:
        return bool(self.verdicts) and self.verdicts[0] != self.label


def describe_judge(kind: str, written: str) -> str:
    """A judge on one line, as its author wrote it."""
    asked: Any = msgspec.json.decode(written) if written else {}
    criteria = asked.get("criteria") or asked.get("prompt") or ""
    if isinstance(criteria, list):
        texts = (item if isinstance(item, str) else item.get("criterion", item.get("outcome")) for item in criteria)
        criteria = ", ".join(texts)
    return " ".join(f"{kind} {criteria}".split())
