"""`mock`: always the same answer, after a fixed or random time, with AgentV's fields."""

from __future__ import annotations

import asyncio
import random

from rejoinder.model import Reply, Request, Target, Usage
from rejoinder.providers.settings import normalize_keys
from rejoinder.providers.vector_bytes import no_embeddings

DEFAULT_RESPONSE = '{"answer": "A mock answered. Give the target a `response` to have it say something else."}'


class MockProvider:
    outside = False
    limiter = None

    def __init__(self, target: Target, *_: object) -> None:
        settings = normalize_keys(target.settings)
        self._response: str = settings.get("response", DEFAULT_RESPONSE)
        fixed = settings.get("delay_ms", 0)
        least = settings.get("delay_min_ms", fixed if "delay_max_ms" not in settings else 0)
        self._delays = (least / 1000, max(least, settings.get("delay_max_ms", least)) / 1000)

    async def reply(self, request: Request) -> Reply:
        if request.embed is not None:
            raise no_embeddings("mock")
        delay = random.uniform(*self._delays)
        if delay:
            await asyncio.sleep(delay)
        return Reply(self._response, self.foresee(request))

    def foresee(self, request: Request) -> Usage:  # noqa: ARG002 - every answer is the same
        return Usage(0, len(self._response.split()))

    async def close(self) -> None:
        pass
