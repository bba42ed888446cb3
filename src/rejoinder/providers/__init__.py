"""Providers answer requests. Each is a file behind one protocol, imported when a target needs it."""

from rejoinder.model.providers import PROVIDERS as PROVIDERS
from rejoinder.model.providers import ProviderInfo as ProviderInfo
from rejoinder.providers.base import Provider as Provider
from rejoinder.providers.base import ProviderError as ProviderError
from rejoinder.providers.registry import info_of as info_of
from rejoinder.providers.registry import is_plugin as is_plugin
from rejoinder.providers.registry import open_provider as open_provider
