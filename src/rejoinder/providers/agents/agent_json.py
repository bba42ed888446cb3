"""Reading JSON that agents write. It changes with every version, so nothing in it is relied on."""

from __future__ import annotations

import msgspec

from rejoinder.json_values import as_items as as_items
from rejoinder.json_values import as_mapping as as_mapping
from rejoinder.json_values import at as at
from rejoinder.json_values import count_at as count_at
from rejoinder.json_values import list_at as list_at
from rejoinder.json_values import money_at as money_at
from rejoinder.json_values import text_at as text_at
from rejoinder.json_values import text_of as text_of


def inner_message(text: str) -> str:
    """The message inside the JSON of a model server's error; other text is returned unchanged."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        said = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return text_at(said, "error", "message") or text_at(said, "message") or text
