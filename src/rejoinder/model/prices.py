"""What tokens cost, in US dollars."""

from __future__ import annotations

from typing import Annotated, Protocol, TypeAlias

from msgspec import Meta, Struct

MILLION = 1_000_000

Dollars: TypeAlias = Annotated[float, Meta(ge=0)]


class Tokens(Protocol):
    """What a price needs to know of a `Usage`, which holds costs itself and so cannot be imported here."""

    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def cached_tokens(self) -> int: ...
    @property
    def cache_write_tokens(self) -> int: ...


class Cost(Struct, frozen=True):
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

    def cost(self, usage: Tokens) -> Cost:
        cached, written = usage.cached_tokens, usage.cache_write_tokens
        # A server that counts its cached tokens apart from its input must not make a call cheaper than free.
        fresh = max(usage.input_tokens - cached - written, 0)
        read = self.input if self.cached is None else self.cached
        write = self.input if self.cache_write is None else self.cache_write
        return Cost(
            (fresh * self.input + cached * read + written * write) / MILLION,
            usage.output_tokens * self.output / MILLION,
        )
