"""What every check is given, and how its verdict is written.

A check is a function of the check's values and a `Context`. Those that only look at the reply are plain functions;
those that must ask somebody are coroutines. None keeps anything between calls.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol

from msgspec import Struct

from rejoinder.model import Case, Check, Failure, Prompt, Reply, State, Verdict


class Port(Protocol):
    """How a check that needs more than the reply reaches it."""

    def question(self) -> Prompt:
        """The question of this turn: the conversation as judges see it."""
        ...

    def ask_judge(self, system: str, user: str, target: str | None) -> Awaitable[Reply | Failure]:
        """Ask a judge with the texts it is shown; a check may name the target."""
        ...


class Context(Struct, frozen=True):
    """All that a check may look at."""

    case: Case
    reply: Reply
    turn: int
    port: Port


class Reach(Struct, frozen=True):
    """What a check needs beyond the reply."""

    judge: bool = False
    code: bool = False


def verdict(check: Check, label: str, passed: bool, reason: str) -> Verdict:
    """The verdict of a check that either passes or fails."""
    if passed:
        return Verdict(check=label, state="passed", score=1.0, reason=reason, name=check.name)
    return Verdict(check=label, state="failed", score=0.0, reason=reason, name=check.name)


def scored_verdict(check: Check, label: str, passed: bool, reason: str, **more: Any) -> Verdict:
    """The verdict of a check that has a score of its own, or children, or a judge's words."""
    state: State = "passed" if passed else "failed"
    return Verdict(check=label, state=state, reason=reason, name=check.name, **more)


def error_verdict(check: Check, label: str, reason: str, **more: Any) -> Verdict:
    return Verdict(check=label, state="error", score=None, reason=reason, name=check.name, **more)
