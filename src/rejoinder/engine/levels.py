"""What the verdicts on a level come to, and which follow-ups it may send."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, TypeVar

from msgspec import Struct, json, structs

from rejoinder.model import (
    GROUPS,
    MARK,
    MARKED,
    AnyCheck,
    FollowUp,
    Item,
    JsonPath,
    Level,
    Match,
    NotMatch,
    Regex,
    State,
    ToolState,
    Trouble,
    Verdict,
    follow_ups_of,
    reaches,
    tells_why,
    way_of_failing,
    weighted_mean,
    without_follow_ups,
)


def level_state(level: Level, checks: tuple[AnyCheck, ...], verdicts: tuple[Verdict, ...]) -> State:
    """All checks have to pass; with a threshold the weighted mean has to reach it and no required one may fail. Checks
    in error make the level one, unless it comes to the same whatever they are worth."""
    if level.threshold is None:
        return all_of(verdicts)
    required = tuple(verdict for check, verdict in zip(checks, verdicts, strict=True) if check.required)
    if all_of(required) == "failed":
        return "failed"
    least, most = level_score(checks, verdicts, 0.0), level_score(checks, verdicts, 1.0)
    if least is None or most is None or not reaches(most, level.threshold):
        return "failed"
    if all(verdict.state == "error" for verdict in verdicts):
        return "error"  # even where nothing is enough: there would be no score
    return "passed" if reaches(least, level.threshold) and all_of(required) == "passed" else "error"


def level_score(
    checks: tuple[AnyCheck, ...], verdicts: tuple[Verdict, ...], unknown: float | None = None
) -> float | None:
    """The weighted mean of the scores that there are; those that are not there may be worth something, too."""
    scores = [unknown if verdict.score is None else verdict.score for verdict in verdicts]
    if len(scores) == 1 and checks[0].weight == 1.0:  # as on most levels
        return None if scores[0] is None else float(scores[0])
    return weighted_mean(
        [(check.weight, score) for check, score in zip(checks, scores, strict=True) if score is not None]
    )


CheckPath: TypeAlias = tuple[int, ...]
"""The place of a check among a turn's checks, as an index path."""


def applicable_follow_ups(
    level: Level, verdicts: tuple[Verdict, ...], *, passed: bool = False
) -> list[tuple[FollowUp, CheckPath]]:
    """The follow-ups of a failed level that may be sent, in document order, each with the check whose failure sends it:
    its own check, or the first failed one of its list; the list itself where only its threshold failed. Of a level that
    passed, those that doubt it."""
    if passed:
        return [(follow_up, ()) for follow_up in follow_ups_of(level) if follow_up.ask == "always"]
    return list(_collect(level.items, verdicts, ()))


def _collect(
    items: tuple[Item, ...], verdicts: tuple[Verdict, ...], path: CheckPath
) -> Iterator[tuple[FollowUp, CheckPath]]:
    """`items` are those of a list that failed; a follow-up without a check of its own applies to the whole list."""
    first = next(((*path, place) for place, verdict in enumerate(verdicts) if verdict.state == "failed"), path)
    position = -1
    for item in items:
        check, place = item.check, first
        if check is not None:
            position += 1
            place = *path, position
            verdict = verdicts[position]
            if verdict.state != "failed":
                for follow_up in follow_ups_of(Level((item,))):
                    if follow_up.ask == "always":
                        yield follow_up, first
                continue
            if isinstance(check, GROUPS):
                yield from _collect(check.items, verdict.children, (*path, position))
        if item.follow_up is not None:
            yield item.follow_up, place


def persistent_items(level: Level) -> tuple[Item, ...]:
    """Checks of every turn go along without their follow-ups, which belong to the first level."""
    checks = [item.check for item in level.items if item.check is not None and item.check.every_turn]
    return tuple([Item(without_follow_ups(check)) for check in checks]) if checks else ()


T = TypeVar("T")


def fill_in(value: T, values: Mapping[str, str]) -> T:
    """A check, or a part of one, with extracted values in the places that are marked for them. In a pattern a value
    stands for itself."""
    if isinstance(value, str):
        return _filled(value, values, str) if MARK in value else value  # type: ignore[return-value] - a text for a text
    if isinstance(value, tuple):
        return tuple(fill_in(part, values) for part in value)  # type: ignore[return-value] - a tuple for a tuple
    if not isinstance(value, Struct):
        return value
    parts = {name: getattr(value, name) for name in value.__struct_fields__}
    if isinstance(value, Match | NotMatch | Regex) and MARK in value.pattern:
        is_regex = isinstance(value, Regex) or value.pattern.startswith((".*", "^"))
        parts["pattern"] = _filled(value.pattern, values, re.escape if is_regex else _escape_stars)
    elif isinstance(value, JsonPath) and value.expected is not None:
        parts["expected"] = _filled(value.expected, values, lambda text: json.encode(text).decode()[1:-1])
    elif isinstance(value, ToolState):
        parts["arguments"] = _filled(value.arguments, values, lambda text: json.encode(text).decode()[1:-1])
    changed = {name: new for name, old in parts.items() if (new := fill_in(old, values)) is not getattr(value, name)}
    return structs.replace(value, **changed) if changed else value


def _filled(text: str, values: Mapping[str, str], write: Callable[[str], str]) -> str:
    return MARKED.sub(lambda match: write(values[match[1]]) if match[1] in values else match[0], text)


def _escape_stars(text: str) -> str:
    return text.replace("*", "\\*")


def what_failed(verdicts: tuple[Verdict, ...], *, with_answers: bool) -> Iterator[str]:
    """A line for each check that failed: its name, else its kind, and in what way. With answers it says what was
    wanted; without, a follow-up does not hand over what the model should find."""
    for verdict in verdicts:
        if verdict.state == "failed" and with_answers:
            said = "; ".join(verdict.misses) or verdict.reasoning if verdict.judged else None
            yield f"{verdict.name or verdict.check}: {said or verdict.reason}"
        elif verdict.state == "failed":
            told = verdict.reasoning or verdict.reason
            said = told if tells_why(verdict.kind) else verdict.fault or way_of_failing(verdict.kind)
            yield f"{verdict.name or verdict.kind}: {said}"


def all_of(verdicts: tuple[Verdict, ...]) -> State:
    """A list: one that failed decides; else one in error does."""
    state: State = "passed"
    for verdict in verdicts:
        if verdict.state == "failed":
            return "failed"
        if verdict.state == "error":
            state = "error"
    return state


def check_trouble(verdicts: tuple[Verdict, ...], turn: int) -> Trouble:
    verdict = next(verdict for verdict in verdicts if verdict.state == "error")
    return Trouble(type="check", message=f"{verdict.check}: {verdict.reason}", turn=turn)
