"""Secrets stay out of run folders: a known value is replaced by its name when a record is written.

The name is kept in place of the value, so that a resumed run can put the value back. Only texts are changed, never
numbers, keys or the words that records are made of: a secret `1234` or `passed` must not garble them.

Whoever repeats a secret may quote it as JSON, in a URL or in a traceback, and a long message may be cut in the middle
of one. Each such form has a marker of its own, so that putting it back gives the very same text.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from rejoinder.model import trim

SHORTEST_SECRET = 4
"""Shorter values occur by chance in any text; masking them would only garble records."""
SHORTEST_IN_BASE64 = 12
"""Shorter ones may be anything."""
SHORTEST_BEGINNING = 8
"""Of a value in the middle of which a text is cut, what is too much to show."""
DEEPEST_QUOTING = 3
"""JSON in JSON in JSON: an error that quotes an error that quotes a header."""

_STRUCTURE = frozenset(
    {
        *("type", "part", "key", "status", "role", "state", "what", "provider", "format"),
        *("followups", "profile", "marker_in_text", "file_style", "chat_file_style", "guidelines_style", "agent_paths"),
    }
)
"""Keys whose values are words of ours and not of authors or models."""
_FREE = frozenset({"variables", "metadata", "settings", "vars", "failure", "error", "arguments", "headers"})
"""Keys below which everything is the author's, or the server's."""

LONGEST_BEGINNING = 16
"""Of a value, what is too much to show wherever it stands: the first letters of keys are the same for many."""
_CUT = re.compile(r" ?\.\.\.|['\")\]]*(?: \(tried \d+ times\)|\Z)")
"""What follows a text that was cut."""


class Mask:
    """Replaces the values of secrets by their names, and back."""

    def __init__(self, secrets: dict[str, str]) -> None:
        """`secrets` maps each value to the expression that names it."""
        self._names: dict[str, str] = {}
        namesakes: dict[str, int] = {}
        for value, name in secrets.items():
            namesakes[name] = number = namesakes.get(name, 0) + 1
            own = name if number == 1 else f"{name} ({number})"
            for form, way in _forms(value):
                if len(form) >= SHORTEST_SECRET:
                    self._names.setdefault(form, f"{own}{way}")
        longest_first = sorted(self._names, key=len, reverse=True)
        self._values = {self._names[form]: form for form in reversed(longest_first)}
        names = "|".join(map(re.escape, sorted(self._values, key=len, reverse=True)))
        # Who writes a marker as a text of his own must not get the secret for it; so such a text is marked as well.
        self._marker = re.compile(rf"<<((?:literal )*)({names})(?: up to (\d+))?>>")
        self._found = re.compile("|".join((*map(re.escape, longest_first), self._marker.pattern)))
        beginnings = (form[:SHORTEST_BEGINNING] for form in longest_first)
        # Every record is searched for these, so there are few: markers begin alike, and so do most forms of a value.
        self._hints = list(dict.fromkeys(map(_escaped, (*beginnings, "<<")))) if self._names else []

    def __bool__(self) -> bool:
        return bool(self._names)

    def hide(self, record: bytes) -> bytes:
        """A line of JSON without the secrets."""
        for hint in self._hints:
            if hint in record:
                return _again(record, self.hide_text)
        return record

    def reveal(self, record: bytes) -> bytes:
        """A line of JSON with the secrets put back."""
        if not self._names or b"<<" not in record:
            return record
        return _again(record, self.reveal_text)

    def hide_text(self, text: str) -> str:
        if not self._names:
            return text
        text = self._found.sub(lambda found: self._hidden(found[0]), text)
        for form, name in self._names.items():
            if len(form) > SHORTEST_BEGINNING and form[:SHORTEST_BEGINNING] in text:
                text = _hide_beginnings(text, form, name)
        return text

    def _hidden(self, found: str) -> str:
        name = self._names.get(found)
        return f"<<literal {found[2:]}" if name is None else f"<<{name}>>"

    def reveal_text(self, text: str) -> str:
        if not self._names:
            return text

        def value(found: re.Match[str]) -> str:
            if found[1]:
                return found[0].replace("literal ", "", 1)
            form = self._values[found[2]]
            return form[: int(found[3])] if found[3] else form

        return self._marker.sub(value, text)


def _forms(value: str) -> Iterator[tuple[str, str]]:
    """The ways in which a value may be written, each with words that tell it from the others."""
    yield value, ""
    # Prompts are trimmed before they are sent, so a value may stand there without the white space at its ends.
    yield trim(value), ", trimmed"
    yield value.strip(), ", stripped"
    yield quote(value, safe=""), ", in a query"
    yield quote(value), ", in a path"
    yield quote_plus(value), ", in a form"
    if not re.search(r"\s", value):  # headers are put into small letters, and sentences are said in them
        yield value.lower(), ", in small letters"
    yield re.sub(r"%..", lambda found: found[0].lower(), quote(value, safe="")), ", in a query in small letters"
    yield value.replace("/", "\\/"), ", in JSON of PHP"
    yield re.sub(r"[+<>&'\"`]", lambda found: f"\\u{ord(found[0]):04X}", value), ", in JSON of .NET"
    yield re.sub(r"[&<>\"'/`=]", lambda found: f"&#x{ord(found[0]):X};", value), ", in HTML"
    yield re.sub(r"[&<>\"']", lambda found: _ENTITIES[found[0]], value), ", in HTML with names"
    yield from _in_base64(value.encode("utf-8", "surrogatepass"))
    level = {value: ""}
    for _ in range(DEEPEST_QUOTING):
        level = {write(form): f"{way}, in {name}" for form, way in level.items() for name, write in _QUOTINGS.items()}
        yield from level.items()


_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}


def _in_base64(value: bytes) -> Iterator[tuple[str, str]]:
    """What is the same wherever the value begins: its letters stand in one of three places."""
    for shift in range(3):
        encoded = b2a_base64(b"\0" * shift + value, newline=False).decode().rstrip("=")
        inner = encoded[4 if shift else 0 : len(encoded) - (1 if (len(value) + shift) % 3 else 0)]
        if len(inner) >= SHORTEST_IN_BASE64:
            yield inner, f", in base64 ({shift})"
            yield inner.replace("+", "-").replace("/", "_"), f", in base64 of addresses ({shift})"


_QUOTINGS: dict[str, Callable[[str], str]] = {
    "Python": lambda text: repr(text)[1:-1],
    "JSON": lambda text: _escaped(text).decode(),
    "ASCII": lambda text: re.sub(r"[^\0-\x7f]", _in_ascii, _escaped(text).decode()),
}


def _in_ascii(found: re.Match[str]) -> str:
    """A character as JSON writes it for those who know no other letters."""
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))


def _hide_beginnings(text: str, form: str, name: str) -> str:
    """The text without the beginnings of a value in the middle of which it was cut."""
    start = text.find(form[:SHORTEST_BEGINNING])
    while start >= 0:
        length = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(form, text[start:], strict=False))))
        is_cut = length >= _longest_beginning(form) or _CUT.match(text, start + length)
        marker = f"<<{name} up to {length}>>" if is_cut else text[start : start + length]
        text = text[:start] + marker + text[start + length :]
        start = text.find(form[:SHORTEST_BEGINNING], start + len(marker))
    return text


def _longest_beginning(form: str) -> int:
    """JSON Web Tokens all begin alike, up to their first dot."""
    return max(LONGEST_BEGINNING, form.find(".") + SHORTEST_BEGINNING) if form.startswith("eyJ") else LONGEST_BEGINNING


def _again(record: bytes, change: Any) -> bytes:
    ending = b"\n" if record.endswith(b"\n") else b""
    return msgspec.json.encode(_walk(msgspec.json.decode(record), change)) + ending


def _walk(data: Any, change: Any, *, free: bool = False) -> Any:
    if isinstance(data, str):
        return change(data)
    if isinstance(data, list):
        return [_walk(item, change, free=free) for item in data]
    if isinstance(data, dict):
        return {
            key: value if key in _STRUCTURE and not free else _walk(value, change, free=free or key in _FREE)
            for key, value in data.items()
        }
    return data


def _escaped(text: str) -> bytes:
    """The text as it stands in JSON; enough of it to see that it is there."""
    return msgspec.json.encode(text)[1:-1]
