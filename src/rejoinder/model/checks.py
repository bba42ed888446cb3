"""Checks, levels and follow-ups: what is asked of a reply, and what is said when it falls short.

A check is declared here, once. Its class is named as its YAML key (`match` -> `Match`), its docstring is the
description in the JSON Schema, and its fields say how they are written: a lone field is the check's value itself,
several are a mapping, and `alone` names the field that may also stand for the whole mapping. `CHECKS` and `AnyCheck`
are made from the classes of this module; the function that grades by one is found by its class (`checks/registry.py`).

Every `checks` list of a suite becomes a `Level` of items; an item is a check, a follow-up, or a check with a follow-up
of its own. An `or` block holds items too, because follow-ups inside it apply to the whole block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, Union

from msgspec import Meta, Struct

from rejoinder.model.fields import (
    EMPTY_PATTERN,
    MOST_SECONDS,
    AnyWord,
    Count,
    Duration,
    JsonText,
    Key,
    Names,
    Pattern,
    Patterns,
    PositiveCount,
    Prose,
    Reading,
    Seconds,
    Share,
    TargetName,
    Text,
    Word,
)
from rejoinder.model.messages import ToolStatus


class Check(Struct, frozen=True, kw_only=True):
    """What all checks share. `at` is the place of the check's value in the document."""

    alone: ClassVar[str | None] = None
    """The field that is given where a suite has no mapping, but a value."""
    in_workspace: ClassVar[bool] = False
    """Does it look at the workspace of an agent?"""
    runs_code: ClassVar[bool] = False
    """Does it run code of the user's on this machine?"""
    rules: ClassVar[dict[str, Any]] = {}
    """What its JSON Schema has to say beyond its fields."""
    fault: ClassVar[str] = "it does not pass"
    """How a reply falls short of it, without what was wanted: what `{{ failed }}` says."""
    tells: ClassVar[bool] = False
    """May `{{ failed }}` say why it failed, because that gives no answer away?"""

    name: str | None = None
    weight: float = 1.0
    required: bool = False
    threshold: float | None = None
    every_turn: bool = False
    metric: str | None = None
    """The named measure that this check's score counts for, over all cases."""
    at: str = ""


class Match(Check, frozen=True, tag="match"):
    r"""The reply, stripped at both ends, has to match this pattern. Only `*` is special (any text, also over lines);
    letter case does not matter; without stars the whole reply has to be equal. A pattern that starts with `.*` or `^`
    is a regular expression. `\*` is a literal star."""

    fault = "it does not match"
    pattern: Pattern


class NotMatch(Check, frozen=True, tag="not_match"):
    """The reply must not match this pattern (the same rules as `match`)."""

    fault = "it matches what it must not match"
    pattern: Pattern


class Contains(Check, frozen=True, tag="contains"):
    """The reply has to contain this text, in the same letter case."""

    fault = "a text is missing"
    text: Word


class IContains(Check, frozen=True, tag="icontains"):
    """The reply has to contain this text, in any letter case."""

    fault = "a text is missing"
    text: Word


_AnyOf: TypeAlias = Annotated[tuple[Annotated[Word, "A text that may occur."], ...], Meta(min_length=1)]
_AllOf: TypeAlias = Annotated[tuple[Annotated[Word, "A text that has to occur."], ...], Meta(min_length=1)]


class ContainsAny(Check, frozen=True, tag="contains_any"):
    """The reply has to contain at least one of these texts."""

    fault = "it has none of the texts that it may have"
    texts: _AnyOf


class ContainsAll(Check, frozen=True, tag="contains_all"):
    """The reply has to contain all of these texts."""

    fault = "a text is missing"
    texts: _AllOf


class IContainsAny(Check, frozen=True, tag="icontains_any"):
    """The reply has to contain at least one of these texts, in any letter case."""

    fault = "it has none of the texts that it may have"
    texts: _AnyOf


class IContainsAll(Check, frozen=True, tag="icontains_all"):
    """The reply has to contain all of these texts, in any letter case."""

    fault = "a text is missing"
    texts: _AllOf


class StartsWith(Check, frozen=True, tag="starts_with"):
    """The reply has to start with this text."""

    fault = "it starts differently"
    text: Word


class EndsWith(Check, frozen=True, tag="ends_with"):
    """The reply has to end with this text."""

    fault = "it ends differently"
    text: Word


