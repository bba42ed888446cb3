"""Embeddings: each text is embedded once in a run, however many conversations need it. What tools there are is asked
once in the same way.

Which conversation asks first is an accident, so their cost belongs to the run and not to a conversation.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from rejoinder.engine.calls import Call
from rejoinder.model import NO_USAGE, Failure, Reply, Usage
from rejoinder.model.providers import row_of
from rejoinder.model.spending import EmbeddingCosts

MOST_KEPT = 2000
"""Vectors that are kept in memory, the latest used ones, so that memory does not grow with the run. A text that comes
again after as many others is embedded, and counted, again."""

Answer = Reply | Failure


class Embeddings:
    def __init__(self) -> None:
        self._known: OrderedDict[str, asyncio.Future[Answer]] = OrderedDict()
        self.usage: Usage = NO_USAGE
        self.costs: list[float | None] = []
        self.paid = False
        """True if a billed target may have answered."""

    @property
    def spent(self) -> EmbeddingCosts:
        return EmbeddingCosts(self.usage.input_tokens, tuple(self.costs), self.paid)

    async def get(self, call: Call, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        self.paid = self.paid or (call.target is not None and not row_of(call.target.provider).local)
        key = call.key
        found = self._known.get(key)
        if found is None:
            found = asyncio.ensure_future(self._ask(call, ask))
            found.add_done_callback(_retrieve_exception)
            self._known[key] = found
        self._known.move_to_end(key)
        while len(self._known) > MOST_KEPT and next(iter(self._known.values())).done():
            self._known.popitem(last=False)
        return await asyncio.shield(found)  # other conversations wait for it too

    async def _ask(self, call: Call, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        try:
            answer = await ask()
        except BaseException:
            self._known.pop(call.key, None)  # the next call may succeed
            raise
        if isinstance(answer, Failure):
            self._known.pop(call.key, None)
        elif call.kind == "embedding":
            self.usage += answer.usage
            self.costs.append(answer.cost)
        return answer

    async def close(self) -> None:
        """Cancel what is still in flight."""
        pending = [one for one in self._known.values() if not one.done()]
        for one in pending:
            one.cancel()
        await asyncio.gather(*self._known.values(), return_exceptions=True)


def _retrieve_exception(done: asyncio.Future[Answer]) -> None:
    """Retrieve the exception, so that asyncio does not warn that it was never retrieved."""
    if not done.cancelled():
        done.exception()
