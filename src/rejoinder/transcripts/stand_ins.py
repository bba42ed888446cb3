"""Stand-ins for personal data and keys: the same text gets the same stand-in everywhere.

All texts are searched first and replaced later, so that a name introduced once is replaced in all texts.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from rejoinder.errors import UsageError
from rejoinder.transcripts.private_forms import OPEN_HOSTS, is_name, patterns

MOST_LETTERS = 2_000_000
"""Maximum characters of all texts to replace: each takes a few hundred bytes."""
_ESCAPES = frozenset({"\\n", "\\r", "\\t", "\\b", "\\f"})
_ONE_LETTER = str.maketrans({"İ": "i", "ı": "i", "ſ": "s"})
"""Letters whose lower case is another letter, or two."""
_STAND_INS: dict[str, tuple[str, ...]] = {
    "key": ("key-{n}", "k{a}"),
    "email": ("person-{n}@example.org", "{a}@example.net", "{a}@{a}.invalid"),
    "uuid": ("00000000-0000-4000-8000-{n:012d}", "id-{n}", "id-{a}"),
    "iban": ("iban-{n}", "i{a}"),
    "card": ("card-{n}", "c{a}"),
    "ip": ("192.0.2.{n}", "ip-{n}", "i{a}"),
    "host": ("host-{n}.example", "h{a}.invalid"),
    "user": ("user-{n}", "u{a}"),
    "phone": ("phone-{n}", "p{a}"),
    "number": ("number-{n}", "n{a}"),
    "name": ("Person-{n}", "N{a}"),
}
"""Stand-ins of each kind: the first that does not appear in any text to replace is used."""
_WHOLE_WORDS = frozenset({"name", "user"})
"""Kinds that are replaced only as whole words: `Ann` is also in `Annual`."""


class Replaced(Struct, frozen=True):
    """A stand-in and the number of its uses."""

    kind: str
    stand_in: str
    count: int


class Anonymiser:
    """Finds, then replaces. `look` at everything before the first `replace`."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}
        """Texts to replace, in lower case, each with its kind."""
        self._written: dict[str, set[str]] = {}
        """The same texts as written."""
        self._letters = 0
        self._stand_ins: dict[str, str] = {}
        self._taken: set[str] = set()
        self._tree: _Tree | None = None

    def look(self, text: str) -> None:
        """Note the texts to replace."""
        taken = bytearray(len(text))
        for pattern in patterns():
            name = "x" if "x" in pattern.regex.groupindex else 0
            for match in pattern.regex.finditer(text):
                start, end = match.span(name)
                if 1 not in taken[start:end] and pattern.fits(match[name]):
                    taken[start:end] = b"\1" * (end - start)
                    self._note(pattern.kind, match[name])

    def _note(self, kind: str, found: str) -> None:
        if kind == "email":
            local, _, host = found.rpartition("@")
            if OPEN_HOSTS.fullmatch(host):
                return
            # `ann.smith@corp.com` tells a name, and where she works.
            for part in re.split(r"[._%+-]+|\d+", local):
                if len(part) > 2 and part.isalpha() and is_name(part):
                    self._add("name", part)
            self._add("host", host)
        if kind == "name":
            words = [word for word in re.split(r"\s+", found.strip()) if is_name(word)]
            for word in words:
                self._add("name", word)
            return
        self._add(kind, found)

    def _add(self, kind: str, text: str) -> None:
        if text and self._tree is None:
            self._letters += 0 if _small(text) in self._found else len(text)
            if self._letters > MOST_LETTERS:
                what = f"more than {MOST_LETTERS:,} letters have to be replaced"
                raise UsageError(what, "Anonymise fewer conversations at once.")
            self._found.setdefault(_small(text), kind)
            self._written.setdefault(_small(text), set()).add(text)

    def replace(self, text: str) -> str:
        """The text with stand-ins. No text that was found remains in it, in any letter case."""
        if not self._found:
            return text
        tree = self._prepared()
        for _ in range(4):  # what is left and right of a stand-in may together be another text
            before, text = text, "".join(self._pieces(text, tree))
            if before == text:
                break
        return text

    def _pieces(self, text: str, tree: _Tree) -> Iterator[str]:
        done = 0
        for start, end, found in tree.search(text, lambda found: self._found[found] in _WHOLE_WORDS):
            yield text[done:start]
            yield self._stand_ins[found]
            done = end
        yield text[done:]

    def replaced_in(self, text: str) -> list[Replaced]:
        """The stand-ins in a text, by kind, each with its count. The replaced texts are not revealed."""
        kinds = {stand_in: self._found[found] for found, stand_in in self._stand_ins.items()}
        tree = _Tree()
        for stand_in in kinds:
            tree.add(_small(stand_in), stand_in)
        places = tree.search(text, lambda _: False) if kinds else ()
        counts = Counter(
            found for start, end, found in places if text[start:end] == found and not text[end : end + 1].isdecimal()
        )
        order = list(_STAND_INS)
        rows = [Replaced(kinds[stand_in], stand_in, count) for stand_in, count in counts.items()]
        return sorted(rows, key=lambda row: (order.index(row.kind), len(row.stand_in), row.stand_in))

    def _prepared(self) -> _Tree:
        if self._tree is None:
            self._tree = _Tree()
            numbers: dict[str, int] = {}
            for text, kind in self._found.items():
                numbers[kind] = numbers.get(kind, 0) + 1
                self._stand_ins[text] = self._new_stand_in(kind, numbers[kind])
                written = (text, *self._written[text])
                for spelling in {_small(one) for form in written for one in _spellings(form)}:
                    self._tree.add(spelling, text)
        return self._tree

    def _new_stand_in(self, kind: str, number: int) -> str:
        for form in (*_STAND_INS[kind], *(f"{'z' * more}{{a}}" for more in range(1, 30))):
            candidate = form.format(n=number, a=_letters(number))
            small = _small(candidate)
            parts = {small[start:end] for end in range(len(small) + 1) for start in range(end)}
            if candidate not in self._taken and not parts & self._found.keys():
                self._taken.add(candidate)
                return candidate
        return "█" * number


