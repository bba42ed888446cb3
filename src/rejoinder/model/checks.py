"""Checks, levels and follow-ups: what is asked of a reply, and what is said when it falls short.

A class is named as its YAML key (`match` -> `Match`). Every `checks` list of a suite becomes a `Level` of items;
an item is a check, a follow-up, or a check with a follow-up of its own. An `or` block holds items too, because
follow-ups inside it apply to the whole block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from msgspec import Struct


class Check(Struct, frozen=True, kw_only=True):
    """What all checks share. `at` is the place of the check's value in the document."""

    name: str | None = None
    weight: float = 1.0
    required: bool = False
    threshold: float | None = None
    every_turn: bool = False
    metric: str | None = None
    """The named measure that this check's score counts for, over all cases."""
    at: str = ""


class Match(Check, frozen=True, tag="match"):
    pattern: str


class NotMatch(Check, frozen=True, tag="not_match"):
    pattern: str


class Contains(Check, frozen=True, tag="contains"):
    text: str


class IContains(Check, frozen=True, tag="icontains"):
    text: str


class ContainsAny(Check, frozen=True, tag="contains_any"):
    texts: tuple[str, ...]


class ContainsAll(Check, frozen=True, tag="contains_all"):
    texts: tuple[str, ...]


class IContainsAny(Check, frozen=True, tag="icontains_any"):
    texts: tuple[str, ...]


class IContainsAll(Check, frozen=True, tag="icontains_all"):
    texts: tuple[str, ...]


class StartsWith(Check, frozen=True, tag="starts_with"):
    text: str


class EndsWith(Check, frozen=True, tag="ends_with"):
    text: str


class Equals(Check, frozen=True, tag="equals"):
    text: str


class Regex(Check, frozen=True, tag="regex"):
    pattern: str
    flags: str | None = None
    """None where the pattern alone was written."""


class MinTokens(Check, frozen=True, tag="min_tokens"):
    limit: int


class MaxTokens(Check, frozen=True, tag="max_tokens"):
    limit: int


class MinWords(Check, frozen=True, tag="min_words"):
    limit: int


class MaxWords(Check, frozen=True, tag="max_words"):
    limit: int


class Latency(Check, frozen=True, tag="latency"):
    limit: float


class MaxCost(Check, frozen=True, tag="cost"):
    limit: float


class IsJson(Check, frozen=True, tag="is_json"):
    wanted: bool = True


class ContainsJson(Check, frozen=True, tag="contains_json"):
    wanted: bool = True


class JsonSchema(Check, frozen=True, tag="json_schema"):
    document: str
    """The schema as JSON text."""


class JsonPath(Check, frozen=True, tag="json_path"):
    """Something is found at a path: anything at all, a value, or a text that a check of its own accepts."""

    path: str
    expected: str | None = None
    """The wanted value as JSON text."""
    check: AnyCheck | None = None


class Levenshtein(Check, frozen=True, tag="levenshtein"):
    expected: str
    most: int


class RougeL(Check, frozen=True, tag="rouge_l"):
    expected: tuple[str, ...]


class Similar(Check, frozen=True, tag="similar"):
    expected: tuple[str, ...]


class IsRefusal(Check, frozen=True, tag="is_refusal"):
    wanted: bool = True


class FinishReason(Check, frozen=True, tag="finish_reason"):
    reasons: tuple[str, ...]


class WantedCall(Struct, frozen=True):
    """A call of a tool that is expected of a reply."""

    name: str
    arguments: str | None = None
    """What the call has to be given at least, as JSON text; None: anything."""
    times: int = 1


class ToolCalls(Check, frozen=True, tag="tool_calls"):
    """Which tools a reply calls. Without `calls` only their number counts."""

    calls: tuple[WantedCall, ...] = ()
    mode: Literal["in_order", "any_order", "exact"] = "in_order"
    """In both orders other calls may stand between; `exact` are these calls and no others."""
    least: int | None = None
    most: int | None = None


class Semantic(Check, frozen=True, tag="semantic"):
    expected: tuple[str, ...]
    target: str | None = None
    """The target whose embeddings are compared; None: the suite's."""


JUDGE_VARIABLES = (
    "expected_outcome",
    "question",
    "reference_answer",
    "candidate_answer",
    "input_messages",
    "expected_messages",
    "output_messages",
)
"""What a judge's own prompt may hold as `{{ name }}`."""


class JudgeVariable(Struct, frozen=True, tag="variable"):
    """A place in a judge's prompt that is filled in when the judge is asked."""

    name: str


class Judged(Check, frozen=True, kw_only=True):
    """What all checks share that a model is asked for."""

    target: str | None = None
    """The target that judges; None: the suite's."""
    votes: int = 1
    """How often the judge is asked the same."""
    combine: Literal["mean", "majority"] = "mean"
    """How several votes become one score: their mean, or the share of those that pass."""
    on_invalid: Literal["error", "zero"] = "error"
    """What an answer that cannot be read twice in a row counts for."""
    written: str = ""
    """What the judge is asked as the author wrote it, before variables are filled in."""


class LlmJudge(Judged, frozen=True, tag="llm_judge"):
    """A judgement by a model. Without `criteria` and `prompt` the case's outcome is what is judged.

    `prompt` is a template when it holds a judge variable, and criteria when it does not. The author's own variables
    were filled in at loading, so that their values can never be mistaken for a judge's.
    """

    criteria: str | None = None
    prompt: tuple[str | JudgeVariable, ...] | None = None


