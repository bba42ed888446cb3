"""From the `checks` of a file to levels, items and checks of the model. The schema has already spoken: what comes
in here has the right shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from rejoinder.model import (
    And,
    AnyCheck,
    Code,
    Contains,
    ContainsAll,
    ContainsAny,
    ContainsJson,
    EndsWith,
    Equals,
    FinishReason,
    FollowUp,
    IContains,
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
    Quote,
    Regex,
    RougeL,
    Semantic,
    Similar,
    StartsWith,
)


class Texts(Protocol):
    """Reads strings of a case with their templates filled in, and takes note of what is wrong with them."""

    def text(self, value: str, at: str) -> str: ...
    def follow_up(self, value: str, at: str) -> tuple[str | Quote, ...]: ...
    def judge_prompt(self, value: str, at: str) -> tuple[str | JudgeVariable, ...]: ...
    def problem(self, code: str, at: str, message: str) -> None: ...
    def target(self, value: str, at: str) -> str: ...
    def tree(self, value: Any, at: str) -> Any: ...

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
            return _READERS[kind](value, place, texts, _shared(item, at, place, texts))
    return None


def _shared(item: dict[str, Any], at: str, place: str, texts: Texts) -> dict[str, Any]:
    """What stands beside a check."""
    shared: dict[str, Any] = {"at": place}
    if "name" in item:
        shared["name"] = texts.text(item["name"], f"{at}.name")
    for key in ("weight", "required", "threshold", "every_turn"):
        if key in item:
            shared[key] = item[key]
    return shared


Reader = Callable[[Any, str, Texts, dict[str, Any]], AnyCheck]


def _text(make: Callable[..., AnyCheck], field: str = "text") -> Reader:
    def read(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
        text = texts.text(value, at)
        if not text and value:
            texts.problem("empty-pattern", at, "nothing is left of this pattern once its variables are filled in")
        return make(**{field: text}, **shared)

    return read


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
        return make(texts=tuple(texts.text(text, f"{at}[{i}]") for i, text in enumerate(value)), **shared)

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
        from jsonschema_rs import ValidationError, meta  # noqa: PLC0415 - few suites need it

        try:
            meta.validate(document)
        except (ValidationError, ValueError) as error:
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
    from jsonpath import JSONPathEnvironment, JSONPathError  # noqa: PLC0415 - few suites need it

    try:
        JSONPathEnvironment(strict=True).compile(path)
    except (JSONPathError, ValueError, RecursionError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        texts.problem("invalid-path", at, f"this is not a JSON path: {first}")


def _levenshtein(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    return Levenshtein(expected=texts.text(value["expected"], f"{at}.expected"), most=value["max"], **shared)


def _likeness(make: Callable[..., AnyCheck]) -> Reader:
    def read(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
        return make(expected=_expected(value, at, texts), **{**shared, "threshold": value["threshold"]})

    return read


def _finish_reason(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:  # noqa: ARG001
    return FinishReason(reasons=(value,) if isinstance(value, str) else tuple(value), **shared)


def _semantic(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    return Semantic(expected=_expected(value, at, texts), **{**shared, "threshold": value["threshold"]})


def _expected(value: dict[str, Any], at: str, texts: Texts) -> tuple[str, ...]:
    """One text, or several of which one is enough."""
    expected = value["expected"]
    if isinstance(expected, str):
        return (texts.text(expected, f"{at}.expected"),)
    return tuple(texts.text(text, f"{at}.expected[{i}]") for i, text in enumerate(expected))


def _llm_judge(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    target = texts.target(value["target"], f"{at}.target") if "target" in value else None
    return LlmJudge(criteria=texts.text(value["criteria"], f"{at}.criteria"), target=target, **shared)


def _or(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    return Or(items=_read_list(value, at, texts), **shared)


def _and(value: Any, at: str, texts: Texts, shared: dict[str, Any]) -> AnyCheck:
    return And(items=_read_list(value, at, texts), **shared)


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
    "semantic": _semantic,
    "llm_judge": _llm_judge,
    "or": _or,
    "and": _and,
    "not": _not,
}


def _read_evaluator(evaluator: dict[str, Any], at: str, texts: Texts) -> AnyCheck:
    shared = _shared(evaluator, at, at, texts)
    if evaluator["type"] == "code":
        script = evaluator["script"]
        words = (script,) if isinstance(script, str) else tuple(script)
        return Code(
            script=tuple(texts.text(word, f"{at}.script") for word in words),
            cwd=texts.text(evaluator["cwd"], f"{at}.cwd") if "cwd" in evaluator else None,
            timeout_s=evaluator.get("timeout"),
            **shared,
        )
    return LlmJudge(
        criteria=texts.text(evaluator["criteria"], f"{at}.criteria") if "criteria" in evaluator else None,
        prompt=texts.judge_prompt(evaluator["prompt"], f"{at}.prompt") if "prompt" in evaluator else None,
        target=texts.target(evaluator["target"], f"{at}.target") if "target" in evaluator else None,
        **shared,
    )


def _compile(pattern: str, at: str, texts: Texts, flags: str = "") -> None:
    """Refuse an expression that the engine which will run it cannot read."""
    import regex  # noqa: PLC0415 - 30 ms that only suites with regular expressions pay

    switches = 0
    for letter in flags:
        switches |= getattr(regex, letter.upper())
    try:
        regex.compile(pattern, switches)
    except (regex.error, ValueError, OverflowError, RecursionError) as error:
        if pattern.startswith("*"):
            message = f"{pattern!r} is a pattern of `match`, not of `regex`"
        else:
            message = f"{pattern!r} cannot be read as a regular expression: {error}"
        texts.problem("invalid-regex", at, message)
