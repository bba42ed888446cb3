"""Old name, for the engine alone."""

from rejoinder.providers.http_api import ApiProvider as ApiProvider
from rejoinder.providers.http_api import Outgoing as Outgoing
