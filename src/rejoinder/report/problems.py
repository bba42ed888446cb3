"""Problems on a terminal: what, where, the line, a caret, and the line that would be right."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator

from rejoinder.model import Problem

Style = Callable[[str, str], str]
"""Gives a text one of the styles error, warning, place, dim or fix."""


def plain(text: str, _style: str) -> str:
    return text


def write_problem(problem: Problem, *, width: int = 100, style: Style = plain) -> Iterator[str]:
    head = style(f"{problem.severity}[{problem.code}]", problem.severity)
    is_whole_file = problem.source is None and not problem.path and (problem.line, problem.column) == (1, 1)
    yield f"{head} {style(problem.file if is_whole_file else problem.place, 'place')}"
    yield from _wrap(_shorten(problem.message, 2000), width, "  ")
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
    source = "".join(_printable(character) for character in source)
    position = min(column - 1, len(source))
    if columns_of(source) <= room:
        return source, source[:position]
    start = max(0, position - room // 2)
    shown = source[start : start + room - 6]
    left, right = ("..." if start else ""), ("..." if start + room - 6 < len(source) else "")
    return left + shown + right, left + source[start:position]


def columns_of(text: str) -> int:
    """How many columns a terminal needs for a text."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


_VISIBLE = {"\t": "\N{RIGHTWARDS ARROW}", "\xa0": "\N{MIDDLE DOT}"}


def _printable(character: str) -> str:
    if character in _VISIBLE:
        return _VISIBLE[character]
    return character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"


def _fit(text: str, room: int) -> str:
    """The beginning of a line, as much as a terminal has room for."""
    if columns_of(text) <= room:
        return text
    while columns_of(text) > room - 3:
        text = text[: room - 3] if len(text) > room - 3 else text[:-1]
    return f"{text}..."


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _wrap(text: str, width: int, indent: str) -> Iterator[str]:
    import textwrap  # noqa: PLC0415 - needed only where something is wrong

    for line in text.splitlines() or [""]:
        yield from textwrap.wrap(
            line, max(40, width), initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        ) or [indent.rstrip()]
