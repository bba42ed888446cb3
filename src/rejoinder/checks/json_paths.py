"""JSON paths that cannot run for ever: their steps are counted, and so is the time of their regular expressions."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

from rejoinder.checks.patterns import BoundedPattern

MOST_STEPS = 300_000
"""Values that are looked at on the way along a path, with what is in them: about a second, and far more than the
longest replies have, unless a path goes through them again and again."""


def follow(path: str, data: Any, most: int) -> list[Any]:
    """The first values at a path. Raises TooFar, and whatever comes of strange paths."""
    compiled = _path(path)
    if isinstance(data, str):  # there is nothing in a text; the library would read it as JSON once more
        return [data] if compiled.empty() else []
    _WAY.left = MOST_STEPS
    return [match.obj for match in islice(compiled.finditer(data), most)]


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
