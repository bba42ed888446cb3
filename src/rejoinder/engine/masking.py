"""Secrets stay out of run folders: a known value is replaced by its name when a record is written.

The name is kept in place of the value, so that a resumed run can put the value back.
"""

from __future__ import annotations

import json

SHORTEST_SECRET = 4
"""Shorter values occur by chance in any text; masking them would only garble records."""


class Mask:
    """Replaces the values of secrets by their names, and back."""

    def __init__(self, secrets: dict[str, str]) -> None:
        """`secrets` maps each value to the expression that names it."""
        longest_first = sorted(secrets.items(), key=lambda pair: -len(pair[0]))
        usable = [(value, name) for value, name in longest_first if len(value) >= SHORTEST_SECRET]
        self._pairs = [(_escaped(value), _escaped(_marker(name))) for value, name in usable]
        self._texts = [(value, _marker(name)) for value, name in usable]

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def hide(self, record: bytes) -> bytes:
        """A JSON record without the secrets."""
        for value, marker in self._pairs:
            record = record.replace(value, marker)
        return record

    def reveal(self, record: bytes) -> bytes:
        """A JSON record with the secrets put back."""
        for value, marker in self._pairs:
            record = record.replace(marker, value)
        return record

    def hide_text(self, text: str) -> str:
        for value, marker in self._texts:
            text = text.replace(value, marker)
        return text


def _marker(name: str) -> str:
    return f"<<{name}>>"


def _escaped(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()
