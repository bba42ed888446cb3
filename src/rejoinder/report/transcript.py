"""A conversation as text in exports: who said what, with a bar before every line of theirs.

The bar keeps apart what we write and what was said. No reply can look like a verdict, and no line of it begins with the
characters that a build server takes for a command.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rejoinder.model import CheckResult, Result, ToolCall
from rejoinder.report.course import Against, against, course_words, described, not_sent, turn_words, what_it_found
from rejoinder.report.deeds import how_it_went
from rejoinder.report.inert import one_line, shorten, visible

LONGEST_TEXT = 10_000
"""Characters of a prompt or reply that are shown; JSON has all of it."""
LONGEST_REASON = 1_000
MOST_CHECKS = 50
"""Checks of a turn that are listed."""
MOST_CALLS = 20
"""Calls of tools in a turn that are shown."""
LONGEST_CALLED = 1_000
"""Characters of what a tool was given, and of what it answered."""


def write_transcript(result: Result, longest: int = LONGEST_TEXT) -> Iterator[str]:
    for turn in result.turns:
        words = turn_words(turn, result)
        yield f"Turn {turn.turn}: {short_line(words)}" if words else f"Turn {turn.turn}"
        yield from _said("user" if result.user is not None and not turn.depth else "prompt", turn.prompt, longest)
        yield from _called(turn.tool_calls, min(longest, LONGEST_CALLED))
        if turn.response is not None:
            yield from _said("reply", turn.response, longest)
        yield from _checked(turn.checks)
    if (left := not_sent(result)) is not None:
        yield short_line(left)
    if result.conversation_checks:
        yield "Conversation"
        yield from _checked(result.conversation_checks)
    yield from (f"{label}: {short_line(text)}" for label, text in course_words(result))
    if result.error is not None:
        yield f"  error on turn {result.error.turn}: {short_line(result.error.message)}"


def _checked(checks: Sequence[CheckResult]) -> Iterator[str]:
    for check in checks[:MOST_CHECKS]:
        yield f"  {check.state} {short_line(described(check))}{short_line(what_it_found(check))}"
    if len(checks) > MOST_CHECKS:
        yield f"  and {len(checks) - MOST_CHECKS} more checks"


def _called(calls: Sequence[ToolCall], longest: int) -> Iterator[str]:
    for call in calls[:MOST_CALLS]:
        server = f" of {short_line(call.server)}" if call.server else ""
        yield from _said(f"tool {short_line(call.name)}{server}{how_it_went(call)}", call.arguments, longest)
        if call.result is not None:
            yield from _said("result", call.result, longest)
    if len(calls) > MOST_CALLS:
        yield f"  and {len(calls) - MOST_CALLS} more calls of tools"


def _said(role: str, text: str, longest: int) -> Iterator[str]:
    yield f"  {role}"
    yield from (f"  | {line}" for line in visible(shorten(text, longest)).split("\n"))


def reasons_of(result: Result) -> Iterator[str]:
    """Why a conversation did not pass, each on one line."""
    if result.status == "error" and result.error is not None:
        yield short_line(result.error.message)
    elif result.status == "failed":
        yield from map(_reason, against(result)[:MOST_CHECKS])


def _reason(one: Against) -> str:
    return ": ".join(short_line(text) for text in (one.where, one.what, one.why) if text)


def short_line(text: str) -> str:
    return one_line(shorten(text, LONGEST_REASON))
