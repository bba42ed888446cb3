"""When a check has to hold over a conversation: rules on the replies in their order, as truth tables say them.

A rule is a generator. It yields which check it wants to know of which reply, is sent that check's state, and returns
what came of it and the reply that decided. It asks for no more than it needs, because a check may cost a call. Where an
answer hangs on a check in error, so does the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias

from msgspec import structs

from rejoinder.model import ConversationCheck, State, Verdict

Question: TypeAlias = tuple[int, int]
"""The place of a reply, and which of the rule's checks."""
Found: TypeAlias = tuple[State, int | None]
"""What came of it, and the place of the reply that decided, if one did."""
Rule: TypeAlias = Generator[Question, State, Found]


def always(places: Sequence[int], _turn: int | None) -> Rule:
    """Every reply passes."""
    broken: int | None = None
    for place in places:
        state = yield place, 0
        if state == "failed":
            return "failed", place
        broken = place if state == "error" and broken is None else broken
    return ("passed", None) if broken is None else ("error", broken)


def never(places: Sequence[int], _turn: int | None) -> Rule:
    """No reply passes."""
    broken: int | None = None
    for place in places:
        state = yield place, 0
        if state == "passed":
            return "failed", place
        broken = place if state == "error" and broken is None else broken
    return ("passed", None) if broken is None else ("error", broken)


def by_turn(places: Sequence[int], turn: int | None) -> Rule:
    """A reply passes, at that turn or before."""
    broken: int | None = None
    for place in places:
        if turn is not None and place > turn:
            break
        state = yield place, 0
        if state == "passed":
            return "passed", place
        broken = place if state == "error" and broken is None else broken
    return ("failed", None) if broken is None else ("error", broken)


def after(places: Sequence[int], _turn: int | None) -> Rule:
    """Once a reply passes the first check, a later one passes the second; and if none passes the first. Where the first
    check is in error, the reply may be the one: so the second is asked for from there on, too."""
    broken: int | None = None
    since: int | None = None
    early: State | None = None
    """The second check since the first reply that may have passed the first one; None before it."""
    late: State = "failed"
    """And since the last such reply."""
    for place in places:
        if early is not None:
            state = yield place, 1
            early, late = _either(early, state), _either(late, state)
            broken = place if state == "error" and broken is None else broken
            if since is not None and late == "passed":
                return "passed", place
        if since is None:
            state = yield place, 0
            if state != "failed":
                early, late = early or "failed", "failed"
                since = place if state == "passed" else None
            broken = place if state == "error" and broken is None else broken
    if early is None or (since is None and late == "passed"):
        return "passed", None
    return ("failed", since) if since is not None and early == "failed" else ("error", broken)


def before(places: Sequence[int], _turn: int | None) -> Rule:
    """A reply passes the first check before one passes the second; and if none passes the second."""
    broken: int | None = None
    seen: State = "failed"
    """Did an earlier reply pass the first check?"""
    too_early = False
    """May the second have happened, where the first had not?"""
    for place in places:
        state = yield place, 1
        broken = place if state == "error" and broken is None else broken
        if state == "passed" or (state == "error" and seen == "error"):
            return ("failed", place) if seen == "failed" else ("error", broken)
        too_early = too_early or state == "error"
        if place == places[-1]:
            break  # what the last reply passes is not earlier than anything
        state = yield place, 0
        broken = place if state == "error" and broken is None else broken
        seen = _either(seen, state)
        if seen == "passed":
            return ("error", broken) if too_early else ("passed", place)
    return ("error", broken) if too_early else ("passed", None)


def _either(one: State, other: State) -> State:
    """Passed if one of the two is; else in error if one is."""
    if "passed" in (one, other):
        return "passed"
    return "error" if "error" in (one, other) else "failed"


OVER_TIME: dict[str, Callable[[Sequence[int], int | None], Rule]] = {
    "always": always,
    "never": never,
    "by_turn": by_turn,
    "after": after,
    "before": before,
}

_FORBIDDEN = {("never", 0), ("after", 0), ("before", 1)}
"""The checks of rules that nothing follows from unless a reply passes them."""


def is_unknown(over: ConversationCheck, which: int, verdict: Verdict) -> bool:
    """Whether a reply without the part to check would count as one that a forbidden thing is not in."""
    return (over.over, which) in _FORBIDDEN and verdict.state == "failed" and _lacks(verdict)


def _lacks(verdict: Verdict) -> bool:
    return verdict.lacking or any(map(_lacks, verdict.children))


_WORDS: dict[tuple[str, State], str] = {
    ("always", "passed"): "every reply passes",
    ("always", "failed"): "{turn} does not pass",
    ("never", "passed"): "no reply passes",
    ("never", "failed"): "{turn} does",
    ("by_turn", "passed"): "{turn} passes",
    ("by_turn", "failed"): "no reply passes up to {limit}",
    ("after", "failed"): "it happens at {turn}, and no later reply passes `then`",
    ("before", "passed"): "{turn} passes `first`, and `second` did not happen before",
    ("before", "failed"): "`second` happens at {turn}, and no earlier reply passes `first`",
}
_NOT_HAPPENED = {"after": "`when` never happens", "before": "`second` never happens"}


def over_verdict(over: ConversationCheck, found: Found, said: Sequence[tuple[int, Verdict]]) -> Verdict:
    """The verdict of a rule, with those on the replies that it looked at, each named by its turn."""
    state, place = found
    word = "step" if over.final else "turn"
    lacking = next((one for where, one in said if where == place and _lacks(one)), None)
    if state == "failed" and lacking is not None and over.over != "always":
        reason = f"{word} {place}: {lacking.reason}"
    elif state == "error":
        broken = next((one.reason for where, one in said if where == place and one.state == "error"), "")
        reason = f"{word} {place}: {broken}"
    elif state == "passed" and place is None and over.over in _NOT_HAPPENED:
        reason = _NOT_HAPPENED[over.over]
    elif over.over == "after" and state == "passed":
        reason = f"{word} {place} passes `then`"
    else:
        reason = _WORDS[over.over, state].format(turn=f"{word} {place}", limit=f"{word} {over.turn}")
    if not said:
        reason += "; there was no reply to look at"
    return Verdict(
        check=" ".join([over.over, *dict.fromkeys(one.check for _, one in said)]),
        state=state,
        score=None if state == "error" else float(state == "passed"),
        reason=reason,
        kind=over.over,
        name=over.name,
        metric=over.metric,
        children=tuple(_of_turn(where, word, one) for where, one in said),
    )


def _of_turn(place: int, word: str, verdict: Verdict) -> Verdict:
    return structs.replace(verdict, name=f"{word} {place}", metric=None)
