"""The event loop of a run: its own, or that of a program that awaits it.

The verbs of a run (`engine/run.py`) are plain functions that may block: they read and write files, and count. They
hand the parts that need an event loop to `complete`. Where a program awaits a verb, the verb is in a thread, and these
parts are tasks of the program's loop. So there is one version of each verb, and the program's loop is never blocked by
a file or a count.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent import futures
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")


class CallerLoop:
    """The event loop of a program that awaits a verb. The program decides when it ends: no signal is handled for it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stoppable: list[Callable[[], object]] = []
        self._stops = 0
        """Number of times that the program asked the verb to stop."""

    def complete(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, from the verb's thread."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except futures.CancelledError:
            raise KeyboardInterrupt from None  # the loop is being closed
        except RuntimeError:
            work.close()  # the loop is closed, so it never began
            raise

    async def call(self, verb: Callable[[], T]) -> T:
        """Await a verb that runs in a thread. The first cancellation lets calls in progress finish, the next one stops
        at once; then CancelledError is raised."""
        done = self._begin(verb)
        cancelled: asyncio.CancelledError | None = None
        while not done.done():
            try:
                await asyncio.wait([done])
            except asyncio.CancelledError as error:
                cancelled = cancelled or error
                self._stop()
        if cancelled is not None:
            raise cancelled
        value, error = done.result()
        if error is not None:
            raise error
        return value[0]

    @contextlib.contextmanager
    def stops(self, stop: Callable[[], object]) -> Generator[None]:
        """Call `stop` each time the program asks to stop, and for the times that it has already asked."""
        self._stoppable.append(stop)
        for _ in range(self._stops):
            stop()
        try:
            yield
        finally:
            self._stoppable.remove(stop)

    @property
    def is_stopped(self) -> bool:
        return self._stops > 0

    def _stop(self) -> None:
        self._stops += 1
        for stop in list(self._stoppable):
            stop()

    def _begin(self, verb: Callable[[], T]) -> asyncio.Future[tuple[list[T], BaseException | None]]:
        """Start the thread. Its future holds an error as a value: some errors would end the loop."""
        done: asyncio.Future[tuple[list[T], BaseException | None]] = self._loop.create_future()

        def work() -> None:
            values, error = list[T](), None
            try:
                values.append(verb())
            except BaseException as raised:
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(done.set_result, (values, error))

        context = copy_context()
        context.run(_current.set, self)
        threading.Thread(target=context.run, args=(work,), name="rejoinder-verb", daemon=True).start()
        return done


_current: ContextVar[CallerLoop | None] = ContextVar("rejoinder_caller_loop", default=None)


def caller_loop() -> CallerLoop | None:
    """The loop of the program that awaits what is done now; None if nothing is awaited."""
    return _current.get()


@contextlib.contextmanager
def own_loops() -> Generator[None]:
    """Use loops of our own during the block."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


def complete(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end: on the loop of the program that awaits the verb, else on a new one."""
    caller = caller_loop()
    return asyncio.run(work) if caller is None else caller.complete(work)
