"""What a call costs: the project's own prices first, then the price table of genai-prices.

What neither of them knows has no cost: it is never taken for free. The table comes with the installed package and is
never fetched. It is read when the first price is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct

from rejoinder.model.calls import Cost, Price, Usage
from rejoinder.model.suite import Target
from rejoinder.price_table import TABLES, find_model
from rejoinder.providers.registry import info_of
from rejoinder.providers.settings import model_of

if TYPE_CHECKING:
    from rejoinder.price_table.entries import PricedModel


class PriceList:
    """Prices calls. `overrides` are named by `provider/model`, by a model or by a target, with `*` for any text."""

    def __init__(self, overrides: Mapping[str, Price] | None = None, *, clock: Callable[[], datetime] | None = None):
        self._overrides = Overrides(overrides or {})
        self.has_own = bool(overrides)
        """Whether the project has prices of its own."""
        self._clock = clock or utc_now
        self._models: dict[tuple[str, str], PricedModel | None] = {}

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
            if source.is_free(name):
                return Cost(0.0, 0.0)
            listed = self._look_up(provider, name)
            if listed is not None:
                return listed.rates(self._clock()).cost(usage)
        return None

    def price_depends_on_reply(self, provider: str, model: str | None, target: str) -> bool:
        """May the model that a reply reports change what it costs? A deployment may be anything."""
        source = SOURCES.get(provider)
        if source is None or not source.deployments:
            return False
        return self._overrides.find([target, *full_names(provider, [model] if model else [])]) is None

    def _look_up(self, provider: str, name: str) -> PricedModel | None:
        key = provider, name
        if key not in self._models:
            found = find_model(SOURCES[provider].table, name)
            self._models[key] = found if found is not None and found.periods else None
        return self._models[key]


def price_of(
    target: Target, usage: Usage, prices: PriceList, *, model: str | None = None, reported: str | None = None
) -> Cost | None:
    """What tokens of a target cost; None where no price is known, or where it cannot be found: a paid reply is not lost
    because of that. `model`: what it asks for, unless that is as written; `reported`: the model that a reply names."""
    asked = model or model_of(target)
    try:
        return prices.cost(target.provider, asked, usage, reported_model=reported, target=target.name)
    except (ArithmeticError, ImportError, LookupError, OSError, TypeError, ValueError):
        return None


def foreseen_price(target: Target, usage: Usage, prices: PriceList, *, model: str | None = None) -> Cost | None:
    """The same before any call: what runs on this machine costs nothing, unless the project has a price for it."""
    if info_of(target.provider).local and not prices.has_own:
        return Cost(0.0, 0.0)
    return price_of(target, usage, prices, model=model)


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

    def is_free(self, model: str) -> bool:
        return self.free is not None and model.endswith(self.free)


SOURCES = {name: PriceSource(table) for name, table in TABLES.items()} | {
    "azure": PriceSource(TABLES["azure"], deployments=True),
    "gemini": PriceSource(TABLES["gemini"], serves=("gemini-*", "gemma-*")),  # its other models are sold by another API
    "openrouter": PriceSource(TABLES["openrouter"], serves=("*/*",), free=":free"),
}
"""Our names of providers. Who is not here (a local server, a script) has the prices that the project gives."""
