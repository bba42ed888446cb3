"""Patterns: the glob of `match`, and regular expressions that cannot run for ever.

In a glob only `*` is special: it stands for any text, also over lines. Letter case does not matter, and the reply is
stripped at both ends. A pattern that starts with `.*` or `^` is a regular expression that is searched for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

MOST_SECONDS = 1.0
"""A regular expression that takes longer is stopped: it would take minutes, or for ever."""


class PatternTimeout(Exception):
    """A regular expression took too long, or too much."""


def is_regex(pattern: str) -> bool:
    return pattern.startswith((".*", "^"))


def matches(pattern: str, text: str) -> bool:
    """Whether a reply matches a pattern of `match`."""
    if is_regex(pattern):
        return search(pattern, "is", text.strip())
    pieces = _pieces(pattern)
    text = text.strip().casefold()
    if len(pieces) == 1:
        return text == pieces[0]
    first, *middle, last = pieces
    if not text.startswith(first):
        return False
    position = len(first)
    for piece in middle:
        found = text.find(piece, position)
        if found < 0:
            return False
        position = found + len(piece)
    return text.endswith(last) and len(text) - len(last) >= position


def search(pattern: str, flags: str, text: str) -> bool:
    """Whether a regular expression is found in a text. Raises PatternTimeout."""
    return BoundedPattern(_compiled(pattern, flags)).search(text)


class BoundedPattern:
    """A compiled regular expression that raises PatternTimeout where it takes too long."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    @staticmethod
    def of(pattern: str, build: Callable[[str], Any]) -> BoundedPattern | None:
        """A pattern that nobody has looked at before: one that takes too long to compile is not even begun with."""
        from rejoinder.pattern_size import refuse_endless

        try:
            refuse_endless(pattern)
        except ValueError as error:
            raise PatternTimeout(f"{pattern!r} cannot be used: {error}") from None
        compiled = build(pattern)
        return None if compiled is None else BoundedPattern(compiled)

    def search(self, text: str) -> bool:
        return self._run(self._compiled.search, text)

    def fullmatch(self, text: str) -> bool:
        return self._run(self._compiled.fullmatch, text)

    def _run(self, find: Callable[..., Any], text: str) -> bool:
        try:
            return find(text, timeout=MOST_SECONDS) is not None
        except TimeoutError:
            trouble = f"took more than {MOST_SECONDS:g} s"
        except MemoryError:  # one that calls itself without end is stopped after a gigabyte
            trouble = "took too much memory"
        raise PatternTimeout(f"{self._compiled.pattern!r} {trouble} on this reply; make it simpler")


@lru_cache(maxsize=1024)
def _pieces(pattern: str) -> tuple[str, ...]:
    """What stands between the stars; a star after a backslash is an ordinary one."""
    pieces = re.split(r"(?<!\\)\*", pattern)
    return tuple(piece.replace("\\*", "*").casefold() for piece in pieces)


@lru_cache(maxsize=256)
def _compiled(pattern: str, flags: str) -> Any:
    import regex

    value = 0
    for flag in flags:
        value |= {"i": regex.IGNORECASE, "m": regex.MULTILINE, "s": regex.DOTALL, "x": regex.VERBOSE}[flag]
    return regex.compile(pattern, value)
