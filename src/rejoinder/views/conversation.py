"""One conversation with every word that is ours, for each layout: the terminal, plain text, the page.

A `ConversationView` is made of a `Result`. The script of a page gets it as JSON, without default values. Texts are
whole, and those that we did not write are raw: layouts fold long ones, and make all of them inert.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct, structs

from rejoinder.model import Result, Status, TurnResult
from rejoinder.model.clusters import is_repeated, repeated_turns
from rejoinder.model.results import StepStatus, SystemPrompt
from rejoinder.views.course import audit_words, course_words, not_sent
from rejoinder.views.deeds import never_landed
from rejoinder.views.reasons import Reason, every_reason
from rejoinder.views.rows import RowView, row_of
from rejoinder.views.turns import CheckView, TurnView, view_check, view_turn, view_turns
from rejoinder.words.figures import price_words
from rejoinder.words.numbers import count, money

NO_SYSTEM = SystemPrompt()


class StepView(Struct, frozen=True, gc=False, omit_defaults=True):
    step: int
    name: str | None
    status: StepStatus


class Note(Struct, frozen=True, gc=False, array_like=True):
    """A fact about the course of a conversation."""

    label: str
    """`doubt`."""
    text: str
    warns: bool = False


class ForkView(Struct, frozen=True, gc=False):
    run: str
    turns: int
    """Number of turns taken from that run."""


class ErrorView(Struct, frozen=True, gc=False):
    type: str
    message: str
    turn: int


class ConversationView(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    row: RowView
    has_id: bool = False
    """Whether the author wrote the id."""
    file: str = ""
    line: int = 0
    succeeded_on: int | None = None
    """The turn."""
    reasons: tuple[Reason, ...] = ()
    """Why it ended as it did, the most important one first."""
    system: str = ""
    """The system prompt."""
    unsent: bool = False
    """Whether the system prompt was not sent, because the target's request has no place for it."""
    system_size: str = ""
    """`1,204 characters`, `8 characters, not sent`"""
    output_schema: str = ""
    """The JSON Schema that was sent with each request, as text."""
    output_schema_size: str = ""
    """`12 lines`."""
    turns: tuple[TurnView, ...] = ()
    checks: tuple[CheckView, ...] = ()
    """Of the whole conversation."""
    steps: tuple[StepView, ...] = ()
    not_sent: str = ""
    """The steps at the end of a plan that were left out, and why."""
    never_landed: str = ""
    """Deliberate failures that met no call."""
    course: tuple[Note, ...] = ()
    """Session, steps, doubt, user, audit and task, each if there is something to say."""
    notes: tuple[str, ...] = ()
    """Other facts, as sentences."""
    fork: ForkView | None = None
    control: TurnView | None = None
    """The first turn, asked again in a new conversation."""
    error: ErrorView | None = None
    paid: str = ""
    """The cost without judges, with its parts if they are known; empty without a price."""
    cost_parts: str = ""
    """The cost of a simulated conversation: of the target, the user and the judges."""

    @property
    def status(self) -> Status:
        outcome = self.row.outcome
        return "passed" if outcome in ("first", "recovered") else outcome

    @property
    def spent(self) -> str:
        """`25 tokens (20 in, 5 out), $0.0010`; empty without a model."""
        return ", ".join(filter(None, (self.row.used, self.paid)))


def view_conversation(result: Result, row: RowView | None = None, system: SystemPrompt = NO_SYSTEM) -> ConversationView:
    """`system`: the system prompt, if it is known."""
    row = row_of(result, 0) if row is None else row
    schema = _schema_text(result.raw_request.output_schema)
    return ConversationView(
        row=row,
        has_id=result.id_written,
        file=result.file,
        line=result.line,
        succeeded_on=result.succeeded_on_turn,
        reasons=tuple(_reasons(result, row)),
        system=system.text,
        unsent=not system.is_sent,
        system_size=_size_of(system),
        output_schema=schema,
        output_schema_size=count(schema.count("\n") + 1, "line") if schema else "",
        turns=tuple(view_turns(result, {} if row.same_as is None else repeated_turns(result.turns))),
        checks=tuple(map(view_check, result.conversation_checks)),
        steps=tuple(StepView(step.step, step.name, step.status) for step in result.steps),
        not_sent=not_sent(result) or "",
        never_landed=never_landed(result) or "",
        course=tuple(Note(label, text, _warns(label, text, result)) for label, text in course_words(result)),
        notes=tuple(_notes(result, row)),
        fork=None if result.fork is None else ForkView(result.fork.run, result.fork.turns),
        control=None if result.control is None else _control(result.control, result),
        error=None if result.error is None else ErrorView(result.error.type, result.error.message, result.error.turn),
        paid=price_words(result.cost, result.usage, result.cost_breakdown) if row.used else "",
        cost_parts=_cost_parts(result),
    )


def _size_of(system: SystemPrompt) -> str:
    if not system.text:
        return ""
    return count(len(system.text), "character") + ("" if system.is_sent else ", not sent")


def _schema_text(schema: Any) -> str:
    return "" if schema is None else msgspec.json.format(msgspec.json.encode(schema), indent=2).decode()


def _control(control: TurnResult, result: Result) -> TurnView:
    view = view_turn(control, result)
    first = result.turns[0] if result.turns else None
    return structs.replace(view, same_as=first.turn) if first is not None and is_repeated(control, first) else view


def _reasons(result: Result, row: RowView) -> Iterator[Reason]:
    """The first one has the quote of the row."""
    for place, reason in enumerate(every_reason(result)):
        yield structs.replace(reason, said=row.said, span=row.span) if place == 0 and row.said else reason


def _warns(label: str, text: str, result: Result) -> bool:
    if label == "audit":
        return result.user is not None and audit_words(result.user) != "clean"
    return text.endswith((": caved", ": wavered"))


def _notes(result: Result, row: RowView) -> Iterator[str]:
    if row.aside is not None:
        yield f"It decides nothing: {row.aside}."
    if result.fork is not None:
        how = "said again in a new session" if result.fork.said_again else "taken over"
        yield f"Forked from run {result.fork.run}; {count(result.fork.turns, 'turn')} {how}."
    yield from (f"{text}." for text in (not_sent(result), never_landed(result)) if text)


def _cost_parts(result: Result) -> str:
    """The cost of a simulated conversation in its three parts; empty if no user was simulated, or nothing is paid."""
    if result.user is None or not any(turn.model is not None for turn in result.turns):
        return ""
    parts = [money(result.cost), f"user {money(result.user.cost or 0.0)}"]
    judged = result.judge_usage.total_tokens or result.judge_cost is not None
    return ", ".join([*parts, *([f"judges {money(result.judge_cost)}"] if judged else [])])
