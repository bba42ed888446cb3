"""What goes to a provider and what comes back."""

from __future__ import annotations

from msgspec import Struct

from rejoinder.model.messages import ChatMessage, ToolCall
from rejoinder.model.prices import Cost


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens as the provider counted them. `approximate` says that nobody counted and we estimated."""

    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    """Part of the output tokens."""
    approximate: bool = False
    cached_tokens: int = 0
    """Part of the input tokens: read from the provider's cache, and cheaper."""
    cache_write_tokens: int = 0
    """Part of the input tokens: written to the provider's cache."""

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.approximate or other.approximate,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
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
    embed: str | None = None
    """The text whose meaning is wanted as a vector; there are no messages then."""
    key: str = ""
    """What the journal knows this call by. Providers send it along, so that a call in doubt can be looked up."""
    suite: str = ""
    """The file of the suite whose conversation it is."""


class Reply(Struct, frozen=True, omit_defaults=True):
    text: str
    usage: Usage = NO_USAGE
    cost: float | None = None
    """In US dollars; None where nobody knows."""
    latency_s: float = 0.0
    model: str | None = None
    """The model that the provider says has answered."""
    finish_reason: str | None = None
    """`stop`, `length`, `tool_calls`, `content_filter`, `refusal`, or the provider's own word."""
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: str | None = None
    """What the model thought before it answered, where the provider shows it. It is not part of the reply."""
    refusal: bool = False
    """Does the provider mark the reply as a refusal?"""
    request_id: str | None = None
    """The provider's name for the call."""
    price: Cost | None = None
    """The cost, split into input and output."""
    vector: bytes = b""
    """The meaning of a text, where that was asked for: 32-bit floats, least significant byte first."""
    cached: bool = False
    """Does it come from the cache? Then its tokens and its cost are those of an earlier call."""


class Failure(Struct, frozen=True, omit_defaults=True):
    """A call that ended in an error for good."""

    type: str
    message: str
    status: int | None = None
