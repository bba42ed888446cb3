"""A conversation as plain text in documents: who said what, with a bar before every line of theirs.

The bar keeps apart what we write and what was said. No reply can look like a verdict, and no line of it begins with the
characters that a build server takes for a command.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rejoinder.model import Result
from rejoinder.views.conversation import ConversationView
from rejoinder.views.course import Against, against
from rejoinder.views.deeds import how_it_went
from rejoinder.views.turns import CheckView, ToolView, TurnView
from rejoinder.words.inert import one_line, visible
from rejoinder.words.numbers import both_ends

LONGEST_TEXT = 10_000
"""Characters of a prompt or reply that are shown; JSON has all of it."""
LONGEST_REASON = 1_000
MOST_CHECKS = 50
"""Checks of a turn that are listed."""
MOST_CALLS = 20
"""Calls of tools in a turn that are shown."""
MOST_LINES = 3
"""Lines of a reply that repeats an earlier one."""
LONGEST_CALLED = 1_000
"""Characters of what a tool was given, and of what it answered."""


def write_transcript(talk: ConversationView, longest: int = LONGEST_TEXT) -> Iterator[str]:
    for turn in talk.turns:
        yield from _turn(turn, f"Turn {turn.turn}", longest)
    yield from _behind(talk)


def write_deciding_turn(talk: ConversationView, longest: int) -> Iterator[str]:
    """Only the turn that decided, or else the last one, `Turn 2 of 3`, and what is known of the whole."""
    decided = next((reason.turn for reason in talk.reasons if reason.turn is not None), None)
    for turn in [turn for turn in talk.turns if turn.turn == decided] or talk.turns[-1:]:
        yield from _turn(turn, f"Turn {turn.turn} of {len(talk.turns)}", longest, alone=True)
    yield from _behind(talk)


def _turn(turn: TurnView, title: str, longest: int, *, alone: bool = False) -> Iterator[str]:
    """`alone`: the turn is shown without those before it."""
    yield f"{title}: {short_line(turn.label)}" if turn.label else title
    yield from _said("user" if turn.by_user else "prompt", turn.prompt, longest)
    yield from _called(turn.tools, min(longest, LONGEST_CALLED))
    if turn.same_as is not None:
        yield f"  same words as turn {turn.same_as}"
    if turn.response is not None and (turn.same_as is None or alone):
        yield from _said("reply", turn.response if turn.same_as is None else _beginning(turn.response), longest)
    yield from _checked(turn.checks)


def _beginning(reply: str) -> str:
    """Of a reply that was given before."""
    lines = reply.strip().splitlines()
    more = ["…"] if len(lines) > MOST_LINES else []
    return "\n".join([*(both_ends(line, LONGEST_REASON) for line in lines[:MOST_LINES]), *more])


def _behind(talk: ConversationView) -> Iterator[str]:
    """Facts about a conversation besides its turns."""
    if talk.not_sent:
        yield short_line(talk.not_sent)
    if talk.checks:
        yield "Conversation"
        yield from _checked(talk.checks)
    yield from (f"{note.label}: {short_line(note.text)}" for note in talk.course)
    if talk.error is not None:
        yield f"  error on turn {talk.error.turn}: {short_line(talk.error.message)}"


def _checked(checks: Sequence[CheckView]) -> Iterator[str]:
    for check in checks[:MOST_CHECKS]:
        decides = f": {check.decides}" if check.decides else ""
        yield f"  {check.state} {short_line(check.described)}{short_line(decides)}"
    if len(checks) > MOST_CHECKS:
        yield f"  and {len(checks) - MOST_CHECKS} more checks"


def _called(calls: Sequence[ToolView], longest: int) -> Iterator[str]:
    for call in calls[:MOST_CALLS]:
        server = f" of {short_line(call.server)}" if call.server else ""
        yield from _said(f"tool {short_line(call.name)}{server}{how_it_went(call)}", call.arguments, longest)
        if call.result is not None:
            yield from _said("result", call.result, longest)
    if len(calls) > MOST_CALLS:
        yield f"  and {len(calls) - MOST_CALLS} more calls of tools"


def _said(role: str, text: str, longest: int) -> Iterator[str]:
    yield f"  {role}"
    yield from (f"  | {line}" for line in visible(both_ends(text, longest)).split("\n"))


def reasons_of(result: Result) -> Iterator[str]:
    """Why a conversation did not pass, each on one line."""
    if result.status == "error" and result.error is not None:
        yield short_line(result.error.message)
    elif result.status == "failed":
        yield from map(_reason, against(result)[:MOST_CHECKS])


def _reason(one: Against) -> str:
    return ": ".join(short_line(text) for text in (one.where, one.what, one.why) if text)


def short_line(text: str) -> str:
    return one_line(both_ends(text, LONGEST_REASON))
