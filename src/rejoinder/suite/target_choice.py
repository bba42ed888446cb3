"""Which targets answer, judge and give embeddings for a suite: the suite says so, else the project."""

from __future__ import annotations

from typing import Any

from rejoinder.errors import UNFILLED
from rejoinder.suite.configuration import Project
from rejoinder.suite.context import LoadOptions
from rejoinder.suite.source import Source
from rejoinder.suite.suite_texts import SuiteTexts
from rejoinder.suite.target_names import NamedTargets


class TargetChoice:
    def __init__(self, texts: SuiteTexts, project: Project, targets: NamedTargets, options: LoadOptions) -> None:
        self.texts = texts
        self.project = project
        self.targets = targets
        self.options = options

    def candidate(self) -> str | None:
        """The target of cases that name none; None when nothing is named anywhere."""
        if self.options.target:
            return self.options.target
        chosen = self._of_suite("execution.target", "target", "metadata.model")
        if chosen is None:
            chosen = self._of_project("target")
        if chosen is not None:
            return chosen
        names = list(self.targets.known)
        if "default" in names:
            return "default"
        return names[0] if len(names) == 1 else None

    def judge(self) -> str | None:
        return self._of_suite("execution.judge_target", "judge_target")

    def project_judge(self) -> str | None:
        """The judge of targets that name none, in suites that name none."""
        return self._of_project("judge_target")

    def embedder(self) -> str | None:
        chosen = self._of_suite("embedding_target")
        return self._of_project("embedding_target") if chosen is None else chosen

    def _of_suite(self, *places: str) -> str | None:
        for at in places:
            outer, _, key = at.rpartition(".")
            data: dict[str, Any] = self.texts.data.get(outer, {}) if outer else self.texts.data
            if data.get(key):
                return self._named(data[key], at)
        return None

    def _named(self, value: str, at: str) -> str:
        """A target that the suite names; what could not be filled in is no name that could be wrong."""
        before = len(self.texts.problems)
        name = self.texts.text(value, at)
        if all(problem.code not in UNFILLED for problem in self.texts.problems[before:]):
            self._check(name, at, self.texts.source)
        return name

    def _of_project(self, key: str) -> str | None:
        name = self.project.config.get(key)
        if not name:
            return None
        self._check(name, key, self.project.config_sources[key])
        return name

    def _check(self, name: str, at: str, source: Source) -> None:
        if not self.options.only_format:
            self.texts.problems += self.targets.check(name, source, at)
