"""Calls: their kinds and keys, what goes to a provider, what comes back and what it costs in US dollars."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, TypeAlias, get_args

from msgspec import Meta, Struct, structs

from rejoinder.model.messages import ChatMessage, ToolCall, WantedBack
from rejoinder.model.tools import Offered

Kind: TypeAlias = Literal["candidate", "judge", "rival", "embedding", "user", "tool", "work", "webhook"]
"""What a call is for. A rival is asked for a reply to compare the candidate's with; `work` is a script or function of a
check on this machine."""
ALL_KINDS: frozenset[Kind] = frozenset(get_args(Kind))


LATEST = 253_402_300_799.0
"""The last second of the year 9999: recordings may come from elsewhere, and later times cannot be written."""
MOST_TOKENS = 1 << 31
"""Tokens of one call. More is a mistake of what counted them."""


class Key(NamedTuple):
    """What the journal knows a call by: its kind, a digest of all that the answer depends on, and an ordinal among
    equal calls of a conversation."""

    kind: Kind
    digest: str
    ordinal: int = 0

    def __str__(self) -> str:
        return f"{self.kind}-{self.digest}-{self.ordinal}"


def key_kind(key: str) -> str:
    """The kind of a recorded call."""
    return key.partition("-")[0]


class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens as the provider counted them. `approximate` says that they were not counted, but estimated."""

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

    def possible(self) -> Usage:
        """The same, or, where a number cannot be right, the nearest one that can, as an approximation."""
        counts = (
            self.input_tokens,
            self.output_tokens,
            self.reasoning_tokens,
            self.cached_tokens,
            self.cache_write_tokens,
        )
        if min(counts) >= 0 and max(counts) <= MOST_TOKENS and not any(isinstance(count, bool) for count in counts):
            return self
        given, made, thought, cached, written = (int(min(max(count, 0), MOST_TOKENS)) for count in counts)
        return Usage(given, made, thought, True, cached, written)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.approximate or other.approximate,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )

    def since(self, before: Usage) -> Usage:
        """What was used after `before`, where both are sums. One that is smaller than it was began anew."""
        if self.input_tokens < before.input_tokens or self.output_tokens < before.output_tokens:
            return self
        return Usage(
            self.input_tokens - before.input_tokens,
            self.output_tokens - before.output_tokens,
            max(self.reasoning_tokens - before.reasoning_tokens, 0),
            self.approximate,
            max(self.cached_tokens - before.cached_tokens, 0),
            max(self.cache_write_tokens - before.cache_write_tokens, 0),
        )


NO_USAGE = Usage()


