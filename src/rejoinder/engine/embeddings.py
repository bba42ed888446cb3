"""What texts mean, as vectors: asked for once in a run, however many conversations need the same one.

Who asks first is an accident, so what they cost is not put on anybody's account but on the run's.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from rejoinder.model import NO_USAGE, Failure, Reply, Usage

MOST_KEPT = 2000
"""Vectors that are kept at hand, the latest used ones: what all cases expect stays, and memory does not grow with the
run. A text that comes again after so many others is asked for, and counted, again."""

Answer = Reply | Failure


class Vectors:
    def __init__(self) -> None:
        self._known: OrderedDict[str, asyncio.Future[Answer]] = OrderedDict()
        self.usage: Usage = NO_USAGE
        self.costs: list[float | None] = []
        self.paid = False
        """Did anybody answer who may want money for it?"""

    async def get(self, key: str, ask: Callable[[], Awaitable[Answer]], *, free: bool = False) -> Answer:
        self.paid = self.paid or not free
        found = self._known.get(key)
        if found is None:
            found = asyncio.ensure_future(self._ask(key, ask))
            found.add_done_callback(_look)
            self._known[key] = found
        self._known.move_to_end(key)
        while len(self._known) > MOST_KEPT and next(iter(self._known.values())).done():
            self._known.popitem(last=False)
        return await asyncio.shield(found)  # others wait for it, too

    async def _ask(self, key: str, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        try:
            answer = await ask()
        except BaseException:
            self._known.pop(key, None)  # whoever asks next may have more luck
            raise
        if isinstance(answer, Failure):
            self._known.pop(key, None)
        else:
            self.usage += answer.usage
            self.costs.append(answer.cost)
        return answer

    async def close(self) -> None:
        """End what nobody waits for any more."""
        pending = [one for one in self._known.values() if not one.done()]
        for one in pending:
            one.cancel()
        await asyncio.gather(*self._known.values(), return_exceptions=True)


def _look(done: asyncio.Future[Answer]) -> None:
    """Whoever waited may be gone; what went wrong is not to be reported as something that nobody looked at."""
    if not done.cancelled():
        done.exception()
