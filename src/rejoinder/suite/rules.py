"""Rules that a JSON Schema cannot express: one check per item, depth, a check at every level, unreachable follow-ups,
forms that exclude each other. They look at raw data of any shape and tolerate whatever the schema has already refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from rejoinder.model import CHECKS, OVER_TIME, ROLES
from rejoinder.model.checks import Counted
from rejoinder.suite.document_paths import DocumentPath, write_path
from rejoinder.suite.foreign import advise_nearest, find_key
from rejoinder.suite.schema import (
    FOLLOW_UP_KEYS,
    Violation,
    check_names,
    follow_up_key,
    other_names,
    other_names_of_settings,
    settings_of_targets,
)
from rejoinder.words.numbers import count, listed

MOST_FOLLOW_UPS = 5
"""Nested prompts on one path; with the case's own prompt a conversation has at most six turns."""
BEFORE = "the follow-up before it"
OF_SUITE = "the suite's own follow-up"
"""The cause that keeps a follow-up from being sent."""
_MEANINGS: tuple[str, ...] = ("outcome", "expected_outcome")
_MARKED_INSIDE = frozenset({"semantic", "similar", "rouge_l", "field_accuracy"})
_READY = ("faithful", "relevant", "complete")
_SCORED = _MARKED_INSIDE | {*_READY, "llm_judge", "rubric", "compare", "code", "python", "webhook", "check", "group"}
"""Checks whose score may be anything from 0 to 1."""
_UNSCORED = {
    "not": "the check that is negated has no score, it passes or fails",
    **dict.fromkeys(("or", "and"), "none of the checks in `{kind}` has a score, they pass or fail"),
    "tool_calls": "`tool_calls` passes with all of the calls or fails",
}
_OF_WHOLE_REPLIES = {
    *_READY,
    *("or", "and", "group", "not", "semantic", "llm_judge", "rubric", "compare", "code", "python", "webhook", "check"),
    *("min_tokens", "max_tokens", "latency", "cost", "finish_reason", "tool_calls", "effort", "skill_used"),
    *("tool_state", "canary"),
}
"""Checks that cannot apply to a part of a reply."""
_GROUPS = ("or", "and", "not")
_OF_MORE = {"canary", "file_exists", "file_contains", "file_unchanged", "workspace_diff", "command", "tool_state"}
"""Checks of something other than the text of a reply."""
_BESIDE = frozenset(
    (
        *("prompt", "prompts", "times", "checks", "hint", "ask"),
        *("name", "weight", "required", "threshold", "every_turn", "metric", "with", "count"),
    )
)
_COUNTED = tuple(name for name, kind in CHECKS.items() if issubclass(kind, Counted))
"""Checks that a `count` may accompany."""
_TWO_NAMES = (
    ("prompt", "input_messages", "what is sent"),
    ("prompt", "turns", "what is sent"),
    ("prompt", "user", "what is sent (a user's first words are its `opening`)"),
    ("turns", "user", "what is said next"),
    *(("shards", key, "what is sent") for key in ("prompt", "input_messages", "turns", "user")),
    ("outcome", "expected_outcome", "what a good answer achieves"),
    *((key, "criteria", "what a good answer achieves") for key in ("outcome", "expected_outcome")),
)
_OF_OTHER_TARGETS = frozenset(
    (
        *("name", "provider", "model", "deployment", "deploymentName", "variant", "settings", "workers", "url"),
        *("judge_target", "judgeTarget", "system_prompt", "systemPrompt", "base_url", "baseUrl", "api_key", "apiKey"),
        *("endpoint", "resource", "resourceName"),
    )
)
"""Settings that choose who is asked, or that have their own key in variants."""
_TOOLS = ("mcp", "python", "scripted")
_WHOSE = {"tool_calls": "assistant", "tool_call_id": "tool"}


class Findings(Struct, frozen=True):
    errors: list[Violation]
    warnings: list[Violation]
    hidden: list[DocumentPath]
    """Places below which nothing else is reported."""


