"""Bounds of what a run asks and costs, as frozen values that are computed before the run."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Role: TypeAlias = Literal["candidate", "judge", "user"]
"""The part that a target plays; a user is a simulated one."""


class TargetBounds(Struct, frozen=True, kw_only=True):
    """Bounds of the calls to one target. Pairs are the least and the most, which may not be known."""

    name: str
    role: Role = "candidate"
    cases: int | None = None
    """Each may be run several times."""
    calls: tuple[int, int]
    tokens: tuple[int, int | None] | None = None
    """Tokens that are sent."""
    most_tokens: int | None = None
    """Tokens that are sent and received, at most; None if that is not known."""
    cost: tuple[float | None, float | None] = (None, None)
    """Dollars."""
    tools: tuple[str, ...] = ()
    """Names of the tools and servers that it is offered."""


class RunBounds(Struct, frozen=True, kw_only=True):
    """Bounds of all calls of a run."""

    conversations: int
    targets: tuple[TargetBounds, ...]
    """Candidates, then simulated users, then judges."""
    embedding_calls: tuple[int, int] = (0, 0)

    @property
    def cost(self) -> tuple[float | None, float | None]:
        """Dollars: at least, of all targets with a known price; at most, if all prices are known and all calls are
        bounded."""
        least = [one.cost[0] for one in self.targets if one.cost[0] is not None]
        most = [one.cost[1] for one in self.targets]
        bounded = [amount for amount in most if amount is not None]
        return (sum(least) if least else None), (sum(bounded) if len(bounded) == len(most) else None)
