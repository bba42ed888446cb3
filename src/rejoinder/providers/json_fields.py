"""Reading answers as liberally as the vendors' own clients: a paid reply is not lost over a trifle.

A well-formed answer is read in one step. Only a malformed one is read again, slowly: with a byte order mark, numbers
that JSON does not have, unpaired surrogates, nulls in place of optional values, or invalid counts. A text field that is
not text stays an error, because its meaning is unknown.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_MOST_TOKENS = 2**53
"""No call has this many tokens; such a number is a mistake of the server."""
_USAGES = ("usage", "usageMetadata")
_OF_THE_MODEL = frozenset({"arguments", "args", "input"})
"""Arguments of a tool call: a null in them is the model's own word."""


def read_json(decoder: msgspec.json.Decoder[T], body: bytes, *, nulls: bool = False) -> T:
    """A body as the expected type. Raises msgspec.DecodeError or UnicodeDecodeError if it is something else.

    `nulls`: nulls are values like any other, because it is unknown what belongs in their place.
    """
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _read_again(decoder, body, error, nulls=nulls)


def read_raw(body: bytes) -> Any:
    """The raw values of a body that was already read successfully."""
    return read_json(_ANYTHING, body, nulls=True)


def count(told: Any) -> int:
    """A count of tokens, however a server writes it: 10, 10.0, "10". An invalid count is 0, like a missing one."""
    if type(told) is int:
        return told if 0 < told < _MOST_TOKENS else 0
    if isinstance(told, str) and told.isascii() and told.isdigit() and len(told) < 20:
        return count(int(told))
    if isinstance(told, float) and 0 < told < _MOST_TOKENS:
        return round(told)
    return 0


def arguments_text(given: Any) -> str:
    """A tool call's arguments as JSON text; some servers send the object itself."""
    if isinstance(given, str):
        return given or "{}"
    text = msgspec.json.encode(given).decode()
    return "{}" if text == "null" else text


def arguments_object(text: str) -> msgspec.Raw:
    """A tool call's arguments as an object, for an API that accepts nothing else; another text is wrapped in
    an object."""
    try:
        if isinstance(msgspec.json.decode(text), dict):
            return msgspec.Raw(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    return msgspec.Raw(msgspec.json.encode({"arguments": text} if text.strip() else {}))


_ANYTHING: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


def _read_again(decoder: msgspec.json.Decoder[T], body: bytes, error: Exception, *, nulls: bool) -> T:
    try:
        value = json.loads(body)
    except ValueError:
        raise error from None
    tidy = _tidied(value, nulls=nulls)
    try:
        # Written again, because this turns values that are not JSON numbers into null.
        return decoder.decode(msgspec.json.encode(tidy))
    except msgspec.ValidationError:
        if not isinstance(tidy, dict) or not any(tidy.pop(name, None) is not None for name in _USAGES):
            raise
    return decoder.decode(msgspec.json.encode(tidy))  # whose words can be read need not count them


def _tidied(value: Any, *, nulls: bool) -> Any:
    """A value that can be written: unpaired surrogates replaced, and nulls left out unless `nulls`."""
    if isinstance(value, str):
        return _whole(value)
    if isinstance(value, list):
        return [_tidied(one, nulls=nulls) for one in value]
    if isinstance(value, dict):
        return {
            _whole(name): _tidied(one, nulls=nulls or name in _OF_THE_MODEL)
            for name, one in value.items()
            if nulls or one is not None
        }
    return value


def _whole(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
