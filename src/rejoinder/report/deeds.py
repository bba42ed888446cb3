"""What an agent or a model with tools did in a turn, in words: the tools that it called, and what it changed in its
workspace."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rejoinder.model import Result, ToolCall, TurnResult, count_lines
from rejoinder.model.tools import FaultOutcome
from rejoinder.report.words import count

_MOST_CALLS = 20
_LONGEST_NAME = 60
_LONGEST_ANSWER = 200
_FILE = re.compile(r"^(?:\+\+\+ b/(.+)|--- a/(.+)|(?:Binary|Empty) file (.+) \w+|Lines of (.+) \(\w+\) are left out)$")


def deeds(turn: TurnResult, *, diff: bool = False) -> list[str]:
    """Lines about a turn: its tools, what each was given and answered, and how the workspace changed; `diff`: line by
    line."""
    lines: list[str] = []
    told = [call for call in turn.tool_calls if call.status is not None]
    if told:
        shown = ", ".join(map(_called, told[:_MOST_CALLS]))
        more = f" and {len(told) - _MOST_CALLS} more" if len(told) > _MOST_CALLS else ""
        lines.append(f"Tools: {shown}{more}")
        lines += filter(None, map(_answered, told[:_MOST_CALLS]))
    if turn.workspace_diff:
        lines.append(f"Workspace: {_counted(turn.workspace_diff)}")
        lines += turn.workspace_diff.splitlines() if diff else ()
    if turn.continued:
        lines.append("The run was killed here, and the agent went on with its session as it was before this turn")
    return lines


def never_landed(result: Result) -> str | None:
    """The faults on purpose that met no call: `Never landed: error of mail (call 2)`."""
    missed = [fault for fault in result.faults if not fault.landed]
    names = (f"{one.fault} of {one.tool} ({_planned_at(one)})" for one in missed)
    return f"Never landed: {', '.join(names)}" if missed else None


def _planned_at(fault: FaultOutcome) -> str:
    return f"call {fault.at or 1}" if fault.rate is None else f"{fault.rate:.0%} of calls"


def not_allowed(turn: TurnResult) -> str | None:
    """The tools that an agent was not allowed to use; None if there were none."""
    denied = (call.name for call in turn.tool_calls if call.status == "denied")
    names = dict.fromkeys(" ".join(name.split())[:_LONGEST_NAME] for name in denied)
    return f"not allowed: {', '.join(names)} (see `permissions` of the target)" if names else None


def _called(call: ToolCall) -> str:
    return f"{_name(call)}{how_it_went(call)}"


def _name(call: ToolCall) -> str:
    return " ".join(call.name.split())[:_LONGEST_NAME]


def how_it_went(call: ToolCall) -> str:
    """` (failed, timeout on purpose)`; nothing for a call that went well."""
    how = "" if call.status == "completed" else call.status
    said = ", ".join(filter(None, (how, f"{call.fault} on purpose" if call.fault else "")))
    return f" ({said})" if said else ""


def tool_names(turns: Iterable[TurnResult]) -> str:
    """The tools that were called, in order, with how each call went."""
    calls = [call for turn in turns for call in turn.tool_calls]
    more = f" and {len(calls) - _MOST_CALLS} more" if len(calls) > _MOST_CALLS else ""
    return ", ".join(map(_called, calls[:_MOST_CALLS])) + more


def _answered(call: ToolCall) -> str:
    """`weather({"city": "Bern"}): rain, 9 degrees`; without an answer, what it was given, if anything was."""
    given = f"{_name(call)}({_cut(call.arguments)})"
    if call.result is None:
        return "" if call.arguments in ("", "{}") else given
    return f"{given}: {_cut(call.result) or '(nothing)'}"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_ANSWER else f"{text[:_LONGEST_ANSWER]}..."


def _counted(diff: str) -> str:
    lines = count_lines(diff)
    files = {next(filter(None, found.groups())) for line in lines.headers if (found := _FILE.match(line))}
    names = f" ({', '.join(sorted(files))})" if len(files) <= 3 else ""
    return f"{count(len(files), 'file')} changed{names}, {count(lines.added, 'line')} added, {lines.removed} removed"
