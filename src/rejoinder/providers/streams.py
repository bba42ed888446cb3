"""Detects replies that are streams of events. They are not read, because their frames would pass for the
reply's text.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8

import msgspec

from rejoinder.providers.http1 import HttpAnswer

_EVENTS = re.compile(r".*\bevent-?stream")
_LINES_OF_JSON = re.compile(r".*\b(?:nd-?json|json-?l(?:ines)?|json-seq|json-stream|stream\+json)\b")
FIELD = re.compile(rb"(?:data|event|id|retry)(?::|$)|:")
_FRAME_OF_JSON = re.compile(rb"data: ?(?:\{|\[)")
_PART = re.compile(rb'[0-9a-g]:[\[{"]')
_BETWEEN_OBJECTS = re.compile(rb"(?<=\})\s*(?=\{)")
_LONGEST_PROBE = 64 << 10
"""Bytes that are examined under another content type. A stream is recognisable by its first frames."""

NOT_READ = (
    "a stream is joined only where the target says how: set `stream: {delta_path: ...}`, or ask the service for one"
    " plain JSON reply, for example with `stream: false` in the body"
)


def find_stream(answer: HttpAnswer) -> str | None:
    """The kind of stream that an answer is; None if it is not a stream."""
    kind = answer.content_type
    if (named := kind_of(kind)) is not None:
        return named
    if kind and not kind.startswith("text/") and kind != "application/octet-stream":
        return None
    lines = _first_lines(answer.body)
    if _are_frames(lines):
        return "a stream of events"
    return "a stream of lines of JSON" if _are_parts_in_json(lines) else None


def kind_of(content_type: str) -> str | None:
    """The kind of stream that a content type names; None if it names none."""
    if _EVENTS.match(content_type):
        return "a stream of events"
    return "a stream of lines of JSON" if _LINES_OF_JSON.match(content_type) else None


def _first_lines(body: bytes) -> list[bytes]:
    text = body[:_LONGEST_PROBE].removeprefix(BOM_UTF8)  # a stream may begin with this mark, and a reader drops it
    whole_lines = text.splitlines()[: None if len(body) <= _LONGEST_PROBE else -1]
    return [line for line in whole_lines if line.strip()]


def _are_frames(lines: list[bytes]) -> bool:
    """Whether a text consists only of event frames, and at least one is not prose: its data is JSON, or there are
    several."""
    if not lines or not all(FIELD.match(line) for line in lines):
        return False
    frames = [line for line in lines if line.startswith(b"data:")]
    return len(frames) > 1 or any(_FRAME_OF_JSON.match(frame) for frame in frames)


def _are_parts_in_json(lines: list[bytes]) -> bool:
    """Whether a text is several JSON objects, one per line or without line breaks, or numbered parts such as
    `0:"Par"`. One object alone may be a reply."""
    if len(lines) > 1 and all(_PART.match(line) for line in lines):
        return True
    objects = (part for line in lines for part in _BETWEEN_OBJECTS.split(line))
    found = [_is_object(part) for part in objects]
    return len(found) > 1 and all(found)


def _is_object(text: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
