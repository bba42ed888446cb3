"""`tool_calls`: the tools that a reply calls, with their arguments, number, order and results.

The score is the share of the expected calls that were found, and all of them are needed. With `exact` unexpected calls
count as well. A reply with too many or too few calls scores 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rejoinder.checks.base import Context, error_verdict, scored_verdict
from rejoinder.checks.json_checks import fit_schema
from rejoinder.checks.json_text import equal_as_json
from rejoinder.checks.patterns import PatternTimeout, find_match
from rejoinder.checks.registry import grades
from rejoinder.model import Offered, State, ToolCall, ToolCalls, Verdict, WantedCall, offered_name
from rejoinder.words.numbers import count, plural, shortened

LONGEST_ARGUMENTS = 60
"""Maximum characters of a call's arguments in a reason."""
MOST_NAMED = 4
"""Maximum calls that are named in a reason."""
_NO_JSON = object()
_OWN = ("calls", "mode", "least", "most", "subset", "schema")


@grades(ToolCalls)
def grade_tool_calls(check: ToolCalls, context: Context) -> Verdict:
    made = context.reply.tool_calls
    try:
        rows, allowed = _rows(check.calls, made), _rows(check.subset, made)
    except PatternTimeout as timeout:
        return error_verdict(check, _shown_value(check), str(timeout))
    owners = [number for number, call in enumerate(check.calls) for _ in range(call.times)]
    fits = [rows[number] for number in owners]
    found = _assign(fits) if check.mode == "any_order" else _align(fits, len(made))
    counts = [0] * len(check.calls)
    for place in found:
        counts[owners[place]] += 1
    state, faults = _schema_faults(made, context.port.offered()) if check.schema else ("passed", [])
    if state == "error":
        return error_verdict(check, _shown_value(check), "; ".join(faults[:MOST_NAMED]))
    others = [call for call, *accepted in zip(made, *allowed, strict=True) if not any(accepted)] if check.subset else []
    if others:
        faults = [f"{_list(others)} {plural(len(others), 'is', 'are')} not among the allowed calls", *faults]
    bound = "; ".join(filter(None, (_out_of_bounds(check, len(made)), *faults[:MOST_NAMED])))
    score = _share(check, len(found), len(owners), len(made))
    passed = not bound and score >= (1.0 if check.threshold is None else check.threshold)
    taken = set(found.values())
    spare = {number: call for number, call in enumerate(made) if number not in taken}
    lacking = [
        _lack(call, made, row, spare)
        for call, made, row in zip(check.calls, counts, rows, strict=True)
        if made < call.times
    ]
    if check.mode == "exact" and spare:
        lacking.append(f"{_list([*spare.values()])} {plural(len(spare), 'was', 'were')} called as well")
    return scored_verdict(
        check,
        _shown_value(check),
        passed,
        "; ".join([*filter(None, (bound,)), *lacking[:MOST_NAMED], _told(made)]),
        score=0.0 if bound else score,
        hits=tuple(_wanted(one) for one, made in zip(check.calls, counts, strict=True) if made == one.times),
        misses=tuple(_wanted(one) for one, made in zip(check.calls, counts, strict=True) if made < one.times),
    )


def _shown_value(check: ToolCalls) -> str | None:
    """The check's display value: a list of names is shown as written."""
    plain = ToolCalls(calls=tuple(WantedCall(call.name) for call in check.calls))
    if not check.calls or any(getattr(check, name) != getattr(plain, name) for name in _OWN):
        return None
    return ", ".join(call.name for call in check.calls)


def _share(check: ToolCalls, found: int, wanted: int, made: int) -> float:
    if not wanted:
        return 1.0
    return found / max(wanted, made) if check.mode == "exact" else found / wanted


def _out_of_bounds(check: ToolCalls, made: int) -> str | None:
    if check.least is not None and made < check.least:
        return f"at least {count(check.least, 'call is', 'calls are')} expected"
    if check.most is not None and made > check.most:
        return f"{made} calls are more than {check.most}" if check.most else "no call is allowed"
    return None


