"""Two records of the same thing, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Struct


class Unlike(NamedTuple):
    """A field that two records have different values of."""

    field: str
    """Its path: `turns[0].response`."""
    recorded: object
    counted: object


def unlike(recorded: Any, counted: Any, field: str = "") -> Iterator[Unlike]:
    """The fields that differ. Numbers with a fraction may differ by what another machine rounds in another way."""
    if isinstance(recorded, Struct) and isinstance(counted, Struct):
        recorded, counted = msgspec.to_builtins(recorded), msgspec.to_builtins(counted)
    if isinstance(recorded, dict) and isinstance(counted, dict):
        one, other = cast("dict[str, Any]", recorded), cast("dict[str, Any]", counted)
        for key in dict.fromkeys((*one, *other)):
            yield from unlike(one.get(key), other.get(key), f"{field}.{key}".lstrip("."))
    elif isinstance(recorded, list | tuple) and isinstance(counted, list | tuple):
        pair = cast("list[Any]", recorded), cast("list[Any]", counted)
        if len(pair[0]) != len(pair[1]):
            yield Unlike(field, recorded, counted)
            return
        for place, values in enumerate(zip(*pair, strict=True)):
            yield from unlike(*values, f"{field}[{place}]")
    elif recorded != counted and not _is_rounding(recorded, counted):
        yield Unlike(field, recorded, counted)


def _is_rounding(one: object, other: object) -> bool:
    if not (isinstance(one, int | float) and isinstance(other, int | float)) or {type(one), type(other)} <= {int, bool}:
        return False
    return isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
