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


class Comment:
    """A comment on lines of its own: an item of a list, or a key of a mapping, whose value does not matter. Without
    text it is an empty line."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def lines(self, margin: str) -> Iterator[str]:
        for line in self.text.split("\n"):
            yield f"{margin}# {yaml_comment(line)}".rstrip() if self.text else ""


class Commented:
    """A value with a comment at the end of its first line."""

    __slots__ = ("comment", "value")

    def __init__(self, value: Any, comment: str) -> None:
        self.value = value
        self.comment = comment


def without_comments(value: Any) -> Any:
    """The data without the comments."""
    if isinstance(value, Commented):
        return without_comments(value.value)
    if isinstance(value, dict):
        return {key: without_comments(one) for key, one in value.items() if not isinstance(key, Comment)}
    if isinstance(value, list):
        return [without_comments(one) for one in value if not isinstance(one, Comment)]
    return value


def to_yaml(document: dict[str, Any]) -> str:
    return "\n".join([*yaml_lines(document, ""), ""])


def to_document(document: dict[Any, Any]) -> str:
    """YAML in the style of the documentation: lists are indented, short ones are on one line, and empty lines divide
    the parts of the document."""
    text = ""
    for part in map("\n".join, _parts(document)):
        divided = text and not text.endswith("\n\n") and ("\n" in part or text.splitlines()[-1].startswith(" "))
        text += f"\n{part}\n" if divided else f"{part}\n"
    return text or "{}\n"


def _parts(document: dict[Any, Any]) -> Iterator[Iterator[str]]:
    """The lines of each key of a document, with the comments above it."""
    above: dict[Any, Any] = {}
    for key, value in document.items():
        above[key] = value
        if not isinstance(key, Comment):
            yield yaml_lines(above, "", dash="  ")
            above = {}
    if above:
        yield yaml_lines(above, "", dash="  ")


def yaml_lines(mapping: dict[Any, Any], margin: str, *, dash: str = "") -> Iterator[str]:
    """YAML lines of a mapping. `dash` is written before the dashes of lists; if it is empty, no list is written on one
    line."""
    for key, value in mapping.items():
        if isinstance(key, Comment):
            yield from key.lines(margin)
        elif isinstance(value, Commented):
            yield from _with_comment(_entry(key, value.value, margin, dash), value.comment)
        else:
            yield from _entry(key, value, margin, dash)


def _entry(key: str, value: Any, margin: str, dash: str) -> Iterator[str]:
    inner = f"{margin}  "
    name = f"{margin}{_key(key)}:"
    short = _short_list(value) if dash else None
    if short is not None:
        yield f"{name} {short}"
    elif _has_entries(value):
        yield name
        yield from (
            yaml_lines(value, inner, dash=dash) if isinstance(value, dict) else _items(value, margin + dash, dash)
        )
    else:
        yield f"{name} {_scalar(_emptied(value), inner)}"
        yield from _comments_in(value, inner)


def _items(values: list[Any], margin: str, dash: str) -> Iterator[str]:
    for value in values:
        if isinstance(value, Comment):
            yield from value.lines(margin)
        elif isinstance(value, Commented):
            yield from _with_comment(_item(value.value, margin, dash), value.comment)
        else:
            yield from _item(value, margin, dash)


def _item(value: Any, margin: str, dash: str) -> Iterator[str]:
    inner = f"{margin}  "
    if isinstance(value, dict) and _has_entries(value):
        for key in list(value):
            if not isinstance(key, Comment):
                break
            yield from key.lines(margin)  # above the dash
            value = {other: one for other, one in value.items() if other is not key}
        rows = yaml_lines(value, inner, dash=dash)
    elif isinstance(value, list) and _has_entries(value):
        rows = _items(value, inner, dash)
    else:
        rows = iter((f"{inner}{_scalar(_emptied(value), inner)}", *_comments_in(value, inner)))
    yield f"{margin}- {next(rows).removeprefix(inner)}"
    yield from rows


def _has_entries(value: Any) -> bool:
    """Whether it is a list or a mapping with more in it than comments."""
    return isinstance(value, dict | list) and any(not isinstance(one, Comment) for one in value)


def _emptied(value: Any) -> Any:
    return type(value)() if isinstance(value, dict | list) else value


def _comments_in(value: Any, margin: str) -> Iterator[str]:
    """The comments of a list or mapping that has nothing else in it."""
    for one in value if isinstance(value, dict | list) else ():
        yield from one.lines(margin)


def _with_comment(rows: Iterator[str], comment: str) -> Iterator[str]:
    first, mark, rest = next(rows).partition("\n")  # a block of text is one row
    yield f"{first} # {yaml_comment(comment)}{mark}{rest}"
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
    if any(isinstance(one, dict | list | Comment | Commented) for one in value):
        return None
    words = [_scalar(one, "") for one in value]
    text = f"[{', '.join(words)}]"
    is_plain = all(not re.search(r"[\[\]{},?\n]", word) for word in words)
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