def _schema_faults(made: Sequence[ToolCall], offered: Sequence[Offered]) -> tuple[State, list[str]]:
    """The calls whose arguments do not satisfy the schemas of their tools, or whose tools do not exist."""
    if not offered:
        return "error", ["no schema of a tool is known here: `schema` needs `tools` that the model is offered"]
    known = {name: one for one in offered for name in (one.tool, one.name)}
    faults: list[str] = []
    for call in made:
        tool = known.get(call.name) if not call.server else known.get(offered_name(call.server, call.name))
        if tool is None:
            faults.append(f"there is no tool {call.name}")
            continue
        given = _decode(call.arguments)
        if given is _NO_JSON:
            faults.append(f"the arguments of {call.name} are not JSON")
            continue
        state, reason = fit_schema(tool.parameters, given, call.arguments, f"on a call of {call.name}")
        if state == "error":
            return "error", [f"{call.name}: {reason}"]
        if state == "failed":
            faults.append(f"{_made(call)} does not satisfy its schema: {reason}")
    return ("failed" if faults else "passed"), faults


# Which call is which.


def _rows(wanted: Sequence[WantedCall], made: Sequence[ToolCall]) -> list[list[bool]]:
    """For each expected call, whether it accepts each of the actual calls."""
    looks = any(call.arguments or call.like for call in wanted)
    given = [_decode(call.arguments) if looks else None for call in made]
    return [_accepted(call, made, given) for call in wanted]


def _accepted(wanted: WantedCall, made: Sequence[ToolCall], given: Sequence[Any]) -> list[bool]:
    needed = None if wanted.arguments is None else msgspec.json.decode(wanted.arguments)
    like = {} if wanted.like is None else msgspec.json.decode(wanted.like)
    return [
        _is_called(call, wanted.name)
        and (needed is None or _holds(one, needed))
        and (not like or _resembles(one, like))
        and (wanted.status is None or call.status == wanted.status)
        and (wanted.result is None or (call.result is not None and find_match(wanted.result, call.result) is not None))
        for call, one in zip(made, given, strict=True)
    ]


def _is_called(call: ToolCall, name: str) -> bool:
    """Whether a call has this name: the tool's own, or with its server's name before it, as the model sees it."""
    return name == call.name or (bool(call.server) and name == offered_name(call.server, call.name))


def _decode(arguments: str) -> Any:
    """The arguments of a call. Some models write nothing if a tool has no parameters."""
    try:
        return msgspec.json.decode(arguments) if arguments.strip() else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _NO_JSON


def _holds(given: Any, needed: Any) -> bool:
    """Whether a value contains the expected one. Mappings may have more keys; everything else has to be equal."""
    if isinstance(given, dict) and isinstance(needed, dict):
        return all(key in given and _holds(given[key], value) for key, value in needed.items())
    return equal_as_json(given, needed)


def _resembles(given: Any, like: Any) -> bool:
    """Whether a value resembles the expected one. Texts are patterns, a number may have a tolerance, mappings may have
    more keys; the rest has to be equal."""
    if isinstance(like, str):
        return isinstance(given, str) and find_match(like, given) is not None
    if not isinstance(like, dict):
        return equal_as_json(given, like)
    if "near" in like and like.keys() <= {"near", "within"}:
        return _is_number(given) and _is_number(like["near"]) and abs(given - like["near"]) <= like.get("within", 0)
    return isinstance(given, dict) and all(key in given and _resembles(given[key], like[key]) for key in like)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _align(fits: Sequence[Sequence[bool]], made: int) -> dict[int, int]:
    """The most expected calls that can be matched in their order, each with its actual call."""
    best = [[0] * (made + 1) for _ in range(len(fits) + 1)]
    for one in reversed(range(len(fits))):
        row, after = best[one], best[one + 1]
        for other in reversed(range(made)):
            row[other] = after[other + 1] + 1 if fits[one][other] else max(after[other], row[other + 1])
    found: dict[int, int] = {}
    one = other = 0
    while one < len(fits) and other < made:
        if fits[one][other]:
            found[one] = other
            one, other = one + 1, other + 1
        elif best[one][other + 1] >= best[one + 1][other]:
            other += 1
        else:
            one += 1
    return found


