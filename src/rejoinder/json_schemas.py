"""The work that a JSON Schema causes, counted before it is used.

A schema is a graph of sub-schemas. An edge stays at the same place of the reply (`$ref`, `allOf`, `if`) or leads into
it (`properties`, `items`). Edges that stay multiply: of sixteen definitions that each refer twice to the next, the last
is visited 65,536 times at one place. Edges that lead into the reply multiply once per level: with ten alternatives that
all continue, the innermost part of a reply nested six deep is visited a million times.

Both are counted along the graph, without walking the expansion, so counting is cheap even if validating is not. The
counts are upper bounds: a validator stops early if it can, and all candidates for a reference are counted.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

from msgspec import Struct

MOST_AT_ONE_PLACE = 10_000
"""Maximum sub-schemas visited at one place of a reply."""
MOST_STEPS = 1_000_000
"""Maximum steps of counting: about a second."""
_AGAIN = 3
"""`unevaluatedProperties` and `unevaluatedItems` visit all neighbouring keywords again."""
_OBJECT = 40
"""The cost of a comparison with an object or a list of an `enum`, in visits."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_STAYING = ("not", "if", "then", "else", "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies")
_ANCHORS = ("$anchor", "$dynamicAnchor")
_MAPPINGS = ("dependentSchemas", "dependencies", "patternProperties")
_KNOWN = ("http://json-schema.org/", "https://json-schema.org/")

Number: TypeAlias = int
"""A sub-schema, by the identity of its mapping."""
Counts: TypeAlias = dict[Number, int]
_ANYTHING: dict[str, Any] = {"enum": [{}]}
"""Replaces a vocabulary of JSON Schema itself, which is recursive."""
_ANYTHING.update(additionalProperties=_ANYTHING, items=_ANYTHING)


def compile_schema(schema: Any) -> Any:
    """The validator of an author's schema. Raises ValueError if it is not a valid schema, or needs another file:
    references of a suite are never fetched."""
    from jsonschema_rs import validator_for

    return validator_for(schema, retriever=_refuse)


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is another document; put what you need of it under `$defs`")


class TooManyVisits(ValueError):
    """The references of a schema multiply."""


