"""Checks, levels and follow-ups: the conditions for a reply, and the messages sent when it fails them.

A check is declared here, once. Its class is named like its YAML key (`match` -> `Match`), its docstring is the
description in the JSON Schema, and its fields say how they are written: a single field is the check's value itself,
several are a mapping, and `alone` names the field that may also stand for the whole mapping. `CHECKS` and `AnyCheck`
are made from the classes of this module; the function that grades by one is found by its class (`checks/registry.py`).

Every `checks` list of a suite becomes a `Level` of items; an item is a check, a follow-up, or a check with its own
follow-up. An `or` block holds items too, because follow-ups inside it apply to the whole block.
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
    """The fields of all checks. `at` is the place of the check's value in the document."""

    alone: ClassVar[str | None] = None
    """The field that a suite may give as a plain value, without a mapping."""
    in_workspace: ClassVar[bool] = False
    """Whether it reads an agent's workspace."""
    runs_code: ClassVar[bool] = False
    """Whether it runs the user's code on this machine."""
    rules: ClassVar[dict[str, Any]] = {}
    """Rules of its JSON Schema that its fields do not express."""
    of_text: ClassVar[bool] = True
    """Whether it reads the text of a reply."""
    fault: ClassVar[str] = "it does not pass"
    """A description of the failure that does not reveal the expected value, for `{{ failed }}`."""
    tells: ClassVar[bool] = False
    """Whether `{{ failed }}` may quote the reason, because it does not reveal the answer."""

    name: str | None = None
    weight: float = 1.0
    required: bool = False
    threshold: float | None = None
    every_turn: bool = False
    metric: str | None = None
    """The named measure that this check's score contributes to, over all cases."""
    at: str = ""


class Occurrences(Struct, frozen=True):
    """The numbers of times that a text may occur in a reply."""

    least: int = 1
    most: int | None = None


class Counted(Check, frozen=True, kw_only=True):
    """The fields of checks whose text or pattern can be counted."""

    count: Annotated[Occurrences | None, Reading.DERIVED] = None
    """None: once is enough."""


class Match(Counted, frozen=True, tag="match"):
    r"""The reply, stripped at both ends, has to match this pattern. Only `*` is special (any text, including line
    breaks); letter case does not matter; without stars the whole reply has to be equal. A pattern that starts with `.*`
    or `^` is a regular expression. `\*` is a literal star."""

    fault = "it does not match"
    pattern: Pattern


class NotMatch(Check, frozen=True, tag="not_match"):
    """The reply must not match this pattern (the same rules as `match`)."""

    fault = "it matches what it must not match"
    pattern: Pattern


class Contains(Counted, frozen=True, tag="contains"):
    """The reply has to contain this text, in the same letter case."""

    fault = "a text is missing"
    text: Word


class IContains(Counted, frozen=True, tag="icontains"):
    """The reply has to contain this text, in any letter case."""

    fault = "a text is missing"
    text: Word


_AnyOf: TypeAlias = Annotated[tuple[Annotated[Word, "A text that may occur."], ...], Meta(min_length=1)]
_AllOf: TypeAlias = Annotated[tuple[Annotated[Word, "A text that has to occur."], ...], Meta(min_length=1)]


class ContainsAny(Check, frozen=True, tag="contains_any"):
    """The reply has to contain at least one of these texts."""

    fault = "it has none of the expected texts"
    texts: _AnyOf


class ContainsAll(Check, frozen=True, tag="contains_all"):
    """The reply has to contain all of these texts."""

    fault = "a text is missing"
    texts: _AllOf


class IContainsAny(Check, frozen=True, tag="icontains_any"):
    """The reply has to contain at least one of these texts, in any letter case."""

    fault = "it has none of the expected texts"
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


class Regex(Counted, frozen=True, tag="regex"):
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
    """None if only the pattern was written."""


class MinTokens(Check, frozen=True, tag="min_tokens"):
    """The minimum number of output tokens of the reply."""

    of_text = False
    fault = "it is too short"
    limit: Count


class MaxTokens(Check, frozen=True, tag="max_tokens"):
    """The maximum number of output tokens of the reply."""

    of_text = False
    fault = "it is too long"
    limit: Count


class MinWords(Check, frozen=True, tag="min_words"):
    """The minimum number of words of the reply."""

    fault = "it is too short"
    limit: Count


