"""Checks on the JSON in a reply, and how it is found there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, TypeAlias

import msgspec

from rejoinder.checks.base import Context, error_verdict, scored_verdict, verdict
from rejoinder.checks.patterns import BoundedPattern
from rejoinder.model import AnyCheck, ContainsJson, IsJson, JsonPath, JsonSchema, Reply, Verdict
from rejoinder.suite.schema import compile_schema

MOST_STARTS = 200
"""Opening brackets that are tried in a reply's prose."""
MOST_FOUND = 10_000
"""Things at a path; a path with several `..` finds more of them than anybody can wait for."""
LONGEST_QUOTE = 120
_FENCE = re.compile(r"```[\w+-]*[ \t]*\n(.*?)```", re.DOTALL)
_DECODER = json.JSONDecoder()
_NOTHING = object()
Grade: TypeAlias = Callable[[tuple[AnyCheck, ...], Context], tuple[Verdict, ...] | None]
"""Grades checks that ask nobody; None where one has to."""


def judge_is_json(check: IsJson, context: Context) -> Verdict:
    found = _decode(context.reply.text) is not _NOTHING
    reason = "it is JSON" if found else "it is not JSON as a whole"
    if not found and find_json(context.reply.text) is not _NOTHING:
        reason += "; there is JSON in it, which `contains_json` accepts"
    return verdict(check, f"is_json {_word(check.wanted)}", found == check.wanted, reason)


def judge_contains_json(check: ContainsJson, context: Context) -> Verdict:
    found = isinstance(find_json(context.reply.text), dict | list)
    reason = "there is JSON in it" if found else "there is no JSON object or list in it"
    return verdict(check, f"contains_json {_word(check.wanted)}", found == check.wanted, reason)


def judge_json_schema(check: JsonSchema, context: Context) -> Verdict:
    data = find_json(context.reply.text)
    if data is _NOTHING:
        return verdict(check, "json_schema", False, "there is no JSON in the reply")
    try:
        errors = list(_validator(check.document).iter_errors(data))
    except (ValueError, RecursionError) as error:
        return error_verdict(check, "json_schema", f"the schema cannot be used: {error}")
    if not errors:
        return verdict(check, "json_schema", True, "satisfies the schema")
    first = errors[0]
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first.instance_path)
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    message = first.message  # which quotes what is wrong, and that may be the whole reply
    if len(message) > 2 * LONGEST_QUOTE:
        message = f"{message[:LONGEST_QUOTE]}...{message[-LONGEST_QUOTE:]}"
    return verdict(check, "json_schema", False, f"${place}: {message}{more}")


def judge_json_path(check: JsonPath, context: Context, grade: Grade) -> Verdict:
    """The first thing at the path decides that passes; with neither value nor check anything will do."""
    label = f"json_path {check.path}" if check.expected is None and check.check is None else "json_path"
    data = find_json(context.reply.text)
    if data is _NOTHING:
        return verdict(check, label, False, "there is no JSON in the reply")
    try:
        found = [match.obj for match in islice(_path(check.path).finditer(data), MOST_FOUND + 1)]
    except Exception as error:  # whatever a path makes of a reply, it is no bug of ours
        return error_verdict(check, label, f"the path cannot be followed: {error.args[0] if error.args else error!r}")
    if len(found) > MOST_FOUND:
        return error_verdict(check, label, f"there are more than {MOST_FOUND} things at {check.path}")
    try:
        return _judge_found(check, label, found, context, grade)
    except RecursionError:
        return error_verdict(check, label, "what is there is nested too deeply to be written down")


def _judge_found(check: JsonPath, label: str, found: list[Any], context: Context, grade: Grade) -> Verdict:
    if not found:
        return verdict(check, label, False, f"there is nothing at {check.path}")
    if check.expected is not None:
        wanted = msgspec.json.decode(check.expected)
        passed = any(equal_as_json(one, wanted) for one in found)
        return verdict(
            check, label, passed, f"there is {_shown(found)}" + ("" if passed else f", not {check.expected}")
        )
    if check.check is None:
        return verdict(check, label, True, f"there is {_shown(found)}")
    return _judge_inner(check, label, found, context, grade)