def find_conflicts_of_tools(tools: Any, path: DocumentPath) -> Iterator[Violation]:
    """Invalid entries of `tools`, and entries that are several tools at once."""
    for entry, place in _mappings(tools if isinstance(tools, list) else [], path):
        kinds = [kind for kind in _TOOLS if kind in entry]
        if len(kinds) != 1:
            many = f"{listed([f'`{kind}`' for kind in kinds])} need an item each" if kinds else "this item has none"
            message = f"an item of `tools` is `mcp`, `python` or `scripted`: {many}"
            yield Violation("conflicting-keys" if kinds else "missing-field", place, message)
        server = entry.get("mcp")
        if isinstance(server, dict) and ("command" in server) == ("url" in server):
            message = "an MCP server has either a `command` that starts it or a `url`"
            yield Violation("conflicting-keys" if "url" in server else "missing-field", (*place, "mcp"), message)
        elif isinstance(server, dict) and "url" in server and server.get("scope") == "conversation":
            message = "all conversations share a server at an address; `scope: conversation` needs a `command`"
            yield Violation("conflicting-keys", (*place, "mcp", "scope"), message)
        for holder, inner in ((entry, place), *((entry[kind], (*place, kind)) for kind in kinds)):
            fails = holder.get("fails") if isinstance(holder, dict) else None
            for fault, spot in _mappings(fails if isinstance(fails, list) else [], (*inner, "fails")):
                yield from _faults_of_says(fault, spot)
                if "at" in fault and "rate" in fault:
                    message = "a fault meets a certain call (`at`) or a share of them (`rate`), not both"
                    yield Violation("conflicting-keys", (*spot, "rate"), message, key=True)


def _faults_of_says(fault: dict[str, Any], path: DocumentPath) -> Iterator[Violation]:
    """A text to say without words, and words of a fault that says nothing."""
    if fault.get("fault") == "says" and "text" not in fault:
        yield Violation("missing-field", (*path, "text"), "`says` needs the `text` that it puts into the tool's answer")
    for key in ("text", "where", "attack"):
        if key in fault and fault.get("fault") != "says":
            yield Violation("unknown-key", (*path, key), f"`{key}` belongs to `fault: says`", key=True)


