"""The `LoadOptions` of suites that follow from the options of a run."""

from __future__ import annotations

from pathlib import Path

from rejoinder.runs.options import RunOptions
from rejoinder.suite.context import LoadOptions


def load_options(options: RunOptions, *, asks: bool = True, labelled: bool = False) -> LoadOptions:
    selection = options.selection
    return LoadOptions(
        targets=selection.targets,
        targets_file=Path(selection.targets_file) if selection.targets_file else None,
        given=selection.given,
        system_prompt=selection.system_prompt,
        asks=asks and options.answers.replay is None,
        labelled=labelled,
    )