class MaxWords(Check, frozen=True, tag="max_words"):
    """The maximum number of words of the reply."""

    fault = "it is too long"
    limit: Count


class Latency(Check, frozen=True, tag="latency"):
    """The maximum time for the reply: seconds, or a time with a unit, such as 500ms, 4s or 2min."""

    of_text = False
    fault = "it took too long"
    limit: Duration


class MaxCost(Check, frozen=True, tag="cost"):
    """The maximum cost of the reply in US dollars."""

    of_text = False
    fault = "it cost too much"
    limit: Annotated[float, Meta(ge=0)]


class IsJson(Check, frozen=True, tag="is_json"):
    """The whole reply has to be JSON; with false it must not be."""

    fault = "it breaks the rule on JSON"
    wanted: bool = True


class ContainsJson(Check, frozen=True, tag="contains_json"):
    """The reply has to contain a JSON object or list, in a code block or in prose; with false it must not."""

    fault = "it breaks the rule on JSON"
    wanted: bool = True


class JsonSchema(Check, frozen=True, tag="json_schema"):
    """The JSON in the reply has to satisfy this JSON Schema, or the one in this file."""

    fault = "the JSON does not fit its schema"
    document: Annotated[str, Meta(extra_json_schema={"type": ["object", "string"], "minLength": 1})]
    """The schema as JSON text."""
    is_sent: Annotated[bool, Reading.DERIVED] = False
    """Whether it is an `output_schema`, which is sent with each request. The whole reply has to satisfy it, whatever
    part of the reply other checks see."""
    of_target: Annotated[bool, Reading.DERIVED] = False
    """Whether it is the target's `output_schema`, and not the author's of the case."""


class JsonPath(Check, frozen=True, tag="json_path"):
    """Something has to be found at this path (RFC 9535) in the JSON of the reply."""

    fault = "the JSON lacks a required value"
    alone = "path"
    path: Annotated[Text, "The path, such as $.items[0].name.", EMPTY_PATTERN]
    expected: Annotated[JsonText | None, Key("equals"), "The expected value at the path."] = None
    check: Annotated[AnyCheck | None, "A check of the value at the path."] = None


class IsXml(Check, frozen=True, tag="is_xml"):
    """The whole reply has to be well-formed XML; with false it must not be. A mapping can name elements that it must
    have."""

    fault = "it breaks the rule on XML"
    alone = "wanted"
    wanted: Annotated[bool, "True: the reply has to be XML; false: it must not be."] = True
    elements: Annotated[
        tuple[Annotated[str, Reading.PATTERN, Meta(extra_json_schema={"minLength": 1})], ...],
        "Elements that the XML must have, as paths of names from its root, such as order/item.",
        Meta(min_length=1),
    ] = ()
    anywhere: Annotated[bool, "XML in a code block or between other words is enough."] = False


class Levenshtein(Check, frozen=True, tag="levenshtein"):
    """The maximum number of characters by which the reply may differ from a text."""

    fault = "it differs too much"
    expected: Annotated[Text, "The text.", EMPTY_PATTERN]
    most: Annotated[Count, Key("max"), "The maximum number of characters to insert, delete or replace."]


class Likeness(Check, frozen=True, kw_only=True):
    """The fields of checks that compare letters and words."""

    fault = "it is not similar enough"
    expected: Annotated[Patterns, "The expected text, or several; resembling one is enough."]
    threshold: Annotated[Share, "The minimum similarity, from 0 to 1."]  # type: ignore[reportGeneralTypeIssues] - needed here


class RougeL(Likeness, frozen=True, kw_only=True, tag="rouge_l"):
    """The reply has to share words with a text, in their order (ROUGE-L, F-measure)."""


class Similar(Likeness, frozen=True, kw_only=True, tag="similar"):
    """The reply has to resemble a text, measured by the characters that they share."""


class IsRefusal(Check, frozen=True, tag="is_refusal"):
    """The reply has to be a refusal; with false it must not be."""

    fault = "it breaks the rule on refusals"
    wanted: bool = True


class FinishReason(Check, frozen=True, tag="finish_reason"):
    """Why the reply ended: stop, length, tool_calls, content_filter or refusal; a list allows several."""

    of_text = False
    fault = "it ended for another reason"
    reasons: Names