class CheckRules:
    """Walks the `checks` of a case or suite."""

    def __init__(self, followups: str = "first") -> None:
        self.findings = Findings([], [], [])
        self.kinds = frozenset(check_names())
        self.followups = followups

    def _error(self, code: str, path: DocumentPath, message: str, *, key: bool = True) -> None:
        self.findings.errors.append(Violation(code, path, message, key=key))

    def _warn(self, code: str, path: DocumentPath, message: str) -> None:
        self.findings.warnings.append(Violation(code, path, message, key=True))

    def walk(self, checks: Any, path: DocumentPath, depth: int = 0, *, always: str = "") -> str:
        """Check all items of a level. `always` names a follow-up that is always sent before them, if any. Returns the
        follow-up that is always sent before items that are added to the level."""
        if isinstance(checks, dict) and isinstance(checks.get("or"), list):
            self._list(checks["or"], (*path, "or"), depth)
            self._reachable(checks["or"], (*path, "or"), always, all_fail=True)
        if isinstance(checks, list):
            self._list(checks, path, depth)
            return self._reachable(checks, path, always)
        return always

    def _list(self, items: list[Any], path: DocumentPath, depth: int, *, negated: bool = False) -> None:
        for item, place in _mappings(items, path):
            self._item(item, place, depth, negated=negated)
        if items and not negated and all(isinstance(item, dict) and self._is_lone_prompt(item) for item in items):
            message = (
                "this list has only follow-ups, and they are sent only when a check fails; add the check that the first"
                " reply has to satisfy"
            )
            self._error("no-check-at-level", path, message, key=False)

    def _item(self, item: dict[str, Any], path: DocumentPath, depth: int, *, negated: bool = False) -> None:
        said = follow_up_key(item)
        if negated and said is not None:
            self._error("unknown-key", (*path, said), "a follow-up cannot be negated; put it beside `not`")
            return
        kinds = [key for key in item if key in self.kinds]
        if len(kinds) > 1:
            names = listed([f"`{kind}`" for kind in kinds])
            message = f"each item has one check: {names} need an item each, with its own dash"
            self._error("multiple-check-keys", path, message, key=False)
        elif not kinds and not _names_anything(item):
            message = f"this item has no check; add one of {', '.join(sorted(self.kinds))}"
            self._error("missing-field", path, message, key=False)
        self.findings.errors.extend(_misplaced_keys(item, path, depth))
        for group in ("or", "and"):
            if isinstance(item.get(group), list):
                self._list(item[group], (*path, group), depth, negated=negated)
        if isinstance(item.get("group"), dict) and isinstance(item["group"].get("checks"), list):
            self._group(item["group"], (*path, "group"), depth, negated=negated)
            if "at_least" in item["group"] and "threshold" in item:
                message = "`at_least` counts checks and `threshold` weighs their scores; keep one of them"
                self._error("conflicting-keys", (*path, "threshold"), message)
        if "threshold" in item and len(kinds) == 1:
            self._threshold(item, kinds[0], (*path, "threshold"))
        if "rubric" in item:
            self.rubric(item["rubric"], (*path, "rubric"))
        if isinstance(item.get("json_path"), dict) and isinstance(item["json_path"].get("check"), dict):
            self._part(item["json_path"], (*path, "json_path"))
        if isinstance(item.get("tool_state"), dict) and isinstance(item["tool_state"].get("check"), dict):
            self._answer_of_tool(item["tool_state"]["check"], (*path, "tool_state", "check"))
        if "with" in item and "check" not in item:
            message = "`with` holds the arguments of a `check: NAME`; no other check takes it"
            self._error("unknown-key", (*path, "with"), message)
        self._count(item, path)
        if isinstance(item.get("not"), dict):
            self._item(item["not"], (*path, "not"), depth, negated=True)
        if said is not None:
            self._follow_up(item, (*path, said), depth + 1)

    def _count(self, item: dict[str, Any], path: DocumentPath) -> None:
        """Report a `count` beside something that is not counted."""
        if "count" in item and not any(kind in item for kind in _COUNTED):
            message = f"`count` belongs beside {listed([f'`{kind}`' for kind in _COUNTED], 'or')}"
            self._error("unknown-key", (*path, "count"), message)

    def _group(self, group: dict[str, Any], path: DocumentPath, depth: int, *, negated: bool) -> None:
        checks, wanted = group["checks"], group.get("at_least")
        self._list(checks, (*path, "checks"), depth, negated=negated)
        there = sum(isinstance(item, dict) and any(key in item for key in self.kinds) for item in checks)
        if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted > there > 0:
            message = f"`at_least: {wanted}` can never be reached: the group has {count(there, 'check')}"
            self._error("out-of-range", (*path, "at_least"), message, key=False)

    def _threshold(self, item: dict[str, Any], kind: str, path: DocumentPath) -> None:
        """Report a threshold that the check cannot use, or that it already has."""
        if kind in _MARKED_INSIDE:
            if isinstance(item[kind], dict) and "threshold" in item[kind]:
                message = f"`threshold` is given both in `{kind}` and beside it; keep the one inside"
                self._error("conflicting-keys", path, message)
        elif not _is_scored(item):
            why = _UNSCORED.get(kind, "a `{kind}` passes or fails").format(kind=kind)
            self._warn("no-effect", path, f"`threshold` has no effect: {why}")

    def rubrics_of(self, case: dict[str, Any], path: DocumentPath) -> None:
        """Check the rubrics of a case outside its checks."""
        self.rubric(case.get("rubrics"), (*path, "rubrics"))
        execution = case.get("execution")
        inner = execution.get("evaluators") if isinstance(execution, dict) else None
        for evaluators, place in ((case.get("evaluators"), ()), (inner, ("execution",))):
            for evaluator, at in _mappings(evaluators, (*path, *place, "evaluators")):
                self.rubric(evaluator.get("rubrics"), (*at, "rubrics"))

    def rubric(self, value: Any, path: DocumentPath) -> None:
        """Report AgentV's keys next to ours: only one of them would count."""
        if isinstance(value, dict):
            value, path = value.get("criteria"), (*path, "criteria")
        for criterion, place in _mappings(value, path):
            names = dict.fromkeys(_MEANINGS, "criterion") | {"required_min_score": "min_score"}
            self.findings.errors.extend(find_two_names([(*place, key) for key in criterion], names))
            mark = next((key for key in ("min_score", "required_min_score") if key in criterion), None)
            if mark is not None and not criterion.get("score_ranges"):
                message = f"`{mark}` has no effect: without `score_ranges` a criterion is met or not"
                self._warn("no-effect", (*place, mark), message)
            for span, inner in _mappings(criterion.get("score_ranges"), (*place, "score_ranges")):
                words = dict.fromkeys(_MEANINGS, "meaning")
                self.findings.errors.extend(find_two_names([(*inner, key) for key in span], words))

    def _part(self, value: dict[str, Any], path: DocumentPath) -> None:
        """A check of the value at a path gets a text: it makes no calls and has no follow-up."""
        check, place = value["check"], (*path, "check")
        if "equals" in value:
            message = "`equals` and `check` both say what the value has to be; keep one of them"
            self._error("conflicting-keys", place, message)
        for key in check:
            if key in _OF_WHOLE_REPLIES:
                message = f"`{key}` cannot check a part of a reply, and a path leads to a part"
            elif key in _BESIDE - {"name", "count"}:
                message = f"`{key}` belongs beside `json_path`, not into its check"
            else:
                continue
            self._error("unknown-key", (*place, key), message)
            return
        self._item(check, place, 0)

    def _answer_of_tool(self, check: dict[str, Any], path: DocumentPath) -> None:
        """A check of a tool's answer gets a text: it makes no calls and has no follow-up."""
        for key, value in check.items():
            if key in _GROUPS:
                self._inside_answer(value, (*path, key))
            elif key in _OF_WHOLE_REPLIES | _OF_MORE:
                message = f"`{key}` cannot check the answer of a tool; take a check of a text"
                self._error("unknown-key", (*path, key), message)
                return
            elif key in _BESIDE - {"name", "count"}:
                message = f"`{key}` belongs beside `tool_state`, not into its check"
                self._error("unknown-key", (*path, key), message)
                return
        self._item(check, path, 0)

    def _inside_answer(self, value: Any, path: DocumentPath) -> None:
        """The checks in a group of checks of a tool's answer. Their form is checked with the group."""
        for inner, place in [(value, path)] if isinstance(value, dict) else _mappings(value, path):
            for key, one in inner.items():
                if key in _GROUPS:
                    self._inside_answer(one, (*place, key))
                elif key in _OF_WHOLE_REPLIES | _OF_MORE | {"prompt", "prompts"}:
                    message = f"`{key}` cannot check the answer of a tool; take a check of a text"
                    self._error("unknown-key", (*place, key), message)

    def _follow_up(self, item: dict[str, Any], path: DocumentPath, depth: int) -> None:
        """`path`: the place of its words."""
        checks = (*path[:-1], "checks")
        if depth > MOST_FOLLOW_UPS:
            self._error("followup-too-deep", path, f"at most {MOST_FOLLOW_UPS} follow-ups can be nested")
            self.findings.hidden.append(checks)
            return
        self.walk(item.get("checks"), checks, depth)

    def _reachable(self, items: list[Any], path: DocumentPath, always: str, *, all_fail: bool = False) -> str:
        """With `followups: first`, a follow-up that applies whenever this list fails keeps all later ones from being
        sent, in whatever group they are. A standalone follow-up always applies. If every check of the list has failed,
        as in an `or` that failed (`all_fail`), a check's own follow-up also applies. Returns the name of such a
        follow-up."""
        if self.followups != "first":
            return ""
        for item, place in _mappings(items, path):
            inside = self._reachable_inside(item, place, always)
            said = follow_up_key(item)
            if said is not None and inside:
                message = f"never sent: {inside} always comes first (set `followups: all` to try both)"
                self._warn("unreachable-followup", (*place, said), message)
            if all_fail and inside:
                always = inside
            elif said is not None and not always and (all_fail or self._is_lone_prompt(item)):
                always = BEFORE
        return always

    def _reachable_inside(self, item: dict[str, Any], path: DocumentPath, always: str) -> str:
        """Like `_reachable` for the group inside an item; returns the follow-up that applies whenever the group has
        failed."""
        for kind in ("or", "and"):
            if isinstance(item.get(kind), list):
                all_fail = kind == "or" and "threshold" not in item
                return self._reachable(item[kind], (*path, kind), always, all_fail=all_fail)
        group = item.get("group")
        if isinstance(group, dict) and isinstance(group.get("checks"), list):
            return self._reachable(group["checks"], (*path, "group", "checks"), always)
        return always

    def _is_lone_prompt(self, item: dict[str, Any]) -> bool:
        says = follow_up_key(item) is not None
        return says and not any(key in item for key in self.kinds) and not _unknown_keys(item, self.kinds)


