"""Upper bounds of a request's tokens, read from the request, which holds everything that a model gets.

A text never has more tokens than bytes, and JSON never makes a text shorter. A reply has no more tokens than the
request allows, whether by a target setting, `--max-tokens` or an `extra_body`.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct, field

TOKENS_BESIDE_A_REQUEST = 32
"""Tokens that a provider adds around a conversation. Measured: below ten, and less per message than its JSON
has bytes."""
TOKENS_FOR_TOOLS = 1024
"""Tokens that a provider adds about tools in general, besides their descriptions. Measured: below 600."""


class Bounds(Struct, frozen=True):
    input_tokens: int
    output_tokens: int | None
    """None if the request does not limit the reply."""


class _Generation(Struct, rename="camel"):
    max_output_tokens: int | None = None
    candidate_count: int = 1


class _Limits(Struct):
    """The names that APIs use for the maximum tokens of a reply, and for the number of replies."""

    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    max_output_tokens: int | None = None
    generation: _Generation = field(name="generationConfig", default_factory=_Generation)
    n: int | None = None
    tools: msgspec.Raw = msgspec.Raw(b"")


_DECODER = msgspec.json.Decoder(_Limits)


def bounds_of(body: bytes, *, embeds: bool) -> Bounds:
    """The maximum tokens of a request with this body, and of its reply."""
    given = len(body) + TOKENS_BESIDE_A_REQUEST
    if embeds:
        return Bounds(given, 0)
    try:
        found = _DECODER.decode(body)
    except msgspec.MsgspecError:  # the author's own fields may hold anything
        return Bounds(given, None)
    if found.tools:
        given += TOKENS_FOR_TOOLS
    named = (found.max_tokens, found.max_completion_tokens, found.max_output_tokens, found.generation.max_output_tokens)
    limits = [one for one in named if one is not None]
    replies = max(found.n or 1, found.generation.candidate_count)
    return Bounds(given, max(limits) * replies if limits else None)
