"""Suites for a run: loaded with everything that can be said about them, whoever asks."""

from __future__ import annotations

from pathlib import Path

from rejoinder.engine.folder import RunFolder
from rejoinder.engine.plan import RunOptions
from rejoinder.engine.receipt import read_options, read_stored_suite, suite_paths
from rejoinder.errors import SuiteError
from rejoinder.model import Problem, Suite
from rejoinder.suite.load import LoadOptions
from rejoinder.validation import load_for_run


def load_suites(files: list[Path], options: RunOptions) -> tuple[list[Suite], list[Problem]]:
    """The suites and the warnings about them. Raises SuiteError with every mistake of every file."""
    loaded = [load_for_run(file, load_options(options)) for file in files]
    problems = [problem for _, found in loaded for problem in found]
    if any(problem.severity == "error" for problem in problems):
        raise SuiteError(problems)
    return [suite for suite, _ in loaded if suite is not None], problems


def load_options(options: RunOptions) -> LoadOptions:
    """How suites are loaded for these options."""
    return LoadOptions(
        target=options.targets[0] if options.targets else None,
        targets_file=Path(options.targets_file) if options.targets_file else None,
        system_prompt=options.system_prompt,
    )


def suites_of(folder: RunFolder) -> list[Suite]:
    """The suites of a run as they are on the disk now, or, where a file is gone, as they were when it began."""
    options = read_options(folder)
    suites: list[Suite] = []
    for number, path in enumerate(suite_paths(folder)):
        suites += load_suites([path], options)[0] if path.is_file() else [read_stored_suite(folder, number)]
    return suites