class CaseRules(CheckRules):
    """Walks all checks of a case: its turns, its conversation checks, and its judges."""

    def of_case(self, case: dict[str, Any], path: DocumentPath, *, always: str) -> None:
        """Check a case: its turns, its conversation checks, and its judges."""
        self.walk(case.get("checks"), (*path, "checks"), always=always)
        for turn, place in _mappings(case.get("turns"), (*path, "turns")):
            self.walk(turn.get("checks"), (*place, "checks"))
        self.of_whole(case.get("conversation_checks"), (*path, "conversation_checks"))
        user = case.get("user")
        if isinstance(user, dict) and isinstance(user.get("stop"), dict):
            self._item_of_whole(user["stop"], (*path, "user", "stop"))
        self.rubrics_of(case, path)

    def of_whole(self, items: Any, path: DocumentPath) -> None:
        """Check the conversation checks."""
        for item, place in _mappings(items, path):
            rules = [key for key in OVER_TIME if key in item]
            if not rules:
                self._item_of_whole({key: value for key, value in item.items() if key not in _OF_WHOLE}, place)
                continue
            if len(rules) > 1 or any(key in self.kinds for key in item):
                names = listed([f"`{key}`" for key in item if key in rules or key in self.kinds])
                message = f"each item has one check: {names} need an item each, with its own dash"
                self._error("multiple-check-keys", place, message, key=False)
            self._answers_back(item, place)
            self._count(item, place)
            for inner, where in _inner_items(item[rules[0]], (*place, rules[0])):
                self._item_of_whole(inner, where)
                for spot in _states_in(inner, where):
                    message = "`tool_state` sees the state at the end, not after earlier replies; give it its own item"
                    self._error("unknown-key", spot, message)

    def _item_of_whole(self, item: dict[str, Any], path: DocumentPath) -> None:
        """A conversation check, or a check inside one: it looks at replies, and sends nothing."""
        if not self._answers_back(item, path):
            self._item(item, path, 1)

    def _answers_back(self, item: dict[str, Any], path: DocumentPath) -> bool:
        """Whether a conversation check has a follow-up, which is an error."""
        key = next((key for key in FOLLOW_UP_KEYS if key in item), None)
        if key is not None:
            message = "a check of the whole conversation cannot send follow-ups; put follow-ups into `checks`"
            self._error("unknown-key", (*path, key), message)
        return key is not None


