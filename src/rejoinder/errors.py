"""Every error that rejoinder raises on purpose.

    RejoinderError          catch this to catch them all
    ├── UsageError          the command or call makes no sense: an unknown case id, a missing file
    │   └── MissingKey      a key or an address that the environment has to give is not there
    └── SuiteError          files have mistakes; `problems` lists each with its place

A mistake of the user's is always one of these and never ends in a traceback; anything else is a bug.
"""

from __future__ import annotations

import errno
import os
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


class MissingKey(UsageError):
    """A target has no key or no address; on another machine it may have them."""


class SuiteError(RejoinderError):
    """One or more files have mistakes. `problems` holds all of them, in document order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        errors = [problem for problem in self.problems if problem.severity == "error"]
        super().__init__("\n".join(f"{problem.place}: {problem.message}" for problem in errors))


_FEWER_FILES = "raise the limit (`ulimit -n 4096`) or use fewer --workers"
_REMEDIES = {
    errno.ENOSPC: "make room on the disk",
    errno.EDQUOT: "make room in your quota of the disk",
    errno.EFBIG: "raise the limit for the size of files (`ulimit -f unlimited`)",
    errno.EROFS: "make the disk writable",
    errno.EACCES: "make it writable for your user",
    errno.EPERM: "make it writable for your user",
    errno.EMFILE: _FEWER_FILES,
    errno.ENFILE: _FEWER_FILES,
}
"""What to do about errors of the operating system."""


def remedy_for(error: BaseException | None) -> str:
    """What to do about an error of the operating system; the general advice where there is no other."""
    return _REMEDIES.get(getattr(error, "errno", None) or 0, "check that the disk is writable")


def reason_of(error: OSError) -> str:
    """An error of the operating system in words; what to do about it, where that is not plain from the words."""
    reason = (os.strerror(error.errno) if error.errno else str(error)).lower()
    return f"{reason}; {_FEWER_FILES}" if lacks_descriptors(error) else reason


def lacks_descriptors(error: BaseException) -> bool:
    """Are there too many open files, or connections?"""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)
