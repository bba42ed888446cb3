"""Suites for a run: loaded with everything that can be said about them, whoever asks."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from rejoinder.engine.options import RunOptions
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
    selection = options.selection
    return LoadOptions(
        target=selection.targets[0] if selection.targets else None,
        targets_file=Path(selection.targets_file) if selection.targets_file else None,
        system_prompt=selection.system_prompt,
        asks=asks and options.answers.replay is None,
    )
