"""The one protocol of all providers: a request in, a reply out, or a ProviderError."""

from __future__ import annotations

from typing import Protocol

from rejoinder.errors import RejoinderError
from rejoinder.model import Reply, Request


class ProviderError(RejoinderError):
    """A call failed. `retryable` says whether sending it again may help."""

    def __init__(
        self, message: str, *, type: str = "provider", retryable: bool = False, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.type = type
        self.retryable = retryable
        self.status = status


class Provider(Protocol):
    outside: bool
    """Does a call leave this process? Then it can be in doubt after a crash, and is noted before it is made."""

    async def reply(self, request: Request) -> Reply: ...

    async def close(self) -> None:
        """Let go of connections and threads."""
        ...
