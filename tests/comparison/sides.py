"""Runs to compare, made of results that tests write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rejoinder.comparison.compare import compare_pairs
from rejoinder.comparison.sides import Side
from rejoinder.model import RawRequest, Result, UsageResult
from rejoinder.model.comparisons import RunComparison
from tests.report.exports import check, failed, in_error, result, turn

Outcomes = Mapping[str, Sequence[str]]
"""How the trials of each case ended: p(assed), r(ecovered), f(ailed), e(rror), s(kipped)."""


def one(case: str, outcome: str, trial: int = 1, **more: Any) -> Result:
    """A conversation; its question is that of its case."""
    more = {"raw_request": RawRequest(f"Question {case}", "", None), "trial": trial, "tags": (), **more}
    lost = {"status": "failed", "passed": False, "succeeded_on_turn": None}
    wrong = turn("no", passed=False, checks=(check(False),))
    match outcome:
        case "p":
            return result(case, turn("yes"), **more)
        case "r":
            return result(case, wrong, turn("yes", 2, prompt="Again."), **{"succeeded_on_turn": 2, **more})
        case "f":
            return failed(case, **more)
        case "g":  # failed although it was answered back
            again = turn("no", 2, prompt="Again.", passed=False, checks=(check(False),))
            return result(case, wrong, again, **{**lost, **more})
        case "e":
            return in_error(case, **more)
        case _:
            return result(case, **{**lost, "status": "skipped", "turns": (), "usage": UsageResult(0, 0, 0), **more})


def conversation(case: str, *said: tuple[str, str, bool], passed: bool) -> Result:
    """A conversation by its turns: what was asked, what was answered, and whether that passed."""
    turns = [
        turn(reply, number, prompt=prompt, passed=good, checks=(check(good),))
        for number, (prompt, reply, good) in enumerate(said, 1)
    ]
    ended: dict[str, Any] = {} if passed else {"status": "failed", "passed": False}
    return result(case, *turns, succeeded_on_turn=len(turns) if passed else None, **ended)


def results(outcomes: Outcomes, **more: Any) -> list[Result]:
    return [
        one(case, outcome, trial, number=number, **more)
        for number, (case, trials) in enumerate(outcomes.items(), 1)
        for trial, outcome in enumerate(trials, 1)
    ]


def compare_sides(a: Side, b: Side, **more: Any) -> RunComparison:
    [found] = compare_pairs([(a, b)], **more)
    return found


def compared(
    a: Sequence[Result] | Outcomes, b: Sequence[Result] | Outcomes, names: str = "AB", **more: Any
) -> RunComparison:
    listed = (results(one) if isinstance(one, Mapping) else one for one in (a, b))
    first, second = (Side(name, one) for name, one in zip(names, listed, strict=True))
    return compare_sides(first, second, **more)
