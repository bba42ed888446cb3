"""Names of items and marks. Ids and tags are the author's texts, and pytest gives some characters a meaning."""

from __future__ import annotations

import re
from collections import Counter

from rejoinder.words.inert import one_line

LONGEST_MARK = 100
RESERVED = frozenset(
    (
        *("parametrize", "skip", "skipif", "xfail", "usefixtures", "filterwarnings", "tryfirst", "trylast"),
        *("and", "or", "not", "True", "False", "None"),
        *("asyncio", "anyio", "trio", "timeout", "flaky", "repeat", "xdist_group", "forked", "django_db"),
    )
)
"""Marks with an effect, and words of `-m`: a tag of this name must not skip its case, or change it."""


class ItemNames:
    """The names of a file's items, each a different one: `CASE`, `CASE[TARGET]`, `CASE[VARIANT]`,
    `CASE[TARGET-VARIANT]`."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    def name(self, case: str, target: str, variant: str) -> str:
        """`target` and `variant` are empty if they tell nothing apart."""
        inside = "-".join(_plain(part) for part in (target, variant) if part)
        name = f"{_plain(case)}[{inside}]" if inside else _plain(case)
        key = name.removesuffix("]") if "[" in name else name  # pytest takes `a[x` and `a[x]` for the same item
        self._taken[key] += 1
        number = self._taken[key]
        return name if number == 1 else self.name(f"{case}#{number}", target, variant)


def _plain(text: str) -> str:
    """`::` parts a node id, and a line end parts what `--lf` and reports read."""
    return one_line(text).replace("::", ":") or "?"


def mark_of(tag: str) -> str:
    """The mark of a tag: `slow-ish` is `slow_ish`."""
    word = re.sub(r"\W+", "_", tag).strip("_")[:LONGEST_MARK]
    return f"tag_{word}" if not word or word in RESERVED or word[0].isdigit() else word
