"""Statistics: pure functions of recorded verdicts.

Every run needs `wilson`; what only the judge report needs is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module

from rejoinder.stats.intervals import wilson as wilson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rejoinder.stats.agreement import *


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module 'rejoinder.stats' has no attribute {name!r}")
    return getattr(import_module("rejoinder.stats.agreement"), name)