class WantedField(Struct, frozen=True):
    """A field that is expected in the JSON of a reply."""

    expected: str
    """The value, as JSON text."""
    kind: Literal["exact", "number", "date", "fuzzy"] = "exact"
    tolerance: float | None = None
    """For a number the largest difference, for a date in days, for `fuzzy` as a share of the text."""
    weight: float = 1.0


class FieldAccuracy(Check, frozen=True, kw_only=True, tag="field_accuracy"):
    """Several fields of the JSON in the reply have to be right; the score is their weighted share."""

    fault = "fields of the JSON are missing or wrong"
    fields: Annotated[dict[str, WantedField], "The fields, each by its path (RFC 9535): $.total, or just total."]
    threshold: Annotated[Share | None, "The minimum share of right fields; 1 by default."] = None


class WantedCall(Struct, frozen=True):
    """A call of a tool that is expected of a reply."""

    name: str
    arguments: str | None = None
    """The arguments that the call must at least have, as JSON text; None: any."""
    times: int = 1
    like: str | None = None
    """Like `arguments`, with patterns in place of texts and `{near, within}` in place of numbers."""
    result: str | None = None
    """A pattern, as in `match`, for the tool's answer."""
    status: ToolStatus | None = None
    """The expected status of the call."""


class ToolCalls(Check, frozen=True, tag="tool_calls"):
    """The tools that the reply has to call: a list of calls in their order, or a mapping that says more."""

    of_text = False
    fault = "the tool calls are not as expected"
    alone = "calls"
    calls: Annotated[
        tuple[WantedCall, ...], "The calls that are expected.", Meta(extra_json_schema={"minItems": 1})
    ] = ()
    """Without calls only their number counts."""
    mode: Annotated[
        Literal["in_order", "any_order", "exact"],
        "The comparison: in this order with others between (in_order, the default), in any order (any_order), "
        "or only these (exact).",
    ] = "in_order"
    least: Annotated[Count | None, Key("min"), "The minimum number of tool calls."] = None
    most: Annotated[
        Count | None,
        Key("max"),
        "The maximum number of tool calls; 0 forbids them.",
    ] = None
    subset: Annotated[
        tuple[WantedCall, ...],
        "The only calls that the reply may make: each call that it makes has to be like one of these.",
        Meta(extra_json_schema={"minItems": 1}),
    ] = ()
    schema: Annotated[
        bool, "Whether the arguments of each call have to satisfy the JSON Schema of its tool, and the tool to exist."
    ] = False


class Effort(Check, frozen=True, kw_only=True, tag="effort"):
    """The conversation up to this reply has to keep within these bounds."""

    fault = "it took too much or too little effort"
    of_text = False
    tells = True
    max_tool_calls: Annotated[Count | None, "The maximum number of tool calls."] = None
    min_tool_calls: Annotated[Count | None, "The minimum number of tool calls."] = None
    max_turns: Annotated[Count | None, "The maximum number of turns."] = None
    min_turns: Annotated[Count | None, "The minimum number of turns."] = None
    max_tokens: Annotated[Count | None, "The maximum number of tokens, sent and received."] = None
    min_tokens: Annotated[Count | None, "The minimum number of tokens, sent and received."] = None


class ToolState(Check, frozen=True, kw_only=True, tag="tool_state"):
    """A tool is called after the reply, and its answer has to pass a check: what the conversation has left in it."""

    fault = "a tool was left in a wrong state"
    of_text = False
    tool: Annotated[Pattern, "The tool, as models see its name or by its own name. It need not be offered to models."]
    arguments: Annotated[JsonText, "The arguments of the call.", Meta(extra_json_schema={"type": "object"})] = "{}"
    check: Annotated[AnyCheck, "The check of the tool's answer."]


class Canary(Check, frozen=True, tag="canary"):
    """A planted secret must not appear: in no reply so far, in no arguments of its tool calls, and in no file that an
    agent changed."""

    fault = "a secret was given away"
    of_text = False
    text: Word


class SkillUsed(Check, frozen=True, tag="skill_used"):
    """The agent has to use this skill; a list: each of these."""

    fault = "a skill was not used"
    of_text = False
    names: Annotated[
        tuple[Annotated[str, Reading.PATTERN, Meta(extra_json_schema={"minLength": 1})], ...],
        Meta(min_length=1, extra_json_schema={"type": ["string", "array"], "minLength": 1}),
    ]


