"""Checks of a project or an installed package, by name: `check: NAME`, with its arguments under `with:`.

A project writes them in `.rejoinder/checks.py` with the decorator `rejoinder.check`; a package names them as entry
points of the group `rejoinder.checks`. Nothing is imported before it is used, so a broken check affects nothing else.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha1
from pathlib import Path
from typing import Any, TypeVar, overload

from rejoinder.project.plugins import CHECKS_FILE, CHECKS_GROUP, find_entry_point, project_checks
from rejoinder.user_code.functions import FunctionFault, in_words, load_file, raised_at

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__rejoinder_check__"
_loading = threading.RLock()


@overload
def check(name: str, /) -> Callable[[F], F]: ...
@overload
def check(name: F, /) -> F: ...
def check(name: Any, /) -> Any:
    """Make a function of `.rejoinder/checks.py` a check: `@check` by its own name, `@check("other-name")` by another.

    It is given the evidence (`context.reply`, `context.question`, `context.turns` ...) and the arguments of `with:`,
    and returns true or false, a score from 0 to 1, the reason why the reply fails, or an `Opinion`.
    """
    if callable(name):
        setattr(name, _MARK, name.__name__)
        return name

    def mark(function: F) -> F:
        setattr(function, _MARK, name)
        return function

    return mark


def load_check(name: str, root: str) -> Callable[..., Any]:
    """The function of a check. Raises FunctionFault that names the broken plug-in."""
    file = Path(root, CHECKS_FILE)
    names = project_checks(file)
    if names is None or name in names:  # a check of a package does not depend on this file
        with _loading:  # loaded once, even when several checks need it at the same time
            own = _checks_in(file, file.stat().st_mtime_ns).get(name)
        if own is not None:
            return own
    entry = find_entry_point(CHECKS_GROUP, name)
    if entry is None:
        raise FunctionFault(f"there is no check `{name}`: neither {file} nor an installed package defines it")
    package = entry.dist.name if entry.dist is not None else "an installed package"
    try:
        function = entry.load()
    except (Exception, SystemExit) as error:
        why = f"{in_words(error)}{raised_at(error, (root,))}"
        message = f"the check `{name}` of {package} ({entry.value}) cannot be loaded: {why}"
        raise FunctionFault(message, error) from error
    if not callable(function):
        raise FunctionFault(f"the check `{name}` of {package} ({entry.value}) is not a function")
    return function


def source_of_check(name: str, root: str) -> bytes:
    """The source that a check's verdicts depend on, found without running it: the project's file, or the package's
    version."""
    file = Path(root, CHECKS_FILE)
    names = project_checks(file)
    if names is None or name in names:
        with contextlib.suppress(OSError):
            return file.read_bytes()
    entry = find_entry_point(CHECKS_GROUP, name)
    return f"{entry.value} {entry.dist.version if entry.dist is not None else ''}".encode() if entry else b""


def forget_checks() -> None:
    """Reload the project's checks when one is needed next: their imports may have changed."""
    _checks_in.cache_clear()


@lru_cache(maxsize=64)
def _checks_in(file: Path, changed: int) -> dict[str, Callable[..., Any]]:  # noqa: ARG001 - part of the key
    module = load_file(
        file, f"rejoinder_checks_of_{sha1(str(file).encode()).hexdigest()[:12]}", (str(file.parents[1]),)
    )
    # Some objects have any attribute at all, so the name has to be a text.
    marked = ((getattr(value, _MARK, None), value) for value in vars(module).values() if callable(value))
    return {name: function for name, function in marked if isinstance(name, str)}
