"""Parses YAML and explains errors in plain words, with the corrected line.

libyaml says what it expected; an author needs to know what to type. `yaml_errors.py` recognises the common mistakes. A
proposed line is tried before it is shown: it must carry the parser past the mistake. With a line that worked, the
search continues, so that one pass finds every syntax error of a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rejoinder.model import Problem
from rejoinder.suite.document_paths import write_path
from rejoinder.suite.yaml import LINE_END, Document, YamlFault, parse_yaml, split_lines
from rejoinder.suite.yaml_lines import quote_value

MOST_ERRORS = 50
MOST_WORK = 5_000_000
"""Maximum characters that may be parsed again in search of more errors."""


def parse(text: str, file: str) -> tuple[Document | None, list[Problem]]:
    """The document, or the reasons why it cannot be parsed."""
    document, faults = _parse(text)
    if document is not None:
        faults = document.faults
    if not faults:
        return document, []
    lines = split_lines(text)
    paths = {id(key): write_path(path) for path, key in document.key_nodes()} if document is not None else {}
    return None, [_problem(fault, file, lines, paths) for fault in faults]


def _problem(fault: YamlFault, file: str, lines: list[str], paths: dict[int, str]) -> Problem:
    line = lines[fault.line - 1] if fault.line <= len(lines) else None
    details = fault.details
    return Problem(
        code=fault.code,
        message=fault.message,
        file=file,
        path=paths.get(id(details.get("node")), ""),
        line=fault.line,
        column=fault.column,
        key=details.get("key"),
        first_line=details.get("first_line"),
        suggestion=quote_value(line or "") if details.get("quote") else details.get("suggestion"),
        source=line,
    )


def _parse(text: str) -> tuple[Document | None, list[YamlFault]]:
    faults = list(_non_breaking_spaces(text)) if "\xa0" in text else []
    if faults:
        return None, faults
    most = min(MOST_ERRORS, 1 + MOST_WORK // (len(text) + 1))
    mended: str | None = text
    while mended is not None and len(faults) < most:
        try:
            document = parse_yaml(mended)
        except YamlFault as fault:
            explained, mended = _explain(mended, fault)
            faults.append(explained)
        else:
            return (None if faults else document), faults
    return None, faults


def _explain(text: str, fault: YamlFault) -> tuple[YamlFault, str | None]:
    """The fault in plain words, and the text with a line that carries the parser past it."""
    if not fault.details.get("raw"):
        return fault, None
    from rejoinder.suite.yaml_errors import Situation, find_cause

    context, opened = fault.details["context"], fault.details["opened"]
    cause = find_cause(Situation(fault.message, context, split_lines(text), fault.line, fault.column, opened))
    for proposal in cause.proposals:
        mended = _replace_line(text, cause.place[0], proposal)
        if _gets_past(mended, cause.place[0]):
            return YamlFault("yaml-syntax", cause.message, *cause.place, suggestion=proposal), mended
    return YamlFault("yaml-syntax", cause.message, *cause.place), None


def _non_breaking_spaces(text: str) -> Iterator[YamlFault]:
    """Keys indented with non-breaking spaces: YAML takes these as part of the key without an error."""
    from rejoinder.suite.yaml_errors import NON_BREAKING, spaces_for_non_breaking_ones

    try:
        keys = [key for _, key in parse_yaml(text).key_nodes() if key.value.startswith("\xa0")]
    except YamlFault:
        return
    lines = split_lines(text)
    for number in sorted({key.start_mark.line for key in keys}):
        line = lines[number]
        if (mended := spaces_for_non_breaking_ones(line)) is not None:
            column = line.index("\xa0") + 1
            yield YamlFault("yaml-syntax", NON_BREAKING, number + 1, column, suggestion=mended)


def _replace_line(text: str, number: int, replacement: str) -> str:
    pieces = re.split(f"({LINE_END})", text)  # lines, with their ends between them
    pieces[2 * (number - 1) : 2 * number - 1] = [replacement]
    return "".join(pieces)


def _gets_past(text: str, number: int) -> bool:
    """Whether the parser now gets past this line."""
    try:
        document = parse_yaml(text)
    except YamlFault as fault:
        opened = fault.details.get("opened")
        is_other = "tab character" in fault.message or not (opened and opened[0] == number)
        return fault.line > number and is_other
    return not any(fault.line == number for fault in document.faults)
