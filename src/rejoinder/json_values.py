"""Reading foreign JSON, which changes with every version of its program: nothing in it is relied on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


def at(value: Any, *names: str) -> Any:
    """The value under nested names; None if missing."""
    for name in names:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def text_at(value: Any, *names: str) -> str:
    found = at(value, *names)
    return found if isinstance(found, str) else ""


def list_at(value: Any, *names: str) -> list[Any]:
    return as_list(at(value, *names))


MOST_MONEY = 1e9
"""Maximum dollars of one turn. A larger amount is an error of the counter."""


def count_at(value: Any, *names: str) -> int:
    found = at(value, *names)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


def money_at(value: Any, *names: str) -> float | None:
    found = at(value, *names)
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return float(found) if is_number and 0 <= found < MOST_MONEY else None


def text_of(content: Any) -> str:
    """The text of a content that is a text, or a list of blocks with texts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(text for block in content if (text := text_at(block, "text")))


def decoded(text: str) -> Any:
    """The value of a JSON text; None if invalid."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def as_list(value: Any) -> list[Any]:
    """The value if it is a list, otherwise an empty list."""
    return value if isinstance(value, list) else []


def as_mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, otherwise an empty mapping."""
    return value if isinstance(value, dict) else {}


def as_items(value: Any) -> list[Mapping[str, Any]]:
    """The mappings in a list, without other items."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
