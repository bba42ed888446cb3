"""Suites loaded to be played with the options of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from rejoinder.engine.plan import pairs
from rejoinder.errors import SuiteError
from rejoinder.model import Problem, Suite
from rejoinder.runs.loading import load_options
from rejoinder.runs.options import RunOptions
from rejoinder.suite.targets import is_known_provider
from rejoinder.validation.review import load_suites


def load_for_run(
    files: Sequence[Path], options: RunOptions, *, asks: bool = True, labelled: bool = False
) -> tuple[list[Suite], list[Problem]]:
    """Suites that can be run with these options, and warnings about them. `LoadOptions` explains `asks` and
    `labelled`. Raises SuiteError; a provider that is not known is an error, at its place, as soon as a target of it
    is asked."""
    suites, warnings = load_suites(files, load_options(options, asks=asks, labelled=labelled))
    if asks and options.answers.opens_targets:
        unknown = [one for one in warnings if one.code == "unknown-provider" and one.path.endswith(".provider")]
        asked = {pair.target.provider for pair in pairs(suites, options.selection)} if unknown else set[str]()
        if not all(map(is_known_provider, asked)):
            raise SuiteError([structs.replace(one, severity="error") for one in unknown])
    return suites, warnings