_Files: TypeAlias = Annotated[
    tuple[Annotated[str, Reading.PATTERN, Meta(extra_json_schema={"minLength": 1})], ...],
    Meta(min_length=1, extra_json_schema={"type": ["string", "array"], "minLength": 1}),
]
"""One path in the workspace, or several; a pattern such as `src/**/*.py` stands for all matching files."""
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
    of_text = False
    paths: _Files


class FileContains(Check, frozen=True, tag="file_contains"):
    """A file of the agent's workspace has to contain a text, or a place that a regular expression matches."""

    fault = "a file lacks a required text"
    in_workspace = True
    of_text = False
    path: Annotated[Text, "The file's path in the workspace.", EMPTY_PATTERN]
    text: Annotated[Word | None, "The text, in the same letter case."] = None
    pattern: Annotated[Text | None, "A regular expression.", EMPTY_PATTERN] = None


class FileUnchanged(Check, frozen=True, tag="file_unchanged"):
    """The agent must neither change nor delete these files, nor add any: a path, a pattern such as `tests/**`, or a
    list."""

    fault = "a file was changed that must not change"
    in_workspace = True
    of_text = False
    paths: _Files


class WorkspaceDiff(Check, frozen=True, tag="workspace_diff"):
    """The agent's changes in its workspace, as a diff: a text that it must contain, or a mapping with more
    conditions."""

    fault = "the changes in the workspace are not as expected"
    in_workspace = True
    of_text = False
    alone = "contains"
    contains: Annotated[Word | None, "A text that the diff must contain."] = None
    not_contains: Annotated[Word | None, "A text that the diff must not contain."] = None
    max_lines: Annotated[Count | None, "The maximum number of lines added or removed; 0: nothing may change."] = None
    min_lines: Annotated[Count | None, "The minimum number of lines added or removed."] = None


class CommandCheck(Check, frozen=True, tag="command"):
    """A command, run in the agent's workspace, has to end with exit code 0: the project's tests, a compiler. Its last
    output is the reason, and `{{ failed }}` quotes it."""

    alone = "run"
    in_workspace = True
    of_text = False
    runs_code = True
    tells = True
    run: _CommandLine
    exit_code: Annotated[Count, "The expected exit code; 0 by default."] = 0
    timeout_s: Annotated[Seconds | None, Key("timeout"), "Timeout in seconds; 300 by default."] = None


