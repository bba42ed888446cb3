"""Levels, items and checks of the model, built from the `checks` of a file. The schema has already validated the shape.

A check is read as its fields are declared (`model/checks.py`). If that is not enough, a function of `_READERS` reads
it. AgentV's evaluators and rubrics are other forms of the same checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Protocol, get_args, get_origin

import msgspec
from msgspec import structs

from rejoinder.durations import seconds_of
from rejoinder.field_values import refuse_expected
from rejoinder.model import (
    CHECKS,
    Check,
    FollowUp,
    Item,
    JudgeVariable,
    Level,
    Quote,
    output_check,
    trim,
    without_follow_ups,
)
from rejoinder.model import checks as kinds
from rejoinder.model.fields import Field, Reading, fields_of
from rejoinder.project.plugins import CHECKS_FILE
from rejoinder.spelling import did_you_mean
from rejoinder.suite.schema import follow_up_key
from rejoinder.suite.schema_files import SchemaFault, refuse_as_output, refuse_unusable, schema_file
from rejoinder.words.numbers import count, listed

Shared = Mapping[str, Any]
"""Options next to a check, by the names of the fields that all checks share."""
_EVALUATORS: dict[str, type[Check]] = {
    "llm_judge": kinds.LlmJudge,
    **dict.fromkeys(("code", "code_judge"), kinds.Code),
    **dict.fromkeys(("rubric", "rubrics"), kinds.Rubric),
}


class Texts(Protocol):
    """Reads strings of a case, fills in their templates and records their faults."""

    def text(self, value: str, at: str) -> str: ...
    def words(self, value: Any, at: str) -> str:
        """A text, or the content of the file that holds it."""
        ...

    def written(self, value: float, at: str) -> str: ...
    def follow_up(self, value: Any, at: str) -> tuple[str | Quote, ...]:
        """A text, or the content of the file that holds it."""
        ...

    def judge_prompt(self, value: str, at: str) -> tuple[tuple[str | JudgeVariable, ...], str]: ...
    def problem(self, code: str, at: str, message: str) -> None: ...
    def target(self, value: str, at: str) -> str: ...
    def tree(self, value: Any, at: str) -> Any: ...

    def known_checks(self) -> list[str] | None:
        """The checks of the project and of installed packages; None if they cannot be listed."""
        ...

    def read_data(self, value: str, at: str) -> Any:
        """The content of a JSON or YAML file; None, with a recorded problem, if it cannot be read."""
        ...


Reader = Callable[[type[Check], Any, str, Texts, Shared], Check]
ValueReader = Callable[[Any, str, Texts], Any]


def read_items(checks: Any, at: str, texts: Texts) -> tuple[Item, ...]:
    """The items of a `checks` value; `{or: [...]}` is one item."""
    if isinstance(checks, dict):
        return (Item(kinds.Or(items=_read_list(checks["or"], f"{at}.or", texts), at=f"{at}.or")),)
    return _read_list(checks, at, texts)


def _read_list(items: list[Any], at: str, texts: Texts) -> tuple[Item, ...]:
    return _each(_read_item, items, at, texts)


def _each(read: ValueReader, values: Iterable[Any], at: str, texts: Texts) -> tuple[Any, ...]:
    return tuple(read(value, f"{at}[{position}]", texts) for position, value in enumerate(values))


def _read_item(item: dict[str, Any], at: str, texts: Texts) -> Item:
    check = read_check(item, at, texts)
    if follow_up_key(item) is None:
        return Item(check)
    threshold = item.get("threshold") if check is None else None
    level = Level(read_items(item["checks"], f"{at}.checks", texts), threshold)
    return Item(check, _read_follow_up(item, level, at, texts))


def _read_follow_up(item: dict[str, Any], level: Level, at: str, texts: Texts) -> FollowUp:
    """A follow-up. If it is sent several times, each time follows the one before; the last has the author's own
    follow-ups."""
    if "prompts" in item:
        places = [f"{at}.prompts[{position}]" for position in range(len(item["prompts"]))]
        said = [(texts.follow_up(words, place), place) for words, place in zip(item["prompts"], places, strict=True)]
    else:
        said = [(texts.follow_up(item["prompt"], f"{at}.prompt"), f"{at}.prompt")] * int(item.get("times", 1))
    plain = tuple(Item(without_follow_ups(one.check)) for one in level.items if one.check is not None)
    hint, ask = item.get("hint"), item.get("ask", "failed")
    for words, place in reversed(said[1:]):
        again = Item(None, FollowUp(words, level, place, hint, ask, again=True))
        level = Level((*plain, again), level.threshold)
    words, place = said[0]
    return FollowUp(words, level, place, hint, ask)


def read_check(item: dict[str, Any], at: str, texts: Texts) -> Check | None:
    """The check of an item; None if the item is only a follow-up."""
    for key, value in item.items():
        if key in CHECKS:
            place = f"{at}.{key}"
            check = _read_as(CHECKS[key], value, place, texts, shared_of(item, at, place, texts))
            if isinstance(check, kinds.Counted) and "count" in item:
                check = structs.replace(check, count=_read_occurrences(item["count"], check, f"{at}.count", texts))
            if isinstance(check, kinds.Custom) and "with" in item:
                check = structs.replace(check, arguments=texts.tree(item["with"], f"{at}.with"))
            return check
    return None


def _read_occurrences(value: Any, check: kinds.Counted, at: str, texts: Texts) -> kinds.Occurrences:
    """The numbers of times that a text or pattern may occur. Bounds that nothing or everything keeps are refused."""
    if isinstance(check, kinds.Match):
        _refuse_whole_pattern(check.pattern, at, texts)
    if not isinstance(value, dict):
        return kinds.Occurrences(int(value))
    least, most = int(value.get("min", 0)), value.get("max")
    if most is None and not least:
        texts.problem("missing-field", at, "`count` needs a number of at least 1, or `min` or `max`")
    elif most is not None and least > most:
        texts.problem("out-of-range", f"{at}.max", f"`max: {int(most)}` is less than `min: {least}`")
    return kinds.Occurrences(least, None if most is None else int(most))


def _refuse_whole_pattern(pattern: str, at: str, texts: Texts) -> None:
    """Report a glob that stands for the whole reply, or for any text: it does not occur several times."""
    if pattern.startswith((".*", "^")):
        return
    if not pattern.strip("*"):
        texts.problem("out-of-range", at, "`count` needs a pattern with a text in it: `*` is any text")
    elif not pattern.startswith("*") or not pattern.endswith("*") or pattern.endswith(r"\*"):
        inner = pattern.strip("*")
        message = f"`count` needs a star at both ends of the pattern, such as `*{inner}*`, to be searched for"
        texts.problem("out-of-range", at, message)


def shared_of(item: dict[str, Any], at: str, place: str, texts: Texts) -> dict[str, Any]:
    """The options next to a check."""
    beside = {key: item[key] for key in Check.__struct_fields__ if key in item}
    read = {key: texts.text(it, f"{at}.{key}") if isinstance(it, str) else it for key, it in beside.items()}
    return {"at": place, **read}


def _read_as(kind: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    return _READERS.get(kind, _read_fields)(kind, value, at, texts, shared)


def _read_fields(kind: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    """Read a check by its fields: one field is the value itself, several are a mapping, and the field that may be given
    on its own can be written without a mapping."""
    fields = _readers_of(kind)
    if len(fields) == 1 or not isinstance(value, dict):
        name, _, read = next(field for field in fields if len(fields) == 1 or field[0] == kind.alone)
        return kind(**shared, **{name: read(value, at, texts)})
    own = {name: read(value[key], f"{at}.{key}", texts) for name, key, read in fields if key in value}
    return kind(**{**shared, **own})


@lru_cache(maxsize=256)
def _readers_of(kind: type[Check]) -> tuple[tuple[str, str, ValueReader], ...]:
    """The name, key and reader of each field."""
    return tuple((field.name, field.key, _value_reader(field)) for field in fields_of(kind, Check))


def _value_reader(field: Field) -> ValueReader:
    origin, members = get_origin(field.type), get_args(field.type)
    if members and members[0] in _LISTS:
        return _LISTS[members[0]]
    if isinstance(field.type, list):  # a check of any kind
        return read_check
    if origin is dict:
        return lambda value, at, texts: texts.tree(value, at)
    if field.type in (int, float) and field.reading is Reading.AS_WRITTEN:
        return lambda value, _at, _texts: field.type(value)
    read = _READINGS[field.reading]
    return _one_or_more(read) if origin is tuple and field.reading is not Reading.COMMAND else read


def _one_or_more(read: ValueReader) -> ValueReader:
    """A reader for lists of texts; a single text counts as a list of one."""

    def read_all(value: Any, at: str, texts: Texts) -> tuple[Any, ...]:
        return _each(read, value, at, texts) if isinstance(value, list) else (read(value, at, texts),)

    return read_all


def _read_pattern(value: str | float, at: str, texts: Texts) -> str:
    """A text that must not be empty, because every reply contains the empty text. A number is taken as written."""
    if not isinstance(value, str):
        return texts.written(value, at)
    text = texts.text(value, at)
    if not text and value:
        texts.problem("empty-pattern", at, "this pattern is empty once its variables are filled in")
    return text


def _read_duration(value: str | float, at: str, texts: Texts) -> float:
    seconds = seconds_of(value) if isinstance(value, str) else float(value)
    if not seconds:
        texts.problem("out-of-range", at, f"a time is more than 0, such as `500ms`, `4s` or `2min`, not `{value}`")
    return seconds or 1.0


def _read_json(value: Any, at: str, texts: Texts) -> str:
    return msgspec.json.encode(texts.tree(value, at)).decode()


def _read_command(value: str | list[str], at: str, texts: Texts) -> tuple[str, ...]:
    if not "".join(value).strip():
        texts.problem("empty-prompt", at, "there is no command to run")
    if isinstance(value, str):
        return (texts.text(value, at),)
    words = [texts.text(word, at) for word in value]
    # One entry is a command line, and a word alone is the name of a program.
    if len(words) > 1:
        return tuple(words)
    from shlex import quote

    return (quote(words[0]),)


def _match(kind: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    check = _read_fields(kind, value, at, texts, shared)
    if isinstance(check, kinds.Match | kinds.NotMatch) and check.pattern.startswith((".*", "^")):
        compile_pattern(check.pattern, at, texts)
    return check


def _regex(_: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    inner = isinstance(value, dict)
    place = f"{at}.pattern" if inner else at
    pattern = texts.text(value["pattern"] if inner else value, place)
    flags = value.get("flags", "") if inner else None
    compile_pattern(pattern, place, texts, flags or "")
    return kinds.Regex(pattern=pattern, flags=flags, **shared)


def _file_contains(kind: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    check = _read_fields(kind, value, at, texts, shared)
    assert isinstance(check, kinds.FileContains)
    if check.text is None and check.pattern is None:
        texts.problem("missing-field", at, "`file_contains` needs `text` or `pattern`")
    if check.pattern is not None:
        compile_pattern(check.pattern, f"{at}.pattern", texts)
    return check


def _workspace_diff(kind: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    check = _read_fields(kind, value, at, texts, shared)
    assert isinstance(check, kinds.WorkspaceDiff)
    least, most = check.min_lines, check.max_lines
    if (check.contains, check.not_contains, least, most) == (None,) * 4:
        texts.problem("missing-field", at, "`workspace_diff` needs a text, or one of its keys")
    elif least is not None and most is not None and least > most:
        texts.problem("out-of-range", f"{at}.max_lines", f"`max_lines: {most}` is less than `min_lines: {least}`")
    return check


def _json_schema(_: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    """A JSON Schema, or the file that holds one. It is compiled here, so that an invalid schema fails before the first
    reply."""
    document = texts.read_data(value, at) if isinstance(value, str) else value
    _refuse(refuse_unusable, document, at, texts)
    return kinds.JsonSchema(document=msgspec.json.encode(document).decode(), **shared)


def read_output_schema(value: Any, at: str, texts: Texts) -> kinds.JsonSchema | None:
    """An `output_schema` as the check that the replies to it have to pass; None, with a recorded problem, if its file
    cannot be read."""
    file = schema_file(value)
    document = value if file is None else texts.read_data(file, f"{at}.file" if isinstance(value, dict) else at)
    if document is None:
        return None
    _refuse(refuse_as_output, document, at, texts)
    return output_check(msgspec.json.encode(document).decode(), at)


def _refuse(refuse: Callable[[Any], None], document: Any, at: str, texts: Texts) -> None:
    if document is not None:
        try:
            refuse(document)
        except SchemaFault as fault:
            texts.problem(fault.code, at, fault.message)


def _json_path(_: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    path = texts.text(value if isinstance(value, str) else value["path"], at)
    compile_path(path, at, texts)
    if isinstance(value, str):
        return kinds.JsonPath(path=path, **shared)
    expected = _read_json(value["equals"], f"{at}.equals", texts) if "equals" in value else None
    check = read_check(value["check"], f"{at}.check", texts) if "check" in value else None
    return kinds.JsonPath(path=path, expected=expected, check=check, **shared)


def compile_path(path: str, at: str, texts: Texts) -> None:
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
    """The regular expressions inside a JSON path, in `match(...)` and `search(...)`."""
    selectors = (selector for segment in path.segments for selector in segment.selectors)
    waiting = [selector.expression for selector in selectors if hasattr(selector, "expression")]
    while waiting:
        expression = waiting.pop()
        inner: list[Any] = expression.children()
        if getattr(expression, "name", None) in ("match", "search"):
            yield from (part.value for part in inner[1:] if isinstance(getattr(part, "value", None), str))
        waiting += inner


def _tool_calls(kind: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    check = _read_fields(kind, value, at, texts, shared)
    assert isinstance(check, kinds.ToolCalls)
    _refuse_impossible(check, at, texts, has_mode="mode" in value)
    return check


def _effort(kind: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    check = _read_fields(kind, value, at, texts, shared)
    names = ("tool_calls", "turns", "tokens")
    bounds = {name: (getattr(check, f"min_{name}"), getattr(check, f"max_{name}")) for name in names}
    if all(pair == (None, None) for pair in bounds.values()):
        texts.problem("missing-field", at, "`effort` needs a bound, such as `max_tool_calls: 5`")
    for name, (least, most) in bounds.items():
        if least is not None and most is not None and least > most:
            message = f"`max_{name}: {most}` is less than `min_{name}: {least}`"
            texts.problem("out-of-range", f"{at}.max_{name}", message)
    return check


def _field_accuracy(_: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    fields: dict[str, kinds.WantedField] = {}
    for written, field in value["fields"].items():
        place = f"{at}.fields.{written}"
        path = texts.text(written, place)
        path = path if path.startswith("$") else f"$.{path}"
        compile_path(path, place, texts)
        fields[path] = _wanted_field(field, place, texts)
    if not fields:
        texts.problem(
            "missing-field", f"{at}.fields", "`field_accuracy` needs fields: `fields: {total: {expected: 12}}`"
        )
    own = {"threshold": value["threshold"]} if "threshold" in value else {}
    return kinds.FieldAccuracy(**{**shared, **own}, fields=fields)


def _wanted_field(value: dict[str, Any], at: str, texts: Texts) -> kinds.WantedField:
    expected = texts.tree(value["expected"], f"{at}.expected")
    kind, tolerance = value.get("kind", "exact"), value.get("tolerance")
    if (why := refuse_expected(kind, expected, tolerance)) is not None:
        texts.problem("out-of-range", f"{at}.{why[0]}", why[1])
    return kinds.WantedField(msgspec.json.encode(expected).decode(), kind, tolerance, float(value.get("weight", 1.0)))


def _wanted_calls(values: list[Any], at: str, texts: Texts) -> tuple[kinds.WantedCall, ...]:
    return _each(_wanted_call, values, at, texts)


def _wanted_call(value: Any, at: str, texts: Texts) -> kinds.WantedCall:
    if isinstance(value, str):
        return kinds.WantedCall(_read_pattern(value, at, texts))
    arguments = _read_json(value["arguments"], f"{at}.arguments", texts) if "arguments" in value else None
    return kinds.WantedCall(
        _read_pattern(value["name"], f"{at}.name", texts),
        arguments,
        value.get("times", 1),
        _read_json(value["like"], f"{at}.like", texts) if "like" in value else None,
        _read_pattern(value["result"], f"{at}.result", texts) if "result" in value else None,
        value.get("status"),
    )


def _refuse_impossible(check: kinds.ToolCalls, at: str, texts: Texts, *, has_mode: bool) -> None:
    """Report conditions that no reply can satisfy, or that every reply satisfies."""
    wanted = sum(call.times for call in check.calls)
    if any(call.times != 1 for call in check.subset):
        texts.problem(
            "out-of-range", f"{at}.subset", "`times` has no effect in `subset`, which says what may be called"
        )
    least = max(wanted, check.least or 0)
    if not check.calls and check.least is None and check.most is None and not check.subset and not check.schema:
        message = "`tool_calls` needs `calls`, their number (`min` or `max`), `subset` or `schema: true`"
        texts.problem("missing-field", f"{at}.calls", message)
    elif not check.calls and has_mode:
        texts.problem("missing-field", f"{at}.calls", "`mode` says how `calls` are compared, and there are none")
    elif check.most is not None and least > check.most:
        message = (
            f"`max: {check.most}` can never be kept, because at least {count(least, 'call is', 'calls are')} expected"
        )
        texts.problem("out-of-range", f"{at}.max", message)
    elif check.mode == "exact" and least > wanted:
        message = (
            f"`min: {least}` can never be reached, because exactly {count(wanted, 'call is', 'calls are')} expected"
        )
        texts.problem("out-of-range", f"{at}.min", message)


def _tool_state(kind: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    """The texts of the arguments may have values that earlier turns extract."""
    check = _read_fields(kind, _without(value, "arguments"), at, texts, shared)
    arguments = _texts_in(value.get("arguments", {}), f"{at}.arguments", texts)
    return structs.replace(check, arguments=msgspec.json.encode(arguments).decode())


def _texts_in(value: Any, at: str, texts: Texts) -> Any:
    if isinstance(value, str):
        return texts.text(value, at)
    if isinstance(value, list):
        return [_texts_in(one, f"{at}[{place}]", texts) for place, one in enumerate(value)]
    if isinstance(value, dict):
        return {key: _texts_in(one, f"{at}.{key}", texts) for key, one in value.items()}
    return value


def _llm_judge(_: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    if not isinstance(value, dict):
        written = _written({"criteria": value}, "criteria")
        return structs.replace(_read_fields(kinds.LlmJudge, value, at, texts, shared), written=written)
    prompt, words = None, dict(value)
    if "prompt" in value:
        # The content of a file and not its name: when it is edited, the judge is asked something else.
        prompt, words["prompt"] = texts.judge_prompt(value["prompt"], f"{at}.prompt")
        if "criteria" in value and not any(isinstance(piece, JudgeVariable) for piece in prompt):
            message = "`criteria` and a `prompt` without variables say the same thing; keep one of them"
            texts.problem("conflicting-keys", f"{at}.prompt", message)
    check = _read_fields(kinds.LlmJudge, _without(value, "prompt"), at, texts, shared)
    return structs.replace(check, prompt=prompt, written=_written(words, "criteria", "prompt"))


def _without(value: dict[str, Any], key: str) -> dict[str, Any]:
    return {other: inner for other, inner in value.items() if other != key}


def _written(value: dict[str, Any], *keys: str) -> str:
    """The author's words for a judge, before variables are filled in."""
    return msgspec.json.encode({key: value[key] for key in keys if key in value}, order="sorted").decode()


