"""The texts of a suite outside its cases, with their templates filled in."""

from __future__ import annotations

from typing import Any

from rejoinder.errors import Severity, severity_of
from rejoinder.model import Problem
from rejoinder.suite.document_paths import DocumentPath, read_path, write_path
from rejoinder.suite.source import Source
from rejoinder.suite.templates import Report, Scope, expand


class SuiteTexts:
    def __init__(self, source: Source, data: dict[str, Any], missing: Severity, problems: list[Problem]) -> None:
        self.source = source
        self.data = data
        self.missing: Severity = missing
        self.problems = problems
        """What is wrong with the texts is added here."""
        self.scope = Scope({}, {})

    def text(self, value: str, at: str) -> str:
        return expand(value, self.scope, self.reporter(at))

    def first(self, *places: str) -> str | None:
        """The text at the first of these places that has one."""
        for at in places:
            value: Any = self.data
            for key in read_path(at):
                value = value.get(key, {})
            if value:
                return self.text(value, at)
        return None

    def tree(self, value: Any, path: DocumentPath) -> Any:
        """A value with all its texts filled in, each at its own place."""
        if isinstance(value, str):
            return self.text(value, write_path(path)) if "{{" in value else value
        if isinstance(value, list):
            return [self.tree(item, (*path, position)) for position, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: self.tree(item, (*path, key)) for key, item in value.items()}
        return value

    def reporter(self, at: str) -> Report:
        def report(code: str, message: str) -> None:
            self.problems.append(self.source.problem(code, at, message, severity_of(code, self.missing)))

        return report
