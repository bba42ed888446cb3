"""Results of conversations to count and to show: doubted, hinted, put in pieces, with simulated users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rejoinder.model import Condition, Result, Spoilt, TurnResult, UsageResult, UserResult
from rejoinder.model.results import AskedBy
from tests.report.exports import check, result, turn

DOUBT = {"doubts": True}


def turns_of(*verdicts: bool, **more: Any) -> tuple[TurnResult, ...]:
    """A question, and a follow-up for each further verdict, sent to the reply before it."""
    return tuple(
        turn(
            number=number,
            passed=passed,
            checks=(check(passed),),
            **({"asked_by": AskedBy(number - 1, (0,)), **more} if number > 1 else {}),
        )
        for number, passed in enumerate(verdicts, 1)
    )


def ended(name: str, turns: tuple[TurnResult, ...], *, number: int = 1, trial: int = 1, **more: Any) -> Result:
    passed = turns[-1].passed
    known = {"status": "passed" if passed else "failed", "passed": passed, "score": float(passed)}
    return result(name, *turns, **{**known, "number": number, "trial": trial, **more})


def doubted(name: str, *verdicts: bool, **more: Any) -> Result:
    return ended(name, turns_of(*verdicts, **DOUBT), **more)


def put(task: str, condition: Condition, passes: Sequence[bool], number: int) -> list[Result]:
    return [
        ended(f"{task}/{condition}", turns_of(passed), number=number, trial=trial, condition=condition)
        for trial, passed in enumerate(passes, 1)
    ]


def simulated(spoilt: Any, **more: Any) -> UserResult:
    known: dict[str, Any] = {"turns": 2, "stopped_by": "word", "usage": UsageResult(10, 5, 15), "cost": 0.25}
    return UserResult(spoilt=spoilt, target="guest", **{**known, **more})


LEAK = Spoilt("leak", 2, "it gives the answer away")
