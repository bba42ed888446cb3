"""The words for runs that ended before their time, or have not ended."""

from __future__ import annotations

from typing import NamedTuple

from rejoinder.model.runs import RunStatus


class EarlyEnd(NamedTuple):
    brief: str
    """Behind a sign, in the result of a run; empty if the result says it differently."""
    clause: str


EARLY_ENDS: dict[RunStatus, EarlyEnd] = {
    "interrupted": EarlyEnd("interrupted", "the run was interrupted"),
    "budget": EarlyEnd("budget reached", "the budget was reached"),
    "killed": EarlyEnd("killed", "the run was killed"),
    "running": EarlyEnd("still running", "the run is still running"),
    "error": EarlyEnd("", "the run ended with an error"),
}


def early_words(status: RunStatus) -> str:
    """`budget reached`; empty unless conversations may have been cut off."""
    end = EARLY_ENDS.get(status)
    return "" if end is None else end.brief
