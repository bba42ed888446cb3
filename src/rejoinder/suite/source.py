"""A file that is being read: the places of its problems, and the lines to show for them."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, structs

from rejoinder.errors import Severity, severity_of
from rejoinder.model import Problem
from rejoinder.project.files import FileFault, read_text, too_large
from rejoinder.suite.document_paths import DocumentPath, read_path, write_path
from rejoinder.suite.schema import Violation
from rejoinder.suite.templates import Report
from rejoinder.suite.yaml import MOST_BYTES, Document, split_lines
from rejoinder.suite.yaml_lines import in_double_quotes
from rejoinder.suite.yaml_syntax import parse

NO_LINE = (0, 0)
"""The place of a problem in a suite whose lines a program wrote."""


class SuiteText(Struct, frozen=True):
    """A suite that is not a file."""

    text: str
    path: Path
    """The folder in which relative paths are looked up, and a name."""
    has_lines: bool = True
    """Whether a person wrote these lines, and not a program."""


class Source:
    """A YAML file with its text, its data and the problems found so far."""

    def __init__(self, file: str, text: str, document: Document, *, has_lines: bool = True) -> None:
        """`has_lines`: whether a person wrote the lines. If not, problems name only the path in the document."""
        self.file = file
        self.text = text
        self.document = document
        self.has_lines = has_lines

    @cached_property
    def lines(self) -> list[str]:
        return split_lines(self.text)

    def violation(self, violation: Violation, severity: Severity = "error") -> Problem:
        place = self.place(violation.path, key=violation.key)
        problem = self._problem(violation.code, write_path(violation.path), violation.message, severity, place)
        # With the unchanged line: a line with a key has no suggestion.
        return structs.replace(problem, suggestion=self._mend(violation, *place), source=self.line(place[0]))

    def problem(
        self, code: str, at: str, message: str, severity: Severity = "error", *, point: str | None = None
    ) -> Problem:
        """A problem at a written path, such as `evals[0].prompt`; `point` is the text to point at."""
        return self._problem(code, at, message, severity, self.place(read_path(point or at)))

    def place(self, path: DocumentPath, *, key: bool = False) -> tuple[int, int]:
        """Line and column of a value; NO_LINE if a program wrote the lines."""
        return self.document.place(path, key=key) if self.has_lines else NO_LINE

    def _problem(self, code: str, at: str, message: str, severity: Severity, place: tuple[int, int]) -> Problem:
        problem = Problem(code=code, message=message, file=self.file, path=at, severity=severity)
        return structs.replace(problem, line=place[0], column=place[1], source=self.line(place[0]))

    def reporter(self, at: str, problems: list[Problem], missing: Severity) -> Report:
        """A report that adds problems of the text at a place; `missing`: the severity if the environment lacks
        something."""

        def report(code: str, message: str) -> None:
            problems.append(self.problem(code, at, message, severity_of(code, missing)))

        return report

    def line(self, number: int) -> str | None:
        return self.lines[number - 1] if 0 < number <= len(self.lines) else None

    def _mend(self, violation: Violation, number: int, column: int) -> str | None:
        if not number:
            return None
        line = self.line(number) or ""
        span = self.document.scalar_span(violation.path) if violation.quote is not None else None
        if span is not None:
            written = line[span[0] : span[1]]
            mended = in_double_quotes(written) if violation.quote else written.strip("\"'")
            return line[: span[0]] + mended + line[span[1] :]
        if violation.instead is None:
            return None
        if not violation.key:
            span = self.document.scalar_span(violation.path)
            return line[: span[0]] + violation.instead + line[span[1] :] if span else None
        wrong = str(violation.path[-1])
        rest = line[column - 1 :]
        return line[: column - 1] + violation.instead + rest[len(wrong) :] if rest.startswith(wrong) else None


class RowSource(Struct, frozen=True):
    """One row of a data set: every problem in it is on the row's line."""

    file: str
    number: int
    text: str | None

    def violation(self, violation: Violation, severity: Severity = "error") -> Problem:
        return self.problem(violation.code, write_path(violation.path), violation.message, severity)

    def problem(
        self, code: str, at: str, message: str, severity: Severity = "error", *, point: str | None = None
    ) -> Problem:
        del point  # a row is one line
        problem = Problem(code=code, message=message, file=self.file, path=at, severity=severity)
        return structs.replace(problem, line=self.number, source=self.text)


class CasePlace(Struct, frozen=True):
    """The origin of a case: its path, the file or row that contains it, and the suite around it."""

    at: str
    source: Source | RowSource
    suite: Source

    def problem(
        self, code: str, at: str, message: str, severity: Severity = "error", *, point: str | None = None
    ) -> Problem:
        """A problem at a place. A fault in the suite itself is reported there, even if a row of a data set led
        to it."""
        if at.startswith(self.at):
            return self.source.problem(code, at, message, severity, point=point)
        if isinstance(self.source, RowSource):
            message += f" (for line {self.source.number} of {self.source.file})"
        return self.suite.problem(code, at, message, severity, point=point)


Place: TypeAlias = tuple[Source | CasePlace, str]
"""A source that can report problems, and a path in it."""


def read_source(origin: Path | SuiteText, file: str) -> tuple[Source | None, list[Problem]]:
    """Read and parse a YAML file. A file with YAML errors gives no source, so nothing else is reported about it."""
    try:
        text = _text_of(origin) if isinstance(origin, SuiteText) else read_text(origin, MOST_BYTES)
    except FileFault as fault:
        return None, [Problem(code=fault.code, message=fault.message, file=file)]
    has_lines = not isinstance(origin, SuiteText) or origin.has_lines
    document, problems = parse(text, file)
    if not has_lines:
        problems = [structs.replace(one, line=0, column=0, source=None, suggestion=None) for one in problems]
    return (Source(file, text, document, has_lines=has_lines) if document is not None else None), problems


def _text_of(origin: SuiteText) -> str:
    """The text, without a byte order mark."""
    size = len(origin.text.encode("utf-8", "replace"))
    if size > MOST_BYTES:
        raise too_large(origin.path.name, size, MOST_BYTES)
    return origin.text.removeprefix("\ufeff")
