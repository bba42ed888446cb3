"""Detects replies that are streams of events. They are not read, because their frames would pass for the
reply's text.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from typing import Any

import msgspec

from rejoinder.providers.http1 import HttpAnswer

_EVENTS = re.compile(r".*\bevent-?stream")
_LINES_OF_JSON = re.compile(r".*\b(?:nd-?json|json-?l(?:ines)?|json-seq|json-stream|stream\+json)\b")
_PARTS = re.compile(r"multipart/x-mixed-replace")
FIELD = re.compile(rb"(?:data|event|id|retry)(?::|$)|:")
_OF_AN_EVENT = re.compile(rb"(?:data|event):")
_COMMENT = re.compile(rb":(?: |$)")
_FRAME_OF_JSON = re.compile(rb"data: ?(?:\{|\[)")
_PART = re.compile(rb'[0-9a-g]:[\[{"]')
_BOUNDARY = re.compile(rb"--\S+$")
_PART_HEADER = re.compile(rb"content-[a-z-]+:", re.IGNORECASE)
_NO_PROSE = re.compile(rb"[\w-]+|[^A-Za-z]+", re.ASCII)
"""A line before the records of a stream: a word of a protocol, a length, a guard such as `)]}'`."""
_OF_A_CHUNK = frozenset({"delta", "choices", "candidates"})
"""Keys of the chunks of LLM APIs."""
_RECORD_MARK = b"\x1e"
_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r)[ \t]*(?:\r\n|\n|\r)\s*$")
_BETWEEN_OBJECTS = re.compile(rb"(?<=\})\s*(?=\{)")
_LONGEST_PROBE = 64 << 10
"""Bytes that are examined under another content type. A stream is recognisable by its first frames."""
_LONGEST_END = 64
"""Bytes at its end that are examined."""

NOT_READ = (
    "a stream is joined only where the target says how: set `stream: {delta_path: ...}`, or ask the service for one"
    " plain JSON reply, for example with `stream: false` in the body"
)


def find_stream(answer: HttpAnswer) -> str | None:
    """The kind of stream that an answer is; None if it is not a stream."""
    kind = answer.content_type
    if (named := kind_of(kind)) is not None:
        return named
    if kind == "application/json" or kind.endswith("+json"):
        return None
    lines = _first_lines(answer.body)
    if _are_frames(lines, is_ended=_BLANK_LINE.search(answer.body[-_LONGEST_END:]) is not None):
        return "a stream of events"
    if _are_parts_of_a_message(lines):
        return "a stream of parts"
    if _are_parts_in_json(lines):
        return "a stream of lines of JSON"
    return "a list of the chunks of a stream" if _is_list_of_chunks(answer.body.removeprefix(BOM_UTF8)) else None


def kind_of(content_type: str) -> str | None:
    """The kind of stream that a content type names; None if it names none."""
    if _EVENTS.match(content_type):
        return "a stream of events"
    if _PARTS.match(content_type):
        return "a stream of parts"
    return "a stream of lines of JSON" if _LINES_OF_JSON.match(content_type) else None


def _first_lines(body: bytes) -> list[bytes]:
    text = body[:_LONGEST_PROBE].removeprefix(BOM_UTF8)  # a stream may begin with this mark, and a reader drops it
    whole_lines = text.splitlines()[: None if len(body) <= _LONGEST_PROBE else -1]
    return [line for line in whole_lines if line.strip()]


def _are_frames(lines: list[bytes], *, is_ended: bool) -> bool:
    """Whether a text consists only of event frames, and is not prose: its data is JSON, there are several fields, or
    the frame is ended by a blank line (`is_ended`), as only a whole frame is."""
    if not lines or not all(FIELD.match(line) for line in lines):
        return False
    frames = [line for line in lines if line.startswith(b"data:")]
    if frames and (len(lines) > 1 or _FRAME_OF_JSON.match(frames[0])):
        return True
    return is_ended and (any(map(_OF_AN_EVENT.match, lines)) or all(map(_COMMENT.match, lines)))


def _are_parts_of_a_message(lines: list[bytes]) -> bool:
    """Whether a text is a message in parts: a boundary, then headers of a part."""
    return len(lines) > 1 and bool(_BOUNDARY.match(lines[0]) and _PART_HEADER.match(lines[1]))


def _are_parts_in_json(lines: list[bytes]) -> bool:
    """Whether a text is several records in JSON, one per line or without line breaks, or numbered parts such as
    `0:"Par"`. One record alone may be a reply, unless it has the mark of a sequence."""
    if lines and lines[0].startswith(_RECORD_MARK):
        return True
    if len(lines) > 1 and all(_PART.match(line) for line in lines):
        return True
    if len(lines) > 2 and _NO_PROSE.fullmatch(lines[0].strip()) and not _is_record(lines[0]):
        lines = lines[1:]
    found = [_is_record(part) for line in lines for part in _BETWEEN_OBJECTS.split(line)]
    if len(found) > 1 and all(found):
        return True
    return len(lines) > 1 and all(map(_is_quoted, lines))


def _is_quoted(line: bytes) -> bool:
    """Whether a line is a text in JSON."""
    return isinstance(_decoded(line), str)


def _is_list_of_chunks(text: bytes) -> bool:
    """Whether a text is a list of the chunks that LLM APIs stream."""
    value = _decoded(text) if text.lstrip()[:1] == b"[" else None
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, dict) and not _OF_A_CHUNK.isdisjoint(one) for one in value)
    )


def _is_record(text: bytes) -> bool:
    """Whether a text is an object, or a list that is not just numbers: a reply may have a list of numbers per line."""
    value = _decoded(text)
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(one, str | dict | list) for one in value)
    )


def _decoded(text: bytes) -> Any:
    """The value of a text in JSON; None if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
