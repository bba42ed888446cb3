"""What goes to a provider and what comes back."""

from __future__ import annotations

from msgspec import Struct

from rejoinder.model.messages import ChatMessage


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens as the provider counted them. `approximate` says that nobody counted and we estimated."""

    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    """Part of the output tokens."""
    approximate: bool = False

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.approximate or other.approximate,
        )


NO_USAGE = Usage()


def estimate_usage(sent: int, received: int) -> Usage:
    """Tokens where nobody counted: a quarter of the characters, rounded up."""
    return Usage(-(-sent // 4), -(-received // 4), approximate=True)


class Request(Struct, frozen=True, kw_only=True):
    """One call of a provider. `messages` is the whole conversation so far; `question` is turn 1 as a transcript."""

    target: str
    case_id: str
    trial: int
    turn: int
    call: int
    """How many calls this conversation has made of this kind before this one, retries among them."""
    messages: tuple[ChatMessage, ...]
    question: str
    judging: bool = False
    """Is a judge asked, and not the candidate?"""


class Reply(Struct, frozen=True, omit_defaults=True):
    text: str
    usage: Usage = NO_USAGE
    cost: float | None = None
    """In US dollars; None where nobody knows."""
    latency_s: float = 0.0
    model: str | None = None
    finish_reason: str | None = None


class Failure(Struct, frozen=True, omit_defaults=True):
    """A call that ended in an error for good."""

    type: str
    message: str
    status: int | None = None
