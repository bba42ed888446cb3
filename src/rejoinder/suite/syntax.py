"""What a YAML error means in plain words, and the line that would be right.

libyaml says what it expected; an author wants to know what to type. Each cause below recognises one common mistake
from the parser's words and the line itself. A proposed line is tried before it is shown: it must carry the parser
past the mistake. Tried lines also let the search go on, so that one pass finds every syntax error of a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from rejoinder.suite.yaml import Document, YamlFault, parse_yaml, split_lines

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
    problems: list[SyntaxProblem] = []
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


def quote_value(line: str) -> str | None:
    """The line with everything after its first `key: ` in double quotes; indentation and dashes stay."""
    found = re.match(r"""^(\s*(?:- +)*(?:"[^"]*"|'[^']*'|[^\s'"#\[{][^:]*?):[ \t]+|\s*(?:- +)+)(.*\S)\s*$""", line)
    if found is None:
        return None
    return f"{found[1]}{in_double_quotes(found[2])}"


def in_double_quotes(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class _Situation(Struct, frozen=True):
    problem: str
    context: str
    line: str
    number: int
    column: int
    opened: tuple[int, int] | None

    @property
    def character(self) -> str:
        return self.line[self.column - 1 : self.column]


def _explain(text: str, fault: YamlFault) -> tuple[SyntaxProblem, str | None]:
    if not fault.details.get("raw"):
        return SyntaxProblem(fault.code, fault.message, fault.line, fault.column), None
    lines = split_lines(text)
    line = lines[fault.line - 1] if fault.line <= len(lines) else ""
    seen = _Situation(fault.message, fault.details["context"], line, fault.line, fault.column, fault.details["opened"])
    message, place, proposals = _diagnose(seen, lines)
    number, column = place
    for proposal in proposals:
        mended = _replace_line(text, number, proposal)
        if _gets_past(mended, number):
            return SyntaxProblem("yaml-syntax", message, number, column, proposal), mended
    return SyntaxProblem("yaml-syntax", message, number, column), None


def _diagnose(seen: _Situation, lines: list[str]) -> tuple[str, tuple[int, int], list[str]]:
    """Cause in words, the place to point at, and lines that might be right."""
    for recognise in _CAUSES:
        found = recognise(seen, lines)
        if found is not None:
            return found
    words = f"{seen.problem} ({seen.context})" if seen.context else seen.problem
    return f"this is not valid YAML: {words}", (seen.number, seen.column), _quoted(seen.line)


_Cause = tuple[str, tuple[int, int], list[str]]


def _quoted(line: str) -> list[str]:
    proposal = quote_value(line)
    return [proposal] if proposal else []


def _colon_in_value(seen: _Situation, lines: list[str]) -> _Cause | None:
    if not seen.problem.startswith("mapping values are not allowed"):
        return None
    here = (seen.number, seen.column)
    if quote_value(seen.line) and re.match(r"\s*(?:- +)*[^\s:][^:]*:\s", seen.line[: seen.column - 1] + " "):
        message = "a plain value may not contain ': ' or end in ':'; put the value in quotes"
        return message, here, _quoted(seen.line)
    before = lines[seen.number - 2] if seen.number > 1 else ""
    if re.search(r":\s+\S", before) or before.strip().startswith("- "):
        message = (
            "this key does not line up with the one above, so it reads as a part of the value there; indent both"
            " alike, or, if this is text, begin it with `|` after the key"
        )
        indented = re.match(r"\s*(?:- +)*", before)
        width = len(indented[0]) if indented else 0
        return message, here, [" " * width + seen.line.strip()]
    return "a ':' that is followed by a space may not stand here; quote the text", here, _quoted(seen.line)


def _star(seen: _Situation, _lines: list[str]) -> _Cause | None:
    if "alias" not in seen.context and seen.problem != "found undefined alias":
        return None
    place = seen.opened if "alias" in seen.context and seen.opened else (seen.number, seen.column)
    message = "a value that starts with `*` is an alias in YAML; put the pattern in quotes"
    return message, place, _quoted(seen.line)


def _tab(seen: _Situation, _lines: list[str]) -> _Cause | None:
    indentation = re.match(r"\s*", seen.line)
    if indentation is None or "\t" not in indentation[0] or "any token" not in seen.problem:
        return None
    spaces = indentation[0].replace("\t", "  ")
    message = "a tab cannot indent YAML; use spaces"
    return message, (seen.number, seen.column), [spaces + seen.line.lstrip()]


def _forbidden_start(seen: _Situation, _lines: list[str]) -> _Cause | None:
    if "cannot start any token" not in seen.problem:
        return None
    message = f"a plain value may not start with {seen.character!r}; put it in quotes"
    return message, (seen.number, seen.column), _quoted(seen.line)


def _open_quote(seen: _Situation, lines: list[str]) -> _Cause | None:
    if "quoted scalar" not in seen.context or seen.opened is None:
        return None
    number = seen.opened[0]
    line = lines[number - 1]
    if "escape" in seen.problem:
        message = "a backslash in double quotes starts an escape; double it, or use single quotes"
        value = line[seen.opened[1] - 1 :].rstrip()
        single = f"{line[: seen.opened[1] - 1]}'{value[1:-1]}'" if "'" not in value else ""
        return message, (seen.number, seen.column), [single] if single else []
    mark = line[seen.opened[1] - 1 : seen.opened[1]]
    message = f"the quote {mark} that opens here is never closed"
    return message, seen.opened, [f"{line.rstrip()}{mark}"]


def _text_after_quote(seen: _Situation, _lines: list[str]) -> _Cause | None:
    if "did not find expected" not in seen.problem:
        return None
    if not re.match(r"""\s*(?:- +)*[^\s:]+:\s+(["']).*\1\s*\S""", seen.line):
        return None
    message = "text goes on after the closing quote; put the whole value in quotes"
    inner = re.match(r"""(\s*(?:- +)*[^\s:]+:\s+)(["'])(.*)\2\s*$""", seen.line)
    whole = [f"{inner[1]}{in_double_quotes(inner[3])}"] if inner else []
    return message, (seen.number, seen.column), [*whole, *_quoted(seen.line)]


def _template(seen: _Situation, lines: list[str]) -> _Cause | None:
    if not re.search(r":\s+\{\{", seen.line) and not re.search(r"-\s+\{\{", seen.line):
        return None
    message = "a value that starts with `{{` reads as a mapping in YAML; put the whole value in quotes"
    return message, (seen.number, seen.column), _quoted(lines[seen.number - 1])


def _open_bracket(seen: _Situation, lines: list[str]) -> _Cause | None:
    if "flow" not in seen.context or seen.opened is None:
        return None
    line = lines[seen.opened[0] - 1]
    bracket = line[seen.opened[1] - 1 : seen.opened[1]]
    closing = {"[": "]", "{": "}"}.get(bracket, "")
    message = f"the `{bracket}` that opens here is not closed, or a comma is missing; quote it if it is text"
    return message, seen.opened, [f"{line.rstrip()}{closing}", *_quoted(line)]


def _missing_colon(seen: _Situation, lines: list[str]) -> _Cause | None:
    if "simple key" not in seen.context or seen.opened is None:
        return None
    number, column = seen.opened
    line = lines[number - 1].rstrip()
    message = f"`{line.strip()}` has no `:`; a key needs one, and text belongs after a key or a dash"
    return message, (number, column), [f"{line}:"]


def _indentation(seen: _Situation, _lines: list[str]) -> _Cause | None:
    if "did not find expected key" not in seen.problem and "'-' indicator" not in seen.problem:
        return None
    since = f" that began on line {seen.opened[0]}" if seen.opened else ""
    message = f"this line does not fit into the block{since}; check its indentation against the lines above"
    return message, (seen.number, seen.column), []


def _second_document(seen: _Situation, _lines: list[str]) -> _Cause | None:
    if "another document" not in seen.problem:
        return None
    message = "a second document starts here; a file holds one, so move it to a file of its own"
    return message, (seen.number, seen.column), []


def _dash_in_value(seen: _Situation, _lines: list[str]) -> _Cause | None:
    if "block sequence entries are not allowed" not in seen.problem:
        return None
    message = "a list starts on a line of its own below its key; quote the value if it is text"
    return message, (seen.number, seen.column), _quoted(seen.line)


_CAUSES: tuple[Callable[[_Situation, list[str]], _Cause | None], ...] = (
    _colon_in_value,
    _star,
    _tab,
    _template,
    _forbidden_start,
    _open_quote,
    _text_after_quote,
    _open_bracket,
    _missing_colon,
    _second_document,
    _dash_in_value,
    _indentation,
)


def _replace_line(text: str, number: int, replacement: str) -> str:
    lines = text.splitlines(keepends=True) if "\r" in text else text.split("\n")
    if "\r" in text:
        ending = lines[number - 1][len(lines[number - 1].rstrip("\r\n")) :] if number <= len(lines) else ""
        lines[number - 1 : number] = [replacement + ending]
        return "".join(lines)
    lines[number - 1 : number] = [replacement]
    return "\n".join(lines)


def _gets_past(text: str, number: int) -> bool:
    """Does the parser now get beyond this line?"""
    try:
        document = parse_yaml(text)
    except YamlFault as fault:
        opened = fault.details.get("opened")
        return fault.line > number and not (opened and opened[0] == number)
    return not any(fault.line == number for fault in document.faults)
