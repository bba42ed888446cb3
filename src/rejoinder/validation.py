"""Validation: everything that can be said about files without sending anything or running anyone's code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from rejoinder.errors import Severity
from rejoinder.model import Problem, Suite
from rejoinder.project import display_path
from rejoinder.readiness import Readiness
from rejoinder.review import all_problems, review_case
from rejoinder.spelling import list_words
from rejoinder.suite import (
    Built,
    FileKind,
    LoadOptions,
    Source,
    Targets,
    as_warnings,
    find_files,
    is_of_agentv,
    kind_of,
    open_project,
    paused_collector,
    read_configuration,
    read_suite,
    read_targets_file,
)

ONLY_CHECKED = LoadOptions(missing="warning")
"""For a suite that is checked and not run: what the environment lacks is no fault of the file."""


_MOST_NAMED = 6


class FileReport(Struct, frozen=True):
    path: str
    errors: list[Problem]
    warnings: list[Problem]


class Report(Struct, frozen=True):
    files: list[FileReport]
    passed_over: list[str]
    """YAML files of a folder that are no suites."""

    @property
    def errors(self) -> int:
        return sum(len(file.errors) for file in self.files)

    @property
    def warnings(self) -> int:
        return sum(len(file.warnings) for file in self.files)


def validate(*paths: str | Path, targets_file: Path | None = None, strict: bool = False) -> Report:
    """Check files, and all suites of folders. Without a path: the suite of the working directory.

    Keys, secrets and environment variables that are missing are warnings; with `strict` they are errors.
    """
    options = LoadOptions(targets_file=targets_file, missing="error" if strict else "warning")
    with paused_collector():
        return _validate([Path(path) for path in paths], options)


def _validate(paths: list[Path], options: LoadOptions) -> Report:
    files, passed_over = find_files(paths)
    by_file: dict[str, list[Problem]] = {}
    for file in files:
        by_file.setdefault(display_path(file.absolute(), Path.cwd()), [])
        for problem in validate_file(file, options):
            problems = by_file.setdefault(problem.file, [])
            if problem not in problems[-200:]:  # a shared targets file is read for each suite
                problems.append(problem)
    return Report([_report(file, problems) for file, problems in by_file.items()], passed_over)


def _report(file: str, problems: list[Problem]) -> FileReport:
    def of(severity: Severity) -> list[Problem]:
        return [problem for problem in problems if problem.severity == severity]

    return FileReport(file, of("error"), of("warning"))


def validate_file(path: Path, options: LoadOptions = ONLY_CHECKED) -> list[Problem]:
    return _VALIDATORS[kind_of(path)](path, options)


def _validate_suite(path: Path, options: LoadOptions) -> list[Problem]:
    """What loading and formatting say about a suite, and what `run` would refuse."""
    readiness = Readiness()

    def review(built: Built, source: Source, suite: Suite) -> Iterator[Problem]:
        yield from review_case(built, source, suite)
        yield from readiness.review(built, source, suite)

    loaded = read_suite(path, options, review=review)
    problems = all_problems(loaded, options, readiness.review_targets(loaded, options.missing))
    return problems + list(_foreign_targets(loaded.targets))


def _foreign_targets(targets: Targets | None) -> Iterator[Problem]:
    """One warning for each of AgentV's files, and not one for each of its targets."""
    for file, names in targets.list_foreign() if targets is not None else ():
        listed = [f"`{name}`" for name in names[:_MOST_NAMED]]
        if len(names) > _MOST_NAMED:
            listed.append(f"{len(names) - _MOST_NAMED} more")
        message = (
            f"rejoinder cannot use {list_words(listed)} of AgentV's targets; this matters only to suites that name them"
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
