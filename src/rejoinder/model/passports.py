"""Judge passports: how far a judge can be trusted, measured against replies that people have labelled.

A passport holds for one judge (its model) with one set of instructions (its digest).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from rejoinder.model.results import Count, Interval, Number

PASSPORT_FORMAT = 1
Part = tuple[Count, Count]
"""A number of replies, and of how many."""


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
    """The judge passes what people fail."""
    human_only: Count = 0
    """People pass what the judge fails."""
    both_fail: Count = 0


class SelfConsistency(Struct, frozen=True):
    """How often one judge repeats its own verdict on the same reply."""

    replies: Count
    """Those judged at least twice; only these can tell."""
    total: Count
    pairwise: Number
    """The mean, over replies, of the share of equal pairs of verdicts."""
    unanimous: Number
    """The share of replies on which all verdicts are equal."""
    unanimous_interval: Interval
    """Wilson, over replies."""
    alpha: Number | None
    """Krippendorff's, over the repeats."""


class ClusteredRate(Struct, frozen=True):
    """A rate over observations that come in clusters: several of one reply say less than as many of different ones."""

    rate: Number
    n: Count
    clusters: Count
    standard_error: Number | None = None
    interval: Interval | None = None
    method: Literal["clustered t", "wilson"] | None = None


class PositionBias(Struct, frozen=True):
    """What the order of two answers does to a judge that compares them."""

    pairs: Count
    consistent: Number
    """The share of pairs with the same verdict in both orders."""
    consistent_interval: Interval
    """Wilson, over pairs."""
    to_first: Count
    """Pairs in which an answer does better for standing first."""
    to_second: Count
    first: ClusteredRate | None
    """How often the first position wins, over the orders without a tie, clustered by pair; None if all are ties."""
    p_value: Number | None
    """Exact and two-sided, of to_first against to_second; None when no pair depends on the order."""
    flips: Number
    """The share of pairs whose verdict changes with the order."""


class Figures(Rates, frozen=True, kw_only=True):
    confusion: VerdictTable = VerdictTable()
    with_errors: Rates | None = None
    """The same rates, with each missing verdict as a wrong one."""
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
    reply: str = ""

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
