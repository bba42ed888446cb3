"""A fork: a recorded conversation that continues differently after one of its turns."""

from __future__ import annotations

from msgspec import Struct


class Fork(Struct, frozen=True, kw_only=True):
    """The first turn that differs, and its other prompt or other instructions."""

    turn: int = 1
    prompt: str | None = None
    system: str | None = None
    run: str = ""
    """The run whose conversation is forked."""
    suite: str = ""
    """The suite that has the case, by its name or its file; empty for the first one that has it."""
    of: str = ""
    """The target of that run whose conversation is forked; empty for the first target that is asked now."""
    trial: int = 1
    """The trial of that run that is forked."""
    folder: str = ""
    """The folder of that run."""
    said_again: tuple[str, ...] = ()
    """Targets that keep the conversation themselves: what the user said before the turn is said to them again."""
