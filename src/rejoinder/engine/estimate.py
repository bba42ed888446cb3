"""The calls that a run would make: at least, when every first reply passes, and at most, when none does."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, structs

from rejoinder.engine.conversation import MOST_TURNS_OF_ALL, Opening, persistent_items
from rejoinder.engine.options import RunOptions
from rejoinder.engine.plan import Prepared, plan
from rejoinder.formatting import find_judges, format_judge_prompt
from rejoinder.model import (
    AnyCheck,
    Compare,
    Judged,
    Level,
    Semantic,
    Suite,
    follow_ups_of,
    walk_check,
)
from rejoinder.roles import find_embedder, judge_for

CHARACTERS_A_TOKEN = 4


class Effort(Struct, frozen=True):
    """What a conversation, or a part of one, asks for."""

    turns: int = 0
    judges: int = 0
    embeddings: int = 0

    def __add__(self, other: Effort) -> Effort:
        return Effort(self.turns + other.turns, self.judges + other.judges, self.embeddings + other.embeddings)


class TargetEstimate(Struct):
    """What one target would be asked as a candidate."""

    conversations: int = 0
    least_calls: int = 0
    most_calls: int = 0
    least_input_tokens: int = 0
    most_input_tokens: int = 0
    """Without the replies that later turns are sent again: how long they are is not known."""
    most_replies_sent: int = 0
    """How many replies are sent again with later turns, at most."""


class Estimate(Struct):
    """Pairs are the least and the most. Calls that are made again, because they failed or a judge's answer could not be
    read, are not foreseen."""

    conversations: int
    targets: dict[str, TargetEstimate]
    judge_calls: tuple[int, int]
    embedding_calls: tuple[int, int]
    judge_tokens: dict[str, int] = {}
    """What each judge is sent about the first replies, at least: the replies themselves are not known."""


def estimate(suites: list[Suite], options: RunOptions) -> Estimate:
    """Walk the plan once."""
    total = Estimate(0, {}, (0, 0), (0, 0), {})
    expected: set[tuple[str, str]] = set()
    for job in plan(suites, options):
        prepared = job.prepared
        least, most = _asked_at(prepared.case.level), _most(prepared)
        target = total.targets.setdefault(prepared.target.name, TargetEstimate())
        total.conversations += 1
        target.conversations += 1
        target.least_calls += 1
        target.most_calls += most.turns
        target.most_replies_sent += most.turns * (most.turns - 1) // 2
        first = sum(len(message.content) for message in prepared.opening.messages) // CHARACTERS_A_TOKEN + 1
        target.least_input_tokens += first
        target.most_input_tokens += first * most.turns + _said_again(prepared.case.level, most.turns)
        total.judge_calls = total.judge_calls[0] + least.judges, total.judge_calls[1] + most.judges
        for judge, tokens in _sent_to_judges(prepared):
            total.judge_tokens[judge] = total.judge_tokens.get(judge, 0) + tokens
        expected.update(_expected(prepared))
        # Equal texts are embedded once, and a reply may be the expected text, word for word.
        total.embedding_calls = len(expected), total.embedding_calls[1] + most.embeddings
    return total


def _asked_at(level: Level) -> Effort:
    """One turn, and the calls of all its checks."""
    return sum((_asked_by(item.check) for item in level.items if item.check is not None), Effort(turns=1))


def _most(prepared: Prepared) -> Effort:
    """A bound for each number by itself: the path of the most turns need not be that of the most judges."""
    opening = prepared.opening
    has_control = opening.control is not None and opening.max_turns != 1 and any(follow_ups_of(opening.level))
    control = _asked_at(opening.level) if has_control else Effort()
    return _most_of_turns(opening) + control


def _most_of_turns(opening: Opening) -> Effort:
    kept = structs.replace(_asked_at(Level(persistent_items(opening.level))), turns=0)
    if opening.followups == "first":
        return _longest(opening.level, kept, opening.max_turns)
    later = [_asked_at(level) + kept for level in _all_levels(opening.level)]
    room = (opening.max_turns or MOST_TURNS_OF_ALL) - 1
    judges, embeddings = (
        sum(sorted((getattr(one, name) for one in later), reverse=True)[:room]) for name in ("judges", "embeddings")
    )
    return _asked_at(opening.level) + Effort(min(len(later), room), judges, embeddings)


def _longest(level: Level, kept: Effort, turns: int | None) -> Effort:
    here = _asked_at(level)
    if turns == 1:
        return here
    left = turns - 1 if turns else None
    further = [kept + _longest(follow_up.level, kept, left) for follow_up in follow_ups_of(level)]
    most = (max((getattr(one, name) for one in further), default=0) for name in Effort.__struct_fields__)
    return here + Effort(*most)


def _said_again(level: Level, turns: int) -> int:
    """Tokens of the follow-ups of a conversation, at most, each sent with every turn after it."""
    prompts = [one.prompt for inner in (level, *_all_levels(level)) for one in follow_ups_of(inner)]
    longest = max((sum(len(piece) for piece in one if isinstance(piece, str)) for one in prompts), default=0)
    return (longest // CHARACTERS_A_TOKEN + 1) * (turns * (turns - 1) // 2)


def _all_levels(level: Level) -> list[Level]:
    return [inner for one in follow_ups_of(level) for inner in (one.level, *_all_levels(one.level))]


def _asked_by(check: AnyCheck) -> Effort:
    judges = embeddings = 0
    for part in walk_check(check):
        if isinstance(part, Judged):
            judges += part.votes * (2 if isinstance(part, Compare) else 1)
        if isinstance(part, Compare) and part.other is None and part.other_target is not None:
            judges += 1  # the other target's reply, to compare with
        if isinstance(part, Semantic):
            embeddings += 1 + len(set(part.expected))
    return Effort(judges=judges, embeddings=embeddings)


def _sent_to_judges(prepared: Prepared) -> Iterator[tuple[str, int]]:
    """The judges of the first reply, and about how many tokens each is sent for an empty one."""
    for judge in find_judges(prepared.case.level):
        target = judge_for(prepared, judge.target)
        shown = format_judge_prompt(judge, prepared.case, prepared.prompt, "")
        calls = judge.votes * (2 if isinstance(judge, Compare) else 1)
        tokens = (len(shown.system) + len(shown.user)) // CHARACTERS_A_TOKEN + 1
        yield (target.name if target is not None else str(judge.target)), calls * tokens


def _expected(prepared: Prepared) -> Iterator[tuple[str, str]]:
    """The texts that the first reply is compared with, and the target that embeds them."""
    for item in prepared.case.level.items:
        for part in walk_check(item.check) if item.check is not None else ():
            if isinstance(part, Semantic):
                embedder = find_embedder(prepared.suite, part.target)
                yield from ((embedder.name if embedder else "", text) for text in part.expected)
