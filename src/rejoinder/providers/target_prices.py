"""The prices of a target's calls, from its provider, its model and the price list."""

from __future__ import annotations

from rejoinder.model.calls import Cost, Usage
from rejoinder.model.suite import Target
from rejoinder.prices.price_list import PriceList
from rejoinder.providers.registry import info_of
from rejoinder.providers.settings import model_of


def price_of(
    target: Target, usage: Usage, prices: PriceList, *, model: str | None = None, reported: str | None = None
) -> Cost | None:
    """The cost of a target's tokens; None if no price is known, or if it cannot be read: a paid reply is not lost
    because of that. `model`: the one that is asked, if not as written; `reported`: the model that a reply names."""
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