def _assign(fits: Sequence[Sequence[bool]]) -> dict[int, int]:
    """The most expected calls that can be matched in any order. An expected call that accepts several makes room for
    one that accepts fewer (Kuhn's algorithm)."""
    found: dict[int, int] = {}
    holders: dict[int, int] = {}
    for start in range(len(fits)):
        reached: dict[int, int] = {}
        call = _free_call(start, fits, holders, reached)
        while call is not None:
            holder = reached[call]
            holders[call] = holder
            given_up = found.get(holder)
            found[holder] = call
            call = given_up
    return found


def _free_call(
    start: int, fits: Sequence[Sequence[bool]], holders: dict[int, int], reached: dict[int, int]
) -> int | None:
    """A free call for `start`, or for an expected call that makes room for it. `reached` maps each call to the expected
    call that found it."""
    waiting = [start]
    while waiting:
        one = waiting.pop(0)
        for call, accepted in enumerate(fits[one]):
            if accepted and call not in reached:
                reached[call] = one
                if call not in holders:
                    return call
                waiting.append(holders[call])
    return None


# What is said of it.


def _lack(wanted: WantedCall, made: int, row: Sequence[bool], spare: Mapping[int, ToolCall]) -> str:
    """Why an expected call was not found; `spare`: actual calls that no expected call has taken."""
    name = _wanted(wanted)
    if made:
        return f"{name} was called {made} of {wanted.times} times"
    if any(row[number] for number in spare):
        return f"{name} was not called in its place"
    if any(row):
        return f"{name} was not called once more"
    others = [call for call in spare.values() if _is_called(call, wanted.name)]
    if not others:
        return f"{name} was not called"
    if wanted.result is None and wanted.status is None:
        return f"{name} was not called, but {_list(others)}"
    ends = ", and ".join(f"{_made(call)}, {_how_ended(call)}" for call in others[:MOST_NAMED])
    more = f", and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
    return f"{name}{_wanted_end(wanted)} was not called, but {ends}{more}"


def _wanted_end(wanted: WantedCall) -> str:
    parts = [f"status {wanted.status}" if wanted.status else "", f"result {wanted.result!r}" if wanted.result else ""]
    return f" with {' and '.join(filter(None, parts))}"


def _how_ended(call: ToolCall) -> str:
    """The result of a call in words, such as `which failed: 'no such city'`."""
    how = {"completed": "which answered", "failed": "which failed", "denied": "which was denied"}
    shown = shortened(call.result or "", LONGEST_ARGUMENTS)
    return f"{how.get(call.status or '', 'which was not answered')}{f': {shown!r}' if shown else ''}"


def _told(made: Sequence[ToolCall]) -> str:
    """The called tools. Names are enough: arguments that matter are shown if something is missing."""
    return f"the reply calls {_list([ToolCall(call.name) for call in made])}" if made else "the reply calls no tool"


def _list(calls: Sequence[ToolCall]) -> str:
    more = f" and {len(calls) - MOST_NAMED} more" if len(calls) > MOST_NAMED else ""
    return ", ".join(_made(call) for call in calls[:MOST_NAMED]) + more


def _wanted(call: WantedCall) -> str:
    return _shown(call.name, call.arguments or call.like or "")


def _made(call: ToolCall) -> str:
    broken = " (no JSON)" if _decode(call.arguments) is _NO_JSON else ""
    return _shown(call.name, call.arguments) + broken


def _shown(name: str, arguments: str) -> str:
    text = " ".join(arguments.split())
    if text in ("", "{}"):
        return name
    return f"{name} {text if len(text) <= LONGEST_ARGUMENTS else f'{text[:LONGEST_ARGUMENTS]}...'}"
