"""Checks on the JSON in a reply, and how it is found there."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, NoReturn, TypeAlias

import msgspec
from msgspec import Struct

from rejoinder.checks.base import Context, error_verdict, scored_verdict, verdict
from rejoinder.checks.patterns import BoundedPattern
from rejoinder.json_schemas import Expansion, compile_schema
from rejoinder.model import AnyCheck, ContainsJson, IsJson, JsonPath, JsonSchema, Reply, Verdict

MOST_STARTS = 200
"""What looks like JSON in prose, and is none, so many times: then nobody looks any further."""
MOST_FOUND = 10_000
"""Things at a path; a path with several `..` finds more of them than anybody can wait for."""
MOST_STEPS = 300_000
"""Things that are looked at on the way along a path, with what is in them: about a second, and far more than the
longest replies have, unless a path goes through them again and again."""
MOST_VISITS = 50_000_000
"""Sub-schemas that a JSON Schema may visit in a reply: about a second, in which nothing else can run. The validator
remembers what a recursive sub-schema said about a place."""
MOST_EXPLAINED = 50_000
"""Sub-schemas up to which it is said where a reply does not fit: that takes a thousand times as long, and what was said
before is not remembered."""
LONGEST_QUOTE = 120
# Most runs look into no prose, so these are compiled where they are needed.
OBJECT = r"\{(\s*+[\"}])?"
"""Where an object may begin; the group says that it looks like JSON."""
_VALUE = rf"{OBJECT}|\[((?:[\s\d.,eE+-]|true|false|null)*+[\[\]{{\"])"
"""An object, or a list: brackets in prose, such as `[this]` and `[0, 1)`, are left alone."""
_BRACKETS = {"{": r"[{}]", "[": r"[\[\]]"}
_OUTSIDE_TEXTS = {one: rf'"(?:\\.|[^"\\])*+"?|{two}' for one, two in _BRACKETS.items()}
_FENCE = re.compile(r"```[\w+-]*[ \t]*\n(.*?)```", re.DOTALL)
_NOTHING = object()


def make_decoder(**more: Any) -> json.JSONDecoder:
    """A reader of JSON alone: the library's own takes NaN and Infinity, too."""

    def refuse(word: str) -> NoReturn:
        raise ValueError(f"{word} is no JSON")

    def read_float(digits: str) -> float:
        number = float(digits)
        return number if math.isfinite(number) else refuse(digits)

    return json.JSONDecoder(parse_constant=refuse, parse_float=read_float, **more)


_DECODER = make_decoder()
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
        schema = _schema(check.document)
        if schema.exceeds(MOST_VISITS, data, context.reply.text, remembers=True):
            reason = f"the schema takes more than {MOST_VISITS:,} steps on this reply; {_FEWER}"
            return error_verdict(check, "json_schema", reason)
        if schema.validator.is_valid(data):
            return verdict(check, "json_schema", True, "satisfies the schema")
        if schema.exceeds(MOST_EXPLAINED, data, context.reply.text, remembers=False):
            reason = "does not satisfy the schema; it takes too many steps on this reply to say where"
            return verdict(check, "json_schema", False, reason)
        errors = list(schema.validator.iter_errors(data))
    except (ValueError, RecursionError) as error:
        return error_verdict(check, "json_schema", f"the schema cannot be used: {error}")
    return _explained(check, errors)


def _explained(check: JsonSchema, errors: list[Any]) -> Verdict:
    stopped = next((one for one in errors if type(one.kind).__name__ in _STOPPED), None)
    if stopped is not None:
        pattern = _pattern_at(msgspec.json.decode(check.document), stopped.schema_path)
        reason = f"{pattern!r} took too many steps on this reply; make it simpler"
        return error_verdict(check, "json_schema", reason)
    first = errors[0]
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first.instance_path)
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    message = first.message  # which quotes what is wrong, and that may be the whole reply
    if len(message) > 2 * LONGEST_QUOTE:
        message = f"{message[:LONGEST_QUOTE]}...{message[-LONGEST_QUOTE:]}"
    return verdict(check, "json_schema", False, f"${place}: {message}{more}")