class Equals(Check, frozen=True, tag="equals"):
    """The reply, stripped at both ends, has to be exactly this text."""

    fault = "it is different"
    text: AnyWord


class Regex(Check, frozen=True, tag="regex"):
    """A regular expression that has to be found in the reply. Letter case matters unless a flag says otherwise."""

    fault = "a pattern is not found"
    alone = "pattern"
    pattern: Annotated[Text, "The regular expression.", EMPTY_PATTERN]
    flags: Annotated[
        str | None,
        "Any of i (any letter case), m (^ and $ at every line), s (the dot matches line ends too), x"
        " (spaces and comments are ignored).",
        Meta(extra_json_schema={"pattern": "^[imsx]*$"}),
    ] = None
    """None where the pattern alone was written."""


class MinTokens(Check, frozen=True, tag="min_tokens"):
    """The least number of output tokens that the reply may have."""

    fault = "it is too short"
    limit: Count


class MaxTokens(Check, frozen=True, tag="max_tokens"):
    """The most output tokens that the reply may have."""

    fault = "it is too long"
    limit: Count


class MinWords(Check, frozen=True, tag="min_words"):
    """The least number of words that the reply may have."""

    fault = "it is too short"
    limit: Count


class MaxWords(Check, frozen=True, tag="max_words"):
    """The most words that the reply may have."""

    fault = "it is too long"
    limit: Count


class Latency(Check, frozen=True, tag="latency"):
    """The most time that the reply may take: seconds, or a time with a unit, such as 500ms, 4s or 2min."""

    fault = "it took too long"
    limit: Duration


class MaxCost(Check, frozen=True, tag="cost"):
    """The most US dollars that the reply may cost."""

    fault = "it cost too much"
    limit: Annotated[float, Meta(ge=0)]


class IsJson(Check, frozen=True, tag="is_json"):
    """The whole reply has to be JSON; with false it must not be."""

    fault = "the JSON is not as wanted"
    wanted: bool = True


class ContainsJson(Check, frozen=True, tag="contains_json"):
    """The reply has to contain a JSON object or list, in a code block or in prose; with false it must not."""

    fault = "the JSON is not as wanted"
    wanted: bool = True


class JsonSchema(Check, frozen=True, tag="json_schema"):
    """The JSON in the reply has to satisfy this JSON Schema, or the one in this file."""

    fault = "the JSON does not fit its schema"
    document: Annotated[str, Meta(extra_json_schema={"type": ["object", "string"], "minLength": 1})]
    """The schema as JSON text."""


class JsonPath(Check, frozen=True, tag="json_path"):
    """Something has to be found at this path (RFC 9535) in the JSON of the reply."""

    fault = "the JSON does not hold what it has to"
    alone = "path"
    path: Annotated[Text, "The path, such as $.items[0].name.", EMPTY_PATTERN]
    expected: Annotated[JsonText | None, Key("equals"), "The value that has to stand there."] = None
    check: Annotated[AnyCheck | None, "A check of what stands there."] = None


class Levenshtein(Check, frozen=True, tag="levenshtein"):
    """The reply may differ from a text by so many characters."""

    fault = "it differs too much"
    expected: Annotated[Text, "The text.", EMPTY_PATTERN]
    most: Annotated[Count, Key("max"), "The most characters to insert, delete or replace."]


class Likeness(Check, frozen=True, kw_only=True):
    """What the checks share that compare letters and words."""

    fault = "it is not like what is wanted"
    expected: Annotated[Patterns, "What the reply should be like: one text, or several of which one is enough."]
    threshold: Annotated[Share, "The least likeness, from 0 to 1."]  # type: ignore[reportGeneralTypeIssues] - needed here


class RougeL(Likeness, frozen=True, kw_only=True, tag="rouge_l"):
    """The reply has to share words with a text, in their order (ROUGE-L, F-measure)."""


class Similar(Likeness, frozen=True, kw_only=True, tag="similar"):
    """The reply has to be like a text, by the characters that they share."""


class IsRefusal(Check, frozen=True, tag="is_refusal"):
    """The reply has to be a refusal; with false it must not be."""

    fault = "whether it refuses is not as wanted"
    wanted: bool = True


