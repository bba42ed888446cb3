"""What every check is given, and how its verdict is written.

A check is a function of the check's values and a `Context`. Those that only look at the reply are plain functions;
those that must ask somebody are coroutines. None keeps anything between calls.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol

from msgspec import Struct

from rejoinder.model import Case, Check, Failure, Reply, State, Verdict


class JudgePort(Protocol):
    """How a check asks a judge: with the texts it is shown, and for a check that names a target, that target."""

    def __call__(self, system: str, user: str, target: str | None) -> Awaitable[Reply | Failure]: ...


class Context(Struct, frozen=True):
    """All that a check may look at."""

    case: Case
    reply: Reply
    turn: int
    question: Any
    """Called for the question of this turn: the conversation as judges see it."""
    ask_judge: JudgePort


class Reach(Struct, frozen=True):
    """What a check needs beyond the reply."""

    judge: bool = False
    code: bool = False


def verdict(check: Check, label: str, passed: bool, reason: str, **more: Any) -> Verdict:
    state: State = "passed" if passed else "failed"
    score = more.pop("score", 1.0 if passed else 0.0)
    return Verdict(check=label, state=state, score=score, reason=reason, name=check.name, **more)


def error_verdict(check: Check, label: str, reason: str, **more: Any) -> Verdict:
    return Verdict(check=label, state="error", score=None, reason=reason, name=check.name, **more)