def _rubric(kind: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    words = {"criteria": value} if isinstance(value, list) else value
    return structs.replace(_read_fields(kind, value, at, texts, shared), written=_written(words, "criteria"))


def _criteria(values: list[Any], at: str, texts: Texts) -> tuple[kinds.Criterion, ...]:
    criteria = tuple(_criterion(value, number, at, texts) for number, value in enumerate(values))
    ids = [criterion.id for criterion in criteria]
    if twice := next((name for position, name in enumerate(ids) if name in ids[:position]), None):
        texts.problem("duplicate-id", at, f"two criteria of this rubric have the id `{twice}`")
    return criteria


def _criterion(value: Any, number: int, at: str, texts: Texts) -> kinds.Criterion:
    place, own_id = f"{at}[{number}]", str(number + 1)
    if isinstance(value, str):
        return kinds.Criterion(id=own_id, text=texts.text(value, place))
    own_id = value.get("id", own_id)
    words_at = next((key for key in ("criterion", "outcome", "expected_outcome") if key in value), None)
    if words_at is None and "score_ranges" not in value:
        texts.problem("missing-field", f"{place}.criterion", "a criterion needs words: `criterion: ...`")
    return kinds.Criterion(
        id=own_id,
        text=texts.text(value[words_at], f"{place}.{words_at}") if words_at else own_id,
        weight=value.get("weight", 1.0),
        required=value.get("required", "required_min_score" in value),
        min_score=value["required_min_score"] / 10 if "required_min_score" in value else value.get("min_score"),
        ranges=_each(_score_range, value.get("score_ranges", ()), f"{place}.score_ranges", texts),
    )


def _score_range(value: dict[str, Any], at: str, texts: Texts) -> kinds.ScoreRange:
    least, most = value["score_range"]
    if least > most:
        texts.problem("out-of-range", f"{at}.score_range", f"a range begins with its lower end: [{most}, {least}]")
    words = value.get("meaning", value.get("outcome", value.get("expected_outcome", "")))
    return kinds.ScoreRange(least, most, texts.text(words, at))


def _compare(kind: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    if "reply" in value and "reply_of" in value:
        message = "`reply` and `reply_of` both say what the reply is compared with; keep one of them"
        texts.problem("conflicting-keys", f"{at}.reply_of", message)
    return structs.replace(_read_fields(kind, value, at, texts, shared), written=_written(value, "criteria"))


def _ready_judge(kind: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    if value is False:
        texts.problem("wrong-type", at, f"`{kinds.kind_of(kind)}` is true, or a mapping; to negate a check, use `not`")
    return _read_fields(kind, value if isinstance(value, dict) else {}, at, texts, shared)


def read_context(value: Any, at: str, texts: Texts) -> tuple[str, ...]:
    """The texts of a `context`: one, or several, each also from a file."""
    if not isinstance(value, list):
        return (trim(texts.words(value, at)),)
    return tuple(trim(texts.words(text, f"{at}[{place}]")) for place, text in enumerate(value))


def _custom(_: type[Check], value: Any, at: str, texts: Texts, shared: Shared) -> Check:
    names = texts.known_checks()
    if names is not None and value not in names:
        hint = f"; {CHECKS_FILE} or an installed package has to define it"
        if names:
            hint = did_you_mean(value, names) or f"; there are {listed(names)}"
        texts.problem("unknown-check", at, f"there is no check `{value}`{hint}")
    return kinds.Custom(kind=value, **shared)


def read_evaluators(evaluators: list[Any], at: str, texts: Texts) -> tuple[Item, ...]:
    return tuple(map(Item, _each(_evaluator, evaluators, at, texts)))


def _evaluator(evaluator: dict[str, Any], at: str, texts: Texts) -> Check:
    """One of AgentV's evaluators as a check."""
    shared = shared_of(evaluator, at, at, texts)
    kind = kinds.Rubric if "rubrics" in evaluator else _EVALUATORS[evaluator["type"]]
    if kind is not kinds.Rubric:
        return _read_as(kind, evaluator, at, texts, shared)
    if "rubrics" not in evaluator:
        texts.problem("missing-field", f"{at}.rubrics", "an evaluator of this type needs `rubrics`: a list of criteria")
    criteria = _criteria(evaluator.get("rubrics", []), f"{at}.rubrics", texts)
    judging = _without(evaluator, "criteria")
    check = _read_fields(kinds.Rubric, judging, at, texts, {**shared, "criteria": criteria})
    return structs.replace(check, written=_written(evaluator, "rubrics"))


def read_rubrics(rubrics: list[Any], at: str, texts: Texts) -> tuple[Item, ...]:
    """The `rubrics` of a case as one check, as AgentV has it."""
    return (Item(_rubric(kinds.Rubric, rubrics, at, texts, {"at": at})),)


def compile_pattern(pattern: str, at: str, texts: Texts, flags: str = "") -> None:
    """Refuse an expression that its engine cannot compile."""
    import regex

    from rejoinder.pattern_size import refuse_endless

    switches = sum(getattr(regex, letter.upper()) for letter in set(flags))
    try:
        refuse_endless(pattern, flags)
        regex.compile(pattern, switches)
    except (regex.error, ValueError, OverflowError, RecursionError) as error:
        plain = f"cannot be read as a regular expression: {error}"
        why = "is a pattern of `match`, not of `regex`" if pattern.startswith("*") else plain
        texts.problem("invalid-regex", at, f"{pattern!r} {why}")


_READINGS: dict[Reading, ValueReader] = {
    Reading.AS_WRITTEN: lambda value, _at, _texts: value,
    Reading.TEMPLATE: lambda value, at, texts: texts.text(value, at),
    Reading.PATTERN: _read_pattern,
    Reading.TARGET: lambda value, at, texts: texts.target(value, at),
    Reading.COMMAND: _read_command,
    Reading.JSON: _read_json,
    Reading.DURATION: _read_duration,
}
_READERS: dict[type[Check], Reader] = {
    kinds.Match: _match,
    kinds.NotMatch: _match,
    kinds.Regex: _regex,
    kinds.JsonSchema: _json_schema,
    kinds.JsonPath: _json_path,
    kinds.ToolCalls: _tool_calls,
    kinds.ToolState: _tool_state,
    kinds.Effort: _effort,
    kinds.FieldAccuracy: _field_accuracy,
    kinds.FileContains: _file_contains,
    kinds.WorkspaceDiff: _workspace_diff,
    kinds.LlmJudge: _llm_judge,
    kinds.Rubric: _rubric,
    kinds.Compare: _compare,
    **dict.fromkeys((kinds.Faithful, kinds.Relevant, kinds.Complete), _ready_judge),
    kinds.Custom: _custom,
}
"""Checks that are more than their fields."""
_LISTS: dict[Any, ValueReader] = {Item: _read_list, kinds.WantedCall: _wanted_calls, kinds.Criterion: _criteria}
"""Readers of lists by what is in them."""
