"""Guideline patterns: globs over a file's path as written, and from the project and repository roots.

`*` and `?` stay inside one segment and match a leading dot too; `**` as a segment matches any number of segments,
including `..`; `{a,b}` are alternatives; `[a-z]` is one of these characters, `[!a-z]` any other one. Nothing else is
special, and whole patterns cannot be negated.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

from rejoinder.model import FilePart

Token: TypeAlias = str | re.Pattern[str]
"""One element of a glob: a character, `*`, `?`, or a class of characters."""

MOST_ALTERNATIVES = 256
"""Braces multiply; a pattern with more alternatives matches nothing and is refused by validation."""


def is_guideline_file(file: FilePart, patterns: tuple[str, ...]) -> bool:
    return any(matches_path(path, patterns) for path in (file.path, *file.from_roots))


def count_alternatives(pattern: str) -> int:
    return len(_alternatives(pattern))


@lru_cache(maxsize=4096)
def matches_path(path: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of these patterns matches a path."""
    segments = tuple(_normalise(path).split("/"))
    return any(_match(globs, segments) for pattern in patterns for globs in _segments(pattern))


def _normalise(path: str) -> str:
    path = path.replace("\\", "/")
    while path.startswith("./"):
        path = path[2:]
    return path


@lru_cache(maxsize=256)
def _segments(pattern: str) -> tuple[tuple[str, ...], ...]:
    """For each alternative, the globs of its segments."""
    alternatives = _alternatives(_normalise(pattern))
    if len(alternatives) > MOST_ALTERNATIVES:
        return ()
    return tuple(tuple(alternative.split("/")) for alternative in alternatives)


def _match(globs: tuple[str, ...], segments: tuple[str, ...]) -> bool:
    """Whether the segments match, by the set of positions reachable after each glob."""
    reached = {0}
    for glob in globs:
        if glob == "**":
            reached = set(range(min(reached), len(segments) + 1)) if reached else set()
        else:
            reached = {i + 1 for i in reached if i < len(segments) and _match_segment(glob, segments[i])}
    return len(segments) in reached


def _match_segment(glob: str, text: str) -> bool:
    """Whether a glob without `/` matches one segment. On a mismatch only the last star is tried again."""
    tokens = _tokens(glob)
    at = here = 0
    star, resume = -1, 0
    while here < len(text):
        if at < len(tokens) and tokens[at] == "*":
            star, resume = at, here
            at += 1
        elif at < len(tokens) and _fits(tokens[at], text[here]):
            at += 1
            here += 1
        elif star >= 0:
            resume += 1
            at, here = star + 1, resume
        else:
            return False
    return all(token == "*" for token in tokens[at:])


def _fits(token: Token, character: str) -> bool:
    return token in ("?", character) if isinstance(token, str) else token.match(character) is not None


@lru_cache(maxsize=1024)
def _tokens(glob: str) -> tuple[Token, ...]:
    """The elements of a glob. A bracket without its partner, and `[]`, are ordinary characters."""
    tokens: list[Token] = []
    at, last = 0, glob.rfind("]")
    while at < len(glob):
        inside = re.compile(_CLASS).match(glob, at) if glob[at] == "[" and at < last else None
        tokens.append(_character_class(inside[1], inside[2]) if inside else glob[at])
        at = inside.end() if inside else at + 1
    return tuple(tokens)


_CLASS = r"\[([!^]?)(\][^\]]*|[^\]]+)\]"
_SPAN = r"(?s)(.)-(.)|(.)"


def _character_class(negated: str, inside: str) -> re.Pattern[str]:
    spans = ((low or single, high or single) for low, high, single in re.findall(_SPAN, inside))
    wanted = "".join(f"{re.escape(low)}-{re.escape(high)}" for low, high in spans if low <= high)
    if not wanted:
        return re.compile(r"(?s:.)" if negated else r"(?!)")
    return re.compile(f"[{'^' if negated else ''}{wanted}]")


def _alternatives(pattern: str) -> list[str]:
    """Expand the braces; a brace without its partner, or without a comma, is an ordinary character."""
    done: list[str] = []
    waiting = [pattern]
    while waiting and len(done) + len(waiting) <= MOST_ALTERNATIVES:
        current = waiting.pop()
        braces = _some_braces(current)
        if braces is None:
            done.append(current)
            continue
        start, end, choices = braces
        waiting.extend(current[:start] + choice + current[end:] for choice in choices)
    return done + waiting


def _some_braces(pattern: str) -> tuple[int, int, list[str]] | None:
    """Balanced braces with their own comma: start, end and the texts between the commas."""
    open_braces: list[list[int]] = []
    for position, character in enumerate(pattern):
        if character == "{":
            open_braces.append([position])
        elif character == "," and open_braces:
            open_braces[-1].append(position)
        elif character == "}" and open_braces:
            bounds = [*open_braces.pop(), position]
            if len(bounds) > 2:
                return bounds[0], position + 1, [pattern[a + 1 : b] for a, b in pairwise(bounds)]
    return None