def _misplaced_keys(item: dict[str, Any], path: DocumentPath, depth: int) -> Iterator[Violation]:
    if item.get("every_turn") and depth:
        message = "`every_turn` belongs to the first level: a follow-up's checks see one reply only"
        yield Violation("unknown-key", (*path, "every_turn"), message, key=True)
    for key in ("hint", "ask", "times"):
        if key in item and follow_up_key(item) is None:
            message = f"`{key}` belongs to a follow-up; add its `prompt`"
            yield Violation("unknown-key", (*path, key), message, key=True)
    for key, why in (("prompt", "both say what is sent"), ("times", "both say how often something is sent")):
        if key in item and "prompts" in item:
            message = f"`{key}` and `prompts` {why}; keep one of them"
            yield Violation("conflicting-keys", (*path, "prompts"), message, key=True)


def _mappings(value: Any, path: DocumentPath) -> Iterator[tuple[dict[str, Any], DocumentPath]]:
    """The mappings in a list, if it is one, and their places."""
    for position, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, dict):
            yield item, (*path, position)


def _inner_items(value: Any, path: DocumentPath) -> Iterator[tuple[dict[str, Any], DocumentPath]]:
    """The checks inside a rule over time."""
    if not isinstance(value, dict):
        return
    keys = [key for key in ("check", "when", "then", "first", "second") if isinstance(value.get(key), dict)]
    yield from ((value[key], (*path, key)) for key in keys)
    if not keys:
        yield value, path


