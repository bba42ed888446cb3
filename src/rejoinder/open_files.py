"""The number of files and connections that this process may still open.

A run without free descriptors can neither start a check nor write its results, so connections leave a reserve.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from pathlib import Path

RESERVE = 40
"""Descriptors that connections leave free for files, pipes of programs and name lookups."""
STEP = 64
"""Connections that are granted before the descriptors are counted again."""
OF_PROGRAM = 8
"""Descriptors that a program needs while it starts."""
_USUALLY_OPEN = 20
"""Assumed number of open descriptors if the system does not report it."""


def room_for(wanted: int) -> int:
    """Return how many of the wanted descriptors can be opened beside the reserve. A soft limit that is too low is
    raised towards the hard one; 0: none is free."""
    used, soft = _count_open(), _soft_limit(0)
    if soft is None:
        return wanted
    if used + wanted + RESERVE > soft:
        soft = _soft_limit(used + wanted + RESERVE) or soft
    return max(0, min(wanted, soft - used - reserve_of(soft)))


def reserve_of(soft: int) -> int:
    return min(RESERVE, soft // 3)


def programs_at_once(most: int) -> int:
    """Return how many programs of checks can start at once within the reserve."""
    soft = _soft_limit(0)
    return most if soft is None else max(1, min(most, reserve_of(soft) // OF_PROGRAM))


def limit_words() -> str:
    return f"this process may open {_soft_limit(0)} files; `ulimit -n 4096` raises the limit"


def _count_open() -> int:
    for folder in ("/proc/self/fd", "/dev/fd"):
        with contextlib.suppress(OSError):
            return sum(1 for _ in Path(folder).iterdir())
    return _USUALLY_OPEN


def _soft_limit(wanted: int) -> int | None:
    """Return the soft limit, raised as far as needed and allowed; None if unlimited."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    if wanted > soft:
        more = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
            soft = more
    return soft


class ConnectionRoom:
    """Limits the open connections of all transports of a run together."""

    def __init__(self, tell: Callable[[str], None] = lambda _: None) -> None:
        self._tell = tell
        self._open = 0
        self._granted = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._has_told = False
        self.close_idle: list[Callable[[], bool]] = []
        """Each closes an idle connection of a transport, if it has one."""

    def enter(self) -> bool:
        """Count a connection that is about to be opened. False: wait, then look for an idle one or try again."""
        if self._open >= self._granted:
            self._granted = max(1, self._open + room_for(STEP))
        if self._open >= self._granted:
            if not self._has_told:
                self._has_told = True
                self._tell(f"no more than {self._open} connections at once: {limit_words()}")
            any(close() for close in self.close_idle)
            return False
        self._open += 1
        return True

    def leave(self) -> None:
        """Note that a connection was closed."""
        self._open -= 1
        self.wake()

    def wake(self) -> None:
        """Wake one of the waiting callers, after a connection was closed or became idle."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.wake()
            raise
