"""What a call costs: the project's own prices first, then the price table of genai-prices.

What neither of them knows has no cost: it is never taken for free. The table comes with the installed package and is
never fetched. It is imported when the first price is looked up, because that takes longer than all other imports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct

from rejoinder.model.calls import Cost, Price, Usage
from rejoinder.price_table import TABLES, load_table

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice


class PriceList:
    """Prices calls. `overrides` are named by `provider/model`, by a model or by a target, with `*` for any text."""

    def __init__(self, overrides: Mapping[str, Price] | None = None, *, clock: Callable[[], datetime] | None = None):
        self._overrides = Overrides(overrides or {})
        self._clock = clock or utc_now
        self._listings: dict[tuple[str, str], Listing | None] = {}

    def cost(
        self,
        provider: str,
        model: str | None,
        usage: Usage,
        *,
        reported_model: str | None = None,
        target: str | None = None,
    ) -> Cost | None:
        """What a call has cost, or None where no price is known.

        The model that was asked for decides, and the one that the API reports where the first is unknown. The name
        of a deployment says nothing reliable, so there the reported model comes first.
        """
        asked = [name for name in (model, reported_model) if name]
        override = self._overrides.find([*([target] if target else ()), *full_names(provider, asked)])
        if override is not None:
            return override[1].cost(usage)
        source = SOURCES.get(provider)
        if source is None:
            return None
        for name in reversed(asked) if source.deployments else asked:
            listing = self._look_up(provider, name)
            if listing is not None:
                return listing.cost(usage, self._clock)
        return None

    def price_depends_on_reply(self, provider: str, model: str | None, target: str) -> bool:
        """May the model that a reply reports change what it costs? A deployment may be anything."""
        source = SOURCES.get(provider)
        if source is None or not source.deployments:
            return False
        return self._overrides.find([target, *full_names(provider, [model] if model else [])]) is None

    def _look_up(self, provider: str, model: str) -> Listing | None:
        key = provider, model
        if key not in self._listings:
            self._listings[key] = find_listing(SOURCES[provider], model, self._clock())
        return self._listings[key]


class Overrides:
    """The project's prices. An exact name beats a pattern, a long pattern a short one; letter case is no matter."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._exact = {name.casefold(): (name, price) for name, price in prices.items() if "*" not in name}
        patterns = [(name, price) for name, price in prices.items() if "*" in name]
        self._patterns = sorted(patterns, key=lambda entry: (-len(entry[0]), entry[0]))
        self._found: dict[tuple[str, ...], tuple[str, Price] | None] = {}

    def find(self, names: Sequence[str]) -> tuple[str, Price] | None:
        """The override for a target or model with these names, the most telling one first."""
        if not self._exact and not self._patterns:
            return None
        key = tuple(names)
        if key not in self._found:
            self._found[key] = self._search([name.casefold() for name in names])
        return self._found[key]

    def _search(self, names: list[str]) -> tuple[str, Price] | None:
        for name in names:
            if name in self._exact:
                return self._exact[name]
        for pattern, price in self._patterns:
            if any(matches(pattern, name) for name in names):
                return pattern, price
        return None


def full_names(provider: str, models: Iterable[str]) -> list[str]:
    return [name for model in models for name in (f"{provider}/{model}", model)]


def matches(pattern: str, name: str) -> bool:
    """Only `*` is special, and letter case does not matter."""
    plain = pattern.casefold().replace("[", "[[]").replace("?", "[?]")
    return fnmatchcase(name.casefold(), plain)


def utc_now() -> datetime:
    return datetime.now(UTC)


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
