"""Describes the targets that a program gives: mappings, and Python objects that reply."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from rejoinder.errors import UsageError
from rejoinder.model.given import CodeOfTarget, GivenTarget, Supplied
from rejoinder.user_code.functions import recordable

LONGEST_NAME = 80
_HINT = "Give the name of a target, a mapping, a function, or an object with a method `reply`."


def supply(target: object) -> Supplied:
    """Describe what a program gives as a target. Raises UsageError if it is neither a mapping nor replies."""
    if isinstance(target, Mapping):
        return Supplied(_describe_mapping(dict(cast(Mapping[str, Any], target))))
    reply = reply_of(target)
    if reply is None:
        raise UsageError(f"target: {_article(target)} {type(target).__name__} is not a target", _HINT)
    if inspect.isclass(target) and own_function(target, "reply"):
        raise UsageError(
            f"target: `{target.__name__}` is a class, and its objects reply", f"Give an object: {target.__name__}()."
        )
    return Supplied(GivenTarget(name=_name_of(target), code=_describe(target, reply)), target)


def reply_of(target: object) -> Callable[..., Any] | None:
    """The function that answers: the method `reply` of an object, or what can itself be called."""
    return own_function(target, "reply") or (target if callable(target) else None)


def own_function(target: object, name: str) -> Callable[..., Any] | None:
    """The method of an object that its author defined. Mocks seem to have every method."""
    if inspect.getattr_static(target, name, None) is None:
        return None
    found = getattr(target, name, None)
    return found if callable(found) else None


def _article(target: object) -> str:
    return "an" if type(target).__name__[:1].lower() in "aeiou" else "a"


def _describe_mapping(entry: dict[str, Any]) -> GivenTarget:
    name = entry.get("name")
    if name is not None and not isinstance(name, str):
        raise UsageError(f"target: `name` is {_article(name)} {type(name).__name__}, and a text is expected")
    parts = (entry.get(key) for key in ("provider", "model"))
    unnamed = "-".join(part for part in parts if isinstance(part, str))
    return GivenTarget(name=name or _as_name(unnamed), settings=entry, replaces=bool(name))


def _name_of(target: object) -> str:
    inner: Any = _inner(target)
    kind: str = type(inner).__name__
    is_object = not (inspect.isroutine(inner) or inspect.isclass(inner))
    return _as_name((is_object and _text_of(inner, "name")) or _text_of(inner, "__name__") or kind)


def _text_of(owner: Any, name: str) -> str:
    found: Any = getattr(owner, name, None)
    return found if isinstance(found, str) else ""


def _as_name(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", recordable(text)).strip("-.")[:LONGEST_NAME] or "target"


def _inner(target: object) -> object:
    """A function without the arguments that were bound to it."""
    while isinstance(target, partial):
        target = cast("partial[Any]", target).func
    return target


def _describe(target: object, reply: Callable[..., Any]) -> CodeOfTarget:
    inner = _inner(target)
    named = inner if hasattr(inner, "__qualname__") else type(inner)
    call = f"{getattr(named, '__module__', None) or '?'}:{getattr(named, '__qualname__', type(inner).__name__)}"
    if inspect.isclass(inner):
        kind = "class"
    elif not inspect.isroutine(inner):
        kind = "object"
    else:
        kind = "async function" if inspect.iscoroutinefunction(reply) else "function"
    return CodeOfTarget(kind, recordable(call), _digest(named))


def _digest(named: object) -> str | None:
    try:
        source = inspect.getsource(inspect.unwrap(cast(Any, named)))
    except (OSError, TypeError, ValueError, IndentationError, SyntaxError):
        return None
    return hashlib.sha256(recordable(source).encode()).hexdigest()
