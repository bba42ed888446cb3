"""Conversations that go on when the reply is right: planned turns, simulated users, and checks of the whole.

A plan is a list of steps. Each is said however the reply before was, and has a level of its own: what its reply has to
satisfy, and the follow-ups that answer back. A simulated user thinks of the next words itself.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from msgspec import Struct

from rejoinder.model.checks import AnyCheck, Check, Judged, Level, Quote
from rejoinder.model.messages import Role

OnFailure: TypeAlias = Literal["stop", "continue"]
Aggregation: TypeAlias = Literal["mean", "min", "max"]
PassSteps: TypeAlias = Literal["all", "aggregate"]
Manner: TypeAlias = Literal["patient", "terse", "drip", "frustrated"]
Condition: TypeAlias = Literal["full", "concat", "sharded"]
"""How a sharded task is put: whole, in one message of all its pieces, or a piece a turn."""


class Extract(Check, frozen=True, kw_only=True, tag="extract"):
    """Takes a value out of a step's reply, for the words of later turns. Where it finds none, the step fails."""

    variable: str
    path: str | None = None
    """A JSON path, or else a regular expression: its first group, or all that it matches."""
    pattern: str | None = None


MARK = "\ue000"
MARKED = re.compile("\ue000(\\w+)\ue001")
"""The place in a check where a value comes that an earlier turn extracts: its name between two characters that no text
has."""


def mark_of(name: str) -> str:
    return f"\ue000{name}\ue001"


class Attached(Struct, frozen=True, tag="attached"):
    """A file in a message of a planned turn."""

    path: str
    text: str


class Words(Struct, frozen=True):
    """A message of a planned turn: texts, quotes of what was said before, and files."""

    role: Role
    pieces: tuple[str | Quote | Attached, ...]


class Step(Struct, frozen=True, kw_only=True):
    """A planned turn."""

    at: str
    level: Level = Level()
    name: str = ""
    says: tuple[Words, ...] = ()
    """Its messages; those of the first step are the case's."""
    expected: str | None = None
    """The reference answer of its judges."""
    extracts: tuple[Extract, ...] = ()
    window_size: int | None = None
    """How many turns the model is shown, this one among them; all of them unless given."""
    needs: tuple[str, ...] = ()
    """The extracted values that its words or checks have places for."""


class Plan(Struct, frozen=True, kw_only=True):
    steps: tuple[Step, ...]
    on_failure: OnFailure = "stop"
    aggregation: Aggregation = "mean"
    pass_steps: PassSteps = "all"
    threshold: float = 0.5
    """The least aggregated score with which the plan passes, with `pass_steps: aggregate`."""


class User(Struct, frozen=True, kw_only=True):
    """A user whose words a model thinks of."""

    at: str
    target: str
    persona: str = ""
    goal: str = ""
    knows: str = ""
    """What it may tell, if it is asked."""
    opening: str = ""
    """Its first words; it thinks of them itself unless given."""
    manner: Manner = "patient"
    max_turns: int = 10
    stop: str | None = None
    """The word by which it ends."""
    reached: AnyCheck | None = None
    """A check of the reply that ends it: the goal is reached."""
    audit: str | None = None
    """The target that judges whether it kept to its role."""


class UserAudit(Judged, frozen=True, kw_only=True, tag="audit"):
    """Asks a judge whether a simulated user kept to its role and to what it was told."""

    user: User


Over: TypeAlias = Literal["last", "transcript", "always", "never", "by_turn", "after", "before"]
"""What of a conversation a check looks at, and when it has to hold."""


class ConversationCheck(Struct, frozen=True, kw_only=True):
    """A check of a whole conversation."""

    over: Over
    checks: tuple[AnyCheck, ...]
    """The check; the two of `after` (when, then) and `before` (first, second)."""
    at: str
    turn: int | None = None
    """Of `by_turn`: the last turn on which it may pass."""
    turns: tuple[int, int] | None = None
    """The turns that it looks at, from the first to the last of them; all unless given."""
    final: bool = False
    """Is only the last reply of each step looked at? Turns are steps then."""
    name: str | None = None
    weight: float = 1.0
    required: bool = False
    metric: str | None = None
