"""Sums of the money and tokens that calls cost."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from rejoinder.model.calls import Reply


class Amount(Struct, frozen=True, array_like=True):
    """Dollars and tokens."""

    usd: float = 0.0
    tokens: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.usd + other.usd, self.tokens + other.tokens)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.usd - other.usd, self.tokens - other.tokens)


NOTHING = Amount()


def amount_of(reply: Reply) -> Amount:
    """The money and tokens of one reply."""
    return Amount(reply.cost or 0.0, reply.usage.total_tokens)


class EmbeddingCosts(Struct, frozen=True):
    """The cost of the texts that a run embedded."""

    tokens: int
    costs: tuple[float | None, ...]
    """One for each text; None for a cost that is not known."""
    paid: bool
    """True if a billed target may have answered."""


def add_costs(costs: Iterable[float | None]) -> float | None:
    """The sum; None if a cost is not known, or if there are no costs."""
    total: float | None = None
    for cost in costs:
        if cost is None:
            return None
        total = cost if total is None else total + cost
    return total
