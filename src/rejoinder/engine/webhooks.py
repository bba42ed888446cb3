"""Sends what a `webhook` check has for an address of the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rejoinder.checks.base import Post
from rejoinder.project.environment import own_environment
from rejoinder.providers.base import ProviderError

if TYPE_CHECKING:
    from rejoinder.providers.http_client import Transport


class Webhooks:
    def __init__(self) -> None:
        self._transport: Transport | None = None

    async def post(self, post: Post) -> str:
        """The body of the answer. Raises ProviderError, for a refusal too: it is no verdict."""
        if self._transport is None:
            from rejoinder.providers.http_client import Transport

            self._transport = Transport(own_environment())
        answer = await self._transport.send("POST", post.url, post.headers, post.body, timeout_s=post.timeout_s)
        body = answer.body.decode("utf-8", "replace")
        if not 200 <= answer.status < 300:
            raise ProviderError(f"it answered {answer.status}: {body[:200]}".rstrip(": "), status=answer.status)
        return body

    async def close(self) -> None:
        if self._transport is not None:
            await self._transport.close()
