"""Escape untrusted text in files that we write, so that no reader executes it.

A model's reply may contain terminal control sequences, characters that reverse the writing direction, or megabytes on
one line. In JSON these become escapes, so the text stays exact. In text for people they become visible.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

OBEYED = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but for tab and line feed
    "\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff"  # direction, line ends, invisible
    "\ud800-\udfff\U000e0000-\U000e007f"  # halves of characters; invisible copies of ASCII
)
"""Characters that do something instead of being seen, for a class of a regular expression."""
_OBEYED = re.compile(f"[{OBEYED}]")
_HALVES = re.compile("[\ud800-\udfff]")


def visible(text: str) -> str:
    """The text with `\\u001b` where an escape character was; line breaks are line feeds."""
    if text.isprintable():  # as nearly all lines are
        return text
    return _OBEYED.sub(lambda found: escape_of(found[0]), text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    return visible(" ".join(text.split()))


def escape_of(character: str) -> str:
    """A character as JSON, Python and JavaScript would escape it."""
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + (code - 0x10000 >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def to_json(value: Any, indent: int | None = None) -> str:
    """A value as JSON, exact and without a character that a terminal would obey: without any space, or on lines with
    so many spaces for each level. 0 is one line with spaces."""
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:
        data = msgspec.json.encode(_whole(msgspec.to_builtins(value)))
    text = (data if indent is None else msgspec.json.format(data, indent=indent)).decode()
    return _OBEYED.sub(lambda found: escape_of(found[0]), text)


def to_bytes(value: Any) -> bytes:
    """A value as JSON for the script of a page. Halves of characters, which UTF-8 cannot hold, become U+FFFD."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return to_json(value).encode()


def _whole(value: Any) -> Any:
    """Data without halves of characters, which UTF-8 cannot write."""
    if isinstance(value, str):
        return _HALVES.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict):
        return {_whole(key): _whole(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(entry) for entry in value]
    return value
