"""Data of a recording about the conversation as a whole, by key, such as `metadata.case` or `session.id`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rejoinder.json_values import as_mapping, decoded

MOST_KEYS = 200
_LONGEST_VALUE = 300
"""Maximum characters of a value. A longer one does not name a conversation."""
_DEEPEST = 4
_NO_NAME = re.compile(r"\.\d+(?:\.|$)|token|usage|^(?:input|output)\.value$")
"""Keys that cannot name a conversation: items of flat lists (`llm.input_messages.0.message.role`), counts, contents."""


def keys_of(head: Any) -> dict[str, str]:
    """The texts and numbers in a mapping and its inner mappings, by dotted name."""
    found: dict[str, str] = {}
    for name, value in _walk(head, _DEEPEST):
        if len(found) >= MOST_KEYS:
            break
        found.setdefault(name, value)
    return found


def _walk(value: Any, depth: int) -> Iterator[tuple[str, str]]:
    for name, inner in as_mapping(_decoded(value)).items():
        if _NO_NAME.search(name):
            continue
        if text := _name(inner):
            yield name, text
        if depth > 0:
            yield from ((f"{name}.{below}", text) for below, text in _walk(inner, depth - 1))


def _name(value: Any) -> str:
    """A text or a number that may name something."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    return text if isinstance(text, str) and len(text) <= _LONGEST_VALUE and not text.startswith(("{", "[")) else ""


def _decoded(value: Any) -> Any:
    """A value decoded from JSON text: formats with flat values write mappings so."""
    return decoded(value) if isinstance(value, str) and value.startswith("{") else value
