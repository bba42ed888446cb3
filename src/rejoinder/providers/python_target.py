"""Opens `python` targets: a function that is called, or a class whose objects are asked."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rejoinder.model import Target
from rejoinder.providers.base import ProviderError
from rejoinder.providers.python import PythonProvider
from rejoinder.providers.python_objects import ObjectProvider
from rejoinder.user_code import FunctionFault, load_function


def open_function(target: Target, folders: tuple[str, ...], *_: object) -> PythonProvider:
    """The provider of a target that names a function. Raises ProviderError where it is not there."""
    name: str = target.settings["call"]
    try:
        function = load_function(name, folders)
        if _makes_conversations(function):
            return ObjectProvider(name, function, folders)
        return PythonProvider(name, function, folders)
    except FunctionFault as fault:
        raise ProviderError(f"target `{target.name}`{_place_of(target)}: {fault}") from fault


def _place_of(target: Target) -> str:
    """The line that names the target's function."""
    with contextlib.suppress(OSError, UnicodeError):
        lines = Path(target.file or "").read_text("utf-8").splitlines()
        number = next((number for number, line in enumerate(lines, 1) if target.settings["call"] in line), None)
        return f" ({target.file}:{number})" if number else ""
    return ""


def _makes_conversations(function: Callable[..., Any]) -> bool:
    """Is it a class, or a context manager, whose object is asked?"""
    inner = inspect.unwrap(function)
    has_yield = inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner)
    return hasattr(function, "ask") if inspect.isclass(function) else inner is not function and has_yield
