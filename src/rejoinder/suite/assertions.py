"""AgentV's assertions (`mode: conversation`) as our checks. They are translated into our own keys first, so that one
reader serves all checks.
"""

from __future__ import annotations

from typing import Any

from rejoinder.model import ConversationCheck, Item
from rejoinder.spelling import did_you_mean
from rejoinder.suite.checks import Texts, read_items

ASSERTIONS = ("assert", "assertions")
"""Names of the list of assertions, in AgentV 5 and 4."""
_SAME = (
    *("contains", "icontains", "contains_any", "contains_all", "icontains_any", "icontains_all", "regex", "equals"),
    *("starts_with", "ends_with"),
)
_JUDGES = ("llm_grader", "llm_judge", "rubric", "rubrics")
_BESIDE = {"name": "name", "weight": "weight", "required": "required", "min_score": "threshold"}


def read_assertions(values: list[Any], at: str, texts: Texts) -> tuple[Item, ...]:
    return tuple(item for place, value in enumerate(values) for item in _read(value, f"{at}[{place}]", texts))


def read_whole_assertions(values: list[Any], at: str, texts: Texts) -> tuple[ConversationCheck, ...]:
    """Assertions on a whole conversation, as checks of its transcript."""
    return tuple(
        ConversationCheck(over="transcript", checks=(item.check,), at=item.check.at)
        for item in read_assertions(values, at, texts)
        if item.check is not None
    )


def _read(value: Any, at: str, texts: Texts) -> tuple[Item, ...]:
    if isinstance(value, str):
        return read_items([{"llm_judge": {"criteria": value}}], at, texts)
    check = _in_our_words(value, at, texts)
    if check is None:
        return ()
    beside = {ours: value[theirs] for theirs, ours in _BESIDE.items() if theirs in value}
    item = {"not": check, **beside} if value.get("negate") else {**check, **beside}
    return read_items([item], at, texts)


def _in_our_words(value: dict[str, Any], at: str, texts: Texts) -> dict[str, Any] | None:
    kind = value["type"].replace("-", "_")
    if kind in _SAME and "value" in value:
        return {kind: value["value"]}
    if kind == "is_json":
        return {"is_json": True}
    if kind in _JUDGES:
        return _judge(value)
    if kind in _SAME:
        texts.problem("missing-field", f"{at}.value", f"an assertion `{value['type']}` needs a `value`")
    else:
        known = [*_SAME, "is_json", *_JUDGES]
        hint = did_you_mean(kind, known) or f"; supported assertions are {', '.join(known)}"
        texts.problem("unknown-check", f"{at}.type", f"the assertion `{value['type']}` is not supported{hint}")
    return None


def _judge(value: dict[str, Any]) -> dict[str, Any]:
    target = {"target": value["target"]} if "target" in value else {}
    criteria = value.get("criteria", value.get("rubrics", value.get("value")))
    if isinstance(criteria, list):
        return {"rubric": {"criteria": criteria, **target}}
    return {"llm_judge": {"criteria": criteria or value.get("prompt") or "The answer is good.", **target}}
