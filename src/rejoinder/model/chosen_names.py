"""Cases and tags by name: ids, lists of them with commas, and patterns such as `refund*`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache


class ChosenNames:
    """Requested names. A written value may be a name verbatim, including commas and stars; otherwise it is a list of
    names and patterns, with `*` for any text and `?` for one character."""

    def __init__(self, written: Iterable[str]) -> None:
        self._lists = {value: tuple(_split(value)) for value in written}
        every = {*self._lists, *(word for words in self._lists.values() for word in words)}
        self._exact = frozenset(every)
        self._patterns = {word: _pattern(word) for word in every if is_pattern(word)}

    def __contains__(self, name: str) -> bool:
        return name in self._exact or any(pattern.match(name) for pattern in self._patterns.values())

    def found_by(self, name: str) -> Iterable[str]:
        """The words that match a name."""
        if name in self._exact:
            yield name
        yield from (word for word, pattern in self._patterns.items() if pattern.match(name))

    def missing(self, found: Iterable[str]) -> list[str]:
        """The words that match no name."""
        known = set(found)
        return [
            word
            for value, words in self._lists.items()
            if value not in known
            for word in words or (value,)
            if word not in known
        ]


def is_pattern(word: str) -> bool:
    return "*" in word or "?" in word


@lru_cache(maxsize=8)
def chosen_names(written: tuple[str, ...]) -> ChosenNames:
    """The requested names, cached: each case of a run asks for the same."""
    return ChosenNames(written)


def _split(value: str) -> Iterable[str]:
    return (word.strip() for word in value.split(",") if word.strip())


def _pattern(word: str) -> re.Pattern[str]:
    return re.compile(translate(word.replace("[", "[[]")))
