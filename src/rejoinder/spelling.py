"""The known word nearest to a misspelt one, for messages."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """The known word that the author most probably meant."""
    from difflib import get_close_matches

    folded = {name.lower().replace("-", "_"): name for name in known}
    match = get_close_matches(word.lower().replace("-", "_"), folded, n=1, cutoff=likeness)
    return folded[match[0]] if match else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    meant = nearest(word, known)
    return f"; did you mean `{meant}`?" if meant else ""
