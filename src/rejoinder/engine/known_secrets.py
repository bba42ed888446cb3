"""The secrets that recordings may hold. Nothing is asked, and no code of the project is run."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from rejoinder.engine.open_tools import open_tools
from rejoinder.engine.targets import OpenTargets
from rejoinder.errors import RejoinderError
from rejoinder.model import Suite, Target
from rejoinder.model.providers import row_of
from rejoinder.model.tools import Tool
from rejoinder.runs.options import RunOptions, Trust


def known_secrets(
    suites: Iterable[Suite], targets: Iterable[tuple[Suite, Target]], tools: Iterable[tuple[Suite, Tool]] = ()
) -> dict[str, str]:
    """Those of the suites, and those that targets and tools have in the environment, each with its name."""
    trust = Trust(trust_env=True)  # nothing is sent
    opened = OpenTargets(RunOptions(trust=trust))
    for suite, target in targets:
        with suppress(RejoinderError):  # then it has no key
            if row_of(target.provider).over_http:
                opened.open(suite, target)
            else:
                opened.learn_secrets(suite, target)
    for one in tools:
        with suppress(RejoinderError):
            open_tools([one], opened, trust)
    return opened.collect_secrets(suites)
