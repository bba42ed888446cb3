"""Validation: every check of files that needs neither calls nor running anyone's code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from rejoinder.errors import Severity
from rejoinder.model import Problem, Suite
from rejoinder.project.folders import display_path
from rejoinder.suite.agentv_files import as_warnings, is_of_agentv
from rejoinder.suite.configuration import open_project, read_configuration
from rejoinder.suite.context import LoadOptions
from rejoinder.suite.discover import FileKind, find_files, kind_of
from rejoinder.suite.load import read_suite
from rejoinder.suite.source import Source, SuiteText
from rejoinder.suite.targets import Targets, read_targets_file
from rejoinder.suite.walk import Built
from rejoinder.suite.yaml import paused_collector
from rejoinder.validation.readiness import Readiness
from rejoinder.validation.review import all_problems, review_case
from rejoinder.words.numbers import listed

ONLY_CHECKED = LoadOptions(missing="warning")
"""For a suite that is checked and not run: gaps in the environment are not faults of the file."""


_MOST_NAMED = 6


class FileReport(Struct, frozen=True):
    path: str
    errors: list[Problem]
    warnings: list[Problem]


class Report(Struct, frozen=True):
    files: list[FileReport]
    passed_over: list[str]
    """YAML files of a folder that are not suites."""

    @property
    def errors(self) -> int:
        return sum(len(file.errors) for file in self.files)

    @property
    def warnings(self) -> int:
        return sum(len(file.warnings) for file in self.files)


def validate(*given: str | Path | SuiteText, targets_file: str | Path | None = None, strict: bool = False) -> Report:
    """Check files, all suites of folders, and suites that are not files. Without any: the suite of the working
    directory.

    Keys, secrets and environment variables that are missing are warnings; with `strict` they are errors.
    """
    file = None if targets_file is None else Path(targets_file)
    options = LoadOptions(targets_file=file, missing="error" if strict else "warning")
    with paused_collector():
        return _validate([one if isinstance(one, SuiteText) else Path(one) for one in given], options)


def _validate(given: list[Path | SuiteText], options: LoadOptions) -> Report:
    texts, paths = [one for one in given if isinstance(one, SuiteText)], [one for one in given if isinstance(one, Path)]
    files, passed_over = find_files(paths) if paths or not texts else ([], [])
    by_file: dict[str, list[Problem]] = {}
    for origin in (*files, *texts):
        path = origin.path if isinstance(origin, SuiteText) else origin
        by_file.setdefault(display_path(path.absolute(), Path.cwd()), [])
        for problem in validate_file(origin, options):
            problems = by_file.setdefault(problem.file, [])
            if problem not in problems[-200:]:  # a shared targets file is read for each suite
                problems.append(problem)
    return Report([_report(file, problems) for file, problems in by_file.items()], passed_over)


def _report(file: str, problems: list[Problem]) -> FileReport:
    def of(severity: Severity) -> list[Problem]:
        return [problem for problem in problems if problem.severity == severity]

    return FileReport(file, of("error"), of("warning"))


def validate_file(origin: Path | SuiteText, options: LoadOptions = ONLY_CHECKED) -> list[Problem]:
    if isinstance(origin, SuiteText):
        return _validate_suite(origin, options)
    return _VALIDATORS[kind_of(origin)](origin, options)


def _validate_suite(origin: Path | SuiteText, options: LoadOptions) -> list[Problem]:
    """Problems from loading and formatting a suite, and problems for which `run` would refuse it."""
    readiness = Readiness()

    def review(built: Built, source: Source, suite: Suite) -> Iterator[Problem]:
        yield from review_case(built, source, suite)
        yield from readiness.review(built, source, suite)

    loaded = read_suite(origin, options, review=review)
    problems = all_problems(loaded, options, readiness.review_targets(loaded, options.missing))
    return problems + list(_foreign_targets(loaded.targets))


def _foreign_targets(targets: Targets | None) -> Iterator[Problem]:
    """One warning per AgentV file, instead of one per target."""
    for file, names in targets.list_foreign() if targets is not None else ():
        named = [f"`{name}`" for name in names[:_MOST_NAMED]]
        if len(names) > _MOST_NAMED:
            named.append(f"{len(names) - _MOST_NAMED} more")
        message = (
            f"rejoinder cannot use {listed(named)} of AgentV's targets; this matters only to suites that name them"
        )
        yield Problem(code="unusable-target", message=message, file=file, severity="warning")


def _validate_targets(path: Path, options: LoadOptions) -> list[Problem]:
    source, problems = read_targets_file(path, Path.cwd())
    if source is None:
        return problems
    folder = path.resolve().parent
    project, targets = open_project(folder), Targets()
    targets.add_file(source, folder, project)
    targets.settle_stand_ins(project.environment)
    for name in targets.entries:
        problems += targets.check_environment(name, project.environment, options.missing)
    faults = [problem for found in targets.faults.values() for problem in found]
    return problems + targets.problems + (as_warnings(faults) if is_of_agentv(path.absolute()) else faults)


def _validate_configuration(path: Path, _options: LoadOptions) -> list[Problem]:
    return read_configuration(path, Path.cwd())[1]


_VALIDATORS: dict[FileKind, Callable[[Path, LoadOptions], list[Problem]]] = {
    "suite": _validate_suite,
    "targets": _validate_targets,
    "config": _validate_configuration,
}
