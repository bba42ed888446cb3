"""Checks on the JSON in a reply. Paths cannot run forever: their steps are counted, and their regular expressions
timed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct, structs

from rejoinder.checks.base import Context, error_verdict, scored_verdict, verdict
from rejoinder.checks.json_text import equal_as_json, find_json, read_json
from rejoinder.checks.patterns import BoundedPattern, PatternTimeout, search
from rejoinder.checks.registry import grade_plain, grades
from rejoinder.json_schemas import Expansion, compile_schema
from rejoinder.model import ContainsJson, Extract, IsJson, JsonPath, JsonSchema, Reply, State, Verdict
from rejoinder.words.numbers import beginning

MOST_FOUND = 10_000
"""Maximum values at a path; one with several `..` may find far more."""
MOST_VISITS = 50_000_000
"""Maximum sub-schemas that a JSON Schema may visit in a reply: about a second, in which nothing else can run. The
validator remembers the result of a recursive sub-schema at each place."""
MOST_EXPLAINED = 50_000
"""Maximum sub-schemas for which an explanation of the mismatch is computed: it takes a thousand times as long, and
earlier results are not remembered."""
LONGEST_QUOTE = 120


@grades(IsJson)
def grade_is_json(check: IsJson, context: Context) -> Verdict:
    json = read_json(context.reply.text)
    is_json, reason = json.readable, "it is JSON"
    if not is_json:
        json, reason = find_json(context.reply.text), "it is not JSON as a whole"
        if json.readable:
            reason += "; there is JSON in it, which `contains_json` accepts"
    return verdict(check, check.wanted, is_json == check.wanted, reason, json.spans)


@grades(ContainsJson)
def grade_contains_json(check: ContainsJson, context: Context) -> Verdict:
    json = find_json(context.reply.text)
    contains = isinstance(json.data, dict | list)
    reason = "there is JSON in it" if contains else "there is no JSON object or list in it"
    return verdict(check, check.wanted, contains == check.wanted, reason, json.spans if contains else ())


@grades(JsonSchema)
def grade_json_schema(check: JsonSchema, context: Context) -> Verdict:
    json = find_json(context.reply.text)
    if not json.readable:
        return verdict(check, None, False, "there is no JSON in the reply")
    state, reason = fit_schema(check.document, json.data, context.reply.text, "on this reply")
    if state == "error":
        return error_verdict(check, None, reason)
    return verdict(check, None, state == "passed", reason, json.spans)


def fit_schema(document: str, data: Any, text: str, where: str) -> tuple[State, str]:
    """Whether JSON satisfies a schema, and why not. `text`: the JSON as written; `where`: its name in an error."""
    try:
        schema = _schema(document)
        if schema.exceeds(MOST_VISITS, data, text, remembers=True):
            return "error", f"the schema takes more than {MOST_VISITS:,} steps {where}; {_FEWER}"
        if schema.validator.is_valid(data):
            return "passed", "satisfies the schema"
        if schema.exceeds(MOST_EXPLAINED, data, text, remembers=False):
            return "failed", f"does not satisfy the schema; it takes too many steps {where} to say where"
        errors = list(schema.validator.iter_errors(data))
    except (ValueError, RecursionError) as error:
        return "error", f"the schema cannot be used: {error}"
    stopped = next((error for error in errors if type(error.kind).__name__ in _STOPPED), None)
    if stopped is not None:
        pattern = _pattern_at(msgspec.json.decode(document), stopped.schema_path)
        return "error", f"{pattern!r} took too many steps {where}; make it simpler"
    return "failed", _explained(errors)


def _explained(errors: list[Any]) -> str:
    first = errors[0]
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first.instance_path)
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    message = first.message  # which quotes what is wrong, and that may be the whole reply
    if len(message) > 2 * LONGEST_QUOTE:
        message = f"{message[:LONGEST_QUOTE]}...{message[-LONGEST_QUOTE:]}"
    return f"${place}: {message}{more}"


_FEWER = "put fewer levels of `anyOf`, `allOf` and `oneOf` inside others"
_STOPPED = ("BacktrackLimitExceeded", "RegexEngineFailure")
"""The errors of a schema's regular expression that was stopped."""


def _pattern_at(schema: Any, path: list[str | int]) -> str:
    """The regular expression at a place of a schema: a value, or the key of `patternProperties`."""
    for step in path:
        try:
            schema = schema[step]
        except (KeyError, IndexError, TypeError):
            break
    return schema if isinstance(schema, str) else str(path[-1])