class Expansion:
    """A schema with its references followed.

    Raises TooManyVisits if too many sub-schemas are visited at one place of a reply, and ValueError if one refers to
    itself without leading into the reply.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema  # kept, because its parts are known by their identity
        self._nodes = _read_nodes(schema)
        self._closures: dict[Number, Counts] = {}
        _refuse_too_many(self._nodes)
        self._recursive = _on_circles(self._nodes)
        self.size = _measure(self._nodes, id(schema))
        """Number of sub-schemas with all references followed; infinite for a recursive schema."""

    def visits(self, data: Any, most: int, *, remembers: bool) -> int:
        """Number of sub-schemas visited in a reply; `most` + 1 if it is larger, or if counting takes too long.

        A validator that remembers visits a recursive sub-schema once at each place, not on each path to it.
        """
        once = self._recursive if remembers else frozenset[Number]()
        total = steps = 0
        waiting: list[tuple[Any, Counts]] = [(data, {id(self._schema): 1})] if self._nodes else []
        while waiting:
            value, entries = waiting.pop()
            counts = self._applied(entries).items()
            applied = [(self._nodes[number], 1 if number in once else times) for number, times in counts]
            length = len(value) if isinstance(value, dict | list) else 0
            total += sum(times * (node.weight + node.per_child * length) for node, times in applied)
            steps += len(applied) * (1 + length)
            if total > most or steps > MOST_STEPS:
                return most + 1
            for key, child in _children(value):
                inner: Counts = defaultdict(int)
                for node, times in applied:
                    for number in node.into(key):
                        inner[number] += times
                if inner:
                    waiting.append((child, inner))
        return total

    def _applied(self, entries: Counts) -> Counts:
        """The sub-schemas that apply at a place, including the ones that they lead to there."""
        applied: Counts = defaultdict(int)
        for entry, times in entries.items():
            for number, more in self._closure(entry).items():
                applied[number] += times * more
        return applied

    def _closure(self, number: Number) -> Counts:
        if number not in self._closures:
            node = self._nodes[number]
            closure: Counts = defaultdict(int, {number: 1})
            for inner in node.stays:
                for reached, times in self._closure(inner).items():
                    closure[reached] += times * node.again
            self._closures[number] = closure
        return self._closures[number]


class _Node(Struct, frozen=True):
    """A sub-schema, and the sub-schemas that it leads to."""

    stays: tuple[Number, ...]
    again: int
    weight: int
    per_child: int
    """Additional work per property: matching its name."""
    named: dict[str | int, Number]
    """Sub-schemas for some properties by name, and for some items by position."""
    other_properties: tuple[Number, ...]
    all_properties: tuple[Number, ...]
    other_items: tuple[Number, ...]
    all_items: tuple[Number, ...]

    def into(self, key: str | int) -> tuple[Number, ...]:
        """The sub-schemas that may apply to a property or an item."""
        others, always = self.other_properties, self.all_properties
        if isinstance(key, int):
            others, always = self.other_items, self.all_items
        return (*((self.named[key],) if key in self.named else others), *always)

    def leads_to(self) -> Iterator[Number]:
        """All sub-schemas one level deeper in the reply."""
        groups = (self.other_properties, self.all_properties, self.other_items, self.all_items)
        return chain(self.named.values(), *groups)


def _children(value: Any) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def _refuse_too_many(nodes: dict[Number, _Node]) -> None:
    counts: Counts = {}

    def count(number: Number) -> int:
        """Number of sub-schemas visited at one place, starting with this one."""
        if number not in counts:
            counts[number] = 0
            node = nodes[number]
            counts[number] = 1 + node.again * sum(map(count, node.stays))
        elif counts[number] == 0:
            raise ValueError("it refers to itself without going into the reply, so it says nothing")
        return counts[number]

    if any(count(number) > MOST_AT_ONE_PLACE for number in nodes):
        raise TooManyVisits(
            f"its references multiply: more than {MOST_AT_ONE_PLACE:,} sub-schemas would be visited at one place of a"
            " reply; refer to each definition once, and put fewer levels of `allOf`, `anyOf` and `oneOf` inside others"
        )


def _measure(nodes: dict[Number, _Node], root: Number) -> float:
    sizes: dict[Number, float] = {}

    def measure(number: Number) -> float:
        if number not in sizes:
            sizes[number] = math.inf  # and it stays so on a circle
            node = nodes[number]
            inner = node.again * sum(map(measure, node.stays)) + sum(map(measure, node.leads_to()))
            sizes[number] = node.weight + node.per_child + inner
        return sizes[number]

    return measure(root) if root in nodes else 1


def _on_circles(nodes: dict[Number, _Node]) -> frozenset[Number]:
    """The sub-schemas that lead back to themselves, by Tarjan's algorithm."""
    recursive: set[Number] = set()
    order: Counts = {}
    path: dict[Number, None] = {}

    def visit(number: Number) -> int:
        """The earliest sub-schema on the path that is reached from here."""
        order[number] = earliest = len(order)
        path[number] = None
        following = {*nodes[number].stays, *nodes[number].leads_to()}
        for inner in following:
            if inner not in order:
                earliest = min(earliest, visit(inner))
            elif inner in path:
                earliest = min(earliest, order[inner])
        if earliest == order[number]:
            circle = [path.popitem()[0]]
            while circle[-1] != number:
                circle.append(path.popitem()[0])
            recursive.update(circle if len(circle) > 1 or number in following else ())
        return earliest

    for number in nodes:
        if number not in order:
            visit(number)
    return frozenset(recursive)


def _read_nodes(schema: Any) -> dict[Number, _Node]:
    """All reachable sub-schemas."""
    nodes: dict[Number, _Node] = {}
    names = _Names(schema)
    waiting = [schema] if isinstance(schema, dict) else []
    while waiting:
        part: dict[str, Any] = waiting.pop()
        if id(part) not in nodes:
            reader = _Reader(part, names)
            nodes[id(part)] = reader.node()
            waiting += reader.parts
    return nodes


