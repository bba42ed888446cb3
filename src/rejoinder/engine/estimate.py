"""What a run would ask, found without asking: at least, when every first reply passes, and at most, when none does."""

from __future__ import annotations

from msgspec import Struct

from rejoinder.engine.conversation import MOST_TURNS_OF_ALL, persistent_items
from rejoinder.engine.plan import Pair, Prepared, RunOptions, plan
from rejoinder.model import (
    AnyCheck,
    Compare,
    FollowUp,
    Item,
    Judged,
    Level,
    Semantic,
    Suite,
    groups_of,
    walk_check,
)

CHARACTERS_A_TOKEN = 4


class Effort(Struct, frozen=True):
    """Calls of a conversation, and the characters that are sent."""

    calls: int = 0
    judges: int = 0
    embeddings: int = 0
    turns: int = 0

    def __add__(self, other: Effort) -> Effort:
        return Effort(
            self.calls + other.calls,
            self.judges + other.judges,
            self.embeddings + other.embeddings,
            self.turns + other.turns,
        )


class TargetEstimate(Struct):
    """What one target would be asked as a candidate."""

    conversations: int = 0
    least_calls: int = 0
    most_calls: int = 0
    least_input_tokens: int = 0
    most_input_tokens: int = 0


class Estimate(Struct):
    conversations: int
    targets: dict[str, TargetEstimate]
    judge_calls: tuple[int, int]
    embedding_calls: tuple[int, int]


def estimate(suites: list[Suite], options: RunOptions) -> Estimate:
    """Walk the plan once."""
    found = Estimate(0, {}, (0, 0), (0, 0))
    for job in plan(suites, options):
        prepared = job.prepared
        least, most = _least(prepared.case.level), _most(prepared)
        one = found.targets.setdefault(prepared.target.name, TargetEstimate())
        found.conversations += 1
        one.conversations += 1
        one.least_calls += 1
        one.most_calls += most.turns
        first = sum(len(message.content) for message in prepared.opening.messages) // CHARACTERS_A_TOKEN + 1
        one.least_input_tokens += first
        one.most_input_tokens += first * most.turns  # what is said in between is not known
        found.judge_calls = found.judge_calls[0] + least.judges, found.judge_calls[1] + most.judges
        embeddings = found.embedding_calls
        found.embedding_calls = embeddings[0] + least.embeddings, embeddings[1] + most.embeddings
    return found


def _least(level: Level) -> Effort:
    return sum((_asked_by(item.check) for item in level.items if item.check is not None), Effort(turns=1))


def _most(prepared: Pair) -> Effort:
    assert isinstance(prepared, Prepared)
    opening = prepared.opening
    kept = Level(persistent_items(opening.level))
    if opening.followups == "first":
        limit = opening.max_turns or 100
        return _longest(opening.level, kept, limit)
    limit = opening.max_turns or MOST_TURNS_OF_ALL
    levels = [opening.level, *_all_levels(opening.level)][:limit]
    return sum(
        (_least(level) + (_least(kept) if level is not opening.level else Effort()) for level in levels), Effort()
    )


def _longest(level: Level, kept: Level, turns: int) -> Effort:
    """The follow-ups of one path that ask most."""
    here = _least(level)
    if turns <= 1:
        return here
    further = [
        _longest(follow_up.level, kept, turns - 1)
        + Effort(judges=_least(kept).judges, embeddings=_least(kept).embeddings)
        for follow_up in _follow_ups(level)
    ]
    longest = max(further, key=lambda one: (one.turns, one.judges), default=Effort())
    return here + longest


def _all_levels(level: Level) -> list[Level]:
    return [inner for one in _follow_ups(level) for inner in (one.level, *_all_levels(one.level))]


def _follow_ups(level: Level) -> list[FollowUp]:
    items: list[Item] = []
    for item in level.items:
        items += [item, *(groups_of(item.check) if item.check is not None else ())]
    return [item.follow_up for item in items if item.follow_up is not None]


def _asked_by(check: AnyCheck) -> Effort:
    judges = embeddings = 0
    for part in walk_check(check):
        if isinstance(part, Judged):
            judges += part.votes * (2 if isinstance(part, Compare) else 1)
            judges += isinstance(part, Compare) and part.other_target is not None
        if isinstance(part, Semantic):
            embeddings += 1 + len(part.expected)
    return Effort(judges=judges, embeddings=embeddings)