def estimate_usage(sent: int, received: int) -> Usage:
    """Tokens that no provider counted: a quarter of the characters, rounded up."""
    return Usage(-(-sent // 4), -(-received // 4), approximate=True)


MILLION = 1_000_000
Dollars: TypeAlias = Annotated[float, Meta(ge=0)]


class Cost(Struct, frozen=True, gc=False):
    input: float
    output: float

    @property
    def total(self) -> float:
        return self.input + self.output

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.input + other.input, self.output + other.output)


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dollars for a million tokens. Reasoning is output, as every API bills it."""

    input: Dollars
    output: Dollars
    cached: Dollars | None = None
    """Input that was read from a cache; None: the same as other input."""
    cache_write: Dollars | None = None
    """Input that was written to a cache; None: the same as other input."""

    def cost(self, usage: Usage) -> Cost:
        cached, written = usage.cached_tokens, usage.cache_write_tokens
        # A server that counts its cached tokens apart from its input must not make a call cheaper than free.
        fresh = max(usage.input_tokens - cached - written, 0)
        read = self.input if self.cached is None else self.cached
        write = self.input if self.cache_write is None else self.cache_write
        return Cost(
            (fresh * self.input + cached * read + written * write) / MILLION,
            usage.output_tokens * self.output / MILLION,
        )


class AttachedFile(Struct, frozen=True, gc=False):
    """A file of a case. `path` is as the transcript has it."""

    path: str
    source: str
    """Where it lies, as an absolute path."""
    guideline: bool = False


class Brief(Struct, frozen=True, gc=False, kw_only=True):
    """What an agent is given at a turn, which reads one text and opens files itself."""

    prompt: str
    """The conversation so far as a transcript, files by reference."""
    system_prompt: str = ""
    guidelines: str = ""
    files: tuple[AttachedFile, ...] = ()
    """The case's files, guidelines first."""


class Request(Struct, frozen=True, gc=False, kw_only=True):
    """One call of a provider. `messages` is the whole conversation so far; `question` is turn 1 as a transcript."""

    target: str
    case_id: str
    trial: int
    turn: int
    call: int
    """How many calls this conversation has made of this kind before this one, retries among them."""
    messages: tuple[ChatMessage, ...]
    question: str
    kind: Kind = "candidate"
    embed: str | None = None
    """The text whose meaning is wanted as a vector; there are no messages then."""
    key: str = ""
    """What the journal knows this call by. Providers send it along, so that a call in doubt can be looked up."""
    suite: str = ""
    """The file of the suite whose conversation it is."""
    variant: str = ""
    """The variant of the suite whose settings the target has, if they are not its own."""
    brief: Brief | None = None
    """The same turn for an agent; None where the target is none, or does not answer as the candidate."""
    conversation_id: str = ""
    """The same for all turns of a conversation, and no other's; after a resume too, unless it had to begin anew."""
    case_conversation_id: str = ""
    """The `conversation_id` that the case has of its author; empty if it has none."""
    new: int = 0
    """How many of the messages, at their end, were not sent before; 0: the conversation begins."""
    session: str | None = None
    """The target's own name for the conversation, as its last reply gave it."""
    tools: tuple[Offered, ...] = ()
    """What the model may call."""

    @property
    def new_messages(self) -> tuple[ChatMessage, ...]:
        """What a target that keeps the conversation itself has to be told."""
        return self.messages[-self.new :] if self.new else self.messages

    @property
    def judging(self) -> bool:
        """True if a judge is called, and not the candidate."""
        return self.kind == "judge"


class Reply(Struct, frozen=True, gc=False, omit_defaults=True):
    text: str
    usage: Usage = NO_USAGE
    cost: float | None = None
    """In US dollars; None if it is not known."""
    latency_s: float | None = 0.0
    """Seconds; 0: the engine measures them. None: not known, as of a recording that does not tell."""
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
    """The meaning of a text, if that was asked for: 32-bit floats, least significant byte first."""
    cached: bool = False
    """True if it comes from the cache: its tokens and its cost are those of an earlier call."""
    started_at: Annotated[float, Meta(ge=0, le=LATEST)] | None = None
    """When the call was first made, in seconds since 1970; None if it was not made by this run."""
    retries: int = 0
    waited_s: float = 0.0
    """Time spent waiting for limits, a budget or a retry."""
    session: str | None = None
    """The target's own name for the conversation, where it keeps that itself."""
    stop_reason: str | None = None
    """Why an agent stopped, in its own word."""
    workspace_diff: str | None = None
    """What an agent has changed in its workspace since the beginning; None if it has none."""
    continued: bool = False
    """Did the target go on with its session after the run had been killed?"""
    before: tuple[ChatMessage, ...] = ()
    """What the model said and was told by its tools before it came to this reply. Only a whole turn has it: the
    replies that it is made of are recorded one by one."""
    wanted_back: WantedBack | None = None

    def as_recorded(self) -> Reply:
        """The reply as its provider gave it, wherever it came from this time."""
        return structs.replace(self, cached=False, started_at=None, retries=0, waited_s=0.0)


NO_RECORDING = "no-recording"
"""The type of a Failure: something was asked that is not recorded."""
CUT_OFF = "cut-off"
"""The type of a Failure: a conversation that its target, or a tool, keeps itself was cut off at this turn, and begins
anew."""
_UNREACHED = frozenset({"connection", "dns", "tls", "address"})
_REFUSALS = frozenset({429, 503, 529})


def was_turned_away(type: str, status: int | None) -> bool:
    """Whether it is certain that the called one has not read what was said."""
    return type in _UNREACHED or status in _REFUSALS


class Failure(Struct, frozen=True, gc=False, omit_defaults=True):
    """A call that ended in an error for good."""

    type: str
    message: str
    status: int | None = None

    @property
    def was_turned_away(self) -> bool:
        return was_turned_away(self.type, self.status)
