"""What a check of the user's own is given: scripts and webhooks as JSON, functions as an object.

The first seven fields are those of AgentV's code evaluators, by their names there; `question` is the one that the
candidate received.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from rejoinder.model.calls import NO_USAGE, Usage
from rejoinder.model.messages import ChatMessage, ToolCall


class Segment(Struct, frozen=True, omit_defaults=True):
    """A piece of the case's messages: a text, or a file with its path as written, its content and where it lies."""

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
    """The conversation up to this reply, exactly as the candidate received it."""
    expected_outcome: str
    reference_answer: str
    candidate_answer: str
    """The reply that is checked."""
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
    """Every turn so far, the one that is checked last."""
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
        """The reply that is checked."""
        return self.candidate_answer


class Opinion(Struct, frozen=True, kw_only=True):
    """What a check of the user's own thinks of a reply. Without a score it is 1 for passed and 0 for failed; without
    `passed` the score is held against the check's threshold."""

    passed: bool | None = None
    score: float | None = None
    reason: str = ""
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