class _Reader:
    """Reads the keywords of one sub-schema. A value that is not a mapping leads nowhere."""

    def __init__(self, schema: dict[str, Any], names: _Names) -> None:
        self._schema = schema
        self._names = names
        self.parts: list[dict[str, Any]] = []

    def node(self) -> _Node:
        schema = self._schema
        choices = schema.get("enum")
        objects = sum(isinstance(choice, dict | list) for choice in choices) if isinstance(choices, list) else 0
        patterns = self._under("patternProperties")
        again = _AGAIN if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else 1
        return _Node(
            stays=(*self._under(*_STAYING), *self._referred()),
            again=again,
            weight=again + _OBJECT * objects,
            per_child=len(patterns),
            named=self._named(),
            other_properties=self._under("additionalProperties"),
            all_properties=(*patterns, *self._under("propertyNames", "unevaluatedProperties")),
            other_items=self._under("items", "additionalItems"),
            all_items=self._under("contains", "unevaluatedItems"),
        )

    def _named(self) -> dict[str | int, Number]:
        properties, places = self._schema.get("properties"), self._schema.get("prefixItems", self._schema.get("items"))
        named = properties if isinstance(properties, dict) else {}
        named = {**named, **dict(enumerate(places if isinstance(places, list) else ()))}
        return {key: number for key, schema in named.items() for number in self._take([schema])}

    def _under(self, *keywords: str) -> tuple[Number, ...]:
        """The sub-schemas of some keywords: a single one, a list or a mapping."""
        return tuple(number for keyword in keywords for number in self._take(self._values(keyword)))

    def _values(self, keyword: str) -> Iterable[Any]:
        value = self._schema.get(keyword)
        if isinstance(value, dict) and keyword in _MAPPINGS:
            return value.values()
        return value if isinstance(value, list) else (value,)

    def _referred(self) -> tuple[Number, ...]:
        texts = (self._schema.get(keyword) for keyword in _REFERENCES)
        targets = (self._names.find(text, self._schema) for text in texts if isinstance(text, str))
        return tuple(number for schemas in targets for number in self._take(schemas))

    def _take(self, schemas: Iterable[Any]) -> list[Number]:
        taken = [schema for schema in schemas if isinstance(schema, dict)]
        self.parts += taken
        return list(map(id, taken))


class _Names:
    """The targets of references. If several are possible, all are given."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._homes: dict[Number, tuple[str, Any]] = {}
        """For each mapping, the address of its document, and that document."""
        self._documents: dict[str, list[Any]] = defaultdict(list)
        self._anchors: dict[str, list[Any]] = defaultdict(list)
        waiting = [(schema, "", schema)]
        while waiting:
            part, base, home = waiting.pop()
            if isinstance(part, dict):
                base, home = self._register(part, base, home)
            waiting += [(inner, base, home) for _, inner in _children(part)]

    def _register(self, part: dict[str, Any], base: str, home: Any) -> tuple[str, Any]:
        own = part.get("$id", part.get("id"))
        if isinstance(own, str):
            address, anchor = urldefrag(urljoin(base, own))
            self._anchors[anchor].append(part)
            if not own.startswith("#"):
                base, home = address, part
                self._documents[address].append(part)
        for keyword in _ANCHORS:
            if isinstance(name := part.get(keyword), str):
                self._anchors[name].append(part)
        self._homes[id(part)] = base, home
        return base, home

    def find(self, text: str, schema: dict[str, Any]) -> list[Any]:
        """The possible targets of a reference in a sub-schema. Raises ValueError if there are none."""
        base, home = self._homes[id(schema)]
        address, fragment = urldefrag(urljoin(base, text))
        documents = [*self._documents.get(address, ()), *((home, self._schema) if text.startswith("#") else ())]
        schemas = documents
        if fragment.startswith("/"):
            schemas = [schema for document in documents for schema in _at(document, fragment)]
        elif fragment:
            schemas = self._anchors.get(unquote(fragment), [])
        if not schemas and address.startswith(_KNOWN):
            return [_ANYTHING]
        if not schemas:
            raise ValueError(f"the reference {text!r} leads nowhere; write it as `#/$defs/NAME`")
        return list({id(schema): schema for schema in schemas}.values())


def _at(document: Any, pointer: str) -> Iterator[Any]:
    """The value at a JSON pointer, if it exists."""
    for step in unquote(pointer).split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")  # noqa: PLW2901 - the same step, read
        try:
            document = document[int(step)] if isinstance(document, list) else document[step]
        except (KeyError, IndexError, ValueError, TypeError):
            return
    yield document
