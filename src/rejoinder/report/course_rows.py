"""How a conversation went, on a terminal: its steps with signs, and a line for each other thing that is known of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rejoinder.model.results import StepStatus
from rejoinder.report.styled import Form, Line, Piece, Role, line, paragraph, safe
from rejoinder.views.conversation import ConversationView, StepView
from rejoinder.views.course import STEP_WORDS, step_name, steps_words

MOST_STEPS = 12
"""Steps that are listed one by one; of longer plans those are counted that passed."""
LONGEST_NAME = 24
_ROWS = 3
"""Rows of evidence."""
_SIGNS: dict[StepStatus, tuple[str, Role]] = {
    "passed": ("✓", "pass"),
    "recovered": ("↻", "recovered"),
    "failed": ("✗", "fail"),
    "error": ("!", "error"),
    "skipped": ("–", "quiet"),
}


def write_course(talk: ConversationView, form: Form) -> Iterator[Line]:
    """`session:`, `steps:`, `doubt:`, `user:`, `audit:` and `task:`, each if there is something to say."""
    for note in talk.course:
        if note.label == "steps":
            yield from paragraph((Piece("steps: ", "quiet"), *_steps(talk.steps, form)), form)
            continue
        role: Role = "warn" if note.warns else "pass" if note.label == "audit" else "text"
        text = form.cut(safe(note.text), _ROWS * form.room)
        yield from paragraph(line((f"{note.label}: ", "quiet"), (text, role)), form)


def _steps(steps: Sequence[StepView], form: Form) -> Iterator[Piece]:
    """`✓ ask  ↻ party  ✗ cancel  – not sent: bill`; in words if there are no signs."""
    if not form.symbols:
        yield Piece(form.cut(safe(steps_words(steps)), form.room))
        return
    sent = [step for step in steps if step.status != "skipped"]
    left = [step for step in steps if step.status == "skipped"]
    if len(steps) > MOST_STEPS:
        yield from _counted(steps, form)
        return
    for place, step in enumerate(sent):
        yield Piece("  " if place else "")
        yield from _step(step, form)
    if left:
        names = ", ".join(_name(step, form) for step in left)
        yield Piece(f"{'  ' if sent else ''}– not sent: {names}", "quiet")


def _step(step: StepView, form: Form) -> Iterator[Piece]:
    sign, role = _SIGNS[step.status]
    yield Piece(sign, role)
    yield Piece(f" {_name(step, form)}")


def _name(step: StepView, form: Form) -> str:
    return form.cut(safe(step_name(step)), LONGEST_NAME)


def _counted(steps: Sequence[StepView], form: Form) -> Iterator[Piece]:
    """The first step that did not pass, and how many ended in which way."""
    bad = next((step for step in steps if step.status in ("failed", "error")), None)
    if bad is not None:
        yield from _step(bad, form)
        yield Piece(", ")
    ways: Counter[StepStatus] = Counter(step.status for step in steps)
    told = ", ".join(f"{number} {STEP_WORDS[status]}" for status, number in ways.items())
    yield Piece(f"{told} of {len(steps)}", "quiet")
