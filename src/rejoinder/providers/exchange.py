"""Old name, for the engine alone."""

from rejoinder.providers.shared import Exchange as Exchange
