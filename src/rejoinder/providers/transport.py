"""Old name, for the engine alone."""

from rejoinder.providers.http_client import Transport as Transport
