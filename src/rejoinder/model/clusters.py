"""Clusters: conversations that did not pass for the same reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from rejoinder.model.results import Count, TurnResult

MOST_CLUSTERS = 20
"""Clusters that a summary has; the smaller ones are left out."""
ClusterKind: TypeAlias = Literal["repeated", "check", "error", "tag"]
"""`check`: the same check failed. `error`: the same error, numbers apart. `repeated`: the reply to a follow-up equals
an earlier one. `tag`: the cases share a tag."""


NEAR = 0.8
"""The least share of common words in a reply that nearly repeats another."""
_COMPARED, _MOST_TURNS = 20_000, 50
"""Characters of a reply, and turns, that are compared."""


class ClusterKey(NamedTuple):
    kind: ClusterKind
    key: str
    """The check as it is written, the error, or the tag; empty for `repeated`."""

    @property
    def name(self) -> str:
        """`check:contains "30 days"`: as lists are filtered by it."""
        return f"{self.kind}:{self.key}"


class ClusterPlace(Struct, frozen=True):
    """A conversation of a cluster."""

    suite: str
    id: str
    target: str
    variant: str | None = None
    trial: Count = 1


class Cluster(Struct, frozen=True):
    kind: ClusterKind
    key: str
    number: Count
    """Conversations."""
    first: tuple[ClusterPlace, ...]
    """The first of them, at most five."""


def _ends_repeat(turns: Sequence[TurnResult]) -> bool:
    """Whether two replies have the same first and last word; most conversations need no longer look."""
    ends = [(*text.split(None, 1)[:1], *text.rsplit(None, 1)[-1:]) for turn in turns if (text := turn.response)]
    return len(set(ends)) < len(ends)


def repeated_turns(turns: Sequence[TurnResult]) -> dict[int, int]:
    """Turns whose reply to a follow-up equals an earlier reply, white space apart, each with the first turn of
    these words. What was done has to be the same, too: the calls of tools, and the changes in a workspace."""
    if len(turns) < 2 or not _ends_repeat(turns):
        return {}
    earlier: dict[tuple[object, ...], int] = {}
    found: dict[int, int] = {}
    for turn in turns:
        done = _said_and_done(turn)
        if done is None:
            continue
        first = earlier.setdefault(done, turn.turn)
        if turn.depth and first != turn.turn:
            found[turn.turn] = first
    return found


def _said_and_done(turn: TurnResult) -> tuple[object, ...] | None:
    """None for a turn without words."""
    words = tuple((turn.response or "").split())
    deeds = tuple((call.name, call.arguments) for call in turn.tool_calls)
    return (words, deeds, turn.workspace_diff) if words else None


def is_repeated(turn: TurnResult, earlier: TurnResult) -> bool:
    """Whether two turns said and did the same, white space apart."""
    done = _said_and_done(turn)
    return done is not None and done == _said_and_done(earlier)


def near_repetitions(turns: Sequence[TurnResult]) -> dict[int, tuple[int, float]]:
    """Turns whose reply to a follow-up nearly repeats an earlier reply, each with the first of the most similar turns
    and the share of words that both have. Equal replies are not among them."""
    if len(turns) < 2:
        return {}
    words = {turn.turn: Counter((turn.response or "")[:_COMPARED].split()) for turn in turns[:_MOST_TURNS]}
    found: dict[int, tuple[int, float]] = {}
    for place, turn in enumerate(turns[:_MOST_TURNS]):
        if turn.depth and (shares := [(_share(words[turn.turn], words[one.turn]), one.turn) for one in turns[:place]]):
            share, earlier = max(shares, key=lambda one: one[0])
            if NEAR <= share < 1:
                found[turn.turn] = earlier, share
    return found


def _share(one: Counter[str], other: Counter[str]) -> float:
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 0.0
