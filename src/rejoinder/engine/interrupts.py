"""Ctrl-C: once to finish what is under way, twice to stop at once, as SIGTERM and a closed terminal do. What is durable
stays in either case, and what was started on this machine is ended."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

_AT_ONCE = (signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While entered, calls `finish` on the first interrupt and cancels the current task on the second."""

    def __init__(self, finish: Callable[[], None]) -> None:
        self._finish = finish
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._installed = False
        self.count = 0

    def __enter__(self) -> Interrupts:
        try:
            self._loop.add_signal_handler(signal.SIGINT, self._interrupt)
            for one in _AT_ONCE:
                self._loop.add_signal_handler(one, self._stop)
            self._installed = True
        except (ValueError, RuntimeError, NotImplementedError):
            self._installed = False  # not the main thread: whoever called us handles signals
        return self

    def __exit__(self, *_: object) -> None:
        if self._installed:
            for one in (signal.SIGINT, *_AT_ONCE):
                self._loop.remove_signal_handler(one)

    def _interrupt(self) -> None:
        self.count += 1
        if self.count == 1:
            self._finish()
        else:
            self._stop()

    def _stop(self) -> None:
        self.count += 1
        if self._task is not None:
            self._task.cancel()