class Semantic(Check, frozen=True, tag="semantic"):
    """The reply has to mean the same as an expected text, by the similarity of embeddings."""

    fault = "it means something else"
    expected: Annotated[Patterns, "The expected text, or several; matching the meaning of one is enough."]
    threshold: Annotated[  # type: ignore[reportGeneralTypeIssues] - without a default: it is needed here
        Share, "The minimum similarity that counts as the same meaning, from 0 to 1."
    ]
    target: Annotated[
        TargetName | None,
        "The target whose embeddings are compared, by name; `embedding_target` by default.",
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
"""Variables that a judge's own prompt may use as `{{ name }}`."""


class JudgeVariable(Struct, frozen=True, tag="variable"):
    """A place in a judge's prompt that is filled in when the judge is asked."""

    name: str


class Judged(Check, frozen=True, kw_only=True):
    """The fields of all checks that ask a model."""

    target: Annotated[TargetName | None, "The target that judges, by name."] = None
    """None: the suite's."""
    votes: Annotated[int, Meta(ge=1, le=99), "The number of votes: how often the judge is asked; 1 by default."] = 1
    combine: Annotated[
        Literal["mean", "majority"],
        "The rule that combines several votes: their mean, or the share of votes that pass.",
    ] = "mean"
    on_invalid: Annotated[
        Literal["error", "zero"],
        "The result of an answer that cannot be read, even on the second attempt: an error, or a score of 0.",
    ] = "error"
    written: Annotated[str, Reading.DERIVED] = ""
    """The judge's instructions as the author wrote them, before variables are filled in."""


class LlmJudge(Judged, frozen=True, tag="llm_judge"):
    """A model judges the reply. A plain text is the criteria."""

    fault = "the judge does not accept it"
    alone = "criteria"
    rules = {"if": {"type": "object", "not": {"required": ["prompt"]}}, "then": {"required": ["criteria"]}}
    criteria: Annotated[Prose | None, "The criteria by which the judge grades the reply."] = None
    prompt: Annotated[
        tuple[str | JudgeVariable, ...] | None,
        "A file or a text. With a variable such as {{candidate_answer}} it is the judge's whole prompt;"
        " without any it is the criteria.",
        Meta(extra_json_schema={"type": "string", "pattern": r"\S", "x-code": "empty-prompt"}),
    ] = None
    """A template if it has a judge variable, else criteria. The author's own variables were filled in at loading, so
    their values can never be mistaken for a judge's variable. Without prompt and criteria the case's outcome is judged.
    """


class ReadyJudge(Judged, frozen=True, kw_only=True):
    """The fields of judges with ready-made criteria (`formatting/ready_judges.py`). `true` stands for no fields."""

    rules = {"type": ["boolean", "object"]}


class Faithful(ReadyJudge, frozen=True, kw_only=True, tag="faithful"):
    """A model judges whether the context of the case or turn supports everything that the reply claims."""

    fault = "it claims something that the context does not support"


class Relevant(ReadyJudge, frozen=True, kw_only=True, tag="relevant"):
    """A model judges whether the reply addresses the question."""

    fault = "it does not address the question"


class Complete(ReadyJudge, frozen=True, kw_only=True, tag="complete"):
    """A model judges whether the reply has everything that the expected outcome, the reference answer or the context
    demands."""

    fault = "something is missing in it"


class ScoreRange(Struct, frozen=True):
    """The meaning of the scores from `least` to `most`, out of ten."""

    least: int
    most: int
    meaning: str


class Criterion(Struct, frozen=True, kw_only=True):
    """One criterion of a rubric. With ranges it is scored from 0 to 10; without, it is met or not."""

    id: str
    text: str
    weight: float = 1.0
    required: bool = False
    min_score: float | None = None
    """The minimum share of the score for the criterion to be met; only with ranges."""
    ranges: tuple[ScoreRange, ...] = ()


class Rubric(Judged, frozen=True, kw_only=True, tag="rubric"):
    """A model judges the reply by each criterion of a list."""

    fault = "the judge does not accept it"
    alone = "criteria"
    criteria: Annotated[tuple[Criterion, ...], "The criteria.", Meta(extra_json_schema={"minItems": 1})]

    @property
    def needs_all(self) -> bool:
        """Whether it passes only if every criterion is met, and not by its mean."""
        return self.threshold is None and not any(criterion.ranges for criterion in self.criteria)


class Compare(Judged, frozen=True, tag="compare"):
    """The reply has to be at least as good as another one; a model compares them in both orders."""

    fault = "another reply is better"
    other: Annotated[
        Prose | None,
        Key("reply"),
        "The other reply; the reference answer of `expected_messages` by default.",
    ] = None
    other_target: Annotated[
        TargetName | None,
        Key("reply_of"),
        "A target that gets the same messages; its reply is the other one.",
    ] = None
    criteria: Annotated[Prose | None, "The criteria for the better reply."] = None


class Code(Check, frozen=True, tag="code"):
    """A script gets the case and the reply as JSON and prints its verdict as JSON."""

    alone = "script"
    runs_code = True
    script: _CommandLine
    cwd: Annotated[Text | None, "The folder to run in; the suite's folder by default."] = None
    timeout_s: Annotated[Seconds | None, Key("timeout"), MOST_SECONDS] = None


class PythonCheck(Check, frozen=True, tag="python"):
    """A function of the project judges the reply, in this process."""

    alone = "call"
    runs_code = True
    call: Annotated[
        str,
        "module:function, sync or async; it gets the evidence.",
        Meta(extra_json_schema={"pattern": r"^[^:\s]+:[^:\s]+$"}),
    ]
    arguments: Annotated[dict[str, Any], Key("with"), "Arguments, by name."] = {}
    timeout_s: Annotated[Seconds | None, Key("timeout"), MOST_SECONDS] = None


Stripped: TypeAlias = Literal["fences", "thinking"]


class ReplyPart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The way to find a part of a reply: first some things are taken away, then one of the others is looked for. With
    nothing given it is the whole reply."""

    at: str = ""
    strip: tuple[Stripped, ...] = ()
    pattern: str | None = None
    """A regular expression: its first group, or the whole match."""
    path: str | None = None
    """A JSON path: the first value there."""
    function: PythonCheck | None = None
    """A function that returns the part: it is called as a check is, and gets the same evidence."""

    @property
    def is_whole(self) -> bool:
        return not self.strip and self.pattern is None and self.path is None and self.function is None


class Webhook(Check, frozen=True, tag="webhook"):
    """An address gets the case and the reply as JSON and answers with its verdict."""

    alone = "url"
    url: Annotated[
        Text,
        "The address, with http:// or https://.",
        Meta(extra_json_schema={"pattern": r"^https?://|\{\{"}),
    ]
    headers: Annotated[dict[str, str], "Headers of the request."] = {}
    timeout_s: Annotated[Seconds | None, Key("timeout"), MOST_SECONDS] = None


class Custom(Check, frozen=True, tag="check"):
    """A check from the project's .rejoinder/checks.py or an installed package; its arguments are given under `with`."""

    runs_code = True
    kind: Annotated[str, Meta(extra_json_schema={"minLength": 1})]
    arguments: Annotated[dict[str, Any], Reading.DERIVED] = {}


class Or(Check, frozen=True, tag="or"):
    """At least one of these checks has to pass. A nested prompt in here is sent if all of them failed."""

    of_text = False
    fault = "none of several checks passes"
    items: tuple[Item, ...]


class And(Check, frozen=True, tag="and"):
    """All of these checks have to pass."""

    of_text = False
    fault = "one of several checks fails"
    items: tuple[Item, ...]


class Group(Check, frozen=True, tag="group"):
    """At least `at_least` of these checks have to pass, or their mean has to reach the `threshold` beside the group."""

    of_text = False
    fault = "too few of several checks pass"
    items: Annotated[tuple[Item, ...], Key("checks"), "The checks of the group."]
    at_least: Annotated[PositiveCount | None, "The number of checks that must pass."] = None


class Not(Check, frozen=True, tag="not"):
    """This check has to fail."""

    of_text = False
    fault = "it does what it must not do"
    check: AnyCheck


class Item(Struct, frozen=True):
    """An entry of a `checks` list: a check, a follow-up, or both (the follow-up then belongs to the check)."""

    check: AnyCheck | None = None
    follow_up: FollowUp | None = None


class Level(Struct, frozen=True):
    """All conditions for one reply. With a `threshold` the weighted mean of the scores decides."""

    items: tuple[Item, ...] = ()
    threshold: float | None = None


class Quote(Struct, frozen=True, tag="quote"):
    """A place in the words of a later turn for a part of the conversation: a reply, a failure (with or without the
    expected value), or an extracted value."""

    what: Literal["response", "failed", "answer", "extracted"]
    turn: int | None = None
    """The number of the reply; None for the last one."""
    name: str = ""
    """For a reply: the step whose last reply it is. Otherwise the name of the extracted value."""


Hint: TypeAlias = Literal["look", "wrong", "kind", "answer"]
"""The information that a follow-up gives away: look again; it is wrong; the kind of fault; the answer."""
Asks: TypeAlias = Literal["failed", "always"]


class FollowUp(Struct, frozen=True):
    """The message after a failed level, and the conditions for the next reply.

    `prompt` is text with quotes between. Variables were filled in at loading, so a variable's value can never be
    mistaken for a quote.
    """

    prompt: tuple[str | Quote, ...]
    level: Level
    at: str
    hint: Hint | None = None
    ask: Asks = "failed"
    """`always`: it is also sent after a right reply, to doubt it."""
    again: bool = False
    """Whether it repeats the follow-up before it, with the same or a different message: the depth stays."""


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
"""Checks that hold a list of checks."""
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
"""Checks that a text with the answer passes."""


def way_of_failing(kind: str) -> str:
    """The failure of a kind of check, without the expected value."""
    return CHECKS.get(kind, Check).fault


def tells_why(kind: str) -> bool:
    """Whether the reason of a failed check does not reveal the answer."""
    return CHECKS.get(kind, Check).tells


if TYPE_CHECKING:
    AnyCheck: TypeAlias = Check
else:
    AnyCheck = Union[tuple(CHECKS.values())]  # noqa: UP007 - no list by hand
