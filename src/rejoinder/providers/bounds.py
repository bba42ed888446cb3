"""What a request can come to at most, read from the request itself: it holds all that a model is given.

A text has never more tokens than bytes, and JSON makes no text shorter. A reply has no more tokens than the request
allows, wherever that comes from: a setting of the target, `--max-tokens` or an `extra_body`.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct, field

TOKENS_BESIDE_A_REQUEST = 32
"""What a provider puts around a conversation. Measured: below ten, and less for a message than its JSON has bytes."""
TOKENS_FOR_TOOLS = 1024
"""What a provider says to a model about tools in general, beside their descriptions. Measured: below 600."""


class Bounds(Struct, frozen=True):
    input_tokens: int
    output_tokens: int | None
    """None where the request does not say how long a reply can be."""


class _Generation(Struct, rename="camel"):
    max_output_tokens: int | None = None
    candidate_count: int = 1


class _Limits(Struct):
    """What the APIs call the most tokens of a reply, and how many replies they are asked for."""

    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    max_output_tokens: int | None = None
    generation: _Generation = field(name="generationConfig", default_factory=_Generation)
    n: int | None = None
    tools: msgspec.Raw = msgspec.Raw(b"")


_DECODER = msgspec.json.Decoder(_Limits)


def bounds_of(body: bytes, *, embeds: bool) -> Bounds:
    """The most tokens of a request with this body, and of its reply."""
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
