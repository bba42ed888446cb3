"""What a call costs: the project's own prices first, then the price table.

What neither of them knows has no cost: it is never taken for free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from rejoinder.model.calls import Usage
from rejoinder.model.prices import Cost, Price
from rejoinder.providers.price_table import SOURCES, Listing, find_listing


class PriceList:
    """Prices calls. `overrides` are named by `provider/model`, by a model or by a target, with `*` for any text."""

    def __init__(self, overrides: Mapping[str, Price] | None = None, *, clock: Callable[[], datetime] | None = None):
        self._overrides = Overrides(overrides or {})
        self._clock = clock or utc_now
        self._listings: dict[tuple[str, str], Listing | None] = {}

    def price(
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