class _Tree:
    """A tree of many texts by their characters, which searches for all of them at once."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}

    def add(self, spelling: str, text: str) -> None:
        node = self._root
        for letter in spelling:
            node = node.setdefault(letter, {})
        node.setdefault("", text)

    def search(self, text: str, is_word: Callable[[str], bool]) -> Iterator[tuple[int, int, str]]:
        """Positions of the texts, from left to right, the longest first. Texts for which `is_word` is true match whole
        words only."""
        small = _small(text)
        begins = re.compile(f"[{re.escape(''.join(self._root))}]")
        start = 0
        while (match := begins.search(small, start)) is not None:
            start = match.start()
            node, best = self._root, None
            for end in range(start, len(small)):
                node = node.get(small[end])
                if node is None:
                    break
                found = node.get("")
                if found is not None and (not is_word(found) or _stands_alone(small, start, end + 1)):
                    best = end + 1, found
            if best is None:
                start += 1
            else:
                yield start, *best
                start = best[0]


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether it is a whole word. The letter of a line end that JSON has escaped does not belong to the word."""
    before = start == 0 or not text[start - 1].isalnum() or text[max(0, start - 2) : start] in _ESCAPES
    return before and (end == len(text) or not text[end].isalnum())


def _small(text: str) -> str:
    """The text in lower case, with every letter at the same position."""
    small = text.translate(_ONE_LETTER).lower()
    return small if len(small) == len(text) else "".join(one if len(one.lower()) > 1 else one.lower() for one in text)


def _letters(number: int) -> str:
    """A number in letters."""
    text = ""
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("a") + rest) + text
    return text


def _spellings(text: str) -> Iterator[str]:
    """The forms in which a text may appear: other letter case, escaped in JSON, encoded in an address."""
    for one in (text, text.upper(), text.title(), text.casefold()):
        yield one
        yield json.dumps(one)[1:-1]
        yield json.dumps(one, ensure_ascii=False)[1:-1]
        yield quote(one)
        yield quote(one, safe="")