_FEWER = "put fewer levels of `anyOf`, `allOf` and `oneOf` inside others"
_STOPPED = ("BacktrackLimitExceeded", "RegexEngineFailure")
"""What a schema's regular expression ends with that has found out nothing."""


def _pattern_at(schema: Any, path: list[str | int]) -> str:
    """The regular expression at a place of a schema: a value, or the key of `patternProperties`."""
    for step in path:
        try:
            schema = schema[step]
        except (KeyError, IndexError, TypeError):
            break
    return schema if isinstance(schema, str) else str(path[-1])


def judge_json_path(check: JsonPath, context: Context, grade: Grade) -> Verdict:
    """The first thing at the path decides that passes; with neither value nor check anything will do."""
    label = f"json_path {check.path}" if check.expected is None and check.check is None else "json_path"
    data = find_json(context.reply.text)
    if data is _NOTHING:
        return verdict(check, label, False, "there is no JSON in the reply")
    try:
        found = _follow(check.path, data)
    except TooFar:
        reason = f"{check.path} takes more than {MOST_STEPS} steps through this reply; make it simpler"
        return error_verdict(check, label, reason)
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


def _follow(path: str, data: Any) -> list[Any]:
    """What is at a path, or a little more than anybody needs. Raises TooFar, and whatever comes of strange paths."""
    compiled = _path(path)
    if isinstance(data, str):  # there is nothing in a text; the library would read it as JSON once more
        return [data] if compiled.empty() else []
    _WAY.left = MOST_STEPS
    return [match.obj for match in islice(compiled.finditer(data), MOST_FOUND + 1)]


def find_json(text: str) -> Any:
    """The JSON of a reply: all of it, else a code block, else the longest object or list in the prose."""
    whole = _decode(text)
    if whole is not _NOTHING:
        return whole
    for block in _FENCE.findall(text):
        data = _decode(block)
        if data is not _NOTHING:
            return data
    found = (one for one in scan_json(text, _VALUE) if one.readable)
    return max(found, key=lambda one: one.end - one.start, default=Found(0, 0)).data


class Found(Struct, frozen=True):
    """JSON in a text, and where it is; or the rest of a text, in which there may be some that nobody can read."""

    start: int
    end: int
    data: Any = _NOTHING

    @property
    def readable(self) -> bool:
        return self.data is not _NOTHING


def scan_json(text: str, opening: str, decoder: json.JSONDecoder = _DECODER) -> Iterator[Found]:
    """The JSON in a text, from left to right. What cannot be read is passed over with all that is in it, because a
    part of something is not what was said; and where it never ends, so does what can be read."""
    find, position, failed = re.compile(opening).search, 0, 0
    while begun := find(text, position):
        start = begun.start()
        if begun.lastindex:
            try:
                data, position = decode_at(text, start, decoder)
            except (ValueError, RecursionError):
                failed += 1
            else:
                yield Found(start, position, data)
                continue
        position = _behind(text, start, like_json=bool(begun.lastindex))
        if position < 0 or failed > MOST_STARTS:
            if begun.lastindex:
                yield Found(start, len(text))
            return


def _behind(text: str, start: int, *, like_json: bool) -> int:
    """Behind what begins at a place and cannot be read; -1 where it never ends. Brackets in its texts do not count, but
    where it is broken nobody knows what is a text: so the end is where it ends in either way."""
    end = _closing(text, start, _BRACKETS)
    if not like_json or end < 0:
        return end
    other = _closing(text, start, _OUTSIDE_TEXTS)
    return max(end, other) if other >= 0 else -1


def _closing(text: str, start: int, brackets: dict[str, str]) -> int:
    """Behind the bracket that closes the one at a place; -1 where none does."""
    depth = 0
    for one in re.compile(brackets[text[start]], re.DOTALL).finditer(text, start):
        if one[0][0] != '"':
            depth += 1 if one[0] == text[start] else -1
            if not depth:
                return one.end()
    return -1