class ScoreRange(Struct, frozen=True):
    """What a score of a criterion means, from `least` to `most` of ten."""

    least: int
    most: int
    meaning: str


class Criterion(Struct, frozen=True, kw_only=True):
    """One demand of a rubric. With ranges it is scored from 0 to 10; without, it is met or not."""

    id: str
    text: str
    weight: float = 1.0
    required: bool = False
    min_score: float | None = None
    """The least share of its score with which it counts as met; only with ranges."""
    ranges: tuple[ScoreRange, ...] = ()


class Rubric(Judged, frozen=True, kw_only=True, tag="rubric"):
    criteria: tuple[Criterion, ...]

    @property
    def needs_all(self) -> bool:
        """Does it pass only when every criterion is met, and not by its mean?"""
        return self.threshold is None and not any(criterion.ranges for criterion in self.criteria)


class Compare(Judged, frozen=True, tag="compare"):
    """Is the reply at least as good as another one? The other is written down, or another target's."""

    other: str | None = None
    """The other reply; None: the one that `other_target` gives, or the case's reference answer."""
    other_target: str | None = None
    criteria: str | None = None


class Code(Check, frozen=True, tag="code"):
    """A script that reads the case and the reply as JSON and prints its verdict as JSON."""

    script: tuple[str, ...]
    """One entry is a command line for the shell; several are the words of a command."""
    cwd: str | None = None
    timeout_s: float | None = None


class PythonCheck(Check, frozen=True, tag="python"):
    """A function of the user's, run in this process."""

    call: str
    """`module:function`."""
    arguments: dict[str, Any] = {}
    timeout_s: float | None = None


class Webhook(Check, frozen=True, tag="webhook"):
    """An address that is sent the case and the reply as JSON and answers with its verdict."""

    url: str
    headers: dict[str, str] = {}
    timeout_s: float | None = None


class Custom(Check, frozen=True, tag="check"):
    """A check that the project or an installed package brings, by its name."""

    kind: str
    arguments: dict[str, Any] = {}


class Or(Check, frozen=True, tag="or"):
    items: tuple[Item, ...]


class And(Check, frozen=True, tag="and"):
    items: tuple[Item, ...]


class Group(Check, frozen=True, tag="group"):
    """Passes when so many of its checks do, or, without a count, when their weighted mean reaches the threshold."""

    items: tuple[Item, ...]
    at_least: int | None = None


class Not(Check, frozen=True, tag="not"):
    check: AnyCheck


AnyCheck: TypeAlias = (
    Match
    | NotMatch
    | Contains
    | IContains
    | ContainsAny
    | ContainsAll
    | IContainsAny
    | IContainsAll
    | StartsWith
    | EndsWith
    | Equals
    | Regex
    | MinTokens
    | MaxTokens
    | MinWords
    | MaxWords
    | Latency
    | MaxCost
    | IsJson
    | ContainsJson
    | JsonSchema
    | JsonPath
    | Levenshtein
    | RougeL
    | Similar
    | IsRefusal
    | FinishReason
    | ToolCalls
    | Semantic
    | LlmJudge
    | Rubric
    | Compare
    | Code
    | PythonCheck
    | Webhook
    | Custom
    | Or
    | And
    | Group
    | Not
)


def parts_of(check: AnyCheck) -> Iterator[AnyCheck]:
    """The checks directly inside another one."""
    if isinstance(check, Or | And | Group):
        for item in check.items:
            if item.check is not None:
                yield item.check
    elif isinstance(check, Not):
        yield check.check


def groups_of(check: AnyCheck) -> Iterator[Item]:
    """The items in a check that is a group, and in the groups inside it."""
    if isinstance(check, Or | And | Group):
        for item in check.items:
            yield item
            if item.check is not None:
                yield from groups_of(item.check)


def walk_check(check: AnyCheck) -> Iterator[AnyCheck]:
    """A check and everything in it, follow-ups left out."""
    yield check
    for part in parts_of(check):
        yield from walk_check(part)


class Item(Struct, frozen=True):
    """An entry of a `checks` list: a check, a follow-up, or both (the follow-up then belongs to the check)."""

    check: AnyCheck | None = None
    follow_up: FollowUp | None = None


class Level(Struct, frozen=True):
    """All that one reply has to satisfy. With a `threshold` the weighted mean of the scores decides."""

    items: tuple[Item, ...] = ()
    threshold: float | None = None


def walk_level(level: Level) -> Iterator[AnyCheck]:
    """Every check of a level and of all follow-ups in it, with everything inside them."""
    for item in level.items:
        items = [item]
        if item.check is not None:
            yield from walk_check(item.check)
            items += groups_of(item.check)
        for one in items:
            if one.follow_up is not None:
                yield from walk_level(one.follow_up.level)


class Quote(Struct, frozen=True, tag="quote"):
    """A place in a follow-up where earlier words are put in: a reply, or what failed and why."""

    what: Literal["response", "failed"]
    turn: int | None = None
    """Which reply; None is the last one."""


class FollowUp(Struct, frozen=True):
    """What is said when a level fails, and what the next reply has to satisfy.

    `prompt` is text with quotes between. Variables were filled in at loading, so a variable's value can never be
    mistaken for a quote.
    """

    prompt: tuple[str | Quote, ...]
    level: Level
    at: str
