"""Providers answer requests. Each is a file behind one protocol, imported when a target needs it."""

from rejoinder.model.providers import PROVIDERS as PROVIDERS
from rejoinder.model.providers import ProviderInfo as ProviderInfo
from rejoinder.providers.base import Provider as Provider
from rejoinder.providers.base import ProviderError as ProviderError
from rejoinder.providers.registry import info_of as info_of
from rejoinder.providers.registry import is_available as is_available
from rejoinder.providers.registry import is_plugin as is_plugin
from rejoinder.providers.registry import open_provider as open_provider

# Old names, for the engine alone: it asks `info_of` instead.
AVAILABLE = frozenset(name for name, info in PROVIDERS.items() if info.opens)
OVER_HTTP = frozenset(name for name, info in PROVIDERS.items() if info.over_http)
FREE = frozenset(name for name, info in PROVIDERS.items() if info.local)
UNCOUNTED = frozenset(name for name, info in PROVIDERS.items() if not info.counted)
RUNS_CODE = frozenset(name for name, info in PROVIDERS.items() if info.runs_code)
EMBEDS = frozenset(name for name, info in PROVIDERS.items() if info.embeds)
