"""`is_xml`: well-formed XML in a reply, and the elements in it.

The reply may be hostile. Nothing outside of it is read, and a document type with declarations of its own (entities,
default attributes) is refused, because a few of these can stand for any amount of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.parsers import expat

from msgspec import Struct

from rejoinder.checks.base import Context, error_verdict, verdict
from rejoinder.checks.json_text import FENCE
from rejoinder.checks.registry import grades
from rejoinder.model import IsXml, Span, Verdict
from rejoinder.words.numbers import listed

MOST_STARTS = 200
"""Maximum places in prose that look like XML and are not; then the search ends."""
MOST_SEARCHED = 20_000_000
"""Maximum characters that are parsed in one reply: about a second."""
_TAG = re.compile(rb"""<(?:[^>"']|"[^"]*"|'[^']*')*+>""")
_START = re.compile(r"<(?=[^\W\d][\w.-]*[\s/>:])|<(?=\?xml\s)")


class _Undecided(Exception):
    """It cannot be told whether there is XML; the message says why."""


class _Xml(Struct, frozen=True):
    """XML in a text, or the reason why there is none."""

    span: Span | None = None
    elements: frozenset[str] = frozenset()
    """Those of the wanted elements that it has."""
    fault: str = ""


@grades(IsXml)
def grade_is_xml(check: IsXml, context: Context) -> Verdict:
    value = check.wanted if not check.elements and not check.anywhere else None
    try:
        found = _find(check, context.reply.text)
    except _Undecided as undecided:
        return error_verdict(check, value, str(undecided))
    missing = [name for name in check.elements if name not in found.elements]
    is_xml = found.span is not None and not missing
    if found.span is None:
        reason = found.fault
    elif missing:
        reason = f"the XML lacks {listed([f'`{name}`' for name in missing])}"
    else:
        reason = "there is XML in it" if check.anywhere else "it is XML"
    return verdict(check, value, is_xml == check.wanted, reason, (found.span,) if found.span is not None else ())


def _find(check: IsXml, reply: str) -> _Xml:
    """The XML of a reply: the first with all elements, else the one with most of them."""
    whole = parse_xml(reply, check.elements)
    if not check.anywhere or whole.span is not None:
        return whole
    best = _Xml(fault="there is no XML in it")
    for one in _inside(reply, check.elements):
        if best.span is None or len(one.elements) > len(best.elements):
            best = one
        if len(one.elements) == len(check.elements):
            break
    return best


def _inside(reply: str, wanted: tuple[str, ...]) -> Iterator[_Xml]:
    """XML in code blocks, then between other words."""
    for block in FENCE.finditer(reply):
        found = parse_xml(block[1], wanted, block.start(1))
        if found.span is not None:
            yield found
    position, failed, searched = 0, 0, 0
    while start := _START.search(reply, position):
        searched += len(reply) - start.start()
        if failed > MOST_STARTS or searched > MOST_SEARCHED + len(reply):
            raise _Undecided("the reply has too many places that look like XML; check a part of it")
        found = parse_xml(reply[start.start() :], wanted, start.start(), partly=True)
        if found.span is None:
            failed, position = failed + 1, start.end()
        else:
            position = found.span[1]
            yield found


def parse_xml(text: str, wanted: tuple[str, ...] = (), before: int = 0, *, partly: bool = False) -> _Xml:
    """A text that is XML as a whole or, with `partly`, at its beginning; `before` is its start in a longer text. Raises
    _Undecided."""
    stripped = text.strip()
    start = before + len(text) - len(text.lstrip())
    reader = _Reader(wanted)
    try:
        data = stripped.encode()
    except UnicodeEncodeError:
        return _Xml(fault="it is not XML: it has characters that XML does not allow")
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as error:
        if not partly or reader.last_tag is None:
            what = expat.errors.messages[error.code]
            return _Xml(fault=f"it is not XML: {what} at line {error.lineno}, column {error.offset + 1}")
    length = len(stripped)
    if partly and reader.last_tag is not None and (tag := _TAG.match(data, reader.last_tag)):
        length = len(data[: tag.end()].decode())
    return _Xml((start, start + length), frozenset(reader.found))


class _Reader:
    """Follows the elements of a document. Their names count without prefixes."""

    def __init__(self, wanted: tuple[str, ...]) -> None:
        self.wanted = frozenset(wanted)
        self.deepest = max((path.count("/") + 1 for path in wanted), default=0)
        self.found: set[str] = set()
        self.last_tag: int | None = None
        """Where the tag that ends the root begins."""
        self._depth = 0
        self._path: list[str] = []
        self.parser = parser = expat.ParserCreate("utf-8")
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end

    def _doctype(self, *declared: Any) -> None:
        if declared[-1]:  # an inner part
            reason = "its document type has declarations, which could stand for any amount of text: they are not read"
            raise _Undecided(reason)

    def _start(self, name: str, _attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth <= self.deepest:
            self._path.append(name.rpartition(":")[2])
            path = "/".join(self._path)
            if path in self.wanted:
                self.found.add(path)

    def _end(self, _name: str) -> None:
        if self._depth <= self.deepest:
            self._path.pop()
        self._depth -= 1
        if not self._depth:
            self.last_tag = self.parser.CurrentByteIndex
