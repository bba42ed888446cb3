"""The models that vendors list, from the price table of genai-prices.

The table comes with the installed package and is never fetched. Importing it takes longer than importing everything
else, so it is loaded only when a name cannot be understood without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

from rejoinder.model.providers import PROVIDERS

if TYPE_CHECKING:
    from genai_prices.types import Provider

TABLES = {name: info.price_table for name, info in PROVIDERS.items() if info.price_table}
"""Our names of providers, and what the table calls each."""

_FIRST_PARTY = ("openai", "anthropic", "gemini", "mistral", "deepseek", "xai")
"""Vendors whose own models are proposed for a bare model name, the best known first."""


@lru_cache(maxsize=1)
def load_table() -> Mapping[str, Provider]:
    """The package's own data, and not its current snapshot, which other code could have fetched from the network."""
    # By name, because a type checker would spend half a minute on the literal of 30,000 lines.
    providers: Iterable[Provider] = import_module("genai_prices.data").providers
    return {provider.id: provider for provider in providers}


@lru_cache(maxsize=256)
def is_openrouter_id(provider: str, model: str, *, is_known: bool) -> bool:
    """Does OpenRouter list `provider/model`, and the provider itself no such model? `is_known`: is it a provider of
    ours? Only an id with a dot or a colon can be OpenRouter's spelling of a model of a known provider."""
    if is_known and not (provider in TABLES and {".", ":"} & set(model)):
        return False
    if is_known and _lists(provider, model):
        return False
    written = {f"{provider}/{model}", f"{TABLES.get(provider, provider)}/{model}"}
    return any(listed.id in written for listed in load_table()["openrouter"].models)


def _lists(provider: str, model: str) -> bool:
    """Does a vendor's own list have the model in this spelling? Anthropic writes dashes where OpenRouter has dots."""
    listed = load_table()[TABLES[provider]].find_model(model)
    return listed is not None and not ("." in model and listed.id.startswith(model.replace(".", "-")))


def vendor_of(model: str) -> str | None:
    """The vendor whose list has a model of exactly this name."""
    for provider in _FIRST_PARTY:
        if any(listed.id == model for listed in load_table()[TABLES[provider]].models):
            return provider
    return None