def _states_in(item: dict[str, Any], path: DocumentPath) -> Iterator[DocumentPath]:
    """The places of `tool_state` in a check and its groups."""
    if "tool_state" in item:
        yield *path, "tool_state"
    for key in _GROUPS:
        inner = item.get(key)
        for one, place in [(inner, (*path, key))] if isinstance(inner, dict) else _mappings(inner, (*path, key)):
            yield from _states_in(one, place)


_OF_WHOLE = frozenset({"on", "turns", "replies"})


def _is_scored(item: Any) -> bool:
    """Whether a check, or one inside it, can have a score between 0 and 1."""
    if not isinstance(item, dict):
        return False
    inner = [item.get("not"), *(part for kind in ("or", "and") for part, _ in _mappings(item.get(kind), ()))]
    return not _SCORED.isdisjoint(item) or any(_is_scored(part) for part in inner)


def _unknown_keys(item: dict[str, Any], kinds: frozenset[str]) -> list[str]:
    return [key for key in item if key not in kinds and key not in _BESIDE and not key.startswith("x-")]


def _names_anything(item: dict[str, Any]) -> bool:
    """Whether the item has a follow-up, or a key that is already reported as unknown."""
    return follow_up_key(item) is not None or "checks" in item or bool(_unknown_keys(item, frozenset()))


def find_conflicts(case: dict[str, Any], path: DocumentPath) -> Iterator[Violation]:
    """Keys of a case that repeat each other, or have no effect in their place."""
    for first, second, what in _TWO_NAMES:
        if first in case and second in case:
            later = max((first, second), key=list(case).index)
            message = f"`{first}` and `{second}` both say {what}; keep one of them"
            yield Violation("conflicting-keys", (*path, later), message, key=True)
    yield from find_conflicts_of_tools(case.get("tools"), (*path, "tools"))
    yield from _conflicts_of_reply(case, path)
    inner = case.get("execution")
    if "evaluators" in case and isinstance(inner, dict) and "evaluators" in inner:
        message = "evaluators are given both here and under `execution`; keep one of the lists"
        yield Violation("conflicting-keys", (*path, "evaluators"), message, key=True)
    yield from _misplaced_tools(case.get("input_messages"), (*path, "input_messages"))
    yield from _faults_of_plan(case, path)


def _conflicts_of_reply(holder: dict[str, Any], path: DocumentPath) -> Iterator[Violation]:
    """Several ways to find the part of a reply, or none."""
    reply = holder.get("reply")
    if not isinstance(reply, dict):
        return
    ways = [key for key in reply if key in ("regex", "json_path", "python")]
    if len(ways) > 1:
        message = f"`{ways[0]}` and `{ways[1]}` both say which part of a reply is checked; keep one of them"
        yield Violation("conflicting-keys", (*path, "reply", ways[1]), message, key=True)
    elif not ways and "strip" not in reply:
        message = "`reply` needs `regex`, `json_path`, `python` or `strip`"
        yield Violation("missing-field", (*path, "reply"), message)


def _faults_of_plan(case: dict[str, Any], path: DocumentPath) -> Iterator[Violation]:
    """Keys of planned turns without turns, and AgentV's keys without its `mode`."""
    if "turns" not in case and path != ("defaults",):
        for key in ("mode", "on_turn_failure", "aggregation", "pass_steps", "window_size"):
            if key in case:
                yield Violation("missing-field", (*path, "turns"), f"`{key}` needs `turns`, and there are none")
                break
    if "mode" not in case:
        for key in ("input", "assert", "assertions", "criteria"):
            if key in case and (advice := find_key(key, case[key])) is not None:
                message = f"unknown key `{key}` in a case; {advice.words}"
                yield Violation("unknown-key", (*path, key), message, key=True, instead=advice.instead)
    for turn, place in _mappings(case.get("turns"), (*path, "turns")):
        yield from _conflicts_of_reply(turn, place)
        yield from find_conflicts_of_tools(turn.get("tools"), (*place, "tools"))
        yield from _misplaced_tools(turn.get("messages"), (*place, "messages"))
        names = {"messages": "prompt", "input": "prompt", "expected_output": "expected", "assertions": "assert"}
        yield from find_two_names([(*place, key) for key in turn], names)


