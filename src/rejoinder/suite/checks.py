"""From the `checks` of a file to levels, items and checks of the model. The schema has already spoken: what comes
in here has the right shape.

A check is read as its fields are declared (`model/checks.py`). Where that is not enough, a reader of its own is
registered by `reads` (`suite/check_forms.py`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol, TypeVar, get_args, get_origin

import msgspec

from rejoinder.model import CHECKS, Check, Custom, FollowUp, Item, JudgeVariable, Level, Or, Quote
from rejoinder.model.fields import Field, Reading, fields_of

Shared = Mapping[str, Any]
"""What stands beside a check, by the names of the fields that all checks share."""
_READERS: dict[type[Check], Reader] = {}


class Texts(Protocol):
    """Reads strings of a case with their templates filled in, and takes note of what is wrong with them."""

    def text(self, value: str, at: str) -> str: ...
    def written(self, value: float, at: str) -> str: ...
    def follow_up(self, value: str, at: str) -> tuple[str | Quote, ...]: ...
    def judge_prompt(self, value: str, at: str) -> tuple[tuple[str | JudgeVariable, ...], str]: ...
    def problem(self, code: str, at: str, message: str) -> None: ...
    def target(self, value: str, at: str) -> str: ...
    def tree(self, value: Any, at: str) -> Any: ...

    def known_checks(self) -> list[str] | None:
        """The checks that the project and installed packages bring; None where they cannot be listed."""
        ...

    def read_data(self, value: str, at: str) -> Any:
        """What a JSON or YAML file holds; None, with a problem noted, where it cannot be read."""
        ...


Reader = Callable[[type[Check], Any, str, Texts, Shared], Check]
ValueReader = Callable[[Any, str, Texts], Any]
R = TypeVar("R", bound=Reader)


def reads(*kinds: type[Check]) -> Callable[[R], R]:
    """Make a function the reader of checks that are more than their fields."""

    def register(reader: R) -> R:
        _READERS.update(dict.fromkeys(kinds, reader))
        return reader

    return register


def read_items(checks: Any, at: str, texts: Texts) -> tuple[Item, ...]:
    """The items of a `checks` value; `{or: [...]}` is one item."""
    if isinstance(checks, dict):
        return (Item(Or(items=read_list(checks["or"], f"{at}.or", texts), at=f"{at}.or")),)
    return read_list(checks, at, texts)


def read_list(items: list[Any], at: str, texts: Texts) -> tuple[Item, ...]:
    return tuple(_read_item(item, f"{at}[{position}]", texts) for position, item in enumerate(items))


def _read_item(item: dict[str, Any], at: str, texts: Texts) -> Item:
    check = read_check(item, at, texts)
    follow_up = None
    if "prompt" in item:
        threshold = item.get("threshold") if check is None else None
        level = Level(read_items(item["checks"], f"{at}.checks", texts), threshold)
        follow_up = FollowUp(texts.follow_up(item["prompt"], f"{at}.prompt"), level, f"{at}.prompt")
    return Item(check, follow_up)


def read_check(item: dict[str, Any], at: str, texts: Texts) -> Check | None:
    """The check of an item; None where it is a follow-up alone."""
    for key, value in item.items():
        if key in CHECKS:
            place = f"{at}.{key}"
            check = read_as(CHECKS[key], value, place, texts, shared_of(item, at, place, texts))
            if isinstance(check, Custom) and "with" in item:
                check = msgspec.structs.replace(check, arguments=texts.tree(item["with"], f"{at}.with"))
            return check
    return None


def shared_of(item: dict[str, Any], at: str, place: str, texts: Texts) -> dict[str, Any]:
    """What stands beside a check."""
    shared: dict[str, Any] = {"at": place}
    for key in Check.__struct_fields__:
        if key in item:
            value = item[key]
            shared[key] = texts.text(value, f"{at}.{key}") if isinstance(value, str) else value
    return shared


def read_as(kind: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    return _READERS.get(kind, read_fields)(kind, value, at, texts, shared)


def read_fields(kind: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    """A check by its fields: a lone field is the value itself, several are a mapping, and the field that may stand
    alone can be given without one."""
    fields = _readers_of(kind)
    if len(fields) == 1 or not isinstance(value, dict):
        name, _, read = next(field for field in fields if len(fields) == 1 or field[0] == kind.alone)
        return kind(**shared, **{name: read(value, at, texts)})
    given = {name: read(value[key], f"{at}.{key}", texts) for name, key, read in fields if key in value}
    return kind(**{**shared, **given})


@lru_cache(maxsize=256)
def _readers_of(kind: type[Check]) -> tuple[tuple[str, str, ValueReader], ...]:
    """The name and the key of each field, and what reads it."""
    return tuple((field.name, field.key, _value_reader(field)) for field in fields_of(kind, Check))


def _value_reader(field: Field) -> ValueReader:
    origin, members = get_origin(field.type), get_args(field.type)
    if members and members[0] in LISTS:
        return LISTS[members[0]]
    if isinstance(field.type, list):  # a check of any kind
        return read_check
    if origin is dict:
        return lambda value, at, texts: texts.tree(value, at)
    if field.type in (int, float):
        return lambda value, _at, _texts: field.type(value)
    read = _READINGS[field.reading]
    return _one_or_more(read) if origin is tuple and field.reading is not Reading.COMMAND else read


def _one_or_more(read: ValueReader) -> ValueReader:
    """Texts in a list; a text that stands alone is the only one."""

    def read_all(value: Any, at: str, texts: Texts) -> tuple[Any, ...]:
        if isinstance(value, list):
            return tuple(read(text, f"{at}[{position}]", texts) for position, text in enumerate(value))
        return (read(value, at, texts),)

    return read_all


def read_pattern(value: str | float, at: str, texts: Texts) -> str:
    """A text that must not be empty: every reply contains nothing. A number is taken as it is written."""
    if not isinstance(value, str):
        return texts.written(value, at)
    text = texts.text(value, at)
    if not text and value:
        texts.problem("empty-pattern", at, "this pattern is empty once its variables are filled in")
    return text


def read_json(value: Any, at: str, texts: Texts) -> str:
    return msgspec.json.encode(texts.tree(value, at)).decode()


def _read_command(value: str | list[str], at: str, texts: Texts) -> tuple[str, ...]:
    if not "".join(value).strip():
        texts.problem("empty-prompt", at, "there is no command to run")
    if isinstance(value, str):
        return (texts.text(value, at),)
    words = [texts.text(word, at) for word in value]
    # One entry is a command line, and a word alone is the name of a program.
    return tuple(words) if len(words) > 1 else (shlex.quote(words[0]),)


_READINGS: dict[Reading, ValueReader] = {
    Reading.AS_WRITTEN: lambda value, _at, _texts: value,
    Reading.TEMPLATE: lambda value, at, texts: texts.text(value, at),
    Reading.PATTERN: read_pattern,
    Reading.TARGET: lambda value, at, texts: texts.target(value, at),
    Reading.COMMAND: _read_command,
    Reading.JSON: read_json,
}
LISTS: dict[Any, ValueReader] = {Item: read_list}
"""Readers of lists by what is in them."""
