"""The ways in which a secret may be written: as JSON, in an address, in base64, and so on.

Each spelling has a name of its own, so that a marker can say which one stood in a text. Upper and lower case are not
spellings: the search ignores the case of the letters A to Z.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import quote, quote_plus

import msgspec

from rejoinder.model import trim

SHORTEST_RECODED = 8
"""Shorter values are searched for in few spellings: the others would occur by chance."""
SHORTEST_IN_BASE = 12
"""Letters of base64 or base32 that do not occur by chance."""
DEEPEST_QUOTING = 3
"""JSON in JSON in JSON: an error that quotes an error that quotes a header."""


class Spelling(NamedTuple):
    text: str
    name: str
    """The words that name it in a marker."""
    recoded: bool = False
    """Are its letters others than those of the value?"""


def spellings(value: str) -> Iterator[Spelling]:
    """All spellings of a value. The same text may come twice; the first name is the one to use."""
    yield Spelling(value, "")
    # Prompts are trimmed before they are sent, so a value may stand there without the white space at its ends.
    yield Spelling(trim(value), ", trimmed")
    yield Spelling(value.strip(), ", stripped")
    yield from _in_addresses(Spelling(value, ""))
    for name, table in _TABLES.items():
        yield Spelling(value.translate(table), f", in {name}")
    yield from _quoted(value)
    yield from _in_base64(Spelling(value, ""))
    if len(value) >= SHORTEST_RECODED:
        yield from _recoded(value)


def _recoded(value: str) -> Iterator[Spelling]:
    """Spellings that change every letter, and spellings of spellings."""
    data = _to_bytes(value)
    for name, change in _CASES.items() if not value.isascii() else ():
        yield Spelling(change(value), f", in {name}", recoded=True)
    yield Spelling(data.hex(), ", in hexadecimal", recoded=True)
    yield from _in_base32(data)
    for name, write in _CODES.items():
        yield Spelling("".join(map(write, value)), f", in {name}", recoded=True)
    percent = Spelling("".join(f"%{byte:02x}" for byte in data), ", in percent codes", recoded=True)
    yield percent
    plain = Spelling(value, "")
    for spelling in {one.text: one for one in (percent, *_in_addresses(plain), *_in_base64(plain))}.values():
        yield from _in_addresses(spelling)
        yield from _in_base64(spelling)


def _unicode_escape(character: str) -> str:
    """A character as JSON writes it in ASCII."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))


_TABLES = {
    "JSON of PHP": str.maketrans({"/": "\\/"}),
    "JSON of .NET": str.maketrans({one: f"\\u{ord(one):04X}" for one in "+<>&'\"`"}),
    "HTML": str.maketrans({one: f"&#x{ord(one):X};" for one in "&<>\"'/`="}),
    "HTML with names": str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}),
}
_CASES: dict[str, Callable[[str], str]] = {
    "capitals": str.upper,
    "small letters": str.lower,
    "swapped case": str.swapcase,
}
"""For letters beyond A to Z."""
_CODES: dict[str, Callable[[str], str]] = {
    "Unicode escapes": _unicode_escape,
    "decimal references": lambda character: f"&#{ord(character)};",
    "hexadecimal references": lambda character: f"&#x{ord(character):x};",
}


def _in_addresses(spelling: Spelling) -> Iterator[Spelling]:
    text, name, recoded = spelling
    query = quote(text, safe="", errors="surrogatepass")
    yield Spelling(query, f"{name}, in a query", recoded)
    yield Spelling(quote(text, errors="surrogatepass"), f"{name}, in a path", recoded)
    yield Spelling(quote_plus(text, errors="surrogatepass"), f"{name}, in a form", recoded)
    if "%" in query:
        small = re.sub(r"%..", lambda found: found[0].lower(), query)
        yield Spelling(small, f"{name}, in a query in small letters", recoded)


def _in_base64(spelling: Spelling) -> Iterator[Spelling]:
    for shift, inner in enumerate(_inner(_to_bytes(spelling.text), 6, 3, _to_base64)):
        if len(inner) >= SHORTEST_IN_BASE:
            yield Spelling(inner, f"{spelling.name}, in base64 ({shift})", recoded=True)
            of_addresses = inner.replace("+", "-").replace("/", "_")
            yield Spelling(of_addresses, f"{spelling.name}, in base64 of addresses ({shift})", recoded=True)


def _in_base32(data: bytes) -> Iterator[Spelling]:
    from base64 import b32encode

    for shift, inner in enumerate(_inner(data, 5, 5, b32encode)):
        if len(inner) >= SHORTEST_IN_BASE:
            yield Spelling(inner, f", in base32 ({shift})", recoded=True)


def _inner(data: bytes, bits: int, shifts: int, encode: Callable[[bytes], bytes]) -> Iterator[str]:
    """The letters that depend on the data alone, for each place in which it can begin among other bytes."""
    for shift in range(shifts):
        first = -(-8 * shift // bits)
        last = 8 * (shift + len(data)) // bits
        yield encode(b"\0" * shift + data)[first:last].decode()


def _quoted(value: str) -> Iterator[Spelling]:
    level = {value: ""}
    for _ in range(DEEPEST_QUOTING):
        level = {write(text): f"{name}, in {kind}" for text, name in level.items() for kind, write in _QUOTINGS.items()}
        for text, name in level.items():
            yield Spelling(text, name)


def escaped(text: str) -> bytes:
    """The text as it stands in JSON."""
    try:
        return msgspec.json.encode(text)[1:-1]
    except UnicodeEncodeError:  # half a character, which JSON cannot hold
        return _to_bytes(text)


def _ascii(text: str) -> str:
    quoted = escaped(text).decode("utf-8", "surrogatepass")
    return "".join(one if one.isascii() else _unicode_escape(one) for one in quoted)


_QUOTINGS: dict[str, Callable[[str], str]] = {
    "Python": lambda text: repr(text)[1:-1],
    "JSON": lambda text: escaped(text).decode("utf-8", "surrogatepass"),
    "ASCII": _ascii,
}


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _to_base64(data: bytes) -> bytes:
    return b2a_base64(data, newline=False)
