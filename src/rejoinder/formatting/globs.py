"""Which files are guidelines: globs over paths as they are written.

`*` and `?` stay inside one segment and match a leading dot too; `**` as a segment matches any number of
segments, `..` among them; `{a,b}` are alternatives. Nothing else is special, and there is no negation.
"""

from __future__ import annotations

import re
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
def _segments(pattern: str) -> tuple[tuple[re.Pattern[str] | None, ...], ...]:
    """For each alternative its segments; None stands for `**`."""
    alternatives = _alternatives(_normalise(pattern))
    if len(alternatives) > MOST_ALTERNATIVES:
        return ()
    return tuple(tuple(_segment(part) for part in one.split("/")) for one in alternatives)


def _segment(glob: str) -> re.Pattern[str] | None:
    if glob == "**":
        return None
    # Runs of stars are one star: `a**b` must not backtrack more than `a*b`.
    pieces = re.split(r"(\*+|\?)", glob)
    special = {"?": "[^/]"}
    return re.compile(
        "".join(special.get(piece, "[^/]*" if piece.startswith("*") else re.escape(piece)) for piece in pieces),
        re.DOTALL,
    )


def _match(globs: tuple[re.Pattern[str] | None, ...], segments: tuple[str, ...]) -> bool:
    """Whether the segments match, by the set of positions reachable after each glob."""
    reached = {0}
    for glob in globs:
        if glob is None:
            reached = set(range(min(reached), len(segments) + 1)) if reached else set()
        else:
            reached = {i + 1 for i in reached if i < len(segments) and glob.fullmatch(segments[i])}
    return len(segments) in reached


def _alternatives(pattern: str) -> list[str]:
    """Expand the braces, outermost first; a brace without its partner is an ordinary character."""
    done: list[str] = []
    waiting = [pattern]
    while waiting and len(done) + len(waiting) <= MOST_ALTERNATIVES:
        current = waiting.pop()
        found = _first_braces(current)
        if found is None:
            done.append(current)
            continue
        start, end, choices = found
        waiting.extend(current[:start] + choice + current[end:] for choice in choices)
    return done + waiting


def _first_braces(pattern: str) -> tuple[int, int, list[str]] | None:
    """The first balanced braces with a comma at their own level: start, end and what stands between commas."""
    for start, character in enumerate(pattern):
        if character != "{":
            continue
        depth, commas = 0, [start]
        for position in range(start, len(pattern)):
            here = pattern[position]
            depth += (here == "{") - (here == "}")
            if here == "," and depth == 1:
                commas.append(position)
            if depth == 0:
                if len(commas) > 1:
                    bounds = [*commas, position]
                    return (
                        start,
                        position + 1,
                        [pattern[a + 1 : b] for a, b in pairwise(bounds)],
                    )
                break
    return None
