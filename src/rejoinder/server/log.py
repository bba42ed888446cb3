"""The server's log: a line for each thing that went wrong, and nothing in it that a terminal would obey."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

from rejoinder.words.inert import one_line
from rejoinder.words.numbers import both_ends

LONGEST = 2000
_log = logging.getLogger("rejoinder.server")


def log_mistake(what: str, error: BaseException) -> None:
    """A mistake of ours: what was done, what came of it, and the line of code."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    _log.error("%s", one_line(both_ends(f"{what}: {type(error).__name__}: {error}{at}", LONGEST)))
