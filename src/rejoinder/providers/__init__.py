"""Providers: who answers. Each is a file behind one protocol, imported when a target needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rejoinder.errors import UsageError
from rejoinder.model import Target
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
AVAILABLE = OVER_HTTP | {"scripted", "python", "mock"}
FREE = frozenset({"scripted", "mock"})
"""Providers that ask nobody: they answer at once, and nobody is paid."""
RUNS_CODE = frozenset({"python"})
"""Providers that run the user's own code."""


def open_provider(
    target: Target, folders: tuple[str, ...], environment: Mapping[str, str], exchange: Exchange
) -> Provider:
    """The provider of a target. Raises UsageError where this version has none, or where the target lacks something."""
    if target.provider == "scripted":
        from rejoinder.providers.scripted import ScriptedProvider  # noqa: PLC0415 - one provider a run, mostly

        return ScriptedProvider(target)
    if target.provider == "python":
        from rejoinder.providers.python import PythonProvider  # noqa: PLC0415

        return PythonProvider(target, folders)
    if target.provider == "mock":
        from rejoinder.providers.mock import MockProvider  # noqa: PLC0415

        return MockProvider(target)
    if target.provider in OVER_HTTP:
        from rejoinder.providers.vendors import open_api  # noqa: PLC0415

        return open_api(target, environment, exchange)
    raise UsageError(
        f"target `{target.name}` needs the provider `{target.provider}`, which this version cannot run",
        f"The providers that run are {', '.join(sorted(AVAILABLE))}.",
    )


__all__ = ["AVAILABLE", "FREE", "OVER_HTTP", "RUNS_CODE", "Provider", "ProviderError", "open_provider"]
