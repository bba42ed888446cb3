"""What a conversation came to: verdicts, turns, results. These are the objects of `results.jsonl`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from rejoinder.model.calls import NO_USAGE, Reply, Usage
from rejoinder.model.messages import ChatMessage
from rejoinder.model.prompts import Diagnostic

Status: TypeAlias = Literal["passed", "failed", "error", "skipped"]
State: TypeAlias = Literal["passed", "failed", "error"]
Span: TypeAlias = tuple[int, int]
"""A part of a reply, from the first code point to the one behind the last."""


def reaches(mean: float, wanted: float) -> bool:
    """Does a mean of scores reach a threshold? Three times 0.7 are a little less than 0.7 in the sums of computers."""
    return mean >= wanted - 1e-9


class Verdict(Struct, frozen=True, kw_only=True):
    """What a check says of a reply. A check in error has neither passed nor failed."""

    check: str
    """The kind and its value as written: `match *72*`."""
    state: State
    score: float | None
    reason: str
    kind: str = ""
    """The check's key in a suite: `match`; `criterion` and `order` for the parts of a judge's verdict."""
    value: float | bool | None = None
    """The check's value where it is a number or a truth value; a text stands in `check` alone."""
    spans: tuple[Span, ...] = ()
    """Where in the reply, as it came, the check found what it looked for."""
    calls: tuple[str, ...] = ()
    """The journal keys of the calls that the verdict came from."""
    name: str | None = None
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str | None = None
    children: tuple[Verdict, ...] = ()
    usage: Usage = NO_USAGE
    """What judges used."""
    cost: float | None = None

    diagnostics: tuple[Diagnostic, ...] = ()
    judged: bool = False
    """Was a model asked for it?"""
    judge: str | None = None
    """The target that judged."""
    judged_by: str | None = None
    """What the judge was told to do, as a digest: a judge's passport holds for it alone."""
    threshold: float | None = None
    """The least score that passes, where the score is not 0 or 1."""
    votes: tuple[float, ...] = ()
    """The scores of the single votes, where there were several."""
    metric: str | None = None

    @property
    def passed(self) -> bool:
        return self.state == "passed"


class Turn(Struct, frozen=True, kw_only=True):
    turn: int
    depth: int
    prompt: str
    passed: bool
    reply: Reply | None = None
    """None where the call failed."""
    verdicts: tuple[Verdict, ...] = ()
    messages: tuple[ChatMessage, ...] = ()
    """The list that was sent."""

    @property
    def response(self) -> str | None:
        return None if self.reply is None else self.reply.text

    @property
    def usage(self) -> Usage:
        return NO_USAGE if self.reply is None else self.reply.usage


class Trouble(Struct, frozen=True, kw_only=True):
    """Why a conversation ended as `error`."""

    type: str
    message: str
    turn: int
    status: int | None = None


class Outcome(Struct, frozen=True, kw_only=True):
    """How a conversation ended, whoever had it."""

    status: Status
    turns: tuple[Turn, ...] = ()
    score: float | None = None
    succeeded_on_turn: int | None = None
    error: Trouble | None = None

    @property
    def has_undecided_judge(self) -> bool:
        """True if a judge was called and came to no verdict."""
        verdicts = [verdict for turn in self.turns for verdict in turn.verdicts]
        while verdicts:
            verdict = verdicts.pop()
            if verdict.state == "error" and verdict.judged:
                return True
            verdicts += verdict.children
        return False
