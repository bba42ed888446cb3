"""Suites of scripted replies for tests of gates, and their runs."""

from __future__ import annotations

from typing import Any

from tests.kit import Project, Raw, case, follow, run


def suite_of(replies: dict[str, Any], *, tags: dict[str, list[str]] | None = None, **more: Any) -> Raw:
    """A case for each id; its replies in turn. `yes` passes; what fails is passed after one follow-up."""
    target = {"name": "it", "provider": "scripted", "replies": replies}
    checks = ({"match": "yes"}, follow("Again.", {"match": "yes"}))
    evals = [case(name, *checks, tags=(tags or {}).get(name, [])) for name in replies]
    return {"targets": [target], "target": "it", "evals": evals, **more}


def answers(passing: int, failing: int = 0, recovering: int = 0) -> dict[str, Any]:
    """Cases c0, c1, ... of which some pass, some recover and some fail."""
    kinds = [["yes"]] * passing + [["no", "yes"]] * recovering + [["no", "no"]] * failing
    return {f"c{number:03}": replies for number, replies in enumerate(kinds)}


def run_of(project: Project, replies: dict[str, Any], *arguments: str, **more: Any) -> str:
    """The id of a new run."""
    return run(project, suite_of(replies, **more), *arguments)["run"]["id"]
