"""Suites for a run: loaded with everything that can be said about them, whoever asks."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from rejoinder.engine.folder import RunFolder
from rejoinder.engine.plan import RunOptions
from rejoinder.engine.receipt import read_options, read_stored_suite, suite_paths
from rejoinder.errors import SuiteError
from rejoinder.model import Problem, Suite
from rejoinder.suite.load import LoadOptions
from rejoinder.validation import load_for_run


def load_suites(
    files: list[Path], options: RunOptions, *, asks: bool = True, labelled: bool = False
) -> tuple[list[Suite], list[Problem]]:
    """The suites and the warnings about them. Raises SuiteError with every mistake of every file."""
    chosen = structs.replace(load_options(options, asks=asks), labelled=labelled)
    loaded = [load_for_run(file, chosen) for file in files]
    problems = [problem for _, found in loaded for problem in found]
    if any(problem.severity == "error" for problem in problems):
        raise SuiteError(problems)
    return [suite for suite, _ in loaded if suite is not None], problems


def load_options(options: RunOptions, *, asks: bool = True) -> LoadOptions:
    """How suites are loaded for these options."""
    return LoadOptions(
        target=options.targets[0] if options.targets else None,
        targets_file=Path(options.targets_file) if options.targets_file else None,
        system_prompt=options.system_prompt,
        asks=asks and options.replay is None,
    )


def suites_of(folder: RunFolder, *, asks: bool = True) -> list[Suite]:
    """The suites of a run as they are on the disk now, or, where a file is gone, as they were when it began. `asks`:
    will their targets be asked? A run that plays another one asks nobody, however often it is taken up."""
    options = read_options(folder)
    asks = asks and not {"replay_of", "grade_of"} & set(folder.read("run.json") or {})
    suites: list[Suite] = []
    for number, path in enumerate(suite_paths(folder)):
        suites += load_suites([path], options, asks=asks)[0] if path.is_file() else [read_stored_suite(folder, number)]
    return suites