def find_two_names(places: Iterable[DocumentPath], names: Mapping[str, str]) -> Iterator[Violation]:
    """Keys that name the same thing, so that only one would count. `names` maps foreign names to ours."""
    taken: dict[str, DocumentPath] = {}
    for place in places:
        key = str(place[-1])
        first = taken.setdefault(names.get(key, key), place)
        if first != place:
            message = f"`{_from(first, place)}` and `{_from(place, first)}` say the same thing; keep one of them"
            yield Violation("conflicting-keys", place, message, key=True)


def _from(place: DocumentPath, other: DocumentPath) -> str:
    """A place relative to the place that contains both."""
    shared = next(i for i, steps in enumerate(zip(place, other, strict=False)) if steps[0] != steps[1])
    return write_path(place[shared:])


def find_conflicts_of_suite(suite: dict[str, Any]) -> Iterator[Violation]:
    """Contradictory keys of a suite."""
    yield from find_conflicts_of_tools(suite.get("tools"), ("tools",))
    sets = suite.get("tool_sets")
    for name, tools in sets.items() if isinstance(sets, dict) else ():
        yield from find_conflicts_of_tools(tools, ("tool_sets", name))
    yield from _conflicts_of_reply(suite, ())
    metadata = suite.get("metadata")
    if isinstance(metadata, dict):
        yield from find_two_names((("metadata", key) for key in metadata), other_names("metadata"))


def find_faults_of_variants(suite: dict[str, Any]) -> Iterator[Violation]:
    """Variants with the same name, and settings that no target has or that a variant cannot change."""
    names: dict[str, int] = {}
    known = settings_of_targets()
    for variant, path in _mappings(suite.get("variants"), ("variants",)):
        name = variant.get("name")
        if isinstance(name, str) and names.setdefault(name, int(path[-1])) != path[-1]:
            yield Violation("duplicate-id", (*path, "name"), f"there is a variant `{name}` already")
        settings = variant.get("settings")
        for key in settings if isinstance(settings, dict) else ():
            place = (*path, "settings", key)
            if key in _OF_OTHER_TARGETS:
                message = f"another `{key}` makes another target; add one under `targets`, and run both with `-m`"
                yield Violation("unknown-key", place, message, key=True)
            elif key not in known and not key.startswith("x-"):
                advice = advise_nearest(key, known)
                message = f"no target has a setting `{key}`" + (f"; {advice.words}" if advice else "")
                yield Violation("unknown-key", place, message, key=True, instead=advice.instead if advice else None)


def find_conflicts_of_target(target: dict[str, Any], path: DocumentPath) -> Iterator[Violation]:
    """Settings in two spellings. A setting outside of `settings` wins over the same one inside, as in AgentV's
    files."""
    yield from find_conflicts_of_tools(target.get("tools"), (*path, "tools"))
    names = other_names_of_settings(str(target.get("provider")).lower())
    yield from find_two_names(((*path, key) for key in target), names)
    settings = target.get("settings")
    if isinstance(settings, dict):
        yield from find_two_names(((*path, "settings", key) for key in settings), names)


def _misplaced_tools(messages: Any, path: DocumentPath) -> Iterator[Violation]:
    """Only assistants call tools, and only tools answer: the APIs refuse anything else."""
    for message, place in _mappings(messages, path):
        for key, role in _WHOSE.items() if message.get("role") in ROLES else ():
            if key in message and message["role"] != role:
                text = f"`{key}` belongs to messages of the role `{role}`"
                yield Violation("unknown-key", (*place, key), text, key=True)
