"""Opens `python` targets: a function to call, or a class whose objects are asked."""

from __future__ import annotations

import contextlib
from pathlib import Path

from rejoinder.model import Target
from rejoinder.providers.base import ProviderError
from rejoinder.providers.python import PythonProvider
from rejoinder.providers.python_objects import KeepingFunction, ObjectProvider, makes_conversations
from rejoinder.user_code.functions import FunctionFault, load_function


def open_function(target: Target, folders: tuple[str, ...], *_: object) -> PythonProvider:
    """The provider of a target that names a function. Raises ProviderError if the function is missing."""
    name: str = target.settings["call"]
    try:
        function = load_function(name, folders)
        if makes_conversations(function):
            return ObjectProvider(name, function, folders)
        kind = KeepingFunction if target.settings.get("history") == "theirs" else PythonProvider
        return kind(name, function, folders)
    except FunctionFault as fault:
        raise ProviderError(f"target `{target.name}`{_place_of(target)}: {fault}") from fault


def _place_of(target: Target) -> str:
    """The line of the suite that names the target's function."""
    with contextlib.suppress(OSError, UnicodeError):
        lines = Path(target.file or "").read_text("utf-8").splitlines()
        number = next((number for number, line in enumerate(lines, 1) if target.settings["call"] in line), None)
        return f" ({target.file}:{number})" if number else ""
    return ""
