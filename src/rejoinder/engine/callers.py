"""The verbs as Python programs call them: from anywhere, or awaited on the event loop of the program."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from rejoinder.engine.interrupts import Deadline, passed_on
from rejoinder.engine.loops import CallerLoop, own_loops

P = ParamSpec("P")
T = TypeVar("T")


def outside_loop(verb: Callable[P, T]) -> Callable[P, T]:
    """Let a verb be called from anywhere. In a coroutine or a notebook, whose loop cannot be used, it runs in another
    thread and blocks its caller."""

    @wraps(verb)
    def call(*values: P.args, **named: P.kwargs) -> T:
        try:
            return _in_thread(lambda: verb(*values, **named)) if _is_in_loop() else _here(verb, *values, **named)
        finally:
            Deadline.call_off()  # the program that called us decides when it ends

    return call


def awaited(verb: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return the verb to await on the caller's event loop. Cancelling stops it like Ctrl-C: the first time, calls in
    progress are finished and recorded; the second time, it stops at once."""
    work: Callable[P, T] = inspect.unwrap(verb)

    @wraps(verb)
    async def call(*values: P.args, **named: P.kwargs) -> T:
        return await CallerLoop().call(lambda: work(*values, **named))

    call.__name__ = call.__qualname__ = f"a{verb.__name__}"
    call.__doc__ = f"Like `{verb.__name__}`, on the caller's event loop: async targets are called there."
    return call


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _here(verb: Callable[P, T], *values: P.args, **named: P.kwargs) -> T:
    with own_loops():
        return verb(*values, **named)


def _in_thread(work: Callable[[], T]) -> T:
    with passed_on(), ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()
