"""Locks of files, held by the operating system: they end with the process, however it ends."""

from __future__ import annotations

import time


def lock_within(handle: int, seconds: float) -> bool:
    """Lock an open file for this process, until it is closed; False if others hold it for `seconds`."""
    deadline = time.monotonic() + seconds
    while not _try_lock(handle, shared=False):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


def is_locked(handle: int) -> bool:
    """Whether another process holds the lock of an open file. Processes that only check do not see each other, and hold
    a free lock until they close the file."""
    return not _try_lock(handle, shared=True)


def _try_lock(handle: int, *, shared: bool) -> bool:
    try:
        import fcntl
    except ImportError:
        from filelock import lock_descriptor

        return lock_descriptor(handle, blocking=False)
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
