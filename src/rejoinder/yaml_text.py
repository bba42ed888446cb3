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
_INDENTED = r"(?m)^\s*\xa0"
"""Indentation by a non-breaking space: an error outside of quotes."""
_PLAIN = re.compile(r"(?![-+.0-9&*!|>'\"%@`#{}\[\],?:=~ \t])(?:(?!: | #|\t).)*(?<![ :])")
_AMBIGUOUS = frozenset({"", "y", "n", "yes", "no", "on", "off", "true", "false", "null", "<<"})
"""Words that some reader does not take for text."""
_MOST_WORDS, _LONGEST_LIST = 8, 60
"""Words and characters of a list on one line."""


def to_yaml(document: dict[str, Any]) -> str:
    return "\n".join([*yaml_lines(document, ""), ""])


def to_document(document: dict[str, Any]) -> str:
    """YAML in the style of the documentation: lists are indented, short ones are on one line, and empty lines divide
    the parts of the document."""
    parts = ("\n".join(yaml_lines({key: value}, "", dash="  ")) for key, value in document.items())
    text = ""
    for part in parts:
        divided = text and not text.endswith("\n\n") and ("\n" in part or text.splitlines()[-1].startswith(" "))
        text += f"\n{part}\n" if divided else f"{part}\n"
    return text or "{}\n"


def yaml_lines(mapping: dict[str, Any], margin: str, *, dash: str = "") -> Iterator[str]:
    """YAML lines of a mapping. `dash` is written before the dashes of lists; if it is empty, no list is written on one
    line."""
    inner = f"{margin}  "
    for key, value in mapping.items():
        name = f"{margin}{_key(key)}:"
        short = _short_list(value) if dash else None
        if short is not None:
            yield f"{name} {short}"
        elif isinstance(value, dict) and value:
            yield name
            yield from yaml_lines(value, inner, dash=dash)
        elif isinstance(value, list) and value:
            yield name
            yield from _items(value, margin + dash, dash)
        else:
            yield f"{name} {_scalar(value, inner)}"


def _items(values: list[Any], margin: str, dash: str) -> Iterator[str]:
    inner = f"{margin}  "
    for value in values:
        if isinstance(value, dict) and value:
            rows = yaml_lines(value, inner, dash=dash)
        elif isinstance(value, list) and value:
            rows = _items(value, inner, dash)
        else:
            rows = iter((f"{inner}{_scalar(value, inner)}",))
        yield f"{margin}- {next(rows).removeprefix(inner)}"
        yield from rows


def _scalar(value: Any, margin: str) -> str:
    return yaml_text(value, margin) if isinstance(value, str) else yaml_word(value)


def _key(key: str) -> str:
    if key == "on":  # a key of conversation checks; no reader of suites takes it for a boolean
        return key
    return yaml_flow(key) if "\n" in key else yaml_text(key, "")


def _short_list(value: Any) -> str | None:
    """A list of a few words or numbers, on one line."""
    if not isinstance(value, list) or not value or len(value) > _MOST_WORDS:
        return None
    if any(isinstance(one, (dict, list)) for one in value):
        return None
    words = [_scalar(one, "") for one in value]
    text = f"[{', '.join(words)}]"
    is_plain = all(not re.search(r"[\[\]{},\n]", word) for word in words)
    return text if is_plain and len(text) <= _LONGEST_LIST else None


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
    if re.search(_UNPRINTABLE, text) or ("\t" in text and "\n" not in text) or re.search(_INDENTED, text):
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
