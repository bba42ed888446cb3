"""Paths inside a document, and the words nearest to a misspelt one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def write_path(path: Sequence[str | int]) -> str:
    """`("evals", 0, "checks")` as `evals[0].checks`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def read_path(text: str) -> Path:
    """The inverse of `write_path`, for paths made of the schema's own keys."""
    return tuple(int(index) if index else key for key, index in _STEP.findall(text))


def nearest(word: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """The known word that the author most probably meant."""
    from difflib import get_close_matches

    known = list(known)
    folded = {name.lower().replace("-", "_"): name for name in known}
    match = get_close_matches(word.lower().replace("-", "_"), folded, n=1, cutoff=likeness)
    return folded[match[0]] if match else None


def list_words(words: Sequence[str], joint: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {joint} {words[-1]}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    found = nearest(word, known)
    return f"; did you mean `{found}`?" if found else ""