class _Schema(Struct, frozen=True):
    """A compiled schema."""

    validator: Any
    expansion: Expansion

    def exceeds(self, most: int, data: Any, text: str, *, remembers: bool) -> bool:
        """Whether it visits more than `most` sub-schemas in the JSON of a text. For most schemas the text's length is
        enough to decide: a value has at least one character, and another one before the next value."""
        if self.expansion.size * (len(text) // 2 + 1) <= most:
            return False
        return self.expansion.visits(data, most, remembers=remembers) > most


@lru_cache(maxsize=64)
def _schema(document: str) -> _Schema:
    schema = msgspec.json.decode(document)
    return _Schema(compile_schema(schema), Expansion(schema))


@grades(JsonPath)
def grade_json_path(check: JsonPath, context: Context) -> Verdict:
    """Grade by the first passing value at the path; with neither value nor check, any value passes."""
    shown = check.path if check.expected is None and check.check is None else None
    json = find_json(context.reply.text)
    if not json.readable:
        return verdict(check, shown, False, "there is no JSON in the reply")
    try:
        values = follow(check.path, json.data, MOST_FOUND + 1)
    except TooFar:
        reason = f"{check.path} takes more than {MOST_STEPS} steps through this reply; make it simpler"
        return error_verdict(check, shown, reason)
    except Exception as error:  # an unusual path can raise anything
        return error_verdict(check, shown, f"the path cannot be followed: {error.args[0] if error.args else error!r}")
    if len(values) > MOST_FOUND:
        return error_verdict(check, shown, f"there are more than {MOST_FOUND} things at {check.path}")
    try:
        return structs.replace(_grade_values(check, shown, values, context), spans=json.spans)
    except RecursionError:
        return error_verdict(check, shown, "what is there is nested too deeply to be recorded")


@grades(Extract)
def grade_extract(check: Extract, context: Context) -> Verdict:
    """The value that later turns may quote from this reply: the first value at a path, or a pattern's match."""
    shown = check.path or check.pattern
    try:
        value = _extracted(check, context.reply.text)
    except (PatternTimeout, PathFault) as fault:
        return error_verdict(check, shown, str(fault))
    if value is None:
        return scored_verdict(check, shown, False, f"nothing is found for `{check.variable}`", name=check.variable)
    reason = f"`{check.variable}` is {_quote(value)}"
    return scored_verdict(check, shown, True, reason, name=check.variable, found=value)


def _extracted(check: Extract, reply: str) -> str | None:
    if check.pattern is not None:
        match = search(check.pattern, "", reply)
        return None if match is None else match[1] if match.re.groups and match[1] is not None else match[0]
    return first_value(check.path or "$", reply)


class PathFault(Exception):
    """A path cannot be followed; the message says why."""


def first_value(path: str, reply: str) -> str | None:
    """The first value at a path of the JSON in a reply, as a text; None if there is none. Raises PathFault."""
    json = find_json(reply)
    values = values_at(path, json.data, 1) if json.readable else []
    return _as_text(values[0]) if values else None


def values_at(path: str, data: Any, most: int) -> list[Any]:
    """The first values at a path. Raises PathFault."""
    try:
        return follow(path, data, most)
    except TooFar:
        raise PathFault(f"{path} takes more than {MOST_STEPS} steps through this reply; make it simpler") from None
    except Exception as error:  # an unusual path can raise anything
        raise PathFault(f"the path cannot be followed: {error.args[0] if error.args else error!r}") from error


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _quote(text: str) -> str:
    return repr(beginning(text, LONGEST_QUOTE))


def _grade_values(check: JsonPath, shown: str | None, values: list[Any], context: Context) -> Verdict:
    if not values:
        return verdict(check, shown, False, f"there is nothing at {check.path}")
    if check.expected is not None:
        wanted = msgspec.json.decode(check.expected)
        passed = any(equal_as_json(value, wanted) for value in values)
        other = "" if passed else f", not {check.expected}"
        return verdict(check, shown, passed, f"there is {_shown(values)}{other}")
    if check.check is None:
        return verdict(check, shown, True, f"there is {_shown(values)}")
    return _grade_inner(check, values, context)


def _grade_inner(check: JsonPath, values: list[Any], context: Context) -> Verdict:
    assert check.check is not None
    inner: Verdict | None = None
    for value in values:
        reply = Reply(_as_text(value), context.reply.usage)
        verdicts = grade_plain((check.check,), structs.replace(context, reply=reply))
        if verdicts is None:
            return error_verdict(check, None, "a check inside `json_path` can only look at the value")
        inner = structs.replace(verdicts[0], spans=())  # its spans are places in the value, not in the reply
        if inner.state != "failed":  # what cannot be decided here would take as long everywhere
            break
    assert inner is not None
    if inner.state == "error":
        return error_verdict(check, None, inner.reason, children=(inner,))
    reason = f"there is {_shown(values)}"
    return scored_verdict(check, None, inner.passed, reason, score=inner.score, children=(inner,))


def _shown(values: list[Any]) -> str:
    text = ", ".join(msgspec.json.encode(value).decode() for value in values[:3])
    return beginning(text, LONGEST_QUOTE) if len(values) <= 3 else f"{text[:LONGEST_QUOTE]}..."


MOST_STEPS = 300_000
"""Maximum values, with their content, that are visited along a path: about a second, and far more than the longest
replies have, unless a path visits them repeatedly."""


def follow(path: str, data: Any, most: int) -> list[Any]:
    """The first values at a path. Raises TooFar, and other errors for unusual paths."""
    compiled = _path(path)
    if isinstance(data, str):  # there is nothing in a text; the library would read it as JSON once more
        return [data] if compiled.empty() else []
    _WAY.left = MOST_STEPS
    return [match.obj for match in islice(compiled.finditer(data), most)]


@lru_cache(maxsize=256)
def _path(path: str) -> Any:
    return _environment().compile(path)


class TooFar(Exception):
    """A path visits too many values."""


class _Way(threading.local):
    """The remaining steps along a path. One thread follows a path without interruption."""

    left = 0


_WAY = _Way()


def _counted(nodes: Iterable[Any], selectors: int) -> Iterator[Any]:
    """The values that a path segment is applied to; each costs as much as is searched in it."""
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
            for part in super().parse_query(stream):
                kind = Descendants if isinstance(part, JSONPathRecursiveDescentSegment) else Children
                yield kind(env=part.env, token=part.token, selectors=part.selectors)

    class Environment(JSONPathEnvironment):
        parser_class = BoundedParser

        def getitem(self, obj: Any, key: Any) -> Any:
            return "" if isinstance(obj, str) else super().getitem(obj, key)  # no part of a text is a thing at a path

    environment = Environment(strict=True)
    environment.function_extensions.update({"match": BoundedMatch(), "search": BoundedSearch()})
    return environment
