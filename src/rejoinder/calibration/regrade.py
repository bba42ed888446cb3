"""Changes by a re-grade of a run: other checks on the recorded replies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from rejoinder.engine.plan import Place
from rejoinder.model import Result
from rejoinder.model.chosen_names import ChosenNames
from rejoinder.runs.earlier import renamed_suites
from rejoinder.runs.report import RunReport


class Change(Struct, frozen=True, kw_only=True):
    """A conversation whose grade changed, and the checks that changed it."""

    suite: str
    id: str
    target: str
    trial: int
    before: str | None
    """Its earlier status; None if it was not graded."""
    now: str | None
    checks: list[str]
    """The new verdicts of checks in each turn."""


def compare_grades(before: RunReport, now: RunReport, cases: ChosenNames | None = None) -> list[Change]:
    """Every conversation with a different status, or a different verdict in one of its turns; in document order.
    `cases`: the graded ones, if not all."""
    suites = [[result.suite for result in report.results] for report in (before, now)]
    names = renamed_suites(*suites)  # the checks may come from another file
    old = {_place(result, names): _grade(result) for result in before.results}
    changes: list[Change] = []
    for result in now.results:
        place, (status, checks) = _place(result), _grade(result)
        status_before, checks_before = old.pop(place, (None, {}))
        differences = list(_differences(checks_before, checks))
        if status_before != status or differences:
            changes.append(_change(place, status_before, status, differences))
    if not now.run.is_completed:  # the rest is yet to be graded
        return changes
    gone = ((place, status) for place, (status, _) in old.items() if cases is None or place.case in cases)
    return changes + [_change(place, status, None, []) for place, status in gone]


def _place(result: Result, names: Mapping[str, str] = MappingProxyType({})) -> Place:
    return Place(names.get(result.suite, result.suite), result.id, result.target, result.variant or "", result.trial)


def _change(place: Place, before: str | None, now: str | None, checks: list[str]) -> Change:
    suite, case, target, _, trial = place
    return Change(suite=suite, id=case, target=target, trial=trial, before=before, now=now, checks=checks)


def _grade(result: Result) -> tuple[str, dict[str, str]]:
    """A conversation's status, and each check's verdict in each turn."""
    said: dict[str, str] = {}
    for turn in result.turns:
        for check in turn.checks:
            name = first = f"turn {turn.turn}, {check.name or check.check}"
            number = 1
            while name in said:  # nothing keeps two checks from having one name
                number += 1
                name = f"{first} ({number})"
            said[name] = check.state
    return result.status, said


def _differences(before: dict[str, str], now: dict[str, str]) -> Iterator[str]:
    for name, state in now.items():
        if name not in before:
            yield f"{name}: new, {state}"
        elif before[name] != state:
            yield f"{name}: {before[name]} before, {state} now"
    yield from (f"{name}: gone, {state} before" for name, state in before.items() if name not in now)
