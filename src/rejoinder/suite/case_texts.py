"""The texts of one case: templates filled in, files read, names of targets checked. What is wrong with them is kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rejoinder.errors import UNFILLED, Severity, severity_of
from rejoinder.model import JUDGE_VARIABLES, JudgeVariable, Problem, Quote
from rejoinder.project import FileFault, in_quotes, known_checks
from rejoinder.spelling import nearest
from rejoinder.suite.context import SuiteContext
from rejoinder.suite.document_paths import read_path
from rejoinder.suite.source import CasePlace, Source
from rejoinder.suite.templates import (
    Report,
    Scope,
    expand,
    expand_follow_up,
    expand_judge_prompt,
    expand_tree,
    read_judge_template,
    write_value,
)

JudgePrompt = tuple[tuple[str | JudgeVariable, ...], str]


class CaseProblems:
    """Problems of one case. Nothing else is said about a text whose template could not be filled in."""

    def __init__(self, place: CasePlace, missing: Severity) -> None:
        self.place = place
        self.missing: Severity = missing
        self.found: list[Problem] = []

    def add(self, code: str, at: str, message: str, severity: Severity = "error", *, point: str | None = None) -> None:
        if code in UNFILLED or not self.found or not self.is_unfilled(at):
            self.found.append(self.place.problem(code, at, message, severity, point=point))

    def is_unfilled(self, at: str) -> bool:
        """Could the text at a place not be filled in?"""
        return any(one.code in UNFILLED and (one.path == at or one.path.startswith(f"{at}.")) for one in self.found)

    def has_error_at(self, at: str) -> bool:
        return any(one.path == at and one.severity == "error" for one in self.found)

    def reporter(self, at: str) -> Report:
        return lambda code, message: self.add(code, at, message, severity_of(code, self.missing))


class CaseTexts:
    """What `rejoinder.suite.checks` reads the texts of a case with."""

    def __init__(self, place: CasePlace, scope: Scope, context: SuiteContext) -> None:
        self.place = place
        self.scope = scope
        self.context = context
        self.finder = context.finder
        self.problems = CaseProblems(place, context.options.missing)

    def problem(self, code: str, at: str, message: str) -> None:
        if code == "conflicting-keys" and self.problems.has_error_at(at):
            return  # what it says could not be read, so it may be no conflict
        self.problems.add(code, at, message)

    def written(self, value: float, at: str) -> str:
        """A number as the file has it: `1.10` is not 1.1."""
        source = self.place.source if at.startswith(self.place.at) else self.place.suite
        text = source.document.scalar_text(read_path(at)) if isinstance(source, Source) else None
        return text or write_value(value)

    def text(self, value: str, at: str) -> str:
        return expand(value, self.scope, self.problems.reporter(at)) if "{{" in value else value

    def follow_up(self, value: str, at: str) -> tuple[str | Quote, ...]:
        pieces = expand_follow_up(value, self.scope, self.problems.reporter(at))
        if not any(isinstance(piece, Quote) or piece.strip() for piece in pieces):
            self.problem("empty-prompt", at, "this prompt is empty once its variables are filled in")
        return pieces

    def judge_prompt(self, value: str, at: str) -> JudgePrompt:
        """An evaluator's prompt: a file where there is one of that name, else the text itself; and its words before
        variables are filled in. Of a file that says nothing there are no pieces, and its name is all the words."""
        found = None if "\n" in value else self.finder.find(value)
        if found is not None and found.is_file():
            return self._judge_template(found, value, at)
        if _names_file(value):
            self.problem("file-not-found", at, self.finder.explain_missing(value))
            return (), value
        self._look_for_unfilled(value, at, self.scope.names or {})
        return expand_judge_prompt(value, self.scope, self.problems.reporter(at)), value

    def _judge_template(self, file: Path, written: str, at: str) -> JudgePrompt:
        try:
            text = self.finder.read(file)
        except FileFault as fault:
            self.problem(fault.code, at, fault.message)
            return (), written
        if not text.strip():
            message = f"the file {in_quotes(written)} is empty, so judges get nothing from it"
            self.problems.add("empty-file", at, message, "warning")
            return (), written
        self._look_for_unfilled(text, at, {})
        return read_judge_template(text), text

    def _look_for_unfilled(self, template: str, at: str, names: Mapping[str, Any]) -> None:
        """An unknown name in a judge's prompt stays as it is; one that is nearly a judge's variable is an error."""
        for name in re.findall(r"\{\{\s*(\w+)\s*\}\}", template):
            if name in JUDGE_VARIABLES or name in names:
                continue
            message = f"`{{{{{name}}}}}` is not a variable of a judge's prompt"
            if meant := nearest(name, JUDGE_VARIABLES):
                self.problem("missing-variable", at, f"{message}; did you mean `{{{{{meant}}}}}`?")
            else:
                known = ", ".join(JUDGE_VARIABLES)
                message += f", so it stays as written; the variables are {known}"
                self.problems.add("unfilled-braces", at, message, "warning")

    def tree(self, value: Any, at: str) -> Any:
        return expand_tree(value, self.scope, self.problems.reporter(at))

    def read_data(self, value: str, at: str) -> Any:
        path = self.text(value, at)
        file = self.finder.find(path)
        if file is None:
            self.problem("file-not-found", at, self.finder.explain_missing(path))
            return None
        try:
            return msgspec.json.decode(self.finder.read(file))
        except FileFault as fault:
            self.problem(fault.code, at, fault.message)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            self.problem("json-syntax", at, f"{path} is not valid JSON: {error}")
        return None

    def known_checks(self) -> list[str] | None:
        return known_checks(self.finder.root)

    def target(self, value: str, at: str) -> str:
        name = self.text(value, at)
        if not self.context.options.only_format and not self.problems.is_unfilled(at):
            self.problems.found += self.context.targets.check(name, self.place, at)
        return name


def _names_file(prompt: str) -> bool:
    """Is it a path rather than a text?"""
    is_word = not re.search(r"\s|\{\{", prompt)
    return is_word and ("/" in prompt or prompt.lower().endswith((".md", ".txt", ".prompt")))
