"""Names of suites and cases in results."""

from __future__ import annotations

from rejoinder.errors import UsageError
from rejoinder.model import Case, Suite, file_in_project
from rejoinder.model.results import CaseName, case_file
from rejoinder.validation.roles import Pair


def case_name_of(pair: Pair) -> CaseName:
    """The name of a pair's case in its results."""
    return name_on(pair.suite, pair.case, pair.target.name)


def name_on(suite: Suite, case: Case, target: str) -> CaseName:
    """The name of a case on a target; for an empty name, on any."""
    return CaseName(case_file(file_of(suite), case.file), case.id, target, case.variant)


def name_of(suite: Suite) -> str:
    """The name of a suite in results."""
    return suite.name or file_of(suite)


def file_of(suite: Suite) -> str:
    """The suite's file as seen from its project."""
    return file_in_project(suite.path, suite.root)


def suites_called(suites: list[Suite], word: str) -> list[Suite]:
    """The one suite of a run that has this name or file; all of them for no word. Raises UsageError if none has it,
    or several have."""
    if not word:
        return suites
    found = [suite for suite in suites if word in (suite.name, file_of(suite))]
    files = ", ".join(map(file_of, found or suites))
    if not found:
        raise UsageError(f"the run has no suite `{word}`", f"It has {files}.")
    if len(found) > 1:
        raise UsageError(f"the run has several suites `{word}`", f"Name one by its file: {files}.")
    return found
