"""What an agent or a model with tools did in a turn, in words: the tools that it called, and what it changed in its
workspace."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from rejoinder.model import Result, TurnResult, count_lines
from rejoinder.model.tools import FaultOutcome
from rejoinder.words.numbers import count, share, shortened

_MOST_CALLS = 20
_LONGEST_NAME = 60
_LONGEST_ANSWER = 200
_FILE = re.compile(r"^(?:\+\+\+ b/(.+)|--- a/(.+)|(?:Binary|Empty) file (.+) \w+|Lines of (.+) \(\w+\) are left out)$")


class Call(Protocol):
    """A tool call, in a result or in a view of it."""

    @property
    def name(self) -> str: ...
    @property
    def arguments(self) -> str: ...
    @property
    def result(self) -> str | None: ...
    @property
    def status(self) -> str | None: ...
    @property
    def fault(self) -> str | None: ...


def deeds(calls: Iterable[Call], diff: str | None, *, continued: bool = False, whole: bool = False) -> list[str]:
    """Lines about a turn: its tools, what each was given and answered, and how the workspace changed. `whole`: line by
    line."""
    lines: list[str] = []
    told = [call for call in calls if call.status is not None]
    if told:
        shown = ", ".join(map(_called, told[:_MOST_CALLS]))
        more = f" and {len(told) - _MOST_CALLS} more" if len(told) > _MOST_CALLS else ""
        lines.append(f"Tools: {shown}{more}")
        lines += filter(None, map(_answered, told[:_MOST_CALLS]))
    if diff:
        lines.append(f"Workspace: {_counted(diff)}")
        lines += diff.splitlines() if whole else ()
    if continued:
        lines.append("The run was killed here, and the agent continued its session from before this turn")
    return lines


def never_landed(result: Result) -> str | None:
    """The faults on purpose that met no call: `Never landed: error of mail (call 2)`."""
    missed = [fault for fault in result.faults if not fault.landed]
    names = (f"{one.fault} of {one.tool} ({_planned_at(one)})" for one in missed)
    return f"Never landed: {', '.join(names)}" if missed else None


def _planned_at(fault: FaultOutcome) -> str:
    return f"call {fault.at or 1}" if fault.rate is None else f"{share(fault.rate)} of calls"


def not_allowed(turn: TurnResult) -> str | None:
    """The tools that an agent was not allowed to use; None if there were none."""
    denied = (call.name for call in turn.tool_calls if call.status == "denied")
    names = dict.fromkeys(" ".join(name.split())[:_LONGEST_NAME] for name in denied)
    return f"not allowed: {', '.join(names)} (see `permissions` of the target)" if names else None


def offered_words(turn: TurnResult) -> str:
    """The tools that the model could call: `offered: price, stock`."""
    names = [" ".join(name.split())[:_LONGEST_NAME] for name in turn.offered]
    more = f" and {len(names) - _MOST_CALLS} more" if len(names) > _MOST_CALLS else ""
    return f"offered: {', '.join(names[:_MOST_CALLS])}{more}" if names else "offered: no tools"


def _called(call: Call) -> str:
    return f"{_name(call)}{how_it_went(call)}"


def _name(call: Call) -> str:
    return " ".join(call.name.split())[:_LONGEST_NAME]


def how_it_went(call: Call) -> str:
    """` (failed, timeout on purpose)`; nothing for a call that went well."""
    how = "" if call.status == "completed" else call.status
    said = ", ".join(filter(None, (how, fault_of(call.fault))))
    return f" ({said})" if said else ""


def fault_of(fault: str | None) -> str:
    """`timeout on purpose`; for an injected text, that it was injected."""
    if fault is None:
        return ""
    return "with an injected text" if fault == "says" else f"{fault} on purpose"


def tool_names(turns: Iterable[TurnResult]) -> str:
    """The tools that were called, in order, with how each call went."""
    calls = [call for turn in turns for call in turn.tool_calls]
    more = f" and {len(calls) - _MOST_CALLS} more" if len(calls) > _MOST_CALLS else ""
    return ", ".join(map(_called, calls[:_MOST_CALLS])) + more


def _answered(call: Call) -> str:
    """`weather({"city": "Bern"}): rain, 9 degrees`; without an answer, what it was given, if anything was."""
    given = f"{_name(call)}({shortened(call.arguments, _LONGEST_ANSWER)})"
    if call.result is None:
        return "" if call.arguments in ("", "{}") else given
    return f"{given}: {shortened(call.result, _LONGEST_ANSWER) or '(nothing)'}"


def _counted(diff: str) -> str:
    lines = count_lines(diff)
    files = {next(filter(None, found.groups())) for line in lines.headers if (found := _FILE.match(line))}
    names = f" ({', '.join(sorted(files))})" if len(files) <= 3 else ""
    return f"{count(len(files), 'file')} changed{names}, {count(lines.added, 'line')} added, {lines.removed} removed"
