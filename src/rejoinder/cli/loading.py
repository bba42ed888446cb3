"""Loading suites for a command that runs them: every mistake shown, and nothing begun when there is one."""

from __future__ import annotations

import sys
from pathlib import Path

from rejoinder.cli.output import show_problems
from rejoinder.engine import loading
from rejoinder.engine.plan import RunOptions
from rejoinder.errors import SuiteError
from rejoinder.model import Suite
from rejoinder.validation import find_files


def load_suites(
    paths: tuple[Path, ...], options: RunOptions, *, warn: bool = True, asks: bool = True, labelled: bool = False
) -> list[Suite]:
    """`asks`: will their targets be asked? Without, nobody needs their keys. `labelled`: are their judges put to
    labelled replies?"""
    files, _ = find_files(paths)
    try:
        suites, warnings = loading.load_suites(files, options, asks=asks, labelled=labelled)
    except SuiteError as error:
        show_problems([problem for problem in error.problems if problem.severity == "error"], err=True)
        sys.exit(2)
    if warn:
        show_problems(warnings, err=True)
    return suites
