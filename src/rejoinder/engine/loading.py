"""How suites are loaded for the options of a run."""

from __future__ import annotations

from pathlib import Path

from rejoinder.engine.plan import RunOptions
from rejoinder.suite.context import LoadOptions


def load_options(options: RunOptions, *, asks: bool = True, labelled: bool = False) -> LoadOptions:
    return LoadOptions(
        target=options.targets[0] if options.targets else None,
        targets_file=Path(options.targets_file) if options.targets_file else None,
        system_prompt=options.system_prompt,
        asks=asks and options.replay is None,
        labelled=labelled,
    )
