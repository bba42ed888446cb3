"""Problems on a terminal (what, where, the line, a caret, and the line that would be right) and as SARIF 2.1.0, which
code hosts show beside the lines."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rejoinder.errors import CODES
from rejoinder.model import Problem
from rejoinder.words.numbers import beginning

Style = Callable[[str, str], str]
"""Gives a text one of the styles error, warning, place, dim or fix."""


def plain(text: str, _style: str) -> str:
    return text


def write_problem(problem: Problem, *, width: int = 100, style: Style = plain) -> Iterator[str]:
    head = style(f"{problem.severity}[{problem.code}]", problem.severity)
    is_whole_file = problem.source is None and not problem.path and (problem.line, problem.column) == (1, 1)
    place = printable(problem.file if is_whole_file else problem.place)
    yield f"{head} {style(place, 'place')}"
    yield from message_rows(beginning(problem.message, 2000), max(40, width), "  ", "  ")
    gutter = max(3, len(str(problem.line)))
    if problem.source is not None and problem.source.strip():
        line, before = _window(problem.source, problem.column, max(20, width - gutter - 6))
        blank = " " * gutter
        yield style(f"  {blank} |", "dim")
        yield f"{style(f'  {problem.line:>{gutter}} |', 'dim')} {line}"
        yield f"{style(f'  {blank} |', 'dim')} {' ' * columns_of(before)}{style('^', problem.severity)}"
    if problem.suggestion is not None:
        label = f"{'fix':>{gutter}}"
        yield f"{style(f'  {label} |', 'fix')} {_fit(problem.suggestion, max(20, width - gutter - 6))}"


def _window(source: str, column: int, room: int) -> tuple[str, str]:
    """The part of a line that fits, around the column, and what of it stands before the column."""
    position = min(column - 1, len(source))
    first = max(0, position - room)
    near = printable(source[first : position + room + 1])
    position -= first
    if first == 0 and len(source) == len(near) and columns_of(near) <= room:
        return near, near[:position]
    end = position + _how_many(near[position:], room // 2 - 3)
    start = position - _how_many(reversed(near[:position]), room - 6 - columns_of(near[position:end]))
    end = start + _how_many(near[start:], room - 6)
    left, right = ("..." if first + start else ""), ("..." if first + end < len(source) else "")
    return left + near[start:end] + right, left + near[start:position]


def _how_many(characters: Iterable[str], room: int) -> int:
    """How many characters fit into a number of columns."""
    count = 0
    for character in characters:
        room -= columns_of(character)
        if room < 0:
            break
        count += 1
    return count


def columns_of(text: str) -> int:
    """How many columns a terminal needs for a text."""
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(
        0
        if unicodedata.category(character) in ("Mn", "Me", "Cf")
        else 2
        if unicodedata.east_asian_width(character) in "WF"
        else 1
        for character in text
    )


_UNIT = re.compile(r"^ *rejoinder .*?(?=   |$)| *(?:`[^`]*`|[^ `]|`)+")
"""A word of a message with the spaces before it. A command is one word: in backticks, or where a line begins."""

_JOINERS = "\u200c\u200d"
"""Zero width non-joiner and joiner."""
_VISIBLE = {"\t": "\N{RIGHTWARDS ARROW}", "\xa0": "\N{MIDDLE DOT}"}


def printable(text: str) -> str:
    """The text without anything that a terminal would take for an order."""
    if text.isprintable():
        return text
    return "".join(one if _joins(text, place) else _printable(one) for place, one in enumerate(text))


def _joins(text: str, place: int) -> bool:
    """Whether a joiner, which is not seen itself, belongs to the letters or pictures around it, as in Persian, Hindi
    and emoji. Between letters of ASCII it can only hide something."""
    if text[place] not in _JOINERS or not 0 < place < len(text) - 1:
        return False
    return all(not one.isascii() and unicodedata.category(one)[0] in "LMS" for one in text[place - 1 : place + 2 : 2])


def printable_line(line: str) -> str:
    """The same for a whole line, whose tabs stay."""
    return "\t".join(map(printable, line.split("\t")))


def _printable(character: str) -> str:
    if character in _VISIBLE:
        return _VISIBLE[character]
    kind = unicodedata.category(character)
    return "\N{REPLACEMENT CHARACTER}" if kind[0] == "C" or kind in ("Zl", "Zp") else character


def _fit(text: str, room: int) -> str:
    """The beginning of a line that is to be copied, as much as a terminal has room for."""
    shown = "".join(
        one if one in _VISIBLE or _joins(text, place) else _printable(one) for place, one in enumerate(text[: room + 1])
    )
    if len(text) <= room and columns_of(shown) <= room:
        return shown
    return f"{shown[: _how_many(shown, room - 3)]}..."


def message_rows(text: str, width: int, indent: str = "", hanging: str = "") -> Iterator[str]:
    """A message in rows that are broken between words, and never within a path or a command, which one copies: such a
    word has a row of its own, however long it is. `hanging`: what stands before all rows of a line but its first."""
    for line in text.split("\n"):
        row = ""
        for unit in _UNIT.finditer(printable(line)):
            if not row or columns_of(row) + columns_of(unit[0]) <= width:
                row = f"{row}{unit[0]}" if row else f"{indent}{unit[0]}"
            else:
                yield row
                row = f"{hanging}{unit[0].lstrip(' ')}"
        yield row


def write_sarif(problems: Sequence[Problem], version: str) -> dict[str, Any]:
    used = sorted({problem.code for problem in problems})
    return {
        "version": "2.1.0",
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "rejoinder",
                        "version": version,
                        "rules": [_rule(code) for code in used],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(problem) for problem in problems],
            }
        ],
    }


def _rule(code: str) -> dict[str, Any]:
    return {
        "id": code,
        "shortDescription": {"text": CODES[code]},
        "help": {"text": f"{CODES[code]} For an example and the fix see `{code}` in docs/reference/errors.md."},
    }


def _result(problem: Problem) -> dict[str, Any]:
    import hashlib  # loads OpenSSL, which only this form needs

    message = problem.message if problem.suggestion is None else f"{problem.message}\nfix: {problem.suggestion}"
    identity = "\n".join((problem.file, problem.code, problem.path, problem.source or ""))
    return {
        "ruleId": problem.code,
        "level": problem.severity,
        "message": {"text": message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": problem.file.replace("\\", "/")},
                    "region": {
                        "startLine": problem.line,
                        "startColumn": problem.column,
                        "endLine": problem.line,
                    },
                }
            }
        ],
        "partialFingerprints": {"rejoinder/v1": hashlib.sha256(identity.encode()).hexdigest()[:32]},
    }
