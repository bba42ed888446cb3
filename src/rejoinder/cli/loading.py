"""Loading suites for a command that runs them: every mistake shown, and nothing begun when there is one."""

from __future__ import annotations

import sys
from pathlib import Path

from rejoinder.cli.output import show_problems
from rejoinder.engine.folder import RunFolder
from rejoinder.engine.plan import RunOptions
from rejoinder.engine.receipt import read_options, read_stored_suite, suite_paths
from rejoinder.errors import UsageError
from rejoinder.model import Suite
from rejoinder.suite.load import LoadOptions
from rejoinder.validation import find_files, load_for_run


def load_suites(paths: tuple[Path, ...], options: RunOptions) -> list[Suite]:
    files, _ = find_files(paths)
    loaded = [load_for_run(file, load_options(options)) for file in files]
    problems = [problem for _, found in loaded for problem in found]
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        show_problems(errors, err=True)
        sys.exit(2)
    show_problems([problem for problem in problems if problem.severity == "warning"], err=True)
    return [suite for suite, _ in loaded if suite is not None]


def load_options(options: RunOptions) -> LoadOptions:
    """How suites are loaded for these options."""
    return LoadOptions(
        target=options.targets[0] if options.targets else None,
        targets_file=Path(options.targets_file) if options.targets_file else None,
        system_prompt=options.system_prompt,
    )


def suites_of(folder: RunFolder) -> list[Suite]:
    """The suites of a run as they are on the disk now, or, where a file is gone, as they were when it began."""
    options = load_options(read_options(folder))
    suites: list[Suite] = []
    for number, path in enumerate(suite_paths(folder)):
        suite, problems = load_for_run(path, options) if path.is_file() else (None, [])
        errors = [problem for problem in problems if problem.severity == "error"]
        if errors:
            raise UsageError(
                f"{errors[0].place}: {errors[0].message}",
                f"Mend {path} and try again, or move it away to go on with the run's own copy.",
            )
        suites.append(suite or read_stored_suite(folder, number))
    return suites
