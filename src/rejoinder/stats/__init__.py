"""Statistics: pure functions of recorded verdicts, without a seed and in the standard library alone.

Python programs may import `Trials` and `compare_runs` from here; they load when they are first used, because every run
needs `rates` and few need a comparison. All other names are imported from their modules.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rejoinder.stats.comparison import Trials as Trials
    from rejoinder.stats.comparison import compare_runs as compare_runs

__all__ = ["Trials", "compare_runs"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rejoinder.stats' has no attribute {name!r}")
    from rejoinder.stats import comparison

    return getattr(comparison, name)
