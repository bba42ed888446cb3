"""`.env` files: `NAME=value` lines with `export`, quotes and comments as shells have them.

A line that is anything else sets nothing, and its number is reported. The line itself is never shown: it may hold a
secret.
"""

from __future__ import annotations

import re

from msgspec import Struct

_LINE = r"""[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*
        (?: (?: '([^']*)' | "((?:[^"\\]|\\.)*)" ) [ \t]*(?:\#.*)? | (?!['"])([^\n]*?)[ \t]*(?:(?<=[ \t])\#.*)? )$"""
_EMPTY = r"[ \t]*(?:\#.*)?$"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class EnvFault(Struct, frozen=True):
    line: int | None
    """None where the whole file cannot be read."""
    message: str


class EnvFile(Struct, frozen=True):
    values: dict[str, str]
    faults: list[EnvFault]


def parse_env(text: str) -> EnvFile:
    line = re.compile(_LINE, re.VERBOSE | re.MULTILINE)
    empty = re.compile(_EMPTY, re.MULTILINE)
    text = text.replace("\r\n", "\n") + "\n"
    found = EnvFile({}, [])
    start, number = 0, 1
    while start < len(text):
        match = line.match(text, start)
        end = match.end() if match else text.index("\n", start)
        if match:
            found.values[match[1]] = _value(match)
        elif not empty.match(text, start):
            found.faults.append(EnvFault(number, _explain(text[start:end])))
        number += text.count("\n", start, end) + 1
        start = end + 1
    return found


def _value(match: re.Match[str]) -> str:
    _, single, double, plain = match.groups()
    if double is not None:
        return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), double)
    return single if single is not None else plain.strip()


def _explain(line: str) -> str:
    if re.match(r"""[^=]*=[ \t]*['"]""", line):
        return "the quotes of this value are not closed, or more text follows them; the line is skipped"
    return "this line is not `NAME=value`; it is skipped"
