"""Providers that an installed package brings, as entry points of the group `rejoinder.providers`.

The entry point is called with the target (its `name` and `settings`) when a run needs it, and returns what answers: a
function of the `Request`, or an object with such a method `reply`. What may be returned is what `python` targets may.
Its attribute `traits` says what the provider is: a mapping, or a `ProviderInfo`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

import msgspec

from rejoinder.errors import UsageError
from rejoinder.model import Target
from rejoinder.model.providers import ProviderInfo, Traits
from rejoinder.project import PROVIDERS_GROUP, find_entry_point
from rejoinder.providers.python import PythonProvider
from rejoinder.user_code import FunctionFault, in_words, raised_at


def open_plugin(target: Target, folders: tuple[str, ...]) -> PythonProvider | None:
    """The provider of a target; None where no package brings it. Raises UsageError, which names what is broken."""
    entry = find_entry_point(PROVIDERS_GROUP, target.provider)
    if entry is None:
        return None
    info = _read_info(entry, _load(entry, target.name, folders))
    made = _call(lambda: entry.load()(target), entry, target.name, folders)
    function: Callable[..., Any] | None = getattr(made, "reply", made if callable(made) else None)
    if function is None:
        raise UsageError(f"{_describe(entry)} gave {type(made).__name__}, which has no `reply`")
    return PythonProvider(target.provider, function, folders, embeds=info.embeds)


def plugin_info(provider: str) -> ProviderInfo | None:
    """What a plug-in says of itself; None where no package brings it. Raises UsageError where it cannot be loaded."""
    entry = find_entry_point(PROVIDERS_GROUP, provider)
    return None if entry is None else _read_info(entry, _load(entry, None, ()))


def _load(entry: EntryPoint, target: str | None, folders: tuple[str, ...]) -> Any:
    return _call(entry.load, entry, target, folders)


def _call(function: Callable[[], Any], entry: EntryPoint, target: str | None, folders: tuple[str, ...]) -> Any:
    try:
        with contextlib.redirect_stdout(sys.stderr):  # results go to stdout, and nothing else
            return function()
    except (Exception, SystemExit) as error:
        user = f", which target `{target}` needs," if target else ""
        why = f"{in_words(error)}{raised_at(error, folders)}"
        fault = FunctionFault(f"{_describe(entry)}{user} cannot be used: {why}", error)
        raise UsageError(str(fault)) from fault


def _read_info(entry: EntryPoint, loaded: Any) -> ProviderInfo:
    traits = getattr(loaded, "traits", {})
    if isinstance(traits, ProviderInfo):
        return traits
    try:
        return ProviderInfo(**msgspec.structs.asdict(msgspec.convert(traits, Traits)))
    except msgspec.ValidationError as error:
        names = ", ".join(Traits.__struct_fields__)
        raise UsageError(f"{_describe(entry)} has wrong `traits`: {error}", f"They may be {names}.") from None


def _describe(entry: EntryPoint) -> str:
    package = entry.dist.name if entry.dist is not None else "an installed package"
    return f"the provider `{entry.name}` of {package} ({entry.value})"