def decode_at(text: str, position: int, decoder: json.JSONDecoder = _DECODER) -> tuple[Any, int]:
    """The JSON that begins at a place of a text, and where it ends. Raises ValueError or RecursionError."""
    data, end = decoder.raw_decode(text, position)
    return _mended(data) if text.find("\\u", position, end) >= 0 else data, end


def _mended(data: Any) -> Any:
    """Half a character, which can be written as an escape and in no other way, could not be recorded."""
    if isinstance(data, str):
        return data.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(data, list):
        return [_mended(one) for one in data]
    return {_mended(key): _mended(one) for key, one in data.items()} if isinstance(data, dict) else data


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


class _Schema(Struct, frozen=True):
    """A schema that is ready for use."""

    validator: Any
    expansion: Expansion

    def exceeds(self, most: int, data: Any, text: str, *, remembers: bool) -> bool:
        """Does it visit more than so many sub-schemas in the JSON of a text? Most schemas are so small that the length
        of the text is enough to know: a value has a character, and another one before the next."""
        if self.expansion.size * (len(text) // 2 + 1) <= most:
            return False
        return self.expansion.visits(data, most, remembers=remembers) > most


@lru_cache(maxsize=64)
def _schema(document: str) -> _Schema:
    schema = msgspec.json.decode(document)
    return _Schema(compile_schema(schema), Expansion(schema))


@lru_cache(maxsize=256)
def _path(path: str) -> Any:
    return _environment().compile(path)


class TooFar(Exception):
    """A path goes through a reply again and again."""


class _Way(threading.local):
    """What is left of the steps along a path. A path is followed in one go, by one thread."""

    left = 0


_WAY = _Way()


def _counted(nodes: Iterable[Any], selectors: int) -> Iterator[Any]:
    """The things that a part of a path is applied to; each costs as much as has to be looked at in it."""
    for node in nodes:
        inside = len(node.obj) if isinstance(node.obj, dict | list) else 0
        _WAY.left -= selectors * (1 + inside)
        if _WAY.left < 0:
            raise TooFar
        yield node


@lru_cache(maxsize=1)
def _environment() -> Any:
    from jsonpath import JSONPathEnvironment
    from jsonpath.function_extensions import Match, Search
    from jsonpath.parse import Parser
    from jsonpath.segments import JSONPathChildSegment, JSONPathRecursiveDescentSegment

    class BoundedMatch(Match):
        def check_cache(self, pattern: str) -> Any:
            return BoundedPattern.of(pattern, super().check_cache)

    class BoundedSearch(Search):
        def check_cache(self, pattern: str) -> Any:
            return BoundedPattern.of(pattern, super().check_cache)

    class Children(JSONPathChildSegment):
        def resolve(self, nodes: Iterable[Any]) -> Iterable[Any]:
            return super().resolve(_counted(nodes, len(self.selectors)))

    class Descendants(JSONPathRecursiveDescentSegment):
        def resolve(self, nodes: Iterable[Any]) -> Iterable[Any]:
            for node in nodes:
                for inner in _counted(self._visit(node), len(self.selectors)):
                    for selector in self.selectors:
                        yield from selector.resolve(inner)

    class BoundedParser(Parser):
        def parse_query(self, stream: Any) -> Iterable[Any]:  # paths inside filters, too
            for one in super().parse_query(stream):
                kind = Descendants if isinstance(one, JSONPathRecursiveDescentSegment) else Children
                yield kind(env=one.env, token=one.token, selectors=one.selectors)

    class Environment(JSONPathEnvironment):
        parser_class = BoundedParser

        def getitem(self, obj: Any, key: Any) -> Any:
            return "" if isinstance(obj, str) else super().getitem(obj, key)  # no part of a text is a thing at a path

    environment = Environment(strict=True)
    environment.function_extensions.update({"match": BoundedMatch(), "search": BoundedSearch()})
    return environment
