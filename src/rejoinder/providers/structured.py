"""Structured output: what APIs ask of a JSON Schema that replies are made to fit."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

NAME = "reply"
"""The name of a schema, which OpenAI's APIs require."""
_STRICT = frozenset(
    (
        *("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf"),
        *("$ref", "$defs", "definitions", "title", "description", "pattern", "format", "minItems", "maxItems"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    )
)
"""Keywords that OpenAI's strict mode accepts."""
_NAMED = ("properties", "$defs", "definitions")
"""Keywords whose values are schemas by name."""


def openai_form(schema: str) -> dict[str, Any]:
    """The schema in the form that OpenAI's APIs share. It is strict if the rules of strict mode allow it: with another
    schema, the API would refuse the request."""
    strict = {"strict": True} if _is_strict(schema) else {}
    return {"name": NAME, "schema": msgspec.Raw(schema.encode()), **strict}


@lru_cache(maxsize=64)
def _is_strict(schema: str) -> bool:
    root = msgspec.json.decode(schema)
    return isinstance(root, dict) and root.get("type") == "object" and "anyOf" not in root and _fits(root)


def _fits(schema: Any) -> bool:
    """Whether strict mode accepts a schema: it has no other keywords, and every object requires all its properties and
    allows no others."""
    if not isinstance(schema, dict) or not schema.keys() <= _STRICT:
        return False
    is_object = "object" in (kind if isinstance(kind := schema.get("type"), list) else [kind])
    if is_object or "properties" in schema:
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        if schema.get("additionalProperties") is not False or set(properties) != set(required):
            return False
    inner = [one for key in _NAMED for one in schema.get(key, {}).values()]
    inner += schema.get("anyOf", [])
    return all(map(_fits, [*inner, *([schema["items"]] if "items" in schema else [])]))
