"""Keys of other tools, and their counterparts here.

promptfoo, later versions of AgentV, old files of vibecheck, OpenAI's evals: their words get the right counterpart, and
never the nearest spelling of something else. A word with `instead` is the same thing under another name, so the line
with the right word can be pasted; for all others only the words are given, because the value has to change too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from rejoinder.spelling import nearest
from rejoinder.suite.document_paths import DocumentPath
from rejoinder.words.numbers import listed


class Advice(Struct, frozen=True):
    words: str
    instead: str | None = None


def same_as(word: str) -> Advice:
    return Advice(f"did you mean `{word}`?", word)


def advise_nearest(word: str, names: Iterable[str], likeness: float = 0.6) -> Advice | None:
    meant = nearest(word, names, likeness)
    return same_as(meant) if meant else None


_CHECKS = Advice("write the conditions for a reply as `checks`, one per item: `- contains: Paris`")
_EXPECTED = Advice(
    "write the condition for the reply: `checks: [{contains: ...}]` or `checks: [{equals: ...}]`; a reference answer"
    " for judges is `expected_messages`"
)
_JUDGED = Advice("write the question for a judge as `outcome`, or as a check: `- llm_judge: {criteria: ...}`")
_TARGETS = Advice("write the targets as `targets` (a list with `name` and `provider`), or `metadata.model`")

_OF_CASES = {
    **dict.fromkeys(("tests", "test_cases", "testcases", "examples"), same_as("evals")),
    **dict.fromkeys(("variables", "variable", "params", "parameters"), same_as("vars")),
    **dict.fromkeys(("question", "query", "input"), same_as("prompt")),
    "messages": same_as("input_messages"),
    **dict.fromkeys(("assert", "asserts", "assertions"), _CHECKS),
    **dict.fromkeys(("expected", "expect", "expected_output", "ideal", "answer", "output"), _EXPECTED),
    "criteria": _JUDGED,
    "conversation": Advice("write the turns of a conversation as `turns`: `turns: [{prompt: ..., checks: [...]}]`"),
    **dict.fromkeys(("providers", "provider"), _TARGETS),
    "models": Advice("several targets are a list: `target: [a, b]` in the suite, or `metadata: {model: [a, b]}`"),
    "prompts": Advice("a prompt belongs to its case: `evals: [{prompt: ...}]`"),
    "defaultTest": Advice("put keys that all cases share into `defaults`, and checks of all cases into `checks`"),
    "scenarios": Advice("cases that are run for each row of a data set have `cases: FILE`"),
    "tool_trajectory": Advice("require tool calls with a check: `- tool_calls: [NAME]`"),
    **dict.fromkeys(("repeat", "trials"), Advice("set the number of repeats on the command line: `-n 5`")),
}
"""Keys of suites, cases and `metadata`."""

_JUDGE = Advice("a model judges the reply with `llm_judge: {criteria: ...}`")
_CODE = Advice("use `code` for your own program that judges the reply, and `python` for your own function")
_GROUP = Advice("several checks become one with `group: {checks: [...]}`")
_TOOLS = Advice("require tool calls with `tool_calls: [NAME]`")
_METRICS = Advice("limit a reply with `latency`, `cost` and `max_tokens`")

_OF_CHECKS = {
    **dict.fromkeys(("exact", "exact_match", "exactly", "is"), same_as("equals")),
    **dict.fromkeys(("includes", "include", "substring", "string_contains"), same_as("contains")),
    **dict.fromkeys(("regexp", "matches_regex", "pattern"), same_as("regex")),
    **dict.fromkeys(
        ("llm_rubric", "judge", "llm", "model_graded", "model_graded_closedqa", "model_graded_factuality", "g_eval"),
        _JUDGE,
    ),
    **dict.fromkeys(("factuality", "answer_relevance", "context_faithfulness", "moderation", "llm_grader"), _JUDGE),
    **dict.fromkeys(("javascript", "code_judge", "code_grader", "script", "ruby"), _CODE),
    "contains_xml": Advice("XML between other words is accepted by `is_xml: {anywhere: true}`"),
    **dict.fromkeys(("any_of", "one_of", "any"), same_as("or")),
    **dict.fromkeys(("all_of", "all"), same_as("and")),
    **dict.fromkeys(("composite", "assert_set", "and_all"), _GROUP),
    **dict.fromkeys(("tool_trajectory", "trajectory", "tool_call", "tools", "is_valid_openai_tools_call"), _TOOLS),
    "execution_metrics": same_as("effort"),
    **dict.fromkeys(("token_usage", "duration"), _METRICS),
    "not_skill_used": Advice("a check is negated with `not`: write `- not: {skill_used: ...}`"),
    "embedding": Advice("meanings are compared with `semantic: {expected: ..., threshold: 0.8}`"),
    "rouge_n": Advice("the longest common subsequence of words is `rouge_l`; there is no other ROUGE"),
    "value": Advice("the kind of a check is its key: `- contains: ...`"),
    "expected": Advice("name the check that compares: `- contains: ...` or `- equals: ...`"),
}
"""Checks, and types of evaluators."""

_OF_WHOLE = ("always", "never", "by_turn", "after", "before", "on")
"""Our own words, of checks of a whole conversation."""

_AGENTV_CASE = ("input", "criteria", "expected_output", "assert", "assertions")
"""Keys of cases in AgentV since it has `tests`."""
_AGENTV_SUITE = ("default_test", "evaluate_options", "environment", "workspace", "governance", "experiment")
"""Keys of its files that promptfoo does not have, or spells differently."""
_PROMPTFOO = ("prompts", "providers", "tests", "scenarios", "defaultTest")
_PROMPTFOO_ALONE = ("defaultTest", "evaluateOptions", "commandLineOptions", "outputPath", "redteam", "derivedMetrics")
_OF_AGENTV = (
    "this is an eval of AgentV 4 or 5 ({words}); write a suite from it with `rejoinder import agentv FILE --out DIR`"
)
_OF_PROMPTFOO = (
    "this is a configuration of promptfoo ({words}); write a suite from it with `rejoinder import promptfoo FILE --out"
    " DIR`"
)


def find_key(word: str, value: Any) -> Advice | None:
    """Advice for a foreign key of a suite, a case or `metadata`; None if no other tool is known to have it."""
    if word == "input" and isinstance(value, list):
        return same_as("input_messages")
    if word in ("expected", "expect") and isinstance(value, str) and 0 < len(value) <= 40 and "\n" not in value:
        return Advice(f"write the condition for the reply: `checks: [{{contains: {value}}}]`")
    return _OF_CASES.get(word)


def find_check(word: str, item: Mapping[str, Any], names: tuple[str, ...]) -> Advice | None:
    """Advice for a foreign check: its name here, or how to write it."""
    if word == "type" and isinstance(item.get("type"), str):
        kind = _fold(item["type"])
        if kind in names:
            return Advice(f"the kind of a check is its key: write `- {kind}: ...`")
        word = kind
    return _check(_fold(word), names)


def find_whole(word: str, path: DocumentPath) -> Advice | None:
    """Advice for a key of conversation checks that is used in a check of one reply."""
    if word not in _OF_WHOLE:
        return None
    if "conversation_checks" in path:
        return Advice(f"`{word}` is a key of items of `conversation_checks`, and cannot be used in other checks")
    return Advice("put checks of the whole conversation into `conversation_checks`, beside `checks`")


def find_evaluator(word: str, types: tuple[str, ...]) -> Advice | None:
    """Advice for a foreign type of evaluator: one of our types, or a check."""
    kind = _fold(word)
    return same_as(kind) if kind in types else _OF_CHECKS.get(kind)


def _check(kind: str, names: tuple[str, ...]) -> Advice | None:
    negated = re.fullmatch(r"(?:is_)?(?:not|no|does_not|doesnt)_(.+)", kind)
    if negated and negated[1] in names:
        return Advice(f"a check is negated with `not`: write `- not: {{{negated[1]}: ...}}`")
    return _OF_CHECKS.get(kind)


def _fold(word: str) -> str:
    """`not-contains` and `notContains` as `not_contains`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).lower().replace("-", "_")


