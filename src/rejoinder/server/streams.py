"""Server-sent events: one form for all streams, and one number of them that may be open at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from starlette.responses import StreamingResponse

from rejoinder.server.errors import ApiError
from rejoinder.words.inert import to_bytes

BEAT_S = 15.0
"""How often a silent stream shows that it is alive, so that a broken connection is noticed."""
BEAT = b": still here\n\n"


def event(kind: str, data: Any, mark: str = "") -> bytes:
    head = f"event: {kind}\n" + (f"id: {mark}\n" if mark else "")
    return head.encode() + b"data: " + to_bytes(data) + b"\n\n"


class Streams:
    """The streams that are open. They end when the server does."""

    def __init__(self, most: int, closing: asyncio.Event) -> None:
        self._most = most
        self._closing = closing
        self._open = 0

    def refuse_more(self) -> None:
        """Raises ApiError where there are as many as the server bears."""
        if self._open >= self._most:
            raise ApiError(429, "too many event streams are open", headers={"retry-after": "5"})

    def answer(self, news: AsyncGenerator[bytes | None], pause_s: float) -> StreamingResponse:
        """`news`: events as they come; None where there is nothing new, after which it is asked again after a pause.
        Raises ApiError where there are too many streams."""
        self.refuse_more()
        return StreamingResponse(self.told(news, pause_s), media_type="text/event-stream")

    async def told(self, news: AsyncGenerator[bytes | None], pause_s: float) -> AsyncGenerator[bytes]:
        self._open += 1
        silent = 0.0
        try:
            async with aclosing(news) as events:
                async for one in events:
                    if one is not None:
                        yield one
                        silent = 0.0
                    else:
                        await self._pause(pause_s)
                        silent += pause_s
                    if self._closing.is_set():
                        return
                    if silent >= BEAT_S:
                        yield BEAT
                        silent = 0.0
        finally:
            self._open -= 1

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)
