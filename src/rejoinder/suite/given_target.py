"""Adds the target that a program gives beside its suites to the targets of a suite."""

from __future__ import annotations

import json
from pathlib import Path

from msgspec import structs

from rejoinder.errors import SuiteError, UsageError
from rejoinder.model import Suite, Target
from rejoinder.model.given import GivenTarget
from rejoinder.model.providers import CALLABLE
from rejoinder.suite.configuration import Project, open_project
from rejoinder.suite.source import Source
from rejoinder.suite.targets import TargetEntry, Targets
from rejoinder.suite.yaml_syntax import parse

SHOWN = "target="
"""Takes the place of a file in the problems of a given target."""


class NameTaken(UsageError):
    """The suite has a target with the name of the given one."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the suite has a target `{name}`, and so is the given target called",
            "Rename the suite's target, or start a new run.",
        )


def add_given(targets: Targets, given: GivenTarget, project: Project) -> None:
    """Add a given target to the targets of a suite. Raises NameTaken if it may not replace one of them."""
    if not given.replaces and given.name in {*targets.entries, *targets.faults}:
        raise NameTaken(given.name)
    targets.entries.pop(given.name, None)
    targets.faults.pop(given.name, None)
    source = _source_of(given)
    if given.code is None:
        targets.add_file(source, project.root, project)
        return
    target = Target(name=given.name, provider=CALLABLE, settings={"call": given.code.call}, file=SHOWN)
    targets.entries[given.name] = TargetEntry(target, source, ("targets", 0))


def with_given(suite: Suite, given: GivenTarget) -> Suite:
    """A loaded suite with a given target. Raises SuiteError with every mistake in it, and NameTaken."""
    if not given.replaces and given.name in suite.targets:
        raise NameTaken(given.name)
    targets = Targets()
    add_given(targets, given, open_project(Path(suite.path).parent))
    problems = targets.faults.get(given.name, [])
    if given.name in targets.unusable:
        raise SuiteError(problems)
    return structs.replace(suite, targets={**suite.targets, given.name: targets.entries[given.name].target})


def _source_of(given: GivenTarget) -> Source:
    """The given target as a file of targets. Raises UsageError for what no file can hold."""
    try:
        text = json.dumps({"targets": [{**given.settings, "name": given.name}]}, indent=1, default=_as_text)
        document, problems = parse(text, SHOWN)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"target: {error}", "A mapping has what an entry of `targets` in a suite has.") from None
    if document is None:
        raise SuiteError(problems)
    return Source(SHOWN, text, document)


def _as_text(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a value of the type {type(value).__name__} cannot be written into a suite")
