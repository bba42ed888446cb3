"""Every error that rejoinder raises on purpose.

    RejoinderError          catch this to catch them all
    ├── UsageError          the command or call makes no sense: an unknown case id, a missing file
    └── SuiteError          files have mistakes; `problems` lists each with its place

A mistake of the user's is always one of these and never ends in a traceback; anything else is a bug.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rejoinder.model import Problem


class RejoinderError(Exception):
    """What went wrong (`message`) and what to do about it (`hint`)."""

    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(RejoinderError):
    """The command or call cannot be carried out as given; nothing was done."""


class SuiteError(RejoinderError):
    """One or more files have mistakes. `problems` holds all of them, in document order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        errors = [problem for problem in self.problems if problem.severity == "error"]
        super().__init__("\n".join(f"{problem.place}: {problem.message}" for problem in errors))
