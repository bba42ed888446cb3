"""Conversations that continue after a right reply: planned turns, simulated users, and conversation checks.

A plan is a list of steps. Each step is sent whatever the previous reply was, and has its own level: the conditions for
its reply, and the follow-ups. A simulated user invents its next words itself.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from msgspec import Struct

from rejoinder.model.checks import AnyCheck, Check, Judged, Level, Quote, ReplyPart
from rejoinder.model.messages import Role
from rejoinder.model.pictures import Picture
from rejoinder.model.tools import Tool

OnFailure: TypeAlias = Literal["stop", "continue"]
Aggregation: TypeAlias = Literal["mean", "min", "max"]
PassSteps: TypeAlias = Literal["all", "aggregate"]
Manner: TypeAlias = Literal["patient", "terse", "drip", "frustrated"]
Condition: TypeAlias = Literal["full", "concat", "sharded"]
"""The form of a sharded task: whole, in one message of all its pieces, or one piece per turn."""


class Extract(Check, frozen=True, kw_only=True, tag="extract"):
    """Takes a value out of a step's reply, for the words of later turns. If it finds none, the step fails."""

    variable: str
    path: str | None = None
    """A JSON path; otherwise a regular expression is used: its first group, or the whole match."""
    pattern: str | None = None


MARK = "\ue000"
MARKED = re.compile("\ue000(\\w+)\ue001")
"""The place in a check for a value that an earlier turn extracts: its name between two characters that no text
contains."""


def mark_of(name: str) -> str:
    return f"\ue000{name}\ue001"


class Attached(Struct, frozen=True, tag="attached"):
    """A file in a message of a planned turn."""

    path: str
    text: str


class AttachedPicture(Struct, frozen=True, tag="picture", omit_defaults=True):
    """A picture in a message of a planned turn."""

    picture: Picture
    resolved: str | None = None
    """The absolute path, if it is a file."""
    reference: str = ""
    """It takes the place of the picture in texts, once the plan is formatted."""


class Words(Struct, frozen=True):
    """A message of a planned turn: texts, quotes of earlier words, files and pictures."""

    role: Role
    pieces: tuple[str | Quote | Attached | AttachedPicture, ...]


class Step(Struct, frozen=True, kw_only=True):
    """A planned turn."""

    at: str
    level: Level = Level()
    name: str = ""
    says: tuple[Words, ...] = ()
    """Its messages; the first step has the case's messages."""
    expected: str | None = None
    """The reference answer of its judges."""
    context: tuple[str, ...] | None = None
    """The texts that a good answer to it is based on; the case's by default."""
    extracts: tuple[Extract, ...] = ()
    window_size: int | None = None
    """Number of turns that the model sees, including this one; all by default."""
    reply: ReplyPart | None = None
    """The part of its replies that is checked; the case's by default."""
    tools: tuple[Tool, ...] | None = None
    """The tools that are offered in it and its follow-ups; the tools of suite and case by default."""
    needs: tuple[str, ...] = ()
    """The extracted values that its words or checks use."""


class Plan(Struct, frozen=True, kw_only=True):
    steps: tuple[Step, ...]
    on_failure: OnFailure = "stop"
    aggregation: Aggregation = "mean"
    pass_steps: PassSteps = "all"
    threshold: float = 0.5
    """The minimum aggregated score to pass the plan, with `pass_steps: aggregate`."""


class User(Struct, frozen=True, kw_only=True):
    """A simulated user: a model invents its words."""

    at: str
    target: str
    persona: str = ""
    goal: str = ""
    knows: str = ""
    """Facts that it may tell if asked."""
    opening: str = ""
    """Its first words; by default it invents them itself."""
    manner: Manner = "patient"
    max_turns: int = 10
    stop: str | None = None
    """The word by which it ends the conversation."""
    reached: AnyCheck | None = None
    """A check of the reply that ends the conversation: the goal is reached."""
    audit: str | None = None
    """The target that judges whether it kept to its role."""


class UserAudit(Judged, frozen=True, kw_only=True, tag="audit"):
    """Asks a judge whether a simulated user kept to its role and instructions."""

    user: User


Over: TypeAlias = Literal["last", "transcript", "always", "never", "by_turn", "after", "before"]
OVER_TIME: tuple[Over, ...] = ("always", "never", "by_turn", "after", "before")
"""Checks of several replies."""
"""The part of a conversation that a check reads, and when the check must hold."""


class ConversationCheck(Struct, frozen=True, kw_only=True):
    """A check of a whole conversation."""

    over: Over
    checks: tuple[AnyCheck, ...]
    """The check; for `after` (when, then) and `before` (first, second) both of them."""
    at: str
    turn: int | None = None
    """For `by_turn`: the last turn on which it may pass."""
    turns: tuple[int, int] | None = None
    """The first and the last turn to check; all by default."""
    final: bool = False
    """Whether only the last reply of each step counts. Turn numbers are step numbers then."""
    name: str | None = None
    weight: float = 1.0
    required: bool = False
    metric: str | None = None
