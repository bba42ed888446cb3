"""Vendors and models of the price table, in the form that rejoinder needs: names, rates and periods.

These values make up a snapshot. If their fields change, or the way `package` fills them, `snapshot.FORMAT` changes.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from typing import Literal, TypeAlias

from msgspec import Struct

from rejoinder.model.calls import MILLION, Cost, Dollars, Price, Usage

_REQUESTS = "requests_kcount"
"""A price of each request, whatever its size."""


class Clause(Struct, frozen=True, array_like=True):
    """A condition on names of a model. Texts and names are in lower case."""

    kind: Literal["equals", "starts_with", "ends_with", "contains", "regex", "or", "and"]
    text: str = ""
    parts: tuple[Clause, ...] = ()

    def matches(self, name: str) -> bool:
        match self.kind:
            case "equals":
                return name == self.text
            case "or":
                return any(part.matches(name) for part in self.parts)
            case "and":
                return all(part.matches(name) for part in self.parts)
            case "starts_with":
                return name.startswith(self.text)
            case "ends_with":
                return name.endswith(self.text)
            case "contains":
                return self.text in name
            case "regex":
                return _finds(self.text, name)


def _finds(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return False


class Tier(Struct, frozen=True, array_like=True):
    """The rate of all tokens of a request whose input exceeds this number."""

    above: int
    rate: Dollars


class Tiers(Struct, frozen=True, array_like=True):
    base: Dollars
    tiers: tuple[Tier, ...]
    """The smallest first."""

    def at(self, sent: int) -> float:
        return next((tier.rate for tier in reversed(self.tiers) if sent > tier.above), self.base)


Rate: TypeAlias = Dollars | Tiers


class Rates(Struct, frozen=True, omit_defaults=True):
    """Dollars per million tokens of each kind; None: no separate price."""

    input: Rate | None = None
    output: Rate | None = None
    cached: Rate | None = None
    cache_write: Rate | None = None
    reasoning: Rate | None = None
    others: tuple[str, ...] = ()
    """Other priced items, by their names in the table: sounds, pictures, searches."""

    def cost(self, usage: Usage) -> Cost | None:
        """The cost; None if a used item has no price: it is not free."""
        if self.input is None or (usage.output_tokens and self.output is None):
            return None
        # Counts may contradict each other; such a server is believed as in `Price.cost`.
        sent = max(usage.input_tokens, usage.cached_tokens + usage.cache_write_tokens)
        output = _at(self.output, sent) or 0.0
        price = Price(
            input=_at(self.input, sent) or 0.0,
            output=output,
            cached=_at(self.cached, sent),
            cache_write=_at(self.cache_write, sent),
        )
        cost = price.cost(usage)
        reasoning = _at(self.reasoning, sent)
        if reasoning is None:
            return cost
        reasoned = min(usage.reasoning_tokens, usage.output_tokens)
        received = (usage.output_tokens - reasoned) * output + reasoned * reasoning
        return Cost(cost.input, received / MILLION)

    @property
    def vary(self) -> bool:
        """Whether a token's price depends on more than being sent, received or cached."""
        rates = (self.input, self.output, self.cached, self.cache_write)
        return any(isinstance(rate, Tiers) for rate in rates) or self.reasoning is not None or _REQUESTS in self.others


def _at(rate: Rate | None, sent: int) -> float | None:
    return rate.at(sent) if isinstance(rate, Tiers) else rate


class Period(Struct, frozen=True, omit_defaults=True):
    """The time in which rates apply: since a day, or between two hours of each day, in UTC; or always."""

    rates: Rates
    since: date | None = None
    hours: tuple[time, time] | None = None

    def holds(self, now: datetime) -> bool:
        now = now.astimezone(UTC)
        if self.since is not None:
            return now.date() >= self.since
        if self.hours is None:
            return True
        start, end = self.hours
        return start <= now.time() < end if start <= end else not end <= now.time() < start


class PricedModel(Struct, frozen=True, omit_defaults=True):
    id: str
    match: Clause
    periods: tuple[Period, ...] = ()
    """The last matching one counts, and the first if none matches. Empty: no price is known."""
    name: str | None = None
    context_window: int | None = None
    deprecated: bool = False

    def rates(self, now: datetime) -> Rates:
        return next((period.rates for period in reversed(self.periods) if period.holds(now)), self.periods[0].rates)

    def varies(self, now: datetime) -> bool:
        """Whether the price depends on the size of a request or the hour, or is about to change."""
        last = self.periods[-1]
        return last.hours is not None or not last.holds(now) or last.rates.vary


class Vendor(Struct, frozen=True, omit_defaults=True):
    models: tuple[PricedModel, ...] = ()
    fallbacks: tuple[str, ...] = ()
    """Vendors whose models it also sells, at their prices."""

    def find(self, name: str) -> PricedModel | None:
        """The model with this name, given in lower case."""
        return next((model for model in self.models if model.match.matches(name)), None)
