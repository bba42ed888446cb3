"""A file that is being read: where its problems are, and what the author sees of them."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from rejoinder.errors import Severity
from rejoinder.model import Problem
from rejoinder.project import FileFault, read_text
from rejoinder.suite.document_paths import read_path, write_path
from rejoinder.suite.schema import Violation
from rejoinder.suite.yaml import MOST_BYTES, Document, split_lines
from rejoinder.suite.yaml_lines import in_double_quotes
from rejoinder.suite.yaml_syntax import parse


class Source:
    """A YAML file with its text, its data and the problems found in it so far."""

    def __init__(self, file: str, text: str, document: Document) -> None:
        self.file = file
        self.text = text
        self.document = document

    @cached_property
    def lines(self) -> list[str]:
        return split_lines(self.text)

    def violation(self, violation: Violation, severity: Severity = "error") -> Problem:
        line, column = self.document.place(violation.path, key=violation.key)
        return Problem(
            code=violation.code,
            message=violation.message,
            file=self.file,
            path=write_path(violation.path),
            line=line,
            column=column,
            severity=severity,
            suggestion=self._mend(violation, line, column),
            source=self.line(line),
        )

    def problem(
        self, code: str, at: str, message: str, severity: Severity = "error", *, point: str | None = None
    ) -> Problem:
        """A problem at a path that is written out, such as `evals[0].prompt`; `point` is what to point at."""
        line, column = self.document.place(read_path(point or at))
        return Problem(
            code=code,
            message=message,
            file=self.file,
            path=at,
            line=line,
            column=column,
            severity=severity,
            source=self.line(line),
        )

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
        self,
        code: str,
        at: str,
        message: str,
        severity: Severity = "error",
        *,
        point: str | None = None,  # noqa: ARG002 - the same signature as Source.problem
    ) -> Problem:
        return Problem(
            code=code,
            message=message,
            file=self.file,
            path=at,
            line=self.number,
            severity=severity,
            source=self.text,
        )


class CasePlace(Struct, frozen=True):
    """Where a case comes from: its path, the file or row that it stands in, and the suite around it."""

    at: str
    source: Source | RowSource
    suite: Source

    def problem(
        self, code: str, at: str, message: str, severity: Severity = "error", *, point: str | None = None
    ) -> Problem:
        """What comes from the suite itself is at fault there, even when a row of a data set brought it up."""
        if at.startswith(self.at):
            return self.source.problem(code, at, message, severity, point=point)
        if isinstance(self.source, RowSource):
            message += f" (for line {self.source.number} of {self.source.file})"
        return self.suite.problem(code, at, message, severity, point=point)


Place: TypeAlias = tuple[Source | CasePlace, str]
"""Something that problems can be reported at, and a path in it."""


def read_source(path: Path, file: str) -> tuple[Source | None, list[Problem]]:
    """Read and parse a YAML file. A file with YAML errors gives no source, so nothing else is said about it."""
    try:
        text = read_text(path, MOST_BYTES)
    except FileFault as fault:
        return None, [Problem(code=fault.code, message=fault.message, file=file)]
    document, problems = parse(text, file)
    return (Source(file, text, document) if document is not None else None), problems
