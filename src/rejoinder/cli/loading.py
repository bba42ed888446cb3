"""Load the suites or the project of a command: every mistake is shown, and nothing is begun when there is one."""

from __future__ import annotations

import sys
from pathlib import Path

from rejoinder.cli.output import echo, show_problems, tell_passed_over
from rejoinder.engine.load_for_run import load_for_run
from rejoinder.errors import SuiteError
from rejoinder.model import Problem, Suite
from rejoinder.runs.options import RunOptions
from rejoinder.suite.agentv_files import as_warnings, is_of_agentv
from rejoinder.suite.configuration import Project, open_project, read_prices
from rejoinder.suite.discover import find_files
from rejoinder.suite.target_names import check_target
from rejoinder.suite.targets import Targets, read_targets


def load_or_exit(
    paths: tuple[Path, ...], options: RunOptions, *, warn: bool = True, asks: bool = True, labelled: bool = False
) -> list[Suite]:
    """`asks` and `labelled` are those of `LoadOptions`."""
    files, passed_over = find_files(paths)
    if warn:
        tell_passed_over(passed_over)
    try:
        suites, warnings = load_for_run(files, options, asks=asks, labelled=labelled)
    except SuiteError as error:
        show_problems([problem for problem in error.problems if problem.severity == "error"], err=True)
        sys.exit(2)
    if warn:
        show_problems(warnings, err=True)
        _warn_of_openrouter(options.selection.targets, suites)
    return suites


def load_project_or_exit(targets_file: Path | None) -> Suite:
    """The project of the working directory as a suite without cases, for commands that need targets alone. A target
    that is defined wrongly is a warning."""
    project, targets = _read_project(targets_file)
    faults = [problem for found in targets.faults.values() for problem in found if not is_of_agentv(problem.file)]
    _show_or_exit([*project.problems, *targets.problems, *as_warnings(faults)])
    return _as_suite(project, targets)


def load_judge_or_exit(targets_file: Path | None, name: str | None) -> tuple[Suite, str | None]:
    """The same with the name of the target that judges, or the project's judge, which has to be defined rightly."""
    project, targets = _read_project(targets_file)
    judge = name or project.config.get("judge_target")
    faults = targets.faults.get(judge, []) if judge else []
    problems = [*project.problems, *targets.problems, *faults]
    _show_or_exit([problem for problem in problems if problem.severity == "error"])
    return _as_suite(project, targets), judge


def _read_project(targets_file: Path | None) -> tuple[Project, Targets]:
    project = open_project(Path.cwd())
    return project, read_targets(project, targets_file)


def _show_or_exit(problems: list[Problem]) -> None:
    show_problems(problems, err=True)
    if any(problem.severity == "error" for problem in problems):
        sys.exit(2)


def _as_suite(project: Project, targets: Targets) -> Suite:
    return Suite(
        path=str(project.working / "project"),  # only its folder matters
        root=str(project.root),
        cases=(),
        targets=targets.names(),
        prices=read_prices(project.config),
        judge_target=project.config.get("judge_target"),
        embedding_target=project.config.get("embedding_target"),
    )


def _warn_of_openrouter(names: tuple[str, ...], suites: list[Suite]) -> None:
    """Targets of the command stand in no file, so no problem of a file can speak of them."""
    known = {name: target for suite in suites for name, target in suite.targets.items()}
    for name in names:
        # One that is asked at OpenRouter though the command does not say so stands in no file.
        routed = name in known and known[name].file is None
        for fault in check_target(name, {}, routed=routed) if name not in known or routed else ():
            if fault.code == "model-of-openrouter":
                echo(f"warning: {fault.message}", err=True)
