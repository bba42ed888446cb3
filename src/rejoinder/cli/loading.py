"""Load the suites or the project of a command: every mistake is shown, and nothing is begun when there is one."""

from __future__ import annotations

import sys
from pathlib import Path

from rejoinder.cli.output import echo, show_problems, tell_passed_over
from rejoinder.engine.loading import load_options
from rejoinder.engine.options import RunOptions
from rejoinder.errors import SuiteError
from rejoinder.model import Suite
from rejoinder.review import load_suites
from rejoinder.suite import check_target, find_files, open_project, read_prices, read_targets


def load_or_exit(
    paths: tuple[Path, ...], options: RunOptions, *, warn: bool = True, asks: bool = True, labelled: bool = False
) -> list[Suite]:
    """`asks` and `labelled` are those of `LoadOptions`."""
    files, passed_over = find_files(paths)
    if warn:
        tell_passed_over(passed_over)
    try:
        suites, warnings = load_suites(files, load_options(options, asks=asks, labelled=labelled))
    except SuiteError as error:
        show_problems([problem for problem in error.problems if problem.severity == "error"], err=True)
        sys.exit(2)
    if warn:
        show_problems(warnings, err=True)
        _warn_of_openrouter(options.selection.targets, suites)
    return suites


def load_project_or_exit(targets_file: Path | None, *, warn: bool = True) -> Suite:
    """The project of the working directory as a suite without cases, for commands that need targets alone."""
    project = open_project(Path.cwd())
    targets = read_targets(project, targets_file)
    problems = [*project.problems, *targets.problems]
    errors = [problem for problem in problems if problem.severity == "error"]
    show_problems(problems if warn else errors, err=True)
    if errors:
        sys.exit(2)
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
    known = {name for suite in suites for name in suite.targets}
    for name in names:
        for fault in check_target(name, {}) if name not in known else ():
            if fault.code == "model-of-openrouter":
                echo(f"warning: {fault.message}", err=True)
