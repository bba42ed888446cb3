"""What a conversation starts from, what it asks of the world, and what it is answered.

Ask       is answered by a Reply, by a Failure, which ends the conversation as `error`, or by Stop
Simulate  likewise, with the words of the simulated user
Grade     is answered by the verdicts on the checks, in order, or by Stop
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

from msgspec import Struct

from rejoinder.model import (
    AnyCheck,
    ChatMessage,
    Control,
    ConversationCheck,
    Failure,
    FollowUps,
    Level,
    Outcome,
    Plan,
    Reply,
    User,
    Verdict,
)
from rejoinder.model.checks import ReplyPart
from rejoinder.model.forks import Fork


class Stop(Struct, frozen=True):
    """No answer will come: the conversation ends with the turns that it has."""

    reason: str = ""


class Opening(Struct, frozen=True):
    """How a conversation starts, and the rules it keeps to."""

    question: str
    messages: tuple[ChatMessage, ...]
    level: Level
    followups: FollowUps = "first"
    max_turns: int | None = None
    fork: Fork | None = None
    control: Control | None = None
    plan: Plan | None = None
    """Its steps say words without files: those were put in before."""
    user: User | None = None
    conversation_checks: tuple[ConversationCheck, ...] = ()
    reply: ReplyPart | None = None
    """The part of the replies that is checked, unless a planned turn names another."""


class Ask(Struct, frozen=True, gc=False):
    turn: int
    messages: tuple[ChatMessage, ...]
    afresh: bool = False
    """Asked beside the conversation, as a control: nothing of it is said in the conversation."""
    new: int = 1
    """How many of the messages, at their end, were not sent before."""
    window: int | None = None
    """How many turns are shown, if that is not all of them."""
    step: int | None = None
    """The planned turn that it belongs to."""


class Simulate(Struct, frozen=True, gc=False):
    """Ask the simulated user for its next words."""

    turn: int
    """The turn that it answers."""
    prompts: tuple[str, ...]
    """What it has said, its opening included."""
    replies: tuple[str, ...]


class Grade(Struct, frozen=True, gc=False):
    turn: int
    checks: tuple[AnyCheck, ...]
    reply: Reply
    messages: tuple[ChatMessage, ...]
    """What the candidate was sent."""
    prompts: tuple[str, ...]
    """What was said to the candidate after the opening, up to this turn."""
    replies: tuple[str, ...]
    """What it answered, this turn's reply last."""
    expected: str | None = None
    """The reference answer of this turn, if it is not the case's."""
    opened: str = ""
    """The first words, where a simulated user thought of them."""
    part: ReplyPart | None = None
    """The part of the reply that is judged; None: the whole."""
    heard: tuple[Reply, ...] = ()
    """The replies so far, this turn's last."""
    whole: bool = False
    """Whether the transcript is judged, and not this turn's reply."""
    context: tuple[str, ...] | None = None
    """The context of this turn, if it is not the case's."""


Effect: TypeAlias = Ask | Simulate | Grade
Answer: TypeAlias = Reply | Failure | Stop | tuple[Verdict, ...]
Conversation: TypeAlias = Generator[Effect, Answer, Outcome]
