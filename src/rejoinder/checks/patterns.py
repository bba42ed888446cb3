"""Patterns: the glob of `match`, and regular expressions with a time limit.

In a glob only `*` is special: it stands for any text, including line breaks. Letter case does not matter, and the reply
is stripped at both ends. A pattern that starts with `.*` or `^` is a regular expression that is searched for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from rejoinder.model import Span
from rejoinder.words.numbers import in_seconds

MOST_SECONDS = 1.0
"""Time limit of a regular expression: a slower one could take minutes, or never end."""


MOST_COUNTED = 10_000
"""Maximum occurrences that are counted."""
MOST_MARKED = 50
"""Maximum occurrences whose places are kept."""


class PatternTimeout(Exception):
    """A regular expression took too long, or too much memory."""


def is_regex(pattern: str) -> bool:
    return pattern.startswith((".*", "^"))


def find_match(pattern: str, text: str) -> tuple[Span, ...] | None:
    """The places in a reply that a pattern of `match` names; None if it does not match. Raises PatternTimeout."""
    stripped, pieces = text.strip(), _pieces(pattern)
    if pieces is None:
        match = search(pattern, "is", stripped)
        spans = None if match is None else [match.span()] if match[0] else []
    else:
        folded = stripped.casefold()
        spans = _find_pieces(pieces, folded)
        if spans and len(folded) != len(stripped):
            spans = [unfold(stripped, folded, span) for span in spans]
    if spans and len(stripped) != len(text):
        before = len(text) - len(text.lstrip())
        spans = [(before + start, before + end) for start, end in spans]
    return None if spans is None else tuple(spans)


def _find_pieces(pieces: tuple[str, ...], text: str) -> list[Span] | None:
    """The places of the pieces between stars: the first at the beginning, the last at the end, the others between."""
    first, last, length = pieces[0], pieces[-1], len(text)
    if len(pieces) == 1:
        return None if text != first else [(0, length)] if text else []
    if not (text.startswith(first) and text.endswith(last)):
        return None
    position, limit = len(first), length - len(last)
    spans = [(0, position)] if first else []
    for piece in pieces[1:-1]:
        start = text.find(piece, position, limit)
        if start < 0:
            return None
        position = start + len(piece)
        if piece:
            spans.append((start, position))
    if last:
        spans.append((limit, length))
    return spans if position <= limit else None


def unfold(text: str, folded: str, span: Span) -> Span:
    """The place in a text, from a place in its case-folded form, in which some letters become two or three."""
    if len(text) == len(folded) or span[0] == span[1]:
        return span
    places = [position for position, letter in enumerate(text) for _ in letter.casefold()]
    return places[span[0]], places[span[1] - 1] + 1


def search(pattern: str, flags: str, text: str) -> Any:
    """The first match of a regular expression in a text, or None. Raises PatternTimeout."""
    return _compiled(pattern, flags).search(text)


def count_texts(pieces: Sequence[str], text: str, *, any_case: bool = False) -> tuple[int, tuple[Span, ...]]:
    """How often texts occur in this order, without overlaps, and the first places; at most one more than
    MOST_COUNTED."""
    folded = text.casefold() if any_case else text
    found = _count(_occurrences([piece.casefold() for piece in pieces] if any_case else pieces, folded))
    return found[0], tuple(unfold(text, folded, span) for span in found[1])


def count_match(pattern: str, text: str) -> tuple[int, tuple[Span, ...]]:
    """Like `count_texts`, for a pattern of `match`. Raises PatternTimeout."""
    pieces = _pieces(pattern)
    if pieces is not None:
        return count_texts([piece for piece in pieces if piece], text, any_case=True)
    number, spans = count_search(pattern, "is", text.strip())
    before = len(text) - len(text.lstrip())
    return number, tuple((before + start, before + end) for start, end in spans)


def count_search(pattern: str, flags: str, text: str) -> tuple[int, tuple[Span, ...]]:
    """Like `count_texts`, for a regular expression; an empty match does not count. Raises PatternTimeout."""
    return _compiled(pattern, flags).count(text)


def _occurrences(pieces: Sequence[str], text: str) -> Iterator[list[Span]]:
    position = 0
    while True:
        spans: list[Span] = []
        for piece in pieces:
            start = text.find(piece, position)
            if start < 0:
                return
            position = start + len(piece)
            spans.append((start, position))
        yield spans


def _count(occurrences: Iterable[list[Span]]) -> tuple[int, tuple[Span, ...]]:
    found = list(islice(occurrences, MOST_COUNTED + 1))
    return len(found), tuple(span for spans in found[:MOST_MARKED] for span in spans)


class BoundedPattern:
    """A compiled regular expression that raises PatternTimeout if it takes too long."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    @staticmethod
    def of(pattern: str, build: Callable[[str], Any]) -> BoundedPattern | None:
        """A pattern that was not checked before: one that takes too long to compile is refused."""
        from rejoinder.pattern_size import refuse_endless

        try:
            refuse_endless(pattern)
        except ValueError as error:
            raise PatternTimeout(f"{pattern!r} cannot be used: {error}") from None
        compiled = build(pattern)
        return None if compiled is None else BoundedPattern(compiled)

    def search(self, text: str) -> Any:
        return self._run(self._compiled.search, text)

    def fullmatch(self, text: str) -> Any:
        return self._run(self._compiled.fullmatch, text)

    def count(self, text: str) -> tuple[int, tuple[Span, ...]]:
        def find(text: str, timeout: float) -> tuple[int, tuple[Span, ...]]:
            matches = self._compiled.finditer(text, timeout=timeout)
            return _count([match.span()] for match in matches if match[0])

        return self._run(find, text)

    def _run(self, find: Callable[..., Any], text: str) -> Any:
        try:
            return find(text, timeout=MOST_SECONDS)
        except TimeoutError:
            trouble = f"took more than {in_seconds(MOST_SECONDS)}"
        except MemoryError:  # one that calls itself without end is stopped after a gigabyte
            trouble = "took too much memory"
        raise PatternTimeout(f"{self._compiled.pattern!r} {trouble} on this reply; make it simpler")


@lru_cache(maxsize=1024)
def _pieces(pattern: str) -> tuple[str, ...] | None:
    """The pieces between the stars; an escaped star is an ordinary one. None for a regular expression."""
    if is_regex(pattern):
        return None
    pieces = re.split(r"(?<!\\)\*", pattern)
    return tuple(piece.replace("\\*", "*").casefold() for piece in pieces)


@lru_cache(maxsize=256)
def _compiled(pattern: str, flags: str) -> BoundedPattern:
    import regex

    value = 0
    for flag in flags:
        value |= {"i": regex.IGNORECASE, "m": regex.MULTILINE, "s": regex.DOTALL, "x": regex.VERBOSE}[flag]
    return BoundedPattern(regex.compile(pattern, value))
