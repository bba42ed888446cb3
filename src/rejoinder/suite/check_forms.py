"""Checks that are more than their fields, and AgentV's forms of them: evaluators and rubrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import structs

from rejoinder.json_schemas import Expansion, TooManyVisits, compile_schema
from rejoinder.model import (
    Check,
    Code,
    Compare,
    Criterion,
    Custom,
    Item,
    JsonPath,
    JsonSchema,
    JudgeVariable,
    LlmJudge,
    Match,
    NotMatch,
    Regex,
    Rubric,
    ScoreRange,
    ToolCalls,
    WantedCall,
)
from rejoinder.project import CHECKS_FILE
from rejoinder.spelling import did_you_mean, list_words
from rejoinder.suite.checks import (
    LISTS,
    Shared,
    Texts,
    read_as,
    read_check,
    read_fields,
    read_json,
    read_pattern,
    reads,
    shared_of,
)

_EVALUATORS: dict[str, type[Check]] = {
    "llm_judge": LlmJudge,
    "code": Code,
    "code_judge": Code,
    "rubric": Rubric,
    "rubrics": Rubric,
}


@reads(Match, NotMatch)
def _match(kind: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    check = read_fields(kind, value, at, texts, shared)
    if isinstance(check, Match | NotMatch) and check.pattern.startswith((".*", "^")):
        _compile(check.pattern, at, texts)
    return check


@reads(Regex)
def _regex(_: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    inner = isinstance(value, dict)
    place = f"{at}.pattern" if inner else at
    pattern = texts.text(value["pattern"] if inner else value, place)
    flags = value.get("flags", "") if inner else None
    _compile(pattern, place, texts, flags or "")
    return Regex(pattern=pattern, flags=flags, **shared)


@reads(JsonSchema)
def _json_schema(_: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    """A schema as it stands, or a file that holds one. That it is one is found out here, and not by the first reply."""
    document = texts.read_data(value, at) if isinstance(value, str) else value
    if document is not None:
        try:
            compile_schema(document)
            Expansion(document)
        except TooManyVisits as error:
            texts.problem("schema-multiplies", at, f"this JSON Schema would take too long: {error}")
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "message", str(error))
            texts.problem("invalid-schema", at, f"this is not a JSON Schema: {reason}")
    return JsonSchema(document=msgspec.json.encode(document).decode(), **shared)


@reads(JsonPath)
def _json_path(_: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    path = texts.text(value if isinstance(value, str) else value["path"], at)
    _compile_path(path, at, texts)
    if isinstance(value, str):
        return JsonPath(path=path, **shared)
    expected = read_json(value["equals"], f"{at}.equals", texts) if "equals" in value else None
    check = read_check(value["check"], f"{at}.check", texts) if "check" in value else None
    return JsonPath(path=path, expected=expected, check=check, **shared)


def _compile_path(path: str, at: str, texts: Texts) -> None:
    from jsonpath import JSONPathEnvironment

    from rejoinder.pattern_size import refuse_endless

    if not path.startswith("$"):
        texts.problem("invalid-path", at, f"a JSON path begins with `$`, such as `$.{path or 'name'}`")
        return
    try:
        compiled = JSONPathEnvironment(strict=True).compile(path)
    except Exception as error:  # its reader stumbles over some paths: a number that is too large, for one
        # Its text would show the path once more, and fails where the path is at its end.
        texts.problem("invalid-path", at, f"this is not a JSON path: {error.args[0] if error.args else error}")
        return
    for pattern in _patterns_in(compiled):
        try:
            refuse_endless(pattern)
        except ValueError as error:
            texts.problem("invalid-regex", at, f"the regular expression {pattern!r} cannot be used: {error}")


def _patterns_in(path: Any) -> Iterator[str]:
    """The regular expressions that stand in a JSON path, in `match(...)` and `search(...)`."""
    selectors = (selector for segment in path.segments for selector in segment.selectors)
    waiting = [selector.expression for selector in selectors if hasattr(selector, "expression")]
    while waiting:
        expression = waiting.pop()
        inner: list[Any] = expression.children()
        if getattr(expression, "name", None) in ("match", "search"):
            yield from (part.value for part in inner[1:] if isinstance(getattr(part, "value", None), str))
        waiting += inner


@reads(ToolCalls)
def _tool_calls(kind: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    check = read_fields(kind, value, at, texts, shared)
    assert isinstance(check, ToolCalls)
    _refuse_impossible(check, at, texts, has_mode="mode" in value)
    return check


def _wanted_calls(values: list[Any], at: str, texts: Texts) -> tuple[WantedCall, ...]:
    return tuple(_wanted_call(value, f"{at}[{position}]", texts) for position, value in enumerate(values))


def _wanted_call(value: Any, at: str, texts: Texts) -> WantedCall:
    if isinstance(value, str):
        return WantedCall(read_pattern(value, at, texts))
    arguments = read_json(value["arguments"], f"{at}.arguments", texts) if "arguments" in value else None
    return WantedCall(read_pattern(value["name"], f"{at}.name", texts), arguments, value.get("times", 1))


def _refuse_impossible(check: ToolCalls, at: str, texts: Texts, *, has_mode: bool) -> None:
    """Report what no reply can satisfy, or every reply does."""
    wanted = sum(call.times for call in check.calls)
    least = max(wanted, check.least or 0)
    if not check.calls and check.least is None and check.most is None:
        texts.problem("missing-field", f"{at}.calls", "`tool_calls` needs `calls`, or their number: `min` or `max`")
    elif not check.calls and has_mode:
        texts.problem("missing-field", f"{at}.calls", "`mode` says how `calls` are compared, and there are none")
    elif check.most is not None and least > check.most:
        message = f"`max: {check.most}` can never be kept, because at least {_calls(least)} expected"
        texts.problem("out-of-range", f"{at}.max", message)
    elif check.mode == "exact" and least > wanted:
        message = f"`min: {least}` can never be reached, because exactly {_calls(wanted)} expected"
        texts.problem("out-of-range", f"{at}.min", message)


def _calls(count: int) -> str:
    return "1 call is" if count == 1 else f"{count} calls are"


@reads(LlmJudge)
def _llm_judge(_: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    prompt, words = None, dict(value)
    if "prompt" in value:
        # The content of a file and not its name: when it is edited, the judge is asked something else.
        prompt, words["prompt"] = texts.judge_prompt(value["prompt"], f"{at}.prompt")
        if "criteria" in value and not any(isinstance(piece, JudgeVariable) for piece in prompt):
            message = "`criteria` and a `prompt` without variables say the same thing; keep one of them"
            texts.problem("conflicting-keys", f"{at}.prompt", message)
    others = {key: given for key, given in value.items() if key != "prompt"}
    check = read_fields(LlmJudge, others, at, texts, shared)
    return structs.replace(check, prompt=prompt, written=_written(words, "criteria", "prompt"))


def _written(value: dict[str, Any], *keys: str) -> str:
    """What the author wrote for a judge, before variables are filled in."""
    return msgspec.json.encode({key: value[key] for key in keys if key in value}, order="sorted").decode()


@reads(Rubric)
def _rubric(kind: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    given = {"criteria": value} if isinstance(value, list) else value
    return structs.replace(read_fields(kind, value, at, texts, shared), written=_written(given, "criteria"))


def _criteria(values: list[Any], at: str, texts: Texts) -> tuple[Criterion, ...]:
    criteria = tuple(_criterion(value, number, at, texts) for number, value in enumerate(values))
    ids = [criterion.id for criterion in criteria]
    if twice := next((name for position, name in enumerate(ids) if name in ids[:position]), None):
        texts.problem("duplicate-id", at, f"two criteria of this rubric have the id `{twice}`")
    return criteria


def _criterion(value: Any, number: int, at: str, texts: Texts) -> Criterion:
    place = f"{at}[{number}]"
    if isinstance(value, str):
        return Criterion(id=str(number + 1), text=texts.text(value, place))
    words_at = next((key for key in ("criterion", "outcome", "expected_outcome") if key in value), None)
    if words_at is None and "score_ranges" not in value:
        texts.problem("missing-field", f"{place}.criterion", "a criterion needs words: `criterion: ...`")
    ranges = tuple(
        _score_range(span, f"{place}.score_ranges[{position}]", texts)
        for position, span in enumerate(value.get("score_ranges", ()))
    )
    return Criterion(
        id=value.get("id", str(number + 1)),
        text=texts.text(value[words_at], f"{place}.{words_at}") if words_at else value.get("id", str(number + 1)),
        weight=value.get("weight", 1.0),
        required=value.get("required", "required_min_score" in value),
        min_score=value["required_min_score"] / 10 if "required_min_score" in value else value.get("min_score"),
        ranges=ranges,
    )


def _score_range(value: dict[str, Any], at: str, texts: Texts) -> ScoreRange:
    least, most = value["score_range"]
    if least > most:
        texts.problem("out-of-range", f"{at}.score_range", f"a range begins with its lower end: [{most}, {least}]")
    words = value.get("meaning", value.get("outcome", value.get("expected_outcome", "")))
    return ScoreRange(least, most, texts.text(words, at))


LISTS.update({WantedCall: _wanted_calls, Criterion: _criteria})


@reads(Compare)
def _compare(kind: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    if "reply" in value and "reply_of" in value:
        message = "`reply` and `reply_of` both say what the reply is compared with; keep one of them"
        texts.problem("conflicting-keys", f"{at}.reply_of", message)
    return structs.replace(read_fields(kind, value, at, texts, shared), written=_written(value, "criteria"))


@reads(Custom)
def _custom(_: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    known = texts.known_checks()
    if known is not None and value not in known:
        hint = did_you_mean(value, known) or (f"; there are {list_words(known)}" if known else "")
        bring = f"; {CHECKS_FILE} or an installed package has to bring it" if not known else hint
        texts.problem("unknown-check", at, f"there is no check `{value}`{bring}")
    return Custom(kind=value, **shared)


def read_evaluators(evaluators: list[Any], at: str, texts: Texts) -> tuple[Item, ...]:
    places = ((evaluator, f"{at}[{position}]") for position, evaluator in enumerate(evaluators))
    return tuple(Item(_evaluator(evaluator, place, texts)) for evaluator, place in places)


def _evaluator(evaluator: dict[str, Any], at: str, texts: Texts) -> Check:
    """An evaluator of AgentV's is a check in another order of words."""
    shared = shared_of(evaluator, at, at, texts)
    kind = Rubric if "rubrics" in evaluator else _EVALUATORS[evaluator["type"]]
    if kind is not Rubric:
        return read_as(kind, evaluator, at, texts, shared)
    if "rubrics" not in evaluator:
        texts.problem("missing-field", f"{at}.rubrics", "an evaluator of this type needs `rubrics`: a list of criteria")
    criteria = _criteria(evaluator.get("rubrics", []), f"{at}.rubrics", texts)
    judging = {key: value for key, value in evaluator.items() if key != "criteria"}
    check = read_fields(Rubric, judging, at, texts, {**shared, "criteria": criteria})
    return structs.replace(check, written=_written(evaluator, "rubrics"))


def read_rubrics(rubrics: list[Any], at: str, texts: Texts) -> tuple[Item, ...]:
    """The `rubrics` of a case: one check, as AgentV has it."""
    return (Item(_rubric(Rubric, rubrics, at, texts, {"at": at})),)


def _compile(pattern: str, at: str, texts: Texts, flags: str = "") -> None:
    """Refuse an expression that the engine which will run it cannot read."""
    import regex

    from rejoinder.pattern_size import refuse_endless

    switches = 0
    for letter in flags:
        switches |= getattr(regex, letter.upper())
    try:
        refuse_endless(pattern, flags)
        regex.compile(pattern, switches)
    except (regex.error, ValueError, OverflowError, RecursionError) as error:
        if pattern.startswith("*"):
            message = f"{pattern!r} is a pattern of `match`, not of `regex`"
        else:
            message = f"{pattern!r} cannot be read as a regular expression: {error}"
        texts.problem("invalid-regex", at, message)
