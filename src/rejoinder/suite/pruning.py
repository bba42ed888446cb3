"""A suite without the parts that the schema or the rules have refused, so that all other mistakes are found in the same
pass. A pruned suite is never run.

Items of lists keep their places: a refused item is replaced by something harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rejoinder.suite.document_paths import DocumentPath
from rejoinder.suite.schema import Violation, check_names, follow_up_key

ANYTHING = "*"
"""Among touched keys: it is unknown which key was meant."""
_GONE = object()
Pruner = Callable[[Any, list[DocumentPath]], Any]
"""Takes a value and the refused paths in it (the empty path for the value itself), and returns the rest of the
value."""


def prune_suite(suite: dict[str, Any], refused: Iterable[DocumentPath]) -> dict[str, Any]:
    return _mapping(suite, list(refused), _SUITE)


def prune_case(case: dict[str, Any], refused: Iterable[DocumentPath]) -> dict[str, Any]:
    return _mapping(case, list(refused), _CASE)


def touched_keys(violations: Iterable[Violation], above: DocumentPath = ()) -> set[str]:
    """The keys below a place that already have violations, in their values or because they are missing."""
    depth = len(above)
    touched: set[str] = set()
    for violation in violations:
        path = violation.path
        if path[:depth] != above:
            continue
        touched.add(str(path[depth]) if len(path) > depth else ANYTHING)
        if violation.code == "unknown-key" and len(path) == depth + 1:
            touched.add(violation.instead or ANYTHING)
    return touched


def _gone(_value: Any, _refused: list[DocumentPath]) -> Any:
    return _GONE


def _by_step(refused: list[DocumentPath]) -> dict[str | int, list[DocumentPath]]:
    found: dict[str | int, list[DocumentPath]] = {}
    for path in refused:
        if path:
            found.setdefault(path[0], []).append(path[1:])
    return found


def _mapping(value: Any, refused: list[DocumentPath], pruners: dict[str, Pruner]) -> Any:
    """A mapping without the refused keys; keys with a pruner are kept in part."""
    if not isinstance(value, dict):
        return _GONE
    kept = dict(value)
    for key, inner in _by_step(refused).items():
        if key in kept:
            left = pruners.get(str(key), _gone)(kept.pop(key), inner)
            if left is not _GONE:
                kept[key] = left
    return {key: kept[key] for key in value if key in kept}


def _mapping_of(pruners: dict[str, Pruner]) -> Pruner:
    return lambda value, refused: _GONE if () in refused else _mapping(value, refused, pruners)


def _list_of(prune: Pruner) -> Pruner:
    def items(value: Any, refused: list[DocumentPath]) -> Any:
        if not isinstance(value, list):
            return _GONE
        by_step = _by_step(refused)
        return [prune(item, by_step[place]) if place in by_step else item for place, item in enumerate(value)]

    return items


def _case(value: Any, refused: list[DocumentPath]) -> Any:
    return _mapping(value, refused, _CASE) if isinstance(value, dict) else {}


def _cases(value: Any, refused: list[DocumentPath]) -> Any:
    return _GONE if () in refused else _list_of(_case)(value, refused)


def _message(value: Any, refused: list[DocumentPath]) -> Any:
    kept = _mapping(value, refused, {"content": _list_of(_part)})
    return {"role": "user", "content": "", **kept} if isinstance(kept, dict) else {"role": "user", "content": ""}


def _part(_value: Any, _refused: list[DocumentPath]) -> Any:
    return ""


def _evaluator(_value: Any, _refused: list[DocumentPath]) -> Any:
    return {"type": "llm_judge"}


def _checks(value: Any, refused: list[DocumentPath]) -> Any:
    if isinstance(value, list):
        return _items(value, refused)
    kept = _mapping(value, refused, {"or": _items}) if () not in refused else _GONE
    return kept if isinstance(kept, dict) and "or" in kept else []


def _check(value: Any, refused: list[DocumentPath]) -> Any:
    """An item keeps its follow-up if its check is wrong, and its check if the follow-up is wrong."""
    if not isinstance(value, dict):
        return {}
    kept = _mapping(value, refused, _CHECK)
    if follow_up_key(value) is not None or "checks" in value:
        kept = {"prompt": "...", "checks": [], **kept}
    return kept


def _negated(value: Any, refused: list[DocumentPath]) -> Any:
    kept = _check(value, refused)
    return kept if any(name in kept for name in check_names()) else _GONE


def _turn(value: Any, refused: list[DocumentPath]) -> Any:
    """A planned turn, which keeps its place whatever is wrong with it."""
    kept = _mapping(value, refused, _TURN) if isinstance(value, dict) else {}
    return kept if not kept.keys().isdisjoint(("prompt", "messages", "input")) else {"prompt": "...", **kept}


def _over(_value: Any, _refused: list[DocumentPath]) -> Any:
    return {"contains": "..."}


_items = _list_of(_check)
_CHECK: dict[str, Pruner] = {"checks": _checks, "or": _items, "and": _items, "not": _negated}
_EXECUTION: dict[str, Pruner] = {"evaluators": _list_of(_evaluator)}
_TURN: dict[str, Pruner] = {"checks": _checks, "messages": _list_of(_message)}
_CASE: dict[str, Pruner] = {
    "checks": _checks,
    "turns": _list_of(_turn),
    "conversation_checks": _list_of(_over),
    "input_messages": _list_of(_message),
    "expected_messages": _list_of(_message),
    "execution": _mapping_of(_EXECUTION),
    **_EXECUTION,
}
_SUITE: dict[str, Pruner] = {
    "checks": _checks,
    "conversation_checks": _list_of(_over),
    "execution": _mapping_of(_EXECUTION),
    "metadata": _mapping_of({}),
    "formatting": _mapping_of({}),
    "defaults": _mapping_of(_CASE),
    **dict.fromkeys(("evals", "evalcases", "tests"), _cases),
}
