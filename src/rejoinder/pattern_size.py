"""Regular expressions that would take too long to compile: those with multiplying repeats.

The engine expands minimum repeats, so `(?:a{9999}){9999}` would take minutes and gigabytes to compile, and nothing can
stop it. The expanded size is estimated here, in one pass over the pattern.
"""

from __future__ import annotations

import re
from functools import lru_cache

MOST_PIECES = 100_000
"""Maximum expanded size of a pattern; this size takes a fifth of a second to compile."""
_TOKEN = re.compile(
    r"""
    \\.                                                         # something escaped
    | \[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*+(?:\]|\Z)           # a set
    | \{(?P<least>\d+)(?:,\d*)?\}                               # a repeat with its least count
    | (?P<open>\() | (?P<close>\)) | (?P<blank>\s) | (?P<remark>\#) | .
    """,
    re.DOTALL | re.VERBOSE,
)
_VERBOSE = re.compile(r"\(\?[A-Za-z]*x")


def refuse_endless(pattern: str, flags: str = "") -> None:
    """Raise ValueError for a pattern that would take too long to compile."""
    if "{" in pattern and grown(pattern, flags) > MOST_PIECES:
        raise ValueError(
            f"its repeats multiply to more than {MOST_PIECES} characters, which would take too long; use smaller counts"
        )


@lru_cache(maxsize=256)
def grown(pattern: str, flags: str = "") -> int:
    """The approximate number of characters and sets that a pattern gains if its counted repeats are expanded; if that
    is already too many, the rest is not counted."""
    verbose = "x" in flags or _VERBOSE.search(pattern) is not None
    begun: list[int] = []  # what there was before each group that is open
    total = last = more = position = 0
    while more <= MOST_PIECES and (token := _TOKEN.match(pattern, position)):
        position = token.end()
        kind = token.lastgroup
        if kind == "least":
            least = token["least"]
            added = last * (max(1, int(least)) - 1) if len(least) < 9 else MOST_PIECES + 1
            total, last, more = total + added, last + added, more + added
        elif kind == "open":
            begun.append(total)
        elif kind == "close" and begun:
            last = total - begun.pop() + 1
            total += 1
        elif verbose and kind == "remark":
            end = pattern.find("\n", position)
            position = len(pattern) if end < 0 else end
        elif not (verbose and kind == "blank"):
            total, last = total + 1, 1
    return more