_OPPOSITES = ("not", "any", "all", "min", "max", "start", "end")


def say_the_same(word: str, other: str) -> bool:
    """Whether two names of checks are not opposites: `not_contains` resembles `contains`, and means the contrary."""
    return _sense(_fold(word)) == _sense(_fold(other))


def _sense(kind: str) -> set[str]:
    senses = {word for word in _OPPOSITES if word in kind}
    return senses | {"not"} if re.search(r"(?:^|_)(?:no|none|never|without)(?:_|$)", kind) else senses


def recognise(suite: Mapping[str, Any], *, beside_agentv: bool) -> tuple[str, str] | None:
    """The key and the message for a file of another tool: one message says so, instead of one per key. `beside_agentv`:
    a folder above the file has AgentV's files."""
    if {"evals", "evalcases"} & set(suite) or has_conversations(suite):
        return None
    keys = [key for key in suite if key in _PROMPTFOO]
    has_its_form = len(keys) > 1 and bool({"providers", "prompts"} & set(keys))
    if "tests" in suite and not any(word in suite for word in _PROMPTFOO_ALONE):
        words = _words_of_agentv(suite)
        of_agentv = bool(words) if has_its_form else len(words) > 1
        if of_agentv or (beside_agentv and (has_its_form or words)):
            return "tests", _OF_AGENTV.format(words=_quote(["tests", *keys, *words]))
    return (keys[0], _OF_PROMPTFOO.format(words=_quote(keys))) if has_its_form else None


def has_conversations(suite: Mapping[str, Any]) -> bool:
    """Whether its `tests` are conversations in AgentV's form, which can be read."""
    tests = suite.get("tests")
    return (
        isinstance(tests, list)
        and bool(tests)
        and not {"providers", "prompts"} & set(suite)
        and all(isinstance(case, dict) and case.get("mode") == "conversation" for case in tests)
    )


def _words_of_agentv(suite: Mapping[str, Any]) -> list[str]:
    """The words that identify an eval of AgentV 4 or 5."""
    tests = suite.get("tests")
    cases: list[Any] = [case for case in tests if isinstance(case, dict)] if isinstance(tests, list) else []
    used = {key for case in cases for key in case}
    words = [word for word in _AGENTV_SUITE if word in suite] + [word for word in _AGENTV_CASE if word in used]
    if {"providers", "prompts"} & set(suite):  # promptfoo has `assert`, too
        asserted = [item for case in (suite, *cases) for item in _list_of(case.get("assert"))]
        words = [word for word in words if word not in ("assert", "assertions")]
        if any(isinstance(item, str) for item in asserted):
            words.append("texts in `assert`")
        if any(isinstance(item, dict) and item.get("type") == "script" for item in asserted):
            words.append("type: script")
    elif isinstance(tests, str):
        words.append("a path in `tests`")
    return words


def _list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _quote(words: list[str]) -> str:
    return listed([word if "`" in word else f"`{word}`" for word in dict.fromkeys(words)])