class FinishReason(Check, frozen=True, tag="finish_reason"):
    """Why the reply ended: stop, length, tool_calls, content_filter or refusal; a list allows several."""

    fault = "it ended for another reason"
    reasons: Names


class WantedCall(Struct, frozen=True):
    """A call of a tool that is expected of a reply."""

    name: str
    arguments: str | None = None
    """What the call has to be given at least, as JSON text; None: anything."""
    times: int = 1
    like: str | None = None
    """The same with patterns in the place of texts and `{near, within}` in the place of numbers."""
    result: str | None = None
    """A pattern, as of `match`, for what the tool answered."""
    status: ToolStatus | None = None
    """How the call ended."""


class ToolCalls(Check, frozen=True, tag="tool_calls"):
    """The tools that the reply has to call: a list of calls in their order, or a mapping that says more."""

    fault = "the calls of tools are not as wanted"
    alone = "calls"
    calls: Annotated[
        tuple[WantedCall, ...], "The calls that are expected.", Meta(extra_json_schema={"minItems": 1})
    ] = ()
    """Without calls only their number counts."""
    mode: Annotated[
        Literal["in_order", "any_order", "exact"],
        "How they are compared: in this order with others between (in_order, the default), in any order"
        " (any_order), or these and no others (exact).",
    ] = "in_order"
    least: Annotated[Count | None, Key("min"), "The fewest calls of any tool that the reply may have."] = None
    most: Annotated[
        Count | None,
        Key("max"),
        "The most calls of any tool that the reply may have; 0 forbids them.",
    ] = None


_Files: TypeAlias = Annotated[
    tuple[Annotated[str, Reading.PATTERN, Meta(extra_json_schema={"minLength": 1})], ...],
    Meta(min_length=1, extra_json_schema={"type": ["string", "array"], "minLength": 1}),
]
"""One path in the workspace, or several; a pattern such as `src/**/*.py` stands for all that match."""
_CommandLine: TypeAlias = Annotated[
    tuple[str, ...],
    Reading.COMMAND,
    "The command line to run, or its words.",
    Meta(
        extra_json_schema={
            "type": ["string", "array"],
            "minLength": 1,
            "minItems": 1,
            "items": {"type": "string"},
            "x-code": "empty-prompt",
        },
    ),
]
"""One entry is a command line for the shell; several are the words of a command."""


class FileExists(Check, frozen=True, tag="file_exists"):
    """The agent has to leave this file in its workspace: a path, or a pattern such as `src/**/*.py`; a list: each."""

    fault = "a file is missing"
    in_workspace = True
    paths: _Files


class FileContains(Check, frozen=True, tag="file_contains"):
    """A file of the agent's workspace has to contain a text, or a place that a regular expression matches."""

    fault = "a file does not hold what it has to"
    in_workspace = True
    path: Annotated[Text, "The file's path in the workspace.", EMPTY_PATTERN]
    text: Annotated[Word | None, "The text, in the same letter case."] = None
    pattern: Annotated[Text | None, "A regular expression.", EMPTY_PATTERN] = None


class FileUnchanged(Check, frozen=True, tag="file_unchanged"):
    """The agent must neither change nor delete these files, nor add any: a path, a pattern such as `tests/**`, or a
    list of them."""

    fault = "a file was changed that must stay as it was"
    in_workspace = True
    paths: _Files


class WorkspaceDiff(Check, frozen=True, tag="workspace_diff"):
    """What the agent has changed in its workspace, as a diff: a text that has to stand in it, or a mapping that says
    more."""

    fault = "the changes in the workspace are not as wanted"
    in_workspace = True
    alone = "contains"
    contains: Annotated[Word | None, "A text that has to stand in the diff."] = None
    not_contains: Annotated[Word | None, "A text that must not stand in it."] = None
    max_lines: Annotated[Count | None, "The most lines that may be added or removed; 0: nothing may change."] = None
    min_lines: Annotated[Count | None, "The fewest lines that have to be added or removed."] = None


class CommandCheck(Check, frozen=True, tag="command"):
    """A command, run in the agent's workspace, has to end with exit code 0: the project's tests, a compiler. What it
    prints last is the reason, and `{{ failed }}` quotes it."""

    alone = "run"
    in_workspace = True
    runs_code = True
    tells = True
    run: _CommandLine
    exit_code: Annotated[Count, "The exit code that is wanted, if not 0."] = 0
    timeout_s: Annotated[Seconds | None, Key("timeout"), "The most seconds that it may take; 300 unless given."] = None


