"""Providers: who answers. Each is a file behind one protocol, imported when a target needs it."""

from __future__ import annotations

from rejoinder.errors import UsageError
from rejoinder.model import Target
from rejoinder.providers.base import Provider, ProviderError

AVAILABLE = frozenset({"scripted", "python"})
RUNS_CODE = frozenset({"python"})
"""Providers that run the user's own code."""


def open_provider(target: Target, folders: tuple[str, ...]) -> Provider:
    """The provider of a target. Raises UsageError where this version has none."""
    if target.provider == "scripted":
        from rejoinder.providers.scripted import ScriptedProvider  # noqa: PLC0415 - one provider a run, mostly

        return ScriptedProvider(target)
    if target.provider == "python":
        from rejoinder.providers.python import PythonProvider  # noqa: PLC0415

        return PythonProvider(target, folders)
    raise UsageError(
        f"target `{target.name}` needs the provider `{target.provider}`, which this version cannot run",
        f"The providers that run are {', '.join(sorted(AVAILABLE))}.",
    )


__all__ = ["AVAILABLE", "RUNS_CODE", "Provider", "ProviderError", "open_provider"]
