"""Statistics: pure functions of recorded verdicts."""

from rejoinder.stats.intervals import wilson

__all__ = ["wilson"]
