"""The function of each check, and the grading of a level's checks. No check is skipped.

A decorator registers a function for its checks. Plain functions look only at the reply. Coroutines ask something, and
are in a module that is imported when a suite has such a check. Functions of groups get the verdicts on their checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any, TypeVar, cast

from msgspec import structs

from rejoinder.checks.base import Context, Lack, Port, asked_value, error_verdict
from rejoinder.model import GROUPS, Case, Check, Reply, Verdict, kind_of, levels_of, parts_of, replies_of, walk_check

F = TypeVar("F", bound=Callable[..., Any])
_PLAIN: dict[type[Check], Callable[[Any, Context], Verdict]] = {}
_ASKING: dict[type[Check], Callable[[Any, Context], Awaitable[Verdict]]] = {}
_GROUPS: dict[type[Check], Callable[[Any, tuple[Verdict, ...]], Verdict]] = {}
_MODULES: dict[str, str] = {
    **dict.fromkeys(("llm_judge", "faithful", "relevant", "complete"), "judge"),
    "compare": "pairwise",
    "rubric": "rubrics",
    "semantic": "embeddings",
    **dict.fromkeys(("code", "python", "check", "webhook"), "user_code"),
    "tool_state": "state_of_tools",
    "canary": "canaries",
}
"""Modules of checks that ask something. None is named like a check: `rejoinder.checks.compare` is a function for
authors of suites."""
_FAMILIES = ("json_checks", "tools", "workspaces", "xml_checks", "json_fields", "agent_work")
"""Modules of plain checks that are imported if a check is not found among those already imported."""


def grades(*kinds: type[Check]) -> Callable[[F], F]:
    """Register a function for these checks: `function(check, context)` returns a verdict, or is awaited for it."""

    def register(function: F) -> F:
        table: dict[Any, Any] = _ASKING if iscoroutinefunction(function) else _PLAIN
        table.update(dict.fromkeys(kinds, function))
        return function

    return register


def joins(*kinds: type[Check]) -> Callable[[F], F]:
    """Register a function for checks that hold others: it gets their verdicts, in order."""

    def register(function: F) -> F:
        _GROUPS.update(dict.fromkeys(kinds, function))
        return function

    return register


def _plain(kind: type[Check]) -> Callable[[Any, Context], Verdict] | None:
    """The function of a check that looks only at the reply; None if the check asks something or is a group."""
    function = _PLAIN.get(kind)
    if function is None and kind not in _GROUPS and kind not in _ASKING:
        for family in _FAMILIES:
            import_module(f"rejoinder.checks.{family}")
        function = _PLAIN.get(kind)
    return function


def is_plain(case: Case) -> bool:
    """Whether a case has only checks on its replies, and no follow-ups, tools or simulated user."""
    if case.user is not None or case.all_tools or any(replies_of(case)):
        return False
    for level in levels_of(case):
        for item in level.items:
            if item.follow_up is not None or item.check is None or not _plain(type(item.check)):
                return False
    return all(_plain(type(check)) for over in case.conversation_checks for check in over.checks)


def grade_plain(checks: tuple[Check, ...], context: Context) -> tuple[Verdict, ...] | None:
    """The verdicts if all checks look only at the reply; None if one asks something or is a group, or if the part of
    the reply is missing."""
    if context.lack is not None:
        return None
    verdicts: list[Verdict] = []
    for check in checks:
        function = _plain(type(check))
        if function is None:
            return None
        verdicts.append(function(check, context))
    return tuple(verdicts)


def grade_words(checks: tuple[Check, ...], case: Case, text: str) -> tuple[Verdict, ...]:
    """The verdicts of text checks on words that are not a reply."""
    return grade_plain(checks, Context(case, Reply(text), 1, cast(Port, None))) or ()


async def grade(checks: tuple[Check, ...], context: Context) -> tuple[Verdict, ...]:
    """The verdicts on a level's checks. Checks that ask something run at the same time, started in document order."""
    tasks: list[asyncio.Task[Verdict]] = []
    pending = [_begin(check, context, tasks) for check in checks]
    try:
        return tuple([await _finish(verdict) for verdict in pending])
    except Exception:
        await asyncio.gather(*tasks, return_exceptions=True)  # calls in flight may be billed
        raise
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


_Pending = Verdict | asyncio.Task[Verdict] | Callable[[], Coroutine[Any, Any, Verdict]]


def _begin(check: Check, context: Context, tasks: list[asyncio.Task[Verdict]]) -> _Pending:
    kind = type(check)
    if context.lack is not None and any(part.of_text for part in walk_check(check)) and kind not in GROUPS:
        return _lacking(check, context.lack, context)
    if (function := _plain(kind)) is not None:
        return function(check, context)
    if kind in _GROUPS:
        inner = [_begin(part, context, tasks) for part in parts_of(check)]
        return lambda: _join(check, inner)
    tasks.append(asyncio.ensure_future(_ask(check, context)))
    return tasks[-1]


def _lacking(check: Check, lack: Lack, context: Context) -> Verdict:
    """The verdict of a check of a text that is not there. What it negates has not passed either."""
    function = _plain(type(check))
    if function is not None:  # for its label
        shown = function(check, structs.replace(context, reply=structs.replace(context.reply, text=""), lack=None))
    else:
        children = tuple(_lacking(one, lack, context) for one in parts_of(check))
        shown = error_verdict(check, asked_value(check), "", children=children)
    return structs.replace(
        shown,
        state=lack.state,
        score=0.0 if lack.state == "failed" else None,
        reason=lack.reason,
        spans=(),
        found=None,
        lacking=True,
        fault="it lacks the part that is checked",
    )


async def _ask(check: Check, context: Context) -> Verdict:
    """Grade with a check that asks something; its own port lets the verdict name its calls."""
    if type(check) not in _ASKING:
        kind = kind_of(check)
        import_module(f"rejoinder.checks.{_MODULES.get(kind, kind)}")
    port = context.port.for_check()
    verdict = await _ASKING[type(check)](check, structs.replace(context, port=port))
    return structs.replace(verdict, calls=tuple(port.calls)) if port.calls else verdict


async def _join(check: Check, pending: list[_Pending]) -> Verdict:
    return _GROUPS[type(check)](check, tuple([await _finish(verdict) for verdict in pending]))


async def _finish(pending: _Pending) -> Verdict:
    if isinstance(pending, Verdict):
        return pending
    return await (pending if isinstance(pending, asyncio.Task) else pending())
