"""Which files are guidelines: globs over paths as they are written.

`*` and `?` stay inside one segment and match a leading dot too; `**` as a segment matches any number of
segments, `..` among them; `{a,b}` are alternatives. Nothing else is special, and there is no negation.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

MOST_ALTERNATIVES = 256
"""Braces multiply; a pattern with more alternatives than this matches nothing and is refused by validation."""


def is_guideline(path: str, patterns: tuple[str, ...]) -> bool:
    return _matches(path, patterns) if patterns else False


def count_alternatives(pattern: str) -> int:
    return len(_alternatives(pattern))


@lru_cache(maxsize=4096)
def _matches(path: str, patterns: tuple[str, ...]) -> bool:
    segments = tuple(_normalise(path).split("/"))
    return any(_match(globs, segments) for pattern in patterns for globs in _segments(pattern))


def _normalise(path: str) -> str:
    path = path.replace("\\", "/")
    while path.startswith("./"):
        path = path[2:]
    return path


@lru_cache(maxsize=256)
def _segments(pattern: str) -> tuple[tuple[str, ...], ...]:
    """For each alternative the globs of its segments."""
    alternatives = _alternatives(_normalise(pattern))
    if len(alternatives) > MOST_ALTERNATIVES:
        return ()
    return tuple(tuple(one.split("/")) for one in alternatives)


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
    """One segment: `*` is any text, `?` any character. On a mismatch only the last star is tried again."""
    at = here = 0
    star, resume = -1, 0
    while here < len(text):
        if at < len(glob) and glob[at] == "*":
            star, resume = at, here
            at += 1
        elif at < len(glob) and glob[at] in ("?", text[here]):
            at += 1
            here += 1
        elif star >= 0:
            resume += 1
            at, here = star + 1, resume
        else:
            return False
    return not glob[at:].strip("*")


def _alternatives(pattern: str) -> list[str]:
    """Expand the braces; a brace without its partner, or without a comma, is an ordinary character."""
    done: list[str] = []
    waiting = [pattern]
    while waiting and len(done) + len(waiting) <= MOST_ALTERNATIVES:
        current = waiting.pop()
        found = _some_braces(current)
        if found is None:
            done.append(current)
            continue
        start, end, choices = found
        waiting.extend(current[:start] + choice + current[end:] for choice in choices)
    return done + waiting


def _some_braces(pattern: str) -> tuple[int, int, list[str]] | None:
    """Balanced braces with a comma of their own: start, end and what stands between the commas."""
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
