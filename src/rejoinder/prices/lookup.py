"""Names of vendors and models, looked up in the price table."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

from rejoinder.model.providers import PROVIDERS

if TYPE_CHECKING:
    from rejoinder.prices.entries import PricedModel
    from rejoinder.prices.snapshot import PriceTable

TABLES = {name: info.price_table for name, info in PROVIDERS.items() if info.price_table}
"""The table's name for each of our providers."""

_FIRST_PARTY = ("openai", "anthropic", "gemini", "mistral", "deepseek", "xai")
"""Vendors whose own models are proposed for a bare model name, the best known first."""

_DATE = re.compile(r"-(20\d\d)(\d\d)(\d\d)(?=-|:|$)")
_loading = Lock()


def load_table() -> PriceTable:
    """Load the table. Raises ImportError if the package is needed and missing."""
    with _loading:  # a thread may have begun, which is worth waiting for
        return _load_table()


@lru_cache(maxsize=1)
def _load_table() -> PriceTable:
    from rejoinder.prices.snapshot import PriceTable

    return PriceTable()


def table_version() -> str:
    from rejoinder.prices.package import installed_edition

    return installed_edition().version


def find_model(vendor: str, name: str, *, fallbacks: bool = True) -> PricedModel | None:
    """The model of this name in a vendor's list, or in the list of a vendor whose models it also sells."""
    name = name.lower()
    dashed = _DATE.sub(_dash, name)
    for form in (name,) if dashed == name else (name, dashed):
        table = load_table()
        sellers = [vendor, *(table.vendor(vendor).fallbacks if fallbacks else ())]
        for seller in sellers:
            found = table.vendor(seller).find(form)
            if found is not None:
                return found
    return None


def _dash(written: re.Match[str]) -> str:
    """A date with dashes, which OpenRouter leaves out."""
    try:
        return f"-{date(*map(int, written.groups())).isoformat()}"
    except ValueError:
        return written[0]


@lru_cache(maxsize=256)
def is_openrouter_id(provider: str, model: str, *, is_known: bool) -> bool:
    """Whether OpenRouter lists `provider/model`, and the provider itself does not list the model. `is_known`: the
    provider is known to us. Only an id with a dot or a colon can be OpenRouter's spelling of a model of a known
    provider."""
    if is_known and not (provider in TABLES and {".", ":"} & set(model)):
        return False
    if is_known and _lists(provider, model):
        return False
    written = {f"{provider}/{model}", f"{TABLES.get(provider, provider)}/{model}"}
    return any(listed.id in written for listed in load_table().vendor("openrouter").models)


def _lists(provider: str, model: str) -> bool:
    """Whether a vendor's own list has the model in this spelling. Anthropic writes dashes in place of OpenRouter's
    dots."""
    listed = find_model(TABLES[provider], model, fallbacks=False)
    return listed is not None and not ("." in model and listed.id.startswith(model.replace(".", "-")))


def vendor_of(model: str) -> str | None:
    """The vendor whose list has a model of exactly this name."""
    for provider in _FIRST_PARTY:
        if any(listed.id == model for listed in load_table().vendor(TABLES[provider]).models):
            return provider
    return None
