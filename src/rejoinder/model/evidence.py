"""The input of the user's own checks: JSON for scripts and webhooks, an object for functions.

The first seven fields are those that AgentV's code evaluators get, by their names there; `question` is the one that the
target received.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from rejoinder.model.calls import NO_USAGE, Usage
from rejoinder.model.messages import ChatMessage, ToolCall


class Segment(Struct, frozen=True, omit_defaults=True):
    """A piece of the case's messages: a text, a file with its written path, its content and its location, or a picture
    without its content."""

    type: str
    value: str = ""
    path: str = ""
    text: str = ""
    resolved_path: str = field(name="resolvedPath", default="")


class Said(Struct, frozen=True):
    """One turn of the conversation."""

    turn: int
    prompt: str
    response: str


class Evidence(Struct, frozen=True, kw_only=True):
    question: str
    """The conversation up to this reply, exactly as the target received it."""
    expected_outcome: str
    reference_answer: str
    candidate_answer: str
    """The reply to check."""
    guideline_paths: tuple[str, ...] = ()
    input_files: tuple[str, ...] = ()
    input_segments: tuple[Segment, ...] = ()
    case_id: str = ""
    name: str | None = None
    tags: tuple[str, ...] = ()
    vars: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    target: str = ""
    trial: int = 1
    turn: int = 1
    turns: tuple[Said, ...] = ()
    """Every turn so far; the last one is checked."""
    input_messages: tuple[ChatMessage, ...] = ()
    expected_messages: tuple[ChatMessage, ...] = ()
    guidelines: str = ""
    model: str | None = None
    finish_reason: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = NO_USAGE
    cost: float | None = None
    latency_s: float = 0.0

    @property
    def reply(self) -> str:
        """The reply to check."""
        return self.candidate_answer


class Opinion(Struct, frozen=True, kw_only=True):
    """The verdict of a user's own check. Without a score it is 1 for passed and 0 for failed; without `passed` the
    check's threshold decides by the score."""

    passed: bool | None = None
    score: float | None = None
    reason: str = ""
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
