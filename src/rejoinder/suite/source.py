"""A file that is being read: the places of its problems, and the lines to show for them."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, structs

from rejoinder.errors import Severity, severity_of
from rejoinder.model import Problem
from rejoinder.project.files import FileFault, read_text
from rejoinder.suite.document_paths import read_path, write_path
from rejoinder.suite.schema import Violation
from rejoinder.suite.templates import Report
from rejoinder.suite.yaml import MOST_BYTES, Document, split_lines
from rejoinder.suite.yaml_lines import in_double_quotes
from rejoinder.suite.yaml_syntax import parse


class Source:
    """A YAML file with its text, its data and the problems found so far."""

    def __init__(self, file: str, text: str, document: Document) -> None:
        self.file = file
        self.text = text
        self.document = document

    @cached_property
    def lines(self) -> list[str]:
        return split_lines(self.text)

    def violation(self, violation: Violation, severity: Severity = "error") -> Problem:
        place = self.document.place(violation.path, key=violation.key)
        problem = self._problem(violation.code, write_path(violation.path), violation.message, severity, place)
        # With the unchanged line: a line with a key has no suggestion.
        return structs.replace(problem, suggestion=self._mend(violation, *place), source=self.line(place[0]))

    def problem(
        self, code: str, at: str, message: str, severity: Severity = "error", *, point: str | None = None
    ) -> Problem:
        """A problem at a written path, such as `evals[0].prompt`; `point` is the text to point at."""
        return self._problem(code, at, message, severity, self.document.place(read_path(point or at)))

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


def read_source(path: Path, file: str) -> tuple[Source | None, list[Problem]]:
    """Read and parse a YAML file. A file with YAML errors gives no source, so nothing else is reported about it."""
    try:
        text = read_text(path, MOST_BYTES)
    except FileFault as fault:
        return None, [Problem(code=fault.code, message=fault.message, file=file)]
    document, problems = parse(text, file)
    return (Source(file, text, document) if document is not None else None), problems
