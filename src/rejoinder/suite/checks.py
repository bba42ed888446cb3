"""From the `checks` of a file to levels, items and checks of the model. The schema has already spoken: what comes
in here has the right shape."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec

from rejoinder.json_schemas import Expansion, TooManyVisits, compile_schema
from rejoinder.model import (
    And,
    AnyCheck,
    Code,
    Compare,
    Contains,
    ContainsAll,
    ContainsAny,
    ContainsJson,
    Criterion,
    Custom,
    EndsWith,
    Equals,
    FinishReason,
    FollowUp,
    Group,
    IContains,
    IContainsAll,
    IContainsAny,
    IsJson,
    IsRefusal,
    Item,
    JsonPath,
    JsonSchema,
    JudgeVariable,
    Latency,
    Level,
    Levenshtein,
    LlmJudge,
    Match,
    MaxCost,
    MaxTokens,
    MaxWords,
    MinTokens,
    MinWords,
    Not,
    NotMatch,
    Or,
    PythonCheck,
    Quote,
    Regex,
    RougeL,
    Rubric,
    ScoreRange,
    Semantic,
    Similar,
    StartsWith,
    ToolCalls,
    WantedCall,
    Webhook,
)
from rejoinder.project import CHECKS_FILE
from rejoinder.spelling import did_you_mean, list_words


class Texts(Protocol):
    """Reads strings of a case with their templates filled in, and takes note of what is wrong with them."""

    def text(self, value: str, at: str) -> str: ...
    def written(self, value: float, at: str) -> str: ...
    def follow_up(self, value: str, at: str) -> tuple[str | Quote, ...]: ...
    def judge_prompt(self, value: str, at: str) -> tuple[tuple[str | JudgeVariable, ...], str]: ...
    def problem(self, code: str, at: str, message: str) -> None: ...
    def target(self, value: str, at: str) -> str: ...
    def tree(self, value: Any, at: str) -> Any: ...

    def known_checks(self) -> list[str] | None:
        """The checks that the project and installed packages bring; None where nobody knows."""
        ...

    def read_data(self, value: str, at: str) -> Any:
        """What a JSON or YAML file holds; None, with a problem noted, where it cannot be read."""
        ...


def read_items(checks: Any, at: str, texts: Texts) -> tuple[Item, ...]:
    """The items of a `checks` value; `{or: [...]}` is one item."""
    if isinstance(checks, dict):
        return (Item(Or(items=_read_list(checks["or"], f"{at}.or", texts), at=f"{at}.or")),)
    return _read_list(checks, at, texts)


def read_evaluators(evaluators: list[Any], at: str, texts: Texts) -> tuple[Item, ...]:
    return tuple(
        Item(_read_evaluator(evaluator, f"{at}[{position}]", texts)) for position, evaluator in enumerate(evaluators)
    )


def _read_list(items: list[Any], at: str, texts: Texts) -> tuple[Item, ...]:
    return tuple(_read_item(item, f"{at}[{position}]", texts) for position, item in enumerate(items))


def _read_item(item: dict[str, Any], at: str, texts: Texts) -> Item:
    check = _read_check(item, at, texts)
    follow_up = None
    if "prompt" in item:
        threshold = item.get("threshold") if check is None else None
        level = Level(read_items(item["checks"], f"{at}.checks", texts), threshold)
        follow_up = FollowUp(texts.follow_up(item["prompt"], f"{at}.prompt"), level, f"{at}.prompt")
    return Item(check, follow_up)


def _read_check(item: dict[str, Any], at: str, texts: Texts) -> AnyCheck | None:
    for kind, value in item.items():
        if kind in _READERS:
            place = f"{at}.{kind}"
            check = _READERS[kind](value, place, texts, _shared(item, at, place, texts))
            if isinstance(check, Custom) and "with" in item:
                check = msgspec.structs.replace(check, arguments=texts.tree(item["with"], f"{at}.with"))
            return check
    return None


def _shared(item: dict[str, Any], at: str, place: str, texts: Texts) -> dict[str, Any]:
    """What stands beside a check."""
    shared: dict[str, Any] = {"at": place}
    if "name" in item:
        shared["name"] = texts.text(item["name"], f"{at}.name")
    if "metric" in item:
        shared["metric"] = texts.text(item["metric"], f"{at}.metric")
    for key in ("weight", "required", "threshold", "every_turn"):
        if key in item:
            shared[key] = item[key]
    return shared


Reader = Callable[[Any, str, Texts, dict[str, Any]], AnyCheck]


def _text(make: Callable[..., AnyCheck], field: str = "text") -> Reader:
    def read(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
        return make(**{field: _filled(value, at, texts)}, **shared)

    return read


def _filled(value: str | float, at: str, texts: Texts) -> str:
    """A text that must not be empty: every reply contains nothing. A number is taken as it is written."""
    if not isinstance(value, str):
        return texts.written(value, at)
    text = texts.text(value, at)
    if not text and value:
        texts.problem("empty-pattern", at, "nothing is left of this pattern once its variables are filled in")
    return text


def _pattern(make: Callable[..., AnyCheck]) -> Reader:
    read_text = _text(make, "pattern")

    def read(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
        check = read_text(value, at, texts, shared)
        pattern: str = getattr(check, "pattern", "")
        if pattern.startswith((".*", "^")):
            _compile(pattern, at, texts)
        return check

    return read


def _texts(make: Callable[..., AnyCheck]) -> Reader:
    def read(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
        return make(texts=tuple(_filled(text, f"{at}[{i}]", texts) for i, text in enumerate(value)), **shared)

    return read


def _limit(make: Callable[..., AnyCheck], kind: type = int) -> Reader:
    def read(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:  # noqa: ARG001 - one signature
        return make(limit=kind(value), **shared)

    return read


def _regex(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    inner = isinstance(value, dict)
    place = f"{at}.pattern" if inner else at
    pattern = texts.text(value["pattern"] if inner else value, place)
    flags = value.get("flags", "") if inner else None
    _compile(pattern, place, texts, flags or "")
    return Regex(pattern=pattern, flags=flags, **shared)


def _flag(make: Callable[..., AnyCheck]) -> Reader:
    def read(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:  # noqa: ARG001 - one signature
        return make(wanted=value, **shared)

    return read


def _json_schema(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
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


def _json_path(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    path = texts.text(value if isinstance(value, str) else value["path"], at)
    _compile_path(path, at, texts)
    if isinstance(value, str):
        return JsonPath(path=path, **shared)
    expected = msgspec.json.encode(texts.tree(value["equals"], f"{at}.equals")).decode() if "equals" in value else None
    check = _read_check(value["check"], f"{at}.check", texts) if "check" in value else None
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
            yield from (one.value for one in inner[1:] if isinstance(getattr(one, "value", None), str))
        waiting += inner


def _levenshtein(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    return Levenshtein(expected=texts.text(value["expected"], f"{at}.expected"), most=value["max"], **shared)


def _likeness(make: Callable[..., AnyCheck]) -> Reader:
    def read(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
        return make(expected=_expected(value, at, texts), **{**shared, "threshold": value["threshold"]})

    return read


def _finish_reason(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:  # noqa: ARG001
    return FinishReason(reasons=(value,) if isinstance(value, str) else tuple(value), **shared)


def _tool_calls(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    given: dict[str, Any] = {"calls": value} if isinstance(value, list) else value
    place = at if isinstance(value, list) else f"{at}.calls"
    calls = tuple(_wanted_call(one, f"{place}[{i}]", texts) for i, one in enumerate(given.get("calls", ())))
    check = ToolCalls(
        calls=calls, mode=given.get("mode", "in_order"), least=given.get("min"), most=given.get("max"), **shared
    )
    _refuse_impossible(check, given, at, texts)
    return check


def _wanted_call(value: Any, at: str, texts: Texts) -> WantedCall:
    if isinstance(value, str):
        return WantedCall(_filled(value, at, texts))
    arguments = None
    if "arguments" in value:
        arguments = msgspec.json.encode(texts.tree(value["arguments"], f"{at}.arguments")).decode()
    return WantedCall(_filled(value["name"], f"{at}.name", texts), arguments, value.get("times", 1))


def _refuse_impossible(check: ToolCalls, given: dict[str, Any], at: str, texts: Texts) -> None:
    """What no reply can satisfy, or every reply does, is a slip of the pen."""
    wanted = sum(call.times for call in check.calls)
    least = max(wanted, check.least or 0)
    if not check.calls and check.least is None and check.most is None:
        texts.problem("missing-field", f"{at}.calls", "`tool_calls` needs `calls`, or their number: `min` or `max`")
    elif not check.calls and "mode" in given:
        texts.problem("missing-field", f"{at}.calls", "`mode` says how `calls` are compared, and there are none")
    elif check.most is not None and least > check.most:
        message = f"`max: {check.most}` can never be kept, because at least {_calls(least)} wanted"
        texts.problem("out-of-range", f"{at}.max", message)
    elif check.mode == "exact" and least > wanted:
        message = f"`min: {least}` can never be reached, because exactly {_calls(wanted)} wanted"
        texts.problem("out-of-range", f"{at}.min", message)


def _calls(count: int) -> str:
    return "1 call is" if count == 1 else f"{count} calls are"


def _semantic(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    target = texts.target(value["target"], f"{at}.target") if "target" in value else None
    given = {**shared, "threshold": value["threshold"]}
    return Semantic(expected=_expected(value, at, texts), target=target, **given)


def _expected(value: dict[str, Any], at: str, texts: Texts) -> tuple[str, ...]:
    """One text, or several of which one is enough."""
    expected = value["expected"]
    if isinstance(expected, str):
        return (_filled(expected, f"{at}.expected", texts),)
    return tuple(_filled(text, f"{at}.expected[{i}]", texts) for i, text in enumerate(expected))


def _llm_judge(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    prompt = None
    if "prompt" in value:
        # The words of a file and not its name: whoever edits it tells the judge something else.
        prompt, words = texts.judge_prompt(value["prompt"], f"{at}.prompt")
        value = {**value, "prompt": words}
        if "criteria" in value and not any(isinstance(piece, JudgeVariable) for piece in prompt):
            message = "`criteria` and a `prompt` without variables say the same thing; keep one of them"
            texts.problem("conflicting-keys", f"{at}.prompt", message)
    return LlmJudge(
        criteria=texts.text(value["criteria"], f"{at}.criteria") if "criteria" in value else None,
        prompt=prompt,
        **_judging(value, at, texts, ("criteria", "prompt")),
        **shared,
    )


def _judging(value: dict[str, Any], at: str, texts: Texts, asked: tuple[str, ...]) -> dict[str, Any]:
    """How a judge is asked. `asked` are the keys that say what for."""
    given: dict[str, Any] = {key: value[key] for key in ("votes", "combine", "on_invalid") if key in value}
    if "target" in value:
        given["target"] = texts.target(value["target"], f"{at}.target")
    written = {key: value[key] for key in asked if key in value}
    return {**given, "written": msgspec.json.encode(written, order="sorted").decode()}


def _rubric(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    given = {"criteria": value} if isinstance(value, list) else value
    place = at if isinstance(value, list) else f"{at}.criteria"
    return Rubric(
        criteria=_criteria(given["criteria"], place, texts), **_judging(given, at, texts, ("criteria",)), **shared
    )


def _criteria(values: list[Any], at: str, texts: Texts) -> tuple[Criterion, ...]:
    criteria = tuple(_criterion(one, number, at, texts) for number, one in enumerate(values))
    twice = next((one.id for i, one in enumerate(criteria) if one.id in {other.id for other in criteria[:i]}), None)
    if twice is not None:
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
        _score_range(one, f"{place}.score_ranges[{i}]", texts) for i, one in enumerate(value.get("score_ranges", ()))
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


def _compare(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    if "reply" in value and "reply_of" in value:
        message = "`reply` and `reply_of` both say what the reply is compared with; keep one of them"
        texts.problem("conflicting-keys", f"{at}.reply_of", message)
    return Compare(
        other=texts.text(value["reply"], f"{at}.reply") if "reply" in value else None,
        other_target=texts.target(value["reply_of"], f"{at}.reply_of") if "reply_of" in value else None,
        criteria=texts.text(value["criteria"], f"{at}.criteria") if "criteria" in value else None,
        **_judging(value, at, texts, ("criteria",)),
        **shared,
    )


def _code(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    given: dict[str, Any] = value if isinstance(value, dict) else {"script": value}
    script = given["script"]
    words = (script,) if isinstance(script, str) else tuple(script)
    if not "".join(words).strip():
        texts.problem("empty-prompt", f"{at}.script" if "script" in value else at, "there is no command to run")
    place = f"{at}.script" if isinstance(value, dict) else at
    words = tuple(texts.text(word, place) for word in words)
    if len(words) == 1 and not isinstance(script, str):
        words = (shlex.quote(words[0]),)  # one entry is a command line, and this is the name of a program
    return Code(
        script=words,
        cwd=texts.text(given["cwd"], f"{at}.cwd") if "cwd" in given else None,
        timeout_s=given.get("timeout"),
        **shared,
    )


def _python(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    given: dict[str, Any] = {"call": value} if isinstance(value, str) else value
    arguments = texts.tree(given["with"], f"{at}.with") if "with" in given else {}
    return PythonCheck(call=given["call"], arguments=arguments, timeout_s=given.get("timeout"), **shared)


def _webhook(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    given: dict[str, Any] = {"url": value} if isinstance(value, str) else value
    headers = texts.tree(given["headers"], f"{at}.headers") if "headers" in given else {}
    url = texts.text(given["url"], at if isinstance(value, str) else f"{at}.url")
    return Webhook(url=url, headers=headers, timeout_s=given.get("timeout"), **shared)


def _custom(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    known = texts.known_checks()
    if known is not None and value not in known:
        hint = did_you_mean(value, known) or (f"; there are {list_words(known)}" if known else "")
        bring = f"; {CHECKS_FILE} or an installed package has to bring it" if not known else hint
        texts.problem("unknown-check", at, f"there is no check `{value}`{bring}")
    return Custom(kind=value, **shared)


def _or(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    return Or(items=_read_list(value, at, texts), **shared)


def _and(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    return And(items=_read_list(value, at, texts), **shared)


def _group(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    items = _read_list(value["checks"], f"{at}.checks", texts)
    return Group(items=items, at_least=value.get("at_least"), **shared)


def _not(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    inner = _read_check(value, at, texts)
    assert inner is not None, "the rules refuse a `not` without a check"
    return Not(check=inner, **shared)


_READERS: dict[str, Reader] = {
    "match": _pattern(Match),
    "not_match": _pattern(NotMatch),
    "contains": _text(Contains),
    "icontains": _text(IContains),
    "contains_any": _texts(ContainsAny),
    "contains_all": _texts(ContainsAll),
    "icontains_any": _texts(IContainsAny),
    "icontains_all": _texts(IContainsAll),
    "starts_with": _text(StartsWith),
    "ends_with": _text(EndsWith),
    "equals": _text(Equals),
    "regex": _regex,
    "min_tokens": _limit(MinTokens),
    "max_tokens": _limit(MaxTokens),
    "min_words": _limit(MinWords),
    "max_words": _limit(MaxWords),
    "latency": _limit(Latency, float),
    "cost": _limit(MaxCost, float),
    "is_json": _flag(IsJson),
    "contains_json": _flag(ContainsJson),
    "json_schema": _json_schema,
    "json_path": _json_path,
    "levenshtein": _levenshtein,
    "rouge_l": _likeness(RougeL),
    "similar": _likeness(Similar),
    "is_refusal": _flag(IsRefusal),
    "finish_reason": _finish_reason,
    "tool_calls": _tool_calls,
    "semantic": _semantic,
    "llm_judge": _llm_judge,
    "rubric": _rubric,
    "compare": _compare,
    "code": _code,
    "python": _python,
    "webhook": _webhook,
    "check": _custom,
    "or": _or,
    "and": _and,
    "group": _group,
    "not": _not,
}


def _read_evaluator(evaluator: dict[str, Any], at: str, texts: Texts) -> AnyCheck:
    """An evaluator of AgentV's is a check in another order of words."""
    read = _rubric_evaluator if "rubrics" in evaluator else _EVALUATORS[evaluator["type"]]
    return read(evaluator, at, texts, _shared(evaluator, at, at, texts))


def _rubric_evaluator(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    if "rubrics" not in value:
        texts.problem("missing-field", f"{at}.rubrics", "an evaluator of this type needs `rubrics`: a list of criteria")
    criteria = _criteria(value.get("rubrics", []), f"{at}.rubrics", texts)
    return Rubric(criteria=criteria, **_judging(value, at, texts, ("rubrics",)), **shared)


_EVALUATORS: dict[str, Reader] = {
    "llm_judge": _llm_judge,
    "code": _code,
    "code_judge": _code,
    "rubric": _rubric_evaluator,
    "rubrics": _rubric_evaluator,
}


def read_rubrics(rubrics: list[Any], at: str, texts: Texts) -> tuple[Item, ...]:
    """The `rubrics` of a case: one check, as AgentV has it."""
    return (Item(_rubric(rubrics, at, texts, {"at": at})),)


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
