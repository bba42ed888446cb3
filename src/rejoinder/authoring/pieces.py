"""The parts of a suite as plain data, which is written as YAML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, TypeAlias, cast

from msgspec import UNSET, Struct

from rejoinder.errors import UsageError

Value: TypeAlias = "str | int | float | bool | Sequence[Value] | Mapping[str, Value] | None"
"""Any value of a suite."""
MOST_DEPTH = 200
"""Levels of a value. A suite as a file may have fewer; its message has the place."""
LONGEST_SHOWN = 60
"""Characters of a value in the one-line form of a check."""


class SuitePart(Struct, frozen=True):
    """A part of a suite. Its fields are the keys, `None` for a missing one; a Python keyword ends with `_`."""

    def written(self) -> dict[str, Any]:
        """Its keys and values, as in YAML."""
        names = zip(self.__struct_encode_fields__, self.__struct_fields__, strict=True)
        values = ((key, getattr(self, name)) for key, name in names)
        return {key: value for key, value in values if value is not None}


class CheckEntry(Struct, frozen=True):
    """A check as an entry of a `checks` list. The functions of `rejoinder.checks` make them."""

    kind: str
    value: Any
    beside: dict[str, Any] = {}
    """The keys beside the check, such as `name` and `weight`."""
    follow_up: SuitePart | None = None

    def written(self) -> dict[str, Any]:
        """The entry, as in YAML."""
        after = {} if self.follow_up is None else self.follow_up.written()
        if "threshold" in after:
            raise UsageError(
                "a follow-up beside a check has no threshold of its own",
                "Give the threshold to the check, or put the follow-up behind it in the list.",
            )
        return {self.kind: self.value, **self.beside, **after}

    def __repr__(self) -> str:
        value = repr(self.value)
        shown = value if len(value) <= LONGEST_SHOWN else f"{value[:LONGEST_SHOWN]}..."
        more = "".join(f", {key}={one!r}" for key, one in self.beside.items())
        return f"checks.{self.kind}({shown}{more}{', follow_up=...' if self.follow_up is not None else ''})"


def entry(kind: str, value: Any, beside: Mapping[str, Any], known: frozenset[str]) -> CheckEntry:
    """A check with the keys beside it. Raises TypeError for an unknown key."""
    for key in beside:
        if key not in known:
            raise TypeError(f"checks.{kind}() got an unexpected keyword argument {key!r}")
    written = {key: one for key, one in beside.items() if one is not None and key != "follow_up"}
    return CheckEntry(kind, value, written, beside.get("follow_up"))


def keys(given: Mapping[str, Any], alone: str | None = None) -> Any:
    """The mapping of a check's fields without missing ones; the value itself if only the field `alone` is given."""
    found = {key: value for key, value in given.items() if value is not None and value is not UNSET}
    if "equals" in given and given["equals"] is None:
        found["equals"] = None
    return found[alone] if alone is not None and found.keys() == {alone} else found


def plain(value: object, at: str = "", depth: int = 0) -> Any:
    """A value as YAML data: mappings, lists, texts, numbers, booleans and None. Raises UsageError for other values."""
    if depth > MOST_DEPTH:
        place = at.removeprefix(".")[:LONGEST_SHOWN]
        raise UsageError(f"{place}... contains itself, or is nested more than {MOST_DEPTH} levels deep")
    if isinstance(value, SuitePart | CheckEntry):
        return plain(value.written(), at, depth + 1)
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, str):
        return encodable(str(value), at)
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {_key(key, at): plain(one, f"{at}.{key}", depth + 1) for key, one in items}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [plain(one, f"{at}[{place}]", depth + 1) for place, one in enumerate(cast("Sequence[object]", value))]
    shown = repr(value) if isinstance(value, float) else f"a {type(value).__name__}"
    raise UsageError(f"{at.removeprefix('.') or 'a suite'} cannot be written as YAML: it is {shown}")


def encodable(text: str, at: str = "") -> str:
    """The text. Raises UsageError for half of a pair of surrogates, which no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        where = at.removeprefix(".") or "the text of a suite"
        raise UsageError(f"{where} has the character {text[error.start]!a}, which is not Unicode text") from None
    return text


def mapping_of(suite: Mapping[str, object]) -> dict[str, Any]:
    """A suite as YAML data. Raises UsageError for a value that YAML does not have."""
    return plain(suite)


def _key(key: object, at: str) -> str:
    if isinstance(key, str):
        return encodable(str(key), at)
    raise UsageError(f"{at.removeprefix('.') or 'a suite'} has the key {key!r}; keys are texts")
