"""Why a conversation ended as it did: the checks that decided, and the part of the reply that they are about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct, structs

from rejoinder.model import CheckResult, Result, TurnResult
from rejoinder.model.results import Span
from rejoinder.views.course import against, places_of
from rejoinder.views.quotes import quote_of
from rejoinder.words.checks import FOUND, called, found_by, says_no_more

LONGEST_QUOTE = 160
"""Characters of a reply that a reason quotes."""


class Reason(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A check that decided, or an error."""

    where: str = ""
    """The step that it belongs to, or `conversation`; empty for a check of the last turn."""
    what: str
    """The check, or what kind of error it was."""
    text: str
    silent: bool = False
    """True if the text only repeats that the check failed."""
    turn: int | None = None
    """The turn that decided."""
    said: str = ""
    """In one line: the part of that turn's reply around the evidence or the nearest miss."""
    span: Span | None = None
    """The place of the evidence in `said`."""

    @property
    def told(self) -> str:
        """The text, unless it only repeats the check and the reply is quoted."""
        return "" if self.said and (self.silent or self.text.startswith(f"{FOUND} ")) else self.text


def first_reason(result: Result) -> Reason | None:
    """The most important reason, with a quote of the reply; None for a conversation that passed at once."""
    found = next(_found(result), None)
    if found is None or found.turn is None or not found.turn.response:
        return None if found is None else found.reason
    said, span = _quote(found.turn.response, found.check, LONGEST_QUOTE)
    return structs.replace(found.reason, said=said, span=span)


def said_of(result: Result, most: int = LONGEST_QUOTE) -> str:
    """In one line: the part of the reply that decided against a conversation, or the beginning of its last reply.
    Empty without a reply."""
    found = next(_found(result), None) if result.status == "failed" else None
    turn = result.turns[-1] if result.turns else None
    if found is not None and found.turn is not None:
        turn = found.turn
    reply = turn.response if turn is not None else None
    return _quote(reply, None if found is None else found.check, most)[0] if reply else ""


def _quote(reply: str, check: CheckResult | None, most: int) -> tuple[str, Span | None]:
    return quote_of(reply, () if check is None else places_of(check, reply), most)


def every_reason(result: Result) -> Iterator[Reason]:
    """All reasons, without quotes."""
    return (found.reason for found in _found(result))


class _Decider(NamedTuple):
    reason: Reason
    turn: TurnResult | None = None
    check: CheckResult | None = None
    """The check that points at places in the reply of that turn."""


def _found(result: Result) -> Iterator[_Decider]:
    if result.status == "error":
        if (error := result.error) is not None:
            what = "a check could not decide" if error.type == "check" else error.type
            yield _Decider(Reason(what=what, text=error.message, turn=error.turn))
    elif result.status == "failed":
        for one in against(result):
            number = None if one.turn is None else one.turn.turn
            reason = Reason(where=one.where, what=one.what, text=one.why, silent=says_no_more(one.why), turn=number)
            yield _Decider(reason, one.turn, one.points)
    elif result.recovered:
        wrong = next((turn for turn in result.turns if not turn.passed), None)
        for check in wrong.checks if wrong is not None else ():
            if wrong is not None and not check.passed:
                text = found_by(check, wrong.response or "")
                yield _Decider(Reason(what=called(check), text=text, turn=wrong.turn), wrong, check)
