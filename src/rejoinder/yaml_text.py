"""YAML as people would write it. Text that the usual writer would quote for a tab, or for a space before a line's end,
is written as a block.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_UNPRINTABLE = r"[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
"""Characters that a file cannot hold unescaped: control characters, and line ends that readers interpret differently.
The pattern takes long to compile, and most runs write no cassettes."""
_PLAIN = re.compile(r"(?![-+.0-9&*!|>'\"%@`#{}\[\],?:=~ \t])(?:(?!: | #|\t).)*(?<![ :])")
_AMBIGUOUS = frozenset({"", "y", "n", "yes", "no", "on", "off", "true", "false", "null", "<<"})
"""Words that some reader does not take for text."""


def to_yaml(document: dict[str, Any]) -> str:
    return "\n".join([*yaml_lines(document, ""), ""])


def yaml_lines(mapping: dict[str, Any], margin: str) -> Iterator[str]:
    """YAML lines of a mapping. Its lists may hold only mappings."""
    inner = f"{margin}  "
    for key, value in mapping.items():
        if isinstance(value, dict) and value:
            yield f"{margin}{key}:"
            yield from yaml_lines(value, inner)
        elif isinstance(value, list) and value:
            yield f"{margin}{key}:"
            for one in value:
                first, *rest = yaml_lines(one, inner)
                yield f"{margin}- {first.removeprefix(inner)}"
                yield from rest
        else:
            yield f"{margin}{key}: {yaml_text(value, inner) if isinstance(value, str) else yaml_word(value)}"


def yaml_word(value: Any) -> str:
    """A number, a boolean, or nothing."""
    if not isinstance(value, float):
        return json.dumps(value)
    text = repr(value)
    return text if "." in text else text.replace("e", ".0e")  # or it would be a text, for some readers


def yaml_flow(value: Any) -> str:
    """A value on one line, as JSON that every YAML reader accepts."""
    return re.sub(_UNPRINTABLE, lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def yaml_comment(text: str) -> str:
    """A text as a comment that fits on one line behind a `#`."""
    return re.sub(rf"{_UNPRINTABLE}|[\t\n]", " ", text.encode("utf-8", "replace").decode())


def yaml_text(text: str, margin: str) -> str:
    text = text.encode("utf-8", "replace").decode()  # half a character is none
    if re.search(_UNPRINTABLE, text) or ("\t" in text and "\n" not in text):
        return yaml_flow(text)
    if "\n" in text:
        return _block(text, margin)
    if _PLAIN.fullmatch(text) and text.lower() not in _AMBIGUOUS:
        return text
    return "'" + text.replace("'", "''") + "'"


def _block(text: str, margin: str) -> str:
    end = "-" if not text.endswith("\n") else "+" if text in {"\n"} or text.endswith("\n\n") else ""
    # A number gives the indentation, if the start of the text would be taken for indentation.
    width = "2" if text[0] in " \t\n" else ""
    lines = text.removesuffix("\n").split("\n")
    return "\n".join([f"|{width}{end}", *(f"{margin}{line}" if line else "" for line in lines)])
