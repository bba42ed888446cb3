"""Providers answer requests. Each is a file behind one protocol, imported when a target needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rejoinder.errors import UsageError
from rejoinder.model import Target
from rejoinder.project import PROVIDERS_GROUP, find_entry_point
from rejoinder.providers.base import Provider, ProviderError

if TYPE_CHECKING:
    from rejoinder.providers.exchange import Exchange

OVER_HTTP = frozenset(
    {
        *("openai", "openrouter", "ollama", "vllm", "lmstudio", "groq", "mistral", "deepseek", "xai", "together"),
        *("azure", "anthropic", "gemini", "http"),
    }
)
"""Providers that are asked over HTTP; named here, so that the rest need not load what they need."""
AVAILABLE = OVER_HTTP | {"scripted", "python", "mock", "local_embeddings", "replay"}
FREE = frozenset({"scripted", "mock", "local_embeddings", "replay"})
"""Providers that ask nobody: they answer at once, and nobody is paid."""
UNCOUNTED = frozenset({"local_embeddings", "replay"})
"""Those of them that use no tokens either: what they say costs nothing, or has been paid for."""
RUNS_CODE = frozenset({"python"})
"""Providers that run the user's own code."""
EMBEDS = (OVER_HTTP - {"anthropic", "http"}) | {"scripted", "local_embeddings", "replay"}
"""Providers that can turn a text into a vector; a server that resembles OpenAI's may still have no model for it."""


def is_available(provider: str) -> bool:
    """Can this version, or an installed package, run it?"""
    return provider in AVAILABLE or find_entry_point(PROVIDERS_GROUP, provider) is not None


def open_provider(
    target: Target, folders: tuple[str, ...], environment: Mapping[str, str], exchange: Exchange
) -> Provider:
    """The provider of a target. Raises UsageError where this version has none, or where the target lacks something."""
    if target.provider == "scripted":
        from rejoinder.providers.scripted import ScriptedProvider

        return ScriptedProvider(target)
    if target.provider == "python":
        from rejoinder.providers.python import open_function

        return open_function(target, folders)
    if target.provider == "mock":
        from rejoinder.providers.mock import MockProvider

        return MockProvider(target)
    if target.provider == "local_embeddings":
        from rejoinder.providers.local_embeddings import LocalEmbeddings

        return LocalEmbeddings(target, folders)
    if target.provider == "replay":
        from rejoinder.providers.replay import ReplayProvider

        return ReplayProvider(target, folders, exchange)
    if target.provider in OVER_HTTP:
        from rejoinder.providers.vendors import open_api

        return open_api(target, environment, exchange, folders)
    from rejoinder.providers.plugins import open_plugin

    plugin = open_plugin(target, folders)
    if plugin is not None:
        return plugin
    raise UsageError(
        f"target `{target.name}` needs the provider `{target.provider}`, which this version cannot run",
        f"The providers that run are {', '.join(sorted(AVAILABLE))}.",
    )


__all__ = [
    "AVAILABLE",
    "EMBEDS",
    "FREE",
    "OVER_HTTP",
    "RUNS_CODE",
    "UNCOUNTED",
    "Provider",
    "ProviderError",
    "is_available",
    "open_provider",
]
