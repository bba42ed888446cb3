"""The written form of a check's fields: information for the reader and the JSON Schema that types do not express. It is
in the field's annotation; a text there is the description in the schema.

Rules for texts hold only in the schema (`extra_json_schema`): a text may become empty once its variables are filled in.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct, structs


class Reading(Enum):
    """The method that reads a field's value from a suite."""

    AS_WRITTEN = auto()
    TEMPLATE = auto()
    """A text whose variables are filled in."""
    PATTERN = auto()
    """Like TEMPLATE, for a text that must not become empty; a number is taken as written."""
    TARGET = auto()
    """The name of a target."""
    COMMAND = auto()
    """A command line, or the words of a command."""
    JSON = auto()
    """Any value, kept as JSON text."""
    DURATION = auto()
    """A number of seconds, or a time with its unit, such as `5ms`."""
    DERIVED = auto()
    """Not written in a suite."""


class Key(Struct, frozen=True):
    """The field's key in a suite, if it differs from the field's name."""

    name: str


EMPTY_PATTERN = Meta(extra_json_schema={"minLength": 1, "x-code": "empty-pattern"})
_TEXT_OR_NUMBER = Meta(extra_json_schema={"type": ["string", "number"]})
_TEXT_OR_LIST = Meta(min_length=1, extra_json_schema={"type": ["string", "array"], "minLength": 1})

Text: TypeAlias = Annotated[str, Reading.TEMPLATE]
Pattern: TypeAlias = Annotated[str, Reading.PATTERN, EMPTY_PATTERN]
Word: TypeAlias = Annotated[str, Reading.PATTERN, EMPTY_PATTERN, _TEXT_OR_NUMBER]
AnyWord: TypeAlias = Annotated[str, Reading.PATTERN, _TEXT_OR_NUMBER]
Prose: TypeAlias = Annotated[
    str, Reading.TEMPLATE, Meta(extra_json_schema={"pattern": r"\S", "x-code": "empty-prompt"})
]
TargetName: TypeAlias = Annotated[str, Reading.TARGET, Meta(extra_json_schema={"minLength": 1})]
JsonText: TypeAlias = Annotated[str, Reading.JSON]
Names: TypeAlias = Annotated[
    tuple[Annotated[str, Meta(extra_json_schema={"minLength": 1})], ...],
    _TEXT_OR_LIST,
]
"""One name, or several; any one of them is enough."""
Patterns: TypeAlias = Annotated[tuple[Pattern, ...], _TEXT_OR_LIST, Meta(extra_json_schema={"x-code": "empty-pattern"})]
"""One text, or several; any one of them is enough."""
Count: TypeAlias = Annotated[int, Meta(ge=0)]
PositiveCount: TypeAlias = Annotated[int, Meta(ge=1)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
Duration: TypeAlias = Annotated[
    float,
    Reading.DURATION,
    Meta(gt=0),
    Meta(extra_json_schema={"type": ["number", "string"], "pattern": r"^\s*[0-9]+(\.[0-9]*)?\s*(ms|s|min)\s*$"}),
]
MOST_SECONDS = "Timeout in seconds; 60 by default."


class Field(Struct, frozen=True):
    """A field in the form that the suite's reader and the schema use."""

    name: str
    key: str
    type: Any
    """The type without `None` and annotations; a list if the field is one of several."""
    description: str | None
    reading: Reading
    """For a list: the reading of each text."""
    metas: tuple[Meta, ...]
    required: bool


@lru_cache(maxsize=256)
def fields_of(kind: type[Struct], base: type[Struct]) -> tuple[Field, ...]:
    """The fields that a kind of check declares itself, without the base's fields."""
    declared = [name for parent in kind.__mro__ if parent not in base.__mro__ for name in parent.__annotations__]
    hints = get_type_hints(kind, include_extras=True)
    own = {field.name: field for field in structs.fields(kind)}
    every = (_field(name, hints[name], required=own[name].required) for name in declared)
    return tuple(field for field in every if field.reading is not Reading.DERIVED)


def _field(name: str, hint: Any, *, required: bool) -> Field:
    type_, notes = strip(hint)
    of_items = strip(get_args(type_)[0])[1] if get_origin(type_) is tuple else []
    reading = next((note for note in (*notes, *of_items) if isinstance(note, Reading)), Reading.AS_WRITTEN)
    key = next((note.name for note in notes if isinstance(note, Key)), name)
    description = next((note for note in notes if isinstance(note, str)), None)
    metas = tuple(note for note in notes if isinstance(note, Meta))
    return Field(name, key, type_, description, reading, metas, required)


def strip(hint: Any) -> tuple[Any, list[Any]]:
    """A type without `None` and annotations, and the annotations."""
    if get_origin(hint) is Annotated:
        inner, *notes = get_args(hint)
        type_, more = strip(inner)
        return type_, more + notes
    if get_origin(hint) in (Union, UnionType):
        members = [member for member in get_args(hint) if member is not NoneType]
        return strip(members[0]) if len(members) == 1 else (members, [])
    return hint, []
