"""The price table of genai-prices: what a vendor asks for a model.

The table comes with the installed package and is never fetched. It is imported when the first price is looked up,
because it takes longer to import than everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from rejoinder.model.calls import Usage
from rejoinder.model.prices import Cost, Price
from rejoinder.suite.catalog import TABLES, load_table

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice


class PriceSource(Struct, frozen=True):
    """Where a provider's prices stand in the table, and what of it can be asked for under its name there."""

    table: str
    serves: tuple[str, ...] = ("*",)
    free: str | None = None
    """The ending by which the provider itself marks what costs nothing."""
    deployments: bool = False
    """Is a model asked for by a name that the user made up?"""


SOURCES = {name: PriceSource(table) for name, table in TABLES.items()} | {
    "azure": PriceSource(TABLES["azure"], deployments=True),
    "gemini": PriceSource(TABLES["gemini"], serves=("gemini-*", "gemma-*")),  # its other models are sold by another API
    "openrouter": PriceSource(TABLES["openrouter"], serves=("*/*",), free=":free"),
}
"""Our names of providers. Who is not here (a local server, a script) has the prices that the project gives."""

_FREE = Price(input=0.0, output=0.0)

_OTHER_RATES = ("output_reasoning_mtok", "requests_kcount")
"""Rates beside the four of a `Price` that change what a text costs."""


def table_version() -> str:
    from genai_prices import __version__

    return __version__


class Listing(Struct, frozen=True):
    """A model in the table. `flat` is its price where that is the same for every size, hour and kind of output."""

    model: ModelInfo | None
    flat: Price | None

    def cost(self, usage: Usage, clock: Callable[[], datetime]) -> Cost | None:
        if self.flat is not None:
            return self.flat.cost(usage)
        return None if self.model is None else _charge(self.model.get_prices(clock()), usage)


def find_listing(source: PriceSource, model: str, now: datetime) -> Listing | None:
    if source.free and model.endswith(source.free):
        return Listing(None, _FREE)
    providers = load_table()
    found = providers[source.table].find_model(model, all_providers=list(providers.values()))
    if found is None or found.prices == []:
        return None
    return Listing(found, flat_price(found, now))


def flat_price(model: ModelInfo, now: datetime) -> Price | None:
    """The rates as plain numbers, which is a hundred times faster than asking the library each time."""
    from genai_prices.types import TieredPrices

    prices = _settled_prices(model, now)
    if prices is None or any(getattr(prices, name) is not None for name in _OTHER_RATES):
        return None
    rates: list[float | None] = []
    for rate in (prices.input_mtok, prices.output_mtok, prices.cache_read_mtok, prices.cache_write_mtok):
        if isinstance(rate, TieredPrices):
            return None
        rates.append(None if rate is None else float(rate))
    sent, received, cached, cache_write = rates
    if sent is None or received is None:
        return None
    return Price(input=sent, output=received, cached=cached, cache_write=cache_write)


def _settled_prices(model: ModelInfo, now: datetime) -> ModelPrice | None:
    """The prices that hold from now on whatever the hour. The last in the list that is in force counts."""
    from genai_prices.types import ModelPrice, StartDateConstraint

    if isinstance(model.prices, ModelPrice):
        return model.prices
    last = model.prices[-1]
    begun = isinstance(last.constraint, StartDateConstraint) and last.constraint.active(now)
    return last.prices if begun or last.constraint is None else None


def _charge(prices: ModelPrice, usage: Usage) -> Cost | None:
    """The library's own answer. It takes what has no price for free; here that has no cost."""
    from genai_prices.types import Usage as Counts

    if prices.input_mtok is None or (usage.output_tokens and prices.output_mtok is None):
        return None
    counts = Counts(
        # It refuses counts that contradict each other; such a server is believed as in `Price.cost`.
        input_tokens=max(usage.input_tokens, usage.cached_tokens + usage.cache_write_tokens),
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
        output_reasoning_tokens=min(usage.reasoning_tokens, usage.output_tokens),
    )
    charged = prices.calc_price(counts)
    return Cost(float(charged["input_price"]), float(charged["output_price"]))
