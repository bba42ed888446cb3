"""How a conversation went, on a terminal: its steps with signs, and a line for each other thing that is known of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rejoinder.model import Result, StepResult
from rejoinder.model.results import StepStatus
from rejoinder.report.course import STEP_WORDS, audit_words, course_words, step_name, steps_words
from rejoinder.report.styled import Form, Line, Piece, Role, line, paragraph, safe
from rejoinder.report.words import money

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


def write_course(result: Result, form: Form) -> Iterator[Line]:
    """`session:`, `steps:`, `doubt:`, `user:`, `audit:` and `task:`, each if there is something to say."""
    for label, text in course_words(result):
        if label == "steps":
            yield from paragraph((Piece("steps: ", "quiet"), *_steps(result, form)), form)
            continue
        role: Role = "text"
        if label == "audit" and result.user is not None:
            role = "pass" if audit_words(result.user) == "clean" else "warn"
        elif text.endswith((": caved", ": wavered")):
            role = "warn"
        yield from paragraph(line((f"{label}: ", "quiet"), (form.cut(safe(text), _ROWS * form.room), role)), form)


def _steps(result: Result, form: Form) -> Iterator[Piece]:
    """`✓ ask  ↻ party  ✗ cancel  – not sent: bill`; in words if there are no signs."""
    if not form.symbols:
        yield Piece(form.cut(safe(steps_words(result)), form.room))
        return
    sent = [step for step in result.steps if step.status != "skipped"]
    left = [step for step in result.steps if step.status == "skipped"]
    if len(result.steps) > MOST_STEPS:
        yield from _counted(result, form)
        return
    for place, step in enumerate(sent):
        yield Piece("  " if place else "")
        yield from _step(step, form)
    if left:
        names = ", ".join(_name(step, form) for step in left)
        yield Piece(f"{'  ' if sent else ''}– not sent: {names}", "quiet")


def _step(step: StepResult, form: Form) -> Iterator[Piece]:
    sign, role = _SIGNS[step.status]
    yield Piece(sign, role)
    yield Piece(f" {_name(step, form)}")


def _name(step: StepResult, form: Form) -> str:
    return form.cut(safe(step_name(step)), LONGEST_NAME)


def _counted(result: Result, form: Form) -> Iterator[Piece]:
    """The first step that did not pass, and how many ended in which way."""
    bad = next((step for step in result.steps if step.status in ("failed", "error")), None)
    if bad is not None:
        yield from _step(bad, form)
        yield Piece(", ")
    ways: Counter[StepStatus] = Counter(step.status for step in result.steps)
    told = ", ".join(f"{number} {STEP_WORDS[status]}" for status, number in ways.items())
    yield Piece(f"{told} of {len(result.steps)}", "quiet")


def cost_parts(result: Result) -> str | None:
    """What a simulated conversation cost, in its three parts; None where no user was simulated, or nothing is paid."""
    if result.user is None or not any(turn.model is not None for turn in result.turns):
        return None
    parts = [money(result.cost), f"user {money(result.user.cost or 0.0)}"]
    judged = result.judge_usage.total_tokens or result.judge_cost is not None
    return ", ".join([*parts, *([f"judges {money(result.judge_cost)}"] if judged else [])])
