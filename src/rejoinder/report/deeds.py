"""What an agent or a model with tools did in a turn, in words: the tools that it called, and what it changed in its
workspace."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rejoinder.model import ToolCall, TurnResult, count_lines
from rejoinder.report.words import count

_MOST_CALLS = 20
_LONGEST_NAME = 60
_LONGEST_ANSWER = 200
_FILE = re.compile(r"^(?:\+\+\+ b/(.+)|--- a/(.+)|(?:Binary|Empty) file (.+) \w+|Lines of (.+) \(\w+\) are left out)$")


def deeds(turn: TurnResult, *, whole: bool = False) -> list[str]:
    """Lines about a turn; `whole`: with what tools were given and answered, and with the diff of the workspace."""
    lines: list[str] = []
    told = [call for call in turn.tool_calls if call.status is not None]
    if told:
        shown = ", ".join(map(_called, told[:_MOST_CALLS]))
        more = f" and {len(told) - _MOST_CALLS} more" if len(told) > _MOST_CALLS else ""
        lines.append(f"Tools: {shown}{more}")
        lines += [_answered(call) for call in told[:_MOST_CALLS] if call.result is not None] if whole else ()
    if turn.workspace_diff:
        lines.append(f"Workspace: {_counted(turn.workspace_diff)}")
        lines += turn.workspace_diff.splitlines() if whole else ()
    if turn.continued:
        lines.append("The run was killed here, and the agent went on with its session as it was before this turn")
    return lines


def not_allowed(turn: TurnResult) -> str | None:
    """The tools that an agent was not allowed to use; None where there were none."""
    denied = (call.name for call in turn.tool_calls if call.status == "denied")
    names = dict.fromkeys(" ".join(name.split())[:_LONGEST_NAME] for name in denied)
    return f"not allowed: {', '.join(names)} (see `permissions` of the target)" if names else None


def _called(call: ToolCall) -> str:
    return f"{' '.join(call.name.split())[:_LONGEST_NAME]}{how_it_went(call)}"


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
    """`weather({"city": "Bern"}): rain, 9 degrees`"""
    given, answer = (" ".join(text.split()) for text in (call.arguments, call.result or ""))
    return f"{call.name}({_cut(given)}): {_cut(answer) or '(nothing)'}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_ANSWER else f"{text[:_LONGEST_ANSWER]}..."


def _counted(diff: str) -> str:
    lines = count_lines(diff)
    files = {next(filter(None, found.groups())) for line in lines.headers if (found := _FILE.match(line))}
    names = f" ({', '.join(sorted(files))})" if len(files) <= 3 else ""
    return f"{count(len(files), 'file')} changed{names}, {count(lines.added, 'line')} added, {lines.removed} removed"
