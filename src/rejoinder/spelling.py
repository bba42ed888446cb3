"""Words in messages: counts and lists of them, and the known word nearest to a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def count(number: int, word: str, words: str = "") -> str:
    """`1 case`, `1,200 cases`; `words`: the plural of a word that does not end in `s` then."""
    return f"{number:,} {word if number == 1 else words or f'{word}s'}"


def nearest(word: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """The known word that the author most probably meant."""
    from difflib import get_close_matches

    folded = {name.lower().replace("-", "_"): name for name in known}
    match = get_close_matches(word.lower().replace("-", "_"), folded, n=1, cutoff=likeness)
    return folded[match[0]] if match else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    meant = nearest(word, known)
    return f"; did you mean `{meant}`?" if meant else ""


def list_words(words: Sequence[str], joint: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {joint} {words[-1]}"
