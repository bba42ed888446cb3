"""A conversation as text in exports: who said what, with a bar before every line of theirs.

The bar keeps apart what we write and what was said. No reply can look like a verdict, and no line of it begins with the
characters that a build server takes for a command.
"""

from __future__ import annotations

from collections.abc import Iterator

from rejoinder.model import CheckResult, Result
from rejoinder.report.conversation import describe_check
from rejoinder.report.inert import one_line, shorten, visible

LONGEST_TEXT = 10_000
"""Characters of a prompt or reply that are shown; JSON has all of it."""
LONGEST_REASON = 1_000
MOST_CHECKS = 50
"""Checks of a turn that are listed."""


def write_transcript(result: Result, longest: int = LONGEST_TEXT) -> Iterator[str]:
    for turn in result.turns:
        yield f"Turn {turn.turn}"
        yield from _said("prompt", turn.prompt, longest)
        if turn.response is not None:
            yield from _said("reply", turn.response, longest)
        for check in turn.checks[:MOST_CHECKS]:
            yield f"  {check.state} {short_line(describe_check(check))}"
        if len(turn.checks) > MOST_CHECKS:
            yield f"  and {len(turn.checks) - MOST_CHECKS} more checks"
    if result.error is not None:
        yield f"  error on turn {result.error.turn}: {short_line(result.error.message)}"


def _said(role: str, text: str, longest: int) -> Iterator[str]:
    yield f"  {role}"
    yield from (f"  | {line}" for line in visible(shorten(text, longest)).split("\n"))


def reasons_of(result: Result) -> Iterator[str]:
    """Why a conversation did not pass, each on one line."""
    if result.status == "error" and result.error is not None:
        yield short_line(result.error.message)
    elif result.status == "failed":
        failed = [check for check in result.deciding_checks if not check.passed]
        yield from (_reason(check) for check in failed[:MOST_CHECKS])


def _reason(check: CheckResult) -> str:
    title = short_line(check.name or describe_check(check))
    return f"{title}: {short_line(check.reason)}" if check.reason else title


def short_line(text: str) -> str:
    return one_line(shorten(text, LONGEST_REASON))
