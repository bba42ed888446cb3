"""The cost of calls: the project's own prices first, then the price table of genai-prices.

A call without a known price has no cost: it is never counted as free. The table comes with the installed package and is
never fetched. It is read when the first price is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct

from rejoinder.model.calls import Cost, Price, Usage
from rejoinder.prices.lookup import TABLES, find_model

if TYPE_CHECKING:
    from rejoinder.prices.entries import PricedModel


class PriceList:
    """Prices calls. `overrides` are keyed by `provider/model`, by a model or by a target, with `*` for any text."""

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
        """The cost of a call; None if no price is known.

        The requested model decides; if it is unknown, the model that the API reports. The name of a deployment is not
        reliable, so for deployments the reported model comes first.
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
        """Whether the model that a reply reports may change its cost. A deployment may be any model."""
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


class Overrides:
    """The project's prices. An exact name beats a pattern, a long pattern a short one; letter case does not matter."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._exact = {name.casefold(): (name, price) for name, price in prices.items() if "*" not in name}
        patterns = [(name, price) for name, price in prices.items() if "*" in name]
        self._patterns = sorted(patterns, key=lambda entry: (-len(entry[0]), entry[0]))
        self._found: dict[tuple[str, ...], tuple[str, Price] | None] = {}

    def find(self, names: Sequence[str]) -> tuple[str, Price] | None:
        """The override for a target or model with these names, the most specific name first."""
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
    """Whether a name matches. Only `*` is special, and letter case does not matter."""
    plain = pattern.casefold().replace("[", "[[]").replace("?", "[?]")
    return fnmatchcase(name.casefold(), plain)


def utc_now() -> datetime:
    return datetime.now(UTC)


class PriceSource(Struct, frozen=True):
    """A provider's place in the price table, and the part of it that is available under the provider's name."""

    table: str
    serves: tuple[str, ...] = ("*",)
    free: str | None = None
    """The suffix by which the provider marks free models."""
    deployments: bool = False
    """Whether a model is requested by a name that the user made up."""

    def is_free(self, model: str) -> bool:
        return self.free is not None and model.endswith(self.free)


SOURCES = {name: PriceSource(table) for name, table in TABLES.items()} | {
    "azure": PriceSource(TABLES["azure"], deployments=True),
    "gemini": PriceSource(TABLES["gemini"], serves=("gemini-*", "gemma-*")),  # its other models are sold by another API
    "openrouter": PriceSource(TABLES["openrouter"], serves=("*/*",), free=":free"),
}
"""Our names of providers. A provider that is missing here (a local server, a script) has only the project's prices."""
