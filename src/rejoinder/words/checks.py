"""Names of checks."""

from __future__ import annotations

from collections.abc import Iterator

from rejoinder.model.results import CheckResult, Span
from rejoinder.words.numbers import shortened

_OVER_TIME = ("always", "never", "by_turn", "after", "before")
_LOOKED_AT = 1_000
"""Replies of a check over time by which it is called."""
_MOST_PARTS = 3
FOUND = "found"
_LONGEST_FOUND = 80
_SAYS_NO_MORE = frozenset(
    (
        *("the reply does not contain it", "the reply contains none of them", "not found in the reply"),
        *("the reply starts differently", "the reply ends differently", "the reply is different"),
        *("contains it", FOUND),
    )
)
"""Reasons of checks that only repeat that the check failed."""


def is_over_time(check: CheckResult) -> bool:
    """True if it looks at several replies, in their order."""
    return check.kind in _OVER_TIME


def described(check: CheckResult) -> str:
    """`match *72*` as `match "*72*"`: texts in quotes, numbers and truth values without; `not` and its check."""
    if is_over_time(check) and check.children:
        return _over_time(check)
    if check.kind == "not" and check.children:
        return f"not {_negated(check.children[0])}"
    label = check.check
    start = f"{check.kind or label.partition(' ')[0]} "
    if check.value is not None or not label.startswith(start):
        return label
    return f'{start}"{label.removeprefix(start)}"'


def _over_time(check: CheckResult) -> str:
    """`never icontains "sorry"`, `contains "a" before contains "b"`. Of `before`, the second is looked at first."""
    inner = list(dict.fromkeys(map(described, check.children[:_LOOKED_AT])))
    if check.kind == "before" and len(inner) > 1:
        return f"{inner[1]} before {inner[0]}"
    return f"{check.kind} {', '.join(inner)}"


def _negated(check: CheckResult) -> str:
    """A group by its parts: `(contains "a" or contains "b")`."""
    if check.kind not in ("or", "and") or not check.children:
        return described(check)
    parts = [described(one) for one in check.children[:_MOST_PARTS]]
    parts += [f"{len(check.children) - _MOST_PARTS} more"] if len(check.children) > _MOST_PARTS else []
    return f"({f' {check.kind} '.join(parts)})"


def called(check: CheckResult) -> str:
    """Its name, else what it looks for."""
    name = check.name if check.kind != "extract" else None  # that is the name of what it takes out
    return " ".join((name or described(check)).split())


def found_by(check: CheckResult, reply: str = "") -> str:
    """Its reason; of a check that forbids something, what it found in the reply, or the reason of the check inside it:
    `called` has the name of that."""
    if check.kind not in ("not", "not_match") or check.passed:
        return check.reason
    low, high = next(_places(check), (0, 0))
    if reply[low:high].strip():
        return f'{FOUND} "{shortened(reply[low:high], _LONGEST_FOUND)}"'
    return check.children[0].reason if check.children else check.reason


def _places(check: CheckResult) -> Iterator[Span]:
    yield from check.spans
    for child in check.children:
        yield from _places(child)


def says_no_more(reason: str) -> bool:
    """True if it only repeats that the check failed."""
    return reason in _SAYS_NO_MORE