class Semantic(Check, frozen=True, tag="semantic"):
    """The reply has to mean the same as an expected text, by the similarity of embeddings."""

    fault = "it means something else"
    expected: Annotated[Patterns, "What the reply should mean: one text, or several of which one is enough."]
    threshold: Annotated[  # type: ignore[reportGeneralTypeIssues] - without a default: it is needed here
        Share, "The least similarity that counts as the same meaning, from 0 to 1."
    ]
    target: Annotated[
        TargetName | None,
        "The target whose embeddings are compared, by name; `embedding_target` unless given.",
    ] = None


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

    target: Annotated[TargetName | None, "The target that judges, by name."] = None
    """None: the suite's."""
    votes: Annotated[int, Meta(ge=1, le=99), "How often the judge is asked the same; 1 unless given."] = 1
    combine: Annotated[
        Literal["mean", "majority"],
        "How several votes become one score: their mean, or the share of them that pass.",
    ] = "mean"
    on_invalid: Annotated[
        Literal["error", "zero"],
        "What an answer counts for that cannot be read, even when asked for once more: an error, or a score of 0.",
    ] = "error"
    written: Annotated[str, Reading.DERIVED] = ""
    """What the judge is asked as the author wrote it, before variables are filled in."""


class LlmJudge(Judged, frozen=True, tag="llm_judge"):
    """A model judges the reply. A text alone is the criteria."""

    fault = "the judge does not accept it"
    alone = "criteria"
    rules = {"if": {"type": "object", "not": {"required": ["prompt"]}}, "then": {"required": ["criteria"]}}
    criteria: Annotated[Prose | None, "What the judge is asked about the reply."] = None
    prompt: Annotated[
        tuple[str | JudgeVariable, ...] | None,
        "A file or a text. With a variable such as {{candidate_answer}} it is the judge's whole prompt;"
        " without any it is the criteria.",
        Meta(extra_json_schema={"type": "string", "pattern": r"\S", "x-code": "empty-prompt"}),
    ] = None
    """A template where it holds a judge variable, else criteria. The author's own variables were filled in at loading,
    so their values can never be mistaken for a judge's. Without prompt and criteria the case's outcome is judged."""


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
    """A model judges the reply by each criterion of a list."""

    fault = "the judge does not accept it"
    alone = "criteria"
    criteria: Annotated[tuple[Criterion, ...], "The criteria.", Meta(extra_json_schema={"minItems": 1})]

    @property
    def needs_all(self) -> bool:
        """Does it pass only when every criterion is met, and not by its mean?"""
        return self.threshold is None and not any(criterion.ranges for criterion in self.criteria)


class Compare(Judged, frozen=True, tag="compare"):
    """The reply has to be at least as good as another one; a model compares them in both orders."""

    fault = "another reply is better"
    other: Annotated[
        Prose | None,
        Key("reply"),
        "The other reply; the reference answer of `expected_messages` unless given.",
    ] = None
    other_target: Annotated[
        TargetName | None,
        Key("reply_of"),
        "A target that is asked the same: its reply is the other one.",
    ] = None
    criteria: Annotated[Prose | None, "What makes a reply the better one."] = None


class Code(Check, frozen=True, tag="code"):
    """A script is given the case and the reply as JSON and prints its verdict as JSON."""

    alone = "script"
    runs_code = True
    script: _CommandLine
    cwd: Annotated[Text | None, "The folder to run in; the suite's unless given."] = None
    timeout_s: Annotated[Seconds | None, Key("timeout"), MOST_SECONDS] = None


class PythonCheck(Check, frozen=True, tag="python"):
    """A function of the project judges the reply, in this process."""

    alone = "call"
    runs_code = True
    call: Annotated[
        str,
        "module:function, sync or async; it is given the evidence.",
        Meta(extra_json_schema={"pattern": r"^[^:\s]+:[^:\s]+$"}),
    ]
    arguments: Annotated[dict[str, Any], Key("with"), "Arguments, by name."] = {}
    timeout_s: Annotated[Seconds | None, Key("timeout"), MOST_SECONDS] = None