def _judge_inner(check: JsonPath, label: str, found: list[Any], context: Context, grade: Grade) -> Verdict:
    assert check.check is not None
    last: Verdict | None = None
    for one in found:
        text = one if isinstance(one, str) else msgspec.json.encode(one).decode()
        inner = Context(context.case, Reply(text, context.reply.usage), context.turn, context.port)
        verdicts = grade((check.check,), inner)
        if verdicts is None:
            return error_verdict(check, label, "a check inside `json_path` cannot ask anybody")
        last = verdicts[0]
        if last.state != "failed":  # what cannot be decided here would take as long everywhere
            break
    assert last is not None
    if last.state == "error":
        return error_verdict(check, label, last.reason, children=(last,))
    return scored_verdict(check, label, last.passed, f"there is {_shown(found)}", score=last.score, children=(last,))


def find_json(text: str) -> Any:
    """The JSON of a reply: all of it, else a code block, else the longest object or list in the prose."""
    whole = _decode(text)
    if whole is not _NOTHING:
        return whole
    for block in _FENCE.findall(text):
        data = _decode(block)
        if data is not _NOTHING:
            return data
    return max(_in_prose(text), key=lambda pair: pair[0], default=(0, _NOTHING))[1]


def decode_at(text: str, position: int) -> tuple[Any, int]:
    """The JSON that begins at a place of a text, and where it ends. Raises ValueError or RecursionError."""
    data, end = _DECODER.raw_decode(text, position)
    return _mended(data) if "\\u" in text else data, end


def _mended(data: Any) -> Any:
    """Half a character, which can be written as an escape and in no other way, could not be recorded."""
    if isinstance(data, str):
        return data.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(data, list):
        return [_mended(one) for one in data]
    return {_mended(key): _mended(one) for key, one in data.items()} if isinstance(data, dict) else data


def _in_prose(text: str) -> Iterator[tuple[int, Any]]:
    position = 0
    for _ in range(MOST_STARTS):
        starts = [at for at in (text.find("{", position), text.find("[", position)) if at >= 0]
        if not starts:
            return
        position = min(starts)
        try:
            data, end = decode_at(text, position)
        except (ValueError, RecursionError):
            position += 1
            continue
        yield end - position, data
        position = end


def _decode(text: str) -> Any:
    try:
        return msgspec.json.decode(text.strip())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _NOTHING


def equal_as_json(one: Any, other: Any) -> bool:
    """Equal as JSON: a number is not a truth value."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal_as_json(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal_as_json, one, other))
    return one == other


def _shown(found: list[Any]) -> str:
    text = ", ".join(msgspec.json.encode(one).decode() for one in found[:3])
    return text if len(text) <= LONGEST_QUOTE and len(found) <= 3 else f"{text[:LONGEST_QUOTE]}..."


def _word(wanted: bool) -> str:
    return "true" if wanted else "false"


@lru_cache(maxsize=64)
def _validator(document: str) -> Any:
    return compile_schema(msgspec.json.decode(document))


@lru_cache(maxsize=256)
def _path(path: str) -> Any:
    return _environment().compile(path)


@lru_cache(maxsize=1)
def _environment() -> Any:
    from jsonpath import JSONPathEnvironment  # noqa: PLC0415
    from jsonpath.function_extensions import Match, Search  # noqa: PLC0415

    class BoundedMatch(Match):
        def check_cache(self, pattern: str) -> Any:
            return BoundedPattern.of(super().check_cache(pattern))

    class BoundedSearch(Search):
        def check_cache(self, pattern: str) -> Any:
            return BoundedPattern.of(super().check_cache(pattern))

    environment = JSONPathEnvironment(strict=True)
    environment.function_extensions.update({"match": BoundedMatch(), "search": BoundedSearch()})
    return environment
