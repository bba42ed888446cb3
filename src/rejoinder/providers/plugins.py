"""Providers that an installed package brings, as entry points of the group `rejoinder.providers`.

The entry point is called with the target (its `name` and `settings`) when a run needs it, and returns what answers: a
function of the `Request`, or an object with such a method `reply`. What may be returned is what `python` targets may.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rejoinder.errors import UsageError
from rejoinder.model import Target
from rejoinder.providers.python import PythonProvider
from rejoinder.suite.plugins import PROVIDERS_GROUP, find_entry_point
from rejoinder.user_code import FunctionFault, in_words, raised_at


def open_plugin(target: Target, folders: tuple[str, ...]) -> PythonProvider | None:
    """The provider of a target; None where no package brings it. Raises UsageError, which names what is broken."""
    entry = find_entry_point(PROVIDERS_GROUP, target.provider)
    if entry is None:
        return None
    package = entry.dist.name if entry.dist is not None else "an installed package"
    what = f"the provider `{target.provider}` of {package} ({entry.value})"
    try:
        made = entry.load()(target)
    except (Exception, SystemExit) as error:
        why = f"{in_words(error)}{raised_at(error, folders)}"
        fault = FunctionFault(f"{what}, which target `{target.name}` needs, cannot be used: {why}", error)
        raise UsageError(str(fault)) from fault
    function: Callable[..., Any] | None = getattr(made, "reply", made if callable(made) else None)
    if function is None:
        raise UsageError(f"{what} gave {type(made).__name__}, which has no `reply`")
    return PythonProvider(target.provider, function, folders)
