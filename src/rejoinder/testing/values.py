"""Input and output of a fake server: answers, vectors, faults, and received requests."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Literal, TypeAlias, cast, get_args

import msgspec
from msgspec import Struct

Json: TypeAlias = dict[str, Any]
Finish: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "refusal"]

FaultKind: TypeAlias = Literal[
    "status",
    "reset_before_headers",
    "reset_in_body",
    "slow_headers",
    "stall_in_body",
    "endless_body",
    "invalid_json",
    "truncated_json",
    "wrong_content_type",
    "empty_body",
]


class Received(Struct, frozen=True, kw_only=True):
    """A request as it arrived."""

    api: str
    """The API that owns the path: `openai`, `azure`, `anthropic`, `gemini`, or empty if none does."""
    method: str
    path: str
    """Without the query, percent-decoded."""
    query: dict[str, str]
    headers: dict[str, str]
    """Names in lower case."""
    body: Any
    """The decoded JSON, or None if missing or invalid."""
    raw: bytes
    at: float
    """The time of its completion, by the clock `time.monotonic`."""


class ToolCall(Struct, frozen=True):
    """A tool call by the model.

    Arguments given as text are sent verbatim by APIs whose arguments are text, so that malformed ones can be tested.
    """

    name: str
    arguments: dict[str, Any] | str = {}
    id: str | None = None
    """Made up in the API's own style if not given."""

    @property
    def text(self) -> str:
        given = self.arguments
        return given if isinstance(given, str) else msgspec.json.encode(given).decode()

    @property
    def fields(self) -> dict[str, Any]:
        given = self.arguments
        return msgspec.json.decode(given, type=dict[str, Any]) if isinstance(given, str) else given


class Answer(Struct, frozen=True):
    """A model's answer, independent of any API; each wire format converts it.

    Tokens count everything: `input_tokens` includes cached and cache-writing tokens, `output_tokens` includes
    reasoning. By default they are word counts: of all texts in the request, and of the answer. A `finish` of `stop`
    next to tool calls or a refusal means that these ended it.
    """

    text: str = ""
    thinking: str | None = None
    tool_calls: Sequence[ToolCall] = ()
    refusal: str | None = None
    finish: Finish = "stop"
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    model: str | None = None
    """The model's name in the answer; by default the requested one."""

    def __post_init__(self) -> None:
        if self.finish not in get_args(Finish):
            raise ValueError(f"unknown finish {self.finish!r}; one of {', '.join(get_args(Finish))} is wanted")
        if self.input_tokens is not None and self.input_tokens < self.cached_tokens + self.cache_write_tokens:
            raise ValueError("input_tokens has the cached and cache-writing tokens in it and cannot be less")
        if self.output_tokens is not None and self.output_tokens < self.reasoning_tokens:
            raise ValueError("output_tokens has the reasoning tokens in it and cannot be less")

    @property
    def ending(self) -> Finish:
        if self.finish == "stop" and self.tool_calls:
            return "tool_calls"
        if self.finish == "stop" and self.refusal is not None:
            return "refusal"
        return self.finish


class Tokens(Struct, frozen=True):
    """The counts of one call, all known."""

    input: int
    cached: int
    cache_write: int
    output: int
    reasoning: int

    @property
    def total(self) -> int:
        return self.input + self.output


def count_tokens(received: Received, answer: Answer) -> Tokens:
    cached, written = answer.cached_tokens, answer.cache_write_tokens
    sent, said = answer.input_tokens, answer.output_tokens
    reasoning = answer.reasoning_tokens or (count_words(answer.thinking) if said is None else 0)
    if sent is None:
        sent = count_words(received.body) + cached + written
    if said is None:
        calls = [[call.name, call.text] for call in answer.tool_calls]
        said = count_words([answer.text, answer.refusal, calls]) + reasoning
    return Tokens(sent, cached, written, said, reasoning)


def count_words(value: Any) -> int:
    """The words in all texts of a JSON value."""
    if isinstance(value, str):
        return len(value.split())
    if isinstance(value, Mapping):
        return sum(count_words(one) for one in cast(Mapping[str, Any], value).values())
    if isinstance(value, list):
        return sum(count_words(one) for one in cast(list[Any], value))
    return 0


class Fault(Struct, frozen=True):
    """Something that goes wrong with one request.

    - `status`: an answer with this `status`. Without a `body` it is the API's own error of that status; `code` names
      one of several, as the API does (`insufficient_quota`, `content_filter`, `API_KEY_INVALID`, `billing_error`).
      With status 200 and a `body` it is a custom answer.
    - `reset_before_headers`: the connection is reset as soon as the request is complete.
    - `reset_in_body`: headers and half of the body, then a reset.
    - `slow_headers`: silence for `seconds`, then the usual answer.
    - `stall_in_body`: headers and half of the body, silence for `seconds`, then the rest.
    - `endless_body`: a body that lasts until the client goes away, a kilobyte every hundredth of a second.
    - `invalid_json`: status 200 and something that looks like JSON and is not.
    - `truncated_json`: the usual answer cut in half, of a length that the headers confirm.
    - `wrong_content_type`: status 200 and a page in HTML, as from a proxy.
    - `empty_body`: status 200, JSON according to the headers, and nothing.
    """

    kind: FaultKind
    status: int = 500
    headers: dict[str, str] = {}
    body: Any = None
    """Text and bytes are sent verbatim, anything else as JSON."""
    retry_after: float | None = None
    """Seconds; sent in the header `retry-after`, and in the body if the API puts it there."""
    code: str | None = None
    seconds: float = 30.0

    def __post_init__(self) -> None:
        if self.kind not in get_args(FaultKind):
            raise ValueError(f"unknown fault {self.kind!r}; one of {', '.join(get_args(FaultKind))} is wanted")


Reply: TypeAlias = str | Answer | Fault
Script: TypeAlias = Callable[[Received], Reply]
Embed: TypeAlias = Callable[[str], Sequence[float]]


_DIMENSIONS = 256
_MARKS = 16
"""Places of the vector that a word marks: enough that two words hardly ever share all of them."""


def embed(text: str, dimensions: int | None = None) -> list[float]:
    """A vector of length one, made from the text's words regardless of their order and case.

    Each word adds 1 to some places of the vector and subtracts 1 from others; its hash decides. So the cosine of two
    texts is roughly the share of words that they have in common: 1 for the same words, about 0 for none. It is the same
    on every machine and in every version of Python.
    """
    dimensions = dimensions or _DIMENSIONS
    numbers = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or [text]:
        mark = blake2b(word.encode(errors="surrogatepass"), digest_size=4 * _MARKS).digest()
        for start in range(0, len(mark), 4):
            number = int.from_bytes(mark[start : start + 4])
            numbers[(number >> 1) % dimensions] += 1.0 if number & 1 else -1.0
    length = math.sqrt(sum(one * one for one in numbers))
    return [one / length for one in numbers] if length else [1.0, *numbers[1:]]


def as_list(value: Any) -> list[Any]:
    """The value if it is a list, otherwise an empty list."""
    return cast(list[Any], value) if isinstance(value, list) else []


def as_object(value: Any) -> Json:
    return cast(Json, value) if isinstance(value, dict) else {}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
