"""Runs for boards: how the cases of each target went, in letters."""

from __future__ import annotations

from msgspec import structs

from rejoinder.model import Result
from tests.report.exports import MadeRun, check, failed, in_error, made_run, result, turn

LISTENS, CANNOT, STUCK, FEW = "r" * 10 + "lf", "rrrsllaallf", "a" * 10 + "rf", "rlf"
WRONG = turn("100", passed=False, checks=(check(False),))


def one(way: str, case: str, target: str = "demo", **more: object) -> Result:
    """`f` passed at once, `r` recovered, `s` recovered and would have passed when asked again, `l` lost, `a` lost and
    would have passed when asked again, `e` ended in an error."""
    control = turn(passed=way in "sa", checks=(check(way in "sa"),))
    known = {"target": target, **more}
    match way:
        case "f":
            return result(case, **known)
        case "e":
            return in_error(case, **known)
        case "r" | "s":
            return result(case, WRONG, turn(number=2), succeeded_on_turn=2, control=control, **known)
        case _:
            lost = turn("100", 2, passed=False, checks=(check(False),))
            return structs.replace(failed(case, **known), turns=(WRONG, lost), control=control)


def run_of(ways: dict[str, str], **more: object) -> MadeRun:
    """Each target or variant with how its cases went."""
    results = [one(way, f"c{place}", name) for name, each in ways.items() for place, way in enumerate(each)]
    return made_run(sorted(results, key=lambda made: int(made.id[1:])), **more)
