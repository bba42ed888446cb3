"""Named points at which a crash test may end the process, so that every one of them can be survived.

`REJOINDER_KILL_AT=told.written:3` ends the process, without warning and as the operating system would, when the point
is reached for the third time. Without the variable a point costs one comparison.
"""

from __future__ import annotations

import os
import signal

POINTS = (
    "run.created",
    "asked.written",
    "told.queued",
    "batch.before_write",
    "batch.torn",
    "batch.written",
    "batch.synced",
    "told.synced",
    "conversation.finished",
    "results.before_rename",
    "results.written",
    "summary.written",
    "checksums.written",
    "run.closed",
)

_name, _, _count = os.environ.get("REJOINDER_KILL_AT", "").partition(":")
_left = int(_count or 1)


def reached(name: str) -> None:
    if name == _name:
        _die_when_due()


def is_due(name: str) -> bool:
    """Whether this is the point that ends the process. For points that have something to do first."""
    return name == _name and _left <= 1


def _die_when_due() -> None:
    global _left  # noqa: PLW0603 - a countdown for the whole process
    _left -= 1
    if _left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
