"""What a suite names outside of itself: files, addresses, code, targets and variables, each with its place.

The document is walked beside the JSON Schema of suites, so a key counts only where the schema gives it its meaning: a
variable that is called `url` is no address. Rows of data sets are walked as the cases that they become. What is found
here is what an author wrote; `posted.py` looks at what was made of it as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from rejoinder.model.providers import PROVIDER_NAMES
from rejoinder.suite.document_paths import DocumentPath, write_path
from rejoinder.suite.schema import read_schema
from rejoinder.suite.templates import named_outside

Kind: TypeAlias = Literal["file", "file-or-text", "address", "code", "target", "environment", "secret", "variable"]


class Reference(Struct, frozen=True):
    kind: Kind
    name: str
    at: str


class _Rule(Struct, frozen=True):
    """A key that names something. `holds`: does this value?"""

    kind: Kind
    holds: Callable[[Any, dict[str, Any]], bool] = lambda _value, _beside: True


def _is_text(value: Any, _beside: dict[str, Any]) -> bool:
    return isinstance(value, str)


def _is_other_provider(value: Any, _beside: dict[str, Any]) -> bool:
    written = str(value).lower()
    return PROVIDER_NAMES.get(written, written) != "scripted"


def _has_other_settings(value: Any, _beside: dict[str, Any]) -> bool:
    return not isinstance(value, dict) or not set(value) <= HARMLESS_SETTINGS


HARMLESS_SETTINGS = frozenset(
    ("temperature", "top_p", "max_tokens", "max_output_tokens", "seed", "stop", "reasoning_effort", "thinking_budget")
)
"""Settings of a variant that say how a target answers, and not where it is or what it runs."""

RULES: dict[str, _Rule] = {
    "*.file": _Rule("file"),
    "suite.cases": _Rule("file"),
    "case.cases": _Rule("file"),
    "part.value": _Rule("file", lambda _value, beside: beside.get("type") == "file"),
    "*.json_schema": _Rule("file", _is_text),
    "*.output_schema": _Rule("file", _is_text),
    "*.outputSchema": _Rule("file", _is_text),
    "checkItem.llm_judge.prompt": _Rule("file-or-text", _is_text),
    "evaluator.prompt": _Rule("file-or-text", _is_text),
    "assertion.prompt": _Rule("file-or-text", _is_text),
    "*.webhook": _Rule("address"),
    "*.mcp_server": _Rule("address"),
    "*.mcp": _Rule("address"),
    "*.start": _Rule("code"),
    "*.auth": _Rule("code"),
    "*.command": _Rule("code"),
    "*.code": _Rule("code"),
    "*.python": _Rule("code"),
    "checkItem.check": _Rule("code", _is_text),
    "conversationItem.check": _Rule("code", _is_text),
    "evaluator.script": _Rule("code"),
    "evaluator.cwd": _Rule("code"),
    "evaluator.type": _Rule("code", lambda value, _beside: value in ("code", "code_judge")),
    "sharedSettings.provider": _Rule("target", _is_other_provider),
    "suite.variants.settings": _Rule("target", _has_other_settings),
}
"""By the place in the schema: a definition and the keys below it, or `*` and the last key."""

_Node: TypeAlias = tuple[str, dict[str, Any]]
"""A rule of the schema, and its name."""
_INNER = ("allOf", "anyOf", "oneOf")
_MAYBE = ("then", "else", "if")


def find_references(data: Any, definition: str = "suite") -> Iterator[Reference]:
    """What a document names; as `case`, what a row of a data set names."""
    schema = read_schema()
    rule: dict[str, Any] = schema if definition == "suite" else schema["$defs"][definition]
    yield from _walk(data, [(definition, rule)], ())
    yield from find_expressions(data)


def find_expressions(data: Any, path: DocumentPath = ()) -> Iterator[Reference]:
    """Expressions in all texts, also where the schema lets everything be."""
    if isinstance(data, str):
        for kind, name in named_outside(data):
            yield Reference(kind, name, write_path(path))
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from find_expressions(str(key), (*path, str(key)))
            yield from find_expressions(value, (*path, str(key)))
    elif isinstance(data, list):
        for place, value in enumerate(data):
            yield from find_expressions(value, (*path, place))


def _walk(data: Any, nodes: list[_Node], path: DocumentPath) -> Iterator[Reference]:
    rules = [rule for node in nodes for rule in _unfolded(node)]
    if isinstance(data, list):
        items = [(name, rule["items"]) for name, rule in rules if isinstance(rule.get("items"), dict)]
        for place, value in enumerate(data):
            yield from _walk(value, items, (*path, place))
    if not isinstance(data, dict):
        return
    for key, value in data.items():
        below: dict[str, _Node] = {}
        for name, rule in rules:
            if key in rule.get("properties", {}):
                below[f"{name}.{key}"] = (f"{name}.{key}", rule["properties"][key])
            elif isinstance(rule.get("additionalProperties"), dict):
                below[name] = (name, rule["additionalProperties"])
        here = (*path, key)
        yield from _named(key, value, list(below), data, here)
        yield from _walk(value, list(below.values()), here)


def _named(key: str, value: Any, names: list[str], beside: dict[str, Any], path: DocumentPath) -> Iterator[Reference]:
    for name in names:
        rule = RULES.get(name) or (RULES.get(f"*.{key}") if name.endswith(f".{key}") else None)
        if rule is not None and rule.kind == "file" and isinstance(value, list):
            yield from (Reference("file", str(one), write_path((*path, n))) for n, one in enumerate(value))
            return
        if rule is not None and rule.holds(value, beside):
            yield Reference(rule.kind, value if isinstance(value, str) else key, write_path(path))
            return


def _unfolded(node: _Node) -> Iterator[_Node]:
    """A rule and all that it refers to; those that hold only sometimes are taken to hold."""
    name, rule = node
    yield node
    if isinstance(rule.get("$ref"), str):
        yield from _unfolded(_resolve(rule["$ref"]))
    for part in (part for key in _INNER for part in rule.get(key, ())):
        yield from _unfolded((name, part))
    for part in (rule[key] for key in _MAYBE if isinstance(rule.get(key), dict)):
        yield from _unfolded((name, part))


def _resolve(reference: str) -> _Node:
    """`#/$defs/checkItem/properties/match` is `checkItem.match`."""
    steps = [step for step in reference.removeprefix("#/").split("/") if step]
    rule: Any = read_schema()
    for step in steps:
        rule = rule[step]
    return ".".join(step for step in steps if step not in ("$defs", "properties")), rule
