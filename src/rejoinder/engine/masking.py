"""Secrets stay out of run folders: a known value is replaced by its name when a record is written.

The name is kept in place of the value, so that a resumed run can put the value back. Only texts are changed, never
numbers, keys or the words that records are made of: a secret `1234` or `passed` must not garble them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rejoinder.model import trim

SHORTEST_SECRET = 4
"""Shorter values occur by chance in any text; masking them would only garble records."""

_STRUCTURE = frozenset(
    {
        *("type", "part", "key", "status", "role", "state", "what", "provider", "format"),
        *("followups", "profile", "marker_in_text", "file_style", "chat_file_style", "guidelines_style", "agent_paths"),
    }
)
"""Keys whose values are words of ours and not of authors or models."""
_FREE = frozenset({"variables", "metadata", "settings", "vars"})
"""Keys below which everything is the author's."""


class Mask:
    """Replaces the values of secrets by their names, and back."""

    def __init__(self, secrets: dict[str, str]) -> None:
        """`secrets` maps each value to the expression that names it."""
        # Prompts are trimmed before they are sent, so a value may stand there without the white space at its ends.
        forms = {form: name for value, name in secrets.items() for form in (value, trim(value), value.strip())}
        longest_first = sorted(forms.items(), key=lambda pair: -len(pair[0]))
        self._pairs = [(value, f"<<{name}>>") for value, name in longest_first if len(value) >= SHORTEST_SECRET]
        self._hints = [_escaped(value) for value, _ in self._pairs]
        self._marks = [_escaped(marker) for _, marker in self._pairs]

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def hide(self, record: bytes) -> bytes:
        """A line of JSON without the secrets."""
        for hint in self._hints:
            if hint in record:
                return _again(record, self.hide_text)
        return record

    def reveal(self, record: bytes) -> bytes:
        """A line of JSON with the secrets put back."""
        if not any(mark in record for mark in self._marks):
            return record
        return _again(record, self._reveal_text)

    def hide_text(self, text: str) -> str:
        for value, marker in self._pairs:
            text = text.replace(value, marker)
        return text

    def _reveal_text(self, text: str) -> str:
        for value, marker in self._pairs:
            text = text.replace(marker, value)
        return text


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
