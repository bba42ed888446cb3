"""Finding JSON in a text, and comparing two values as JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec
from msgspec import Struct

MOST_STARTS = 200
"""Maximum places in prose that look like JSON and are not; then the search ends."""
# Most runs search no prose, so these are compiled when they are needed.
OBJECT = r"\{(\s*+[\"}])?"
"""A possible start of an object; the group matches if it looks like JSON."""
_VALUE = rf"{OBJECT}|\[((?:[\s\d.,eE+-]|true|false|null)*+[\[\]{{\"])"
"""An object, or a list: brackets in prose, such as `[this]` and `[0, 1)`, are ignored."""
_BRACKETS = {"{": r"[{}]", "[": r"[\[\]]"}
_OUTSIDE_TEXTS = {opening: rf'"(?:\\.|[^"\\])*+"?|{both}' for opening, both in _BRACKETS.items()}
FENCE = re.compile(r"```[\w+-]*[ \t]*\n(.*?)```", re.DOTALL)
_NOTHING = object()


def make_decoder(**more: Any) -> json.JSONDecoder:
    """A strict JSON decoder: the library's own also accepts NaN and Infinity."""

    def refuse(word: str) -> NoReturn:
        raise ValueError(f"{word} is no JSON")

    def read_float(digits: str) -> float:
        number = float(digits)
        return number if math.isfinite(number) else refuse(digits)

    return json.JSONDecoder(parse_constant=refuse, parse_float=read_float, **more)


_DECODER = make_decoder()


class Found(Struct, frozen=True):
    """JSON in a text, and its position; or the rest of a text, which may contain unreadable JSON."""

    start: int = 0
    end: int = 0
    data: Any = _NOTHING

    @property
    def readable(self) -> bool:
        return self.data is not _NOTHING

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        return ((self.start, self.end),) if self.readable else ()


def find_json(text: str) -> Found:
    """The JSON of a reply: the whole text, else a code block, else the longest object or list in the prose."""
    whole = read_json(text)
    if whole.readable:
        return whole
    for block in FENCE.finditer(text):
        found = read_json(block[1], block.start(1))
        if found.readable:
            return found
    readable = (found for found in scan_json(text, _VALUE) if found.readable)
    return max(readable, key=lambda found: found.end - found.start, default=whole)


def read_json(text: str, before: int = 0) -> Found:
    """A text that is JSON as a whole; `before` is its start in a longer text."""
    stripped = text.strip()
    try:
        data = msgspec.json.decode(stripped)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Found()
    start = before + len(text) - len(text.lstrip())
    return Found(start, start + len(stripped), data)


def scan_json(text: str, opening: str, decoder: json.JSONDecoder = _DECODER) -> Iterator[Found]:
    """The JSON in a text, from left to right. Unreadable JSON is skipped with everything in it, because a part of
    something is not what was said. If it never ends, the search ends too."""
    find, position, failed = re.compile(opening).search, 0, 0
    while begun := find(text, position):
        start = begun.start()
        if begun.lastindex:
            try:
                data, position = decode_at(text, start, decoder)
            except (ValueError, RecursionError):
                failed += 1
            else:
                yield Found(start, position, data)
                continue
        position = _behind(text, start, like_json=bool(begun.lastindex))
        if position < 0 or failed > MOST_STARTS:
            if begun.lastindex:
                yield Found(start, len(text))
            return


def _behind(text: str, start: int, *, like_json: bool) -> int:
    """The position after unreadable JSON; -1 if it never ends. Brackets in its strings do not count. But in broken
    JSON, strings cannot be identified, so both readings must have ended."""
    end = _closing(text, start, _BRACKETS)
    if not like_json or end < 0:
        return end
    other = _closing(text, start, _OUTSIDE_TEXTS)
    return max(end, other) if other >= 0 else -1


def _closing(text: str, start: int, brackets: dict[str, str]) -> int:
    """The position after the matching closing bracket; -1 if missing."""
    depth = 0
    for bracket in re.compile(brackets[text[start]], re.DOTALL).finditer(text, start):
        if bracket[0][0] != '"':
            depth += 1 if bracket[0] == text[start] else -1
            if not depth:
                return bracket.end()
    return -1


def decode_at(text: str, position: int, decoder: json.JSONDecoder = _DECODER) -> tuple[Any, int]:
    """The JSON that begins at a position of a text, and its end. Raises ValueError or RecursionError."""
    data, end = decoder.raw_decode(text, position)
    return _mended(data) if text.find("\\u", position, end) >= 0 else data, end


def _mended(data: Any) -> Any:
    """The value with unpaired surrogates replaced: JSON can escape them, but they cannot be recorded."""
    if isinstance(data, str):
        return data.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(data, list):
        return [_mended(item) for item in data]
    return {_mended(key): _mended(value) for key, value in data.items()} if isinstance(data, dict) else data


def equal_as_json(first: Any, second: Any) -> bool:
    """Whether two values are equal as JSON: a number does not equal a boolean."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(equal_as_json(first[key], second[key]) for key in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(equal_as_json, first, second))
    return first == second
