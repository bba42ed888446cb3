"""rejoinder tests language models and agents in conversation.

Everything public is listed in `__all__` and imported when it is first used, so that `import rejoinder` costs
next to nothing.
"""

from __future__ import annotations

from rejoinder._version import __version__

TYPE_CHECKING = False  # `typing` itself would be half the cost of this import
if TYPE_CHECKING:
    from typing import Any

    from rejoinder.api import run
    from rejoinder.checks.plugins import check
    from rejoinder.errors import RejoinderError, SuiteError, UsageError
    from rejoinder.formatting import format_case, format_judge_prompts, to_toon
    from rejoinder.model import Evidence, Opinion
    from rejoinder.review import load
    from rejoinder.validation import validate

_HOMES = {
    "Evidence": "rejoinder.model",
    "Opinion": "rejoinder.model",
    "RejoinderError": "rejoinder.errors",
    "SuiteError": "rejoinder.errors",
    "UsageError": "rejoinder.errors",
    "check": "rejoinder.checks.plugins",
    "format_case": "rejoinder.formatting",
    "format_judge_prompts": "rejoinder.formatting",
    "load": "rejoinder.review",
    "run": "rejoinder.api",
    "to_toon": "rejoinder.formatting",
    "validate": "rejoinder.validation",
}

__all__ = [
    "Evidence",
    "Opinion",
    "RejoinderError",
    "SuiteError",
    "UsageError",
    "__version__",
    "check",
    "format_case",
    "format_judge_prompts",
    "load",
    "run",
    "to_toon",
    "validate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rejoinder' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