class Webhook(Check, frozen=True, tag="webhook"):
    """An address is sent the case and the reply as JSON and answers with its verdict."""

    alone = "url"
    url: Annotated[
        Text,
        "The address, with http:// or https://.",
        Meta(extra_json_schema={"pattern": r"^https?://|\{\{"}),
    ]
    headers: Annotated[dict[str, str], "Headers of the request."] = {}
    timeout_s: Annotated[Seconds | None, Key("timeout"), MOST_SECONDS] = None


class Custom(Check, frozen=True, tag="check"):
    """A check that the project's .rejoinder/checks.py or an installed package brings; its arguments stand beside it
    under `with`."""

    runs_code = True
    kind: Annotated[str, Meta(extra_json_schema={"minLength": 1})]
    arguments: Annotated[dict[str, Any], Reading.DERIVED] = {}


class Or(Check, frozen=True, tag="or"):
    """At least one of these checks has to pass. A nested prompt in here is sent when all of them failed."""

    fault = "none of several checks passes"
    items: tuple[Item, ...]


class And(Check, frozen=True, tag="and"):
    """All of these checks have to pass."""

    fault = "one of several checks fails"
    items: tuple[Item, ...]


class Group(Check, frozen=True, tag="group"):
    """So many of these checks have to pass, or their mean has to reach the `threshold` beside the group."""

    fault = "too few of several checks pass"
    items: Annotated[tuple[Item, ...], Key("checks"), "The checks of the group."]
    at_least: Annotated[PositiveCount | None, "How many of them have to pass."] = None


class Not(Check, frozen=True, tag="not"):
    """This check has to fail."""

    fault = "it does what it must not do"
    check: AnyCheck


class Item(Struct, frozen=True):
    """An entry of a `checks` list: a check, a follow-up, or both (the follow-up then belongs to the check)."""

    check: AnyCheck | None = None
    follow_up: FollowUp | None = None


class Level(Struct, frozen=True):
    """All that one reply has to satisfy. With a `threshold` the weighted mean of the scores decides."""

    items: tuple[Item, ...] = ()
    threshold: float | None = None


class Quote(Struct, frozen=True, tag="quote"):
    """A place in the words of a later turn where something of the conversation is put in: a reply, what failed (with
    what was wanted, or without), or a value that was extracted."""

    what: Literal["response", "failed", "answer", "extracted"]
    turn: int | None = None
    """Which reply; None is the last one."""
    name: str = ""
    """Of a reply: the step whose last one it is. Else the name of what was extracted."""


Hint: TypeAlias = Literal["look", "wrong", "kind", "answer"]
"""How much a follow-up gives away: look again; it is wrong; what kind of fault; the answer."""
Asks: TypeAlias = Literal["failed", "always"]


class FollowUp(Struct, frozen=True):
    """What is said when a level fails, and what the next reply has to satisfy.

    `prompt` is text with quotes between. Variables were filled in at loading, so a variable's value can never be
    mistaken for a quote.
    """

    prompt: tuple[str | Quote, ...]
    level: Level
    at: str
    hint: Hint | None = None
    ask: Asks = "failed"
    """`always`: a right reply is doubted, too."""


def kind_of(check: type[Check] | Check) -> str:
    """The key of a check in a suite."""
    return check.__struct_config__.tag  # type: ignore[return-value] - every check has a tag


CHECKS: dict[str, type[Check]] = {
    kind_of(value): value
    for value in tuple(globals().values())
    if isinstance(value, type) and issubclass(value, Check) and kind_of(value)
}
"""Every kind of check by its key in a suite."""
GROUPS = (Or, And, Group)
"""Checks that hold a list of others."""
TEXT_CHECKS = (
    Match,
    Contains,
    IContains,
    ContainsAny,
    ContainsAll,
    IContainsAny,
    IContainsAll,
    StartsWith,
    EndsWith,
    Equals,
    Regex,
)
"""Checks that words pass which hold the answer."""


def way_of_failing(kind: str) -> str:
    """How a reply falls short of a kind of check, without what was wanted."""
    return CHECKS.get(kind, Check).fault


def tells_why(kind: str) -> bool:
    """Is the reason why a kind of check failed no answer?"""
    return CHECKS.get(kind, Check).tells


if TYPE_CHECKING:
    AnyCheck: TypeAlias = Check
else:
    AnyCheck = Union[tuple(CHECKS.values())]  # noqa: UP007 - no list by hand
