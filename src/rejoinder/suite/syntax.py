"""What a YAML error means in plain words, and the line that would be right.

libyaml says what it expected; an author wants to know what to type. `causes.py` recognises the common mistakes. A
proposed line is tried before it is shown: it must carry the parser past the mistake. Tried lines also let the search
go on, so that one pass finds every syntax error of a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from rejoinder.suite.yaml import LINE_END, Document, YamlFault, parse_yaml, split_lines

MOST_ERRORS = 50
MOST_WORK = 5_000_000
"""Characters that may be parsed again in search of further errors."""


class SyntaxProblem(Struct, frozen=True):
    code: str
    message: str
    line: int
    column: int
    suggestion: str | None = None


class Parsed(Struct, frozen=True):
    """A document, or the reasons why there is none."""

    document: Document | None
    problems: list[SyntaxProblem]


def parse(text: str) -> Parsed:
    problems = list(_non_breaking_spaces(text)) if "\xa0" in text else []
    if problems:
        return Parsed(None, problems)
    most = min(MOST_ERRORS, 1 + MOST_WORK // (len(text) + 1))
    while True:
        try:
            document = parse_yaml(text)
        except YamlFault as fault:
            problem, mended = _explain(text, fault)
            problems.append(problem)
            if mended is None or len(problems) >= most:
                return Parsed(None, problems)
            text = mended
        else:
            return Parsed(None if problems else document, problems)


def _explain(text: str, fault: YamlFault) -> tuple[SyntaxProblem, str | None]:
    if not fault.details.get("raw"):
        return SyntaxProblem(fault.code, fault.message, fault.line, fault.column), None
    from rejoinder.suite.causes import Situation, find_cause

    lines = split_lines(text)
    context, opened = fault.details["context"], fault.details["opened"]
    cause = find_cause(Situation(fault.message, context, lines, fault.line, fault.column, opened))
    number, column = cause.place
    for proposal in cause.proposals:
        mended = _replace_line(text, number, proposal)
        if _gets_past(mended, number):
            return SyntaxProblem("yaml-syntax", cause.message, number, column, proposal), mended
    return SyntaxProblem("yaml-syntax", cause.message, number, column), None


def _non_breaking_spaces(text: str) -> Iterator[SyntaxProblem]:
    """Keys indented with non-breaking spaces: YAML takes these for a part of the key and says nothing."""
    from rejoinder.suite.causes import NON_BREAKING, spaces_for_non_breaking_ones

    try:
        keys = parse_yaml(text).places_of_keys("\xa0")
    except YamlFault:
        return
    lines = split_lines(text)
    for number, _ in keys:
        line = lines[number - 1]
        mended = spaces_for_non_breaking_ones(line)
        if mended is not None:
            yield SyntaxProblem("yaml-syntax", NON_BREAKING, number, line.index("\xa0") + 1, mended)


def _replace_line(text: str, number: int, replacement: str) -> str:
    pieces = re.split(f"({LINE_END})", text)  # lines, with their ends between them
    pieces[2 * (number - 1) : 2 * number - 1] = [replacement]
    return "".join(pieces)


def _gets_past(text: str, number: int) -> bool:
    """Does the parser now get beyond this line?"""
    try:
        document = parse_yaml(text)
    except YamlFault as fault:
        opened = fault.details.get("opened")
        is_other = "tab character" in fault.message or not (opened and opened[0] == number)
        return fault.line > number and is_other
    return not any(fault.line == number for fault in document.faults)
