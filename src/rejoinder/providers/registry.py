"""The description of each provider, and the opening of a target's provider. The rows are in
`rejoinder/model/providers.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from rejoinder.errors import UsageError
from rejoinder.model import Target
from rejoinder.model.providers import CALLABLE, PROVIDERS, ProviderInfo, list_providers, row_of
from rejoinder.project.plugins import PROVIDERS_GROUP, find_entry_point
from rejoinder.providers.base import Provider

if TYPE_CHECKING:
    from rejoinder.providers.shared import Exchange


def is_plugin(provider: str) -> bool:
    """Whether an installed package provides it. Then it is code that only a run may load."""
    return provider not in (*PROVIDERS, CALLABLE) and find_entry_point(PROVIDERS_GROUP, provider) is not None


def info_of(provider: str) -> ProviderInfo:
    """The description of a provider. Loads a plug-in; raises UsageError if that fails."""
    if provider == CALLABLE:
        return row_of(provider)
    if provider in PROVIDERS:
        return PROVIDERS[provider]
    from rejoinder.providers.python import plugin_info

    return plugin_info(provider) or row_of(provider)


def open_provider(
    target: Target, folders: tuple[str, ...], environment: Mapping[str, str], exchange: Exchange, value: object = None
) -> Provider:
    """The provider of a target. `value`: the Python object that a program gave as the target. Raises UsageError if this
    version has no such provider, or if the target lacks a setting."""
    if target.provider == CALLABLE:
        from rejoinder.providers.callables import open_callable

        return open_callable(target, value, folders, exchange)
    module, _, name = row_of(target.provider).opens.partition(":")
    if module:
        opener = getattr(import_module(f"rejoinder.providers.{module}"), name)
        return opener(target, folders, environment, exchange)
    from rejoinder.providers.python import open_plugin

    plugin = open_plugin(target, folders)
    if plugin is not None:
        return plugin
    raise UsageError(
        f"target `{target.name}` needs the provider `{target.provider}`, which this version cannot run",
        f"The providers that run are {list_providers()}.",
    )
