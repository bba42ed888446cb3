"""`callable`: a Python object of the program that runs the suite. If the program awaits the run, async functions are
called on its event loop.

Besides `reply`, an object may have `open` and `close`, sync or async: each is called once per run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from rejoinder.errors import UsageError
from rejoinder.model import Reply, Request, Target
from rejoinder.model.given import GIVE_AGAIN
from rejoinder.providers.base import ProviderError
from rejoinder.providers.python import PythonProvider
from rejoinder.providers.python_objects import ObjectProvider, makes_conversations
from rejoinder.providers.shared import Exchange
from rejoinder.user_code.functions import FunctionFault, call_function
from rejoinder.user_code.given import own_function, reply_of
from rejoinder.words.numbers import seconds

CLOSE_S = 30.0
"""Time that `close` of an object may take."""


def open_callable(target: Target, value: object, folders: tuple[str, ...], exchange: Exchange) -> PythonProvider:
    """The provider of a Python object. Raises UsageError if the program did not give it."""
    function, call = reply_of(value), str(target.settings.get("call", "?"))
    if value is None or function is None:
        raise UsageError(
            f"target `{target.name}` is the Python object `{call}`, which only the program that began the run has",
            f"{GIVE_AGAIN} To show, replay or compare the run, it is not needed.",
        )
    try:
        if makes_conversations(function):
            return ObjectProvider(call, function, folders)
    except FunctionFault as fault:
        raise UsageError(f"target `{target.name}`: {fault}") from None
    return CallableProvider(call, value, function, folders, exchange)


class CallableProvider(PythonProvider):
    """A function, or an object that is opened before the first call of a run and closed after the last one."""

    def __init__(
        self, name: str, value: object, function: Callable[..., Any], folders: tuple[str, ...], exchange: Exchange
    ) -> None:
        super().__init__(name, function, folders)
        self._open, self._close = own_function(value, "open"), own_function(value, "close")
        self._exchange = exchange
        self._opening: asyncio.Task[Any] | None = None

    async def reply(self, request: Request) -> Reply:
        if self._opening is None:
            self._opening = asyncio.create_task(self._begin())
        try:
            await asyncio.shield(self._opening)
        except FunctionFault as fault:
            raise ProviderError(str(fault), type="python", ends_target=True) from fault
        return await super().reply(request)

    async def close(self) -> None:
        opening = self._opening
        if opening is None:
            return
        if not opening.done():
            opening.cancel()
            await asyncio.wait([opening])
        if opening.cancelled() or opening.exception() is not None or self._close is None:
            return
        try:
            async with asyncio.timeout(CLOSE_S):
                await call_function(f"{self._name}.close", self._folders, self._close)
        except FunctionFault as fault:
            self._exchange.tell(str(fault))
        except TimeoutError:
            self._exchange.tell(f"`{self._name}.close` did not end within {seconds(CLOSE_S)}")

    async def _begin(self) -> None:
        if self._open is not None:
            await call_function(f"{self._name}.open", self._folders, self._open)
