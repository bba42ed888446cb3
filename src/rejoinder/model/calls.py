"""Calls: their kinds and keys, their requests and replies, and their cost in US dollars."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, TypeAlias, get_args

from msgspec import Meta, Struct, structs

from rejoinder.model.messages import ChatMessage, ToolCall, WantedBack
from rejoinder.model.pictures import MOST_TOKENS_OF_PICTURE
from rejoinder.model.tools import Offered

Kind: TypeAlias = Literal["candidate", "judge", "rival", "embedding", "user", "tool", "work", "webhook"]
"""The purpose of a call. A rival gives a reply to compare with the target's; `work` is a check's script or function on
this machine."""
ALL_KINDS: frozenset[Kind] = frozenset(get_args(Kind))


LATEST = 253_402_300_799.0
"""The last second of the year 9999: recordings may be untrusted, and later times cannot be written."""
MOST_TOKENS = 1 << 31
"""Maximum tokens of one call. A larger count is an error of the counter."""


class Key(NamedTuple):
    """A call's identity in the journal: its kind, a digest of everything that the answer depends on, and an ordinal
    among the conversation's equal calls."""

    kind: Kind
    digest: str
    ordinal: int = 0

    def __str__(self) -> str:
        return f"{self.kind}-{self.digest}-{self.ordinal}"


def key_kind(key: str) -> str:
    """The kind of a recorded call."""
    return key.partition("-")[0]


class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens as the provider counted them. `approximate`: they were estimated, not counted."""

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
        """The same usage, with impossible numbers replaced by the nearest possible ones and marked as approximate."""
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
        """Usage after `before`, if both are sums. A sum that became smaller was restarted."""
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
    """Dollars per million tokens. Reasoning counts as output, as every API bills it."""

    input: Dollars
    output: Dollars
    cached: Dollars | None = None
    """Input read from a cache; None: same price as other input."""
    cache_write: Dollars | None = None
    """Input written to a cache; None: same price as other input."""

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
    """A file of a case. `path` is written as in the transcript."""

    path: str
    source: str
    """Its location, as an absolute path."""
    guideline: bool = False


class Brief(Struct, frozen=True, gc=False, kw_only=True):
    """An agent's input at a turn. An agent reads one text and opens files itself."""

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
    """Number of this conversation's earlier calls of this kind, including retries."""
    messages: tuple[ChatMessage, ...]
    question: str
    kind: Kind = "candidate"
    embed: str | None = None
    """The text to turn into a vector; there are no messages then."""
    key: str = ""
    """The call's key in the journal. Providers send it along, so that a call in doubt can be looked up."""
    suite: str = ""
    """The suite file of the conversation."""
    variant: str = ""
    """The variant of the suite whose settings replace the target's own."""
    brief: Brief | None = None
    """The same turn for an agent; None if the target is not an agent, or is not the one under test."""
    conversation_id: str = ""
    """The id of the conversation, the same for all its turns and unique to it. It survives a resume, unless the
    conversation had to restart."""
    case_conversation_id: str = ""
    """The case's own `conversation_id`; empty if it has none."""
    new: int = 0
    """Number of messages, at the end of the list, that were not sent before; 0: the conversation begins."""
    session: str | None = None
    """The target's own name for the conversation, from its last reply."""
    tools: tuple[Offered, ...] = ()
    """Tools that the model may call."""
    output_schema: str = ""
    """The JSON Schema that the reply has to satisfy, as JSON text; empty if the reply is free."""

    @property
    def new_messages(self) -> tuple[ChatMessage, ...]:
        """The messages to send to a target that keeps the conversation itself."""
        return self.messages[-self.new :] if self.new else self.messages

    @property
    def most_tokens_of_pictures(self) -> int:
        return sum(len(message.pictures) for message in self.messages) * MOST_TOKENS_OF_PICTURE

    @property
    def judging(self) -> bool:
        """True if a judge is called, not the target under test."""
        return self.kind == "judge"


class Reply(Struct, frozen=True, gc=False, omit_defaults=True):
    text: str
    usage: Usage = NO_USAGE
    cost: float | None = None
    """In US dollars; None if unknown."""
    latency_s: float | None = 0.0
    """In seconds; 0: the engine measures them. None: unknown, for example in a recording without times."""
    model: str | None = None
    """The model that answered, as reported by the provider."""
    finish_reason: str | None = None
    """`stop`, `length`, `tool_calls`, `content_filter`, `refusal`, or the provider's own word."""
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: str | None = None
    """The model's thoughts before its answer, if the provider shows them. They are not part of the reply."""
    refusal: bool = False
    """Whether the provider marks the reply as a refusal."""
    request_id: str | None = None
    """The provider's name for the call."""
    price: Cost | None = None
    """The cost, split into input and output."""
    vector: bytes = b""
    """The vector of a text, if requested: 32-bit floats, least significant byte first."""
    cached: bool = False
    """True if it comes from the cache: tokens and cost are those that the original call used."""
    started_at: Annotated[float, Meta(ge=0, le=LATEST)] | None = None
    """The time of the first attempt, in seconds since 1970; None if this run did not make the call."""
    retries: int = 0
    waited_s: float = 0.0
    """Time spent waiting for limits, a budget or a retry."""
    session: str | None = None
    """The target's own name for the conversation, if it keeps the conversation itself."""
    stop_reason: str | None = None
    """Why an agent stopped, in its own word."""
    workspace_diff: str | None = None
    """An agent's changes in its workspace since the start; None if it has no workspace."""
    continued: bool = False
    """Whether the target continued its session after the run was killed."""
    before: tuple[ChatMessage, ...] = ()
    """The model's earlier messages in this turn and its tools' answers. Only a whole turn has them: its single replies
    are recorded one by one."""
    wanted_back: WantedBack | None = None
    first_token_s: float | None = None
    """Seconds until the first piece of a streamed reply."""
    offered: tuple[str, ...] = ()
    """The tools that the model could call, by the names that it sees. Not recorded: a player adds them."""

    def at(self, price: Cost) -> Reply:
        """The reply with its price."""
        return structs.replace(self, cost=price.total, price=price)

    def as_recorded(self) -> Reply:
        """The reply as its provider gave it, even if it now comes from a recording or the cache."""
        return structs.replace(self, cached=False, started_at=None, retries=0, waited_s=0.0)


NO_RECORDING = "no-recording"
"""The type of a Failure: the request was not recorded."""
CUT_OFF = "cut-off"
"""The type of a Failure: a conversation that its target, or a tool, keeps itself was interrupted at this turn, and
restarts."""
_UNREACHED = frozenset({"connection", "dns", "tls", "address"})
_REFUSALS = frozenset({429, 503, 529})


def was_turned_away(type: str, status: int | None) -> bool:
    """Whether the called service certainly has not processed the request."""
    return type in _UNREACHED or status in _REFUSALS


class Failure(Struct, frozen=True, gc=False, omit_defaults=True):
    """A call that finally ended in an error."""

    type: str
    message: str
    status: int | None = None

    @property
    def was_turned_away(self) -> bool:
        return was_turned_away(self.type, self.status)
