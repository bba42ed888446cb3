"""`rubric`: a model judges the reply by each criterion of a list.

A rubric of yes-or-no criteria passes when all of them are met; with several votes a criterion is met when at least half
of them say so. With score ranges, or a threshold, the weighted mean decides, and a required criterion that is not met
fails the check whatever the mean is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from rejoinder.checks.base import Context, error_verdict, scored_verdict, verdict
from rejoinder.checks.judge import (
    Judgement,
    ask_votes,
    candidate_words,
    combine,
    first_trouble,
    read_score,
    read_verdict,
    read_words,
    spending,
    unread,
)
from rejoinder.formatting import format_judge_prompt
from rejoinder.model import Criterion, Rubric, Verdict, reaches

HIGHEST = 10
"""What a criterion with score ranges can reach."""


class Mark(Struct, frozen=True):
    """What a judge says of one criterion, from 0 to 1."""

    score: float
    reasoning: str | None = None


Marks = dict[str, Mark]


async def judge_rubric(check: Rubric, context: Context) -> Verdict:
    label = _label(check)
    question = context.port.question()
    shown = format_judge_prompt(check, context.case, question, context.reply.text)
    words = candidate_words(question, context.reply.text)
    answers = await ask_votes(check, context, shown, lambda text: read_marks(text, check.criteria, words))
    spent = spending(check, context, shown, answers)
    if trouble := first_trouble(check, answers):
        return error_verdict(check, label, trouble, **spent)
    marks: list[Marks] = [answer.value[0] if answer.value else {} for answer in answers]
    whole = [answer.value[1] if answer.value else None for answer in answers]
    criteria = [_criterion(one, [mark.get(one.id, Mark(0.0)) for mark in marks]) for one in check.criteria]
    votes = [Judgement(_mean_of(check, mark), reasoning=said) for mark, said in zip(marks, whole, strict=True)]
    judgement, scores = combine(check, votes)
    score = _mean(check, [float(one.passed) for one in criteria]) if check.needs_all else judgement.score
    spent["threshold"] = 1.0 if check.needs_all else spent["threshold"]
    pairs = list(zip(check.criteria, criteria, strict=True))
    failing = [one for one, met in pairs if not met.passed and (check.needs_all or one.required)]
    return scored_verdict(
        check,
        label,
        reaches(score, spent["threshold"]) and not failing,
        unread(answers) or _reason(pairs),
        score=score,
        hits=tuple(one.text for one, met in pairs if met.passed),
        misses=tuple(one.text for one, met in pairs if not met.passed),
        reasoning=judgement.reasoning,
        children=tuple(criteria),
        votes=scores,
        **spent,
    )


def _reason(pairs: Sequence[tuple[Criterion, Verdict]]) -> str:
    """How many criteria are met, and the texts of those that are not."""
    unmet = [one for one, met in pairs if not met.passed]
    required = [one.text for one in unmet if one.required]
    others = [one.text for one in unmet if not one.required]
    words = [f"{len(pairs) - len(unmet)} of {len(pairs)} met"]
    words += [f"required and not met: {', '.join(required)}"] if required else []
    words += [f"not met: {', '.join(others)}"] if others else []
    return "; ".join(words)


def _label(check: Rubric) -> str:
    """A list of plain sentences is shown as it was written."""
    plain = all(one == Criterion(id=one.id, text=one.text) for one in check.criteria)
    return f"rubric {', '.join(one.text for one in check.criteria)}" if plain else "rubric"


def _mean_of(check: Rubric, marks: Marks) -> float:
    return _mean(check, [marks[one.id].score if one.id in marks else 0.0 for one in check.criteria])


def _mean(check: Rubric, scores: Sequence[float]) -> float:
    weights = [one.weight for one in check.criteria]
    if not sum(weights):
        weights = [1.0] * len(weights)  # where nothing weighs anything, everything weighs the same
    return math.fsum(w * s for w, s in zip(weights, scores, strict=True)) / math.fsum(weights)


def _criterion(criterion: Criterion, marks: Sequence[Mark]) -> Verdict:
    """What the votes together say of one criterion."""
    score = math.fsum(mark.score for mark in marks) / len(marks)
    needed = (criterion.min_score if criterion.min_score is not None else 0.5) if criterion.ranges else 0.5
    nearest = min(marks, key=lambda mark: abs(mark.score - score))
    if criterion.ranges:
        reason = nearest.reasoning or f"{score * HIGHEST:.3g} of {HIGHEST}"
    else:
        reason = nearest.reasoning or ("met" if reaches(score, needed) else "not met")
    plain = Rubric(criteria=(), name=criterion.id)
    found = verdict(plain, f"criterion {criterion.text}", reaches(score, needed), reason)
    return scored_verdict(plain, found.check, found.passed, reason, score=score)


def read_marks(text: str, criteria: Sequence[Criterion], words: Sequence[str] = ()) -> tuple[Marks, str | None] | None:
    """A judge's marks for every criterion, and what it says of the whole; None where one is missing. Raises
    Unreadable."""
    return read_verdict(
        text,
        ("criteria", "checks"),
        lambda data: _marks(data, criteria),
        lambda one: {name: mark.score for name, mark in one[0].items()},
        words,
    )


def _marks(data: dict[str, Any], criteria: Sequence[Criterion]) -> tuple[Marks, str | None] | None:
    rows = data.get("criteria", data.get("checks"))
    if not isinstance(rows, list):
        return None
    marks = {one.id: mark for one in criteria if (mark := _mark_of(one, rows)) is not None}
    if len(marks) < len(criteria):
        return None
    return marks, read_words(data.get("reasoning", data.get("overall_reasoning")))


def _mark_of(criterion: Criterion, rows: list[Any]) -> Mark | None:
    """What the rows say of a criterion; None where none can be read, or where they contradict each other."""
    own = [one for one in rows if isinstance(one, dict) and str(one.get("id")) == criterion.id]
    marks = [_read_mark(criterion, one) for one in own]
    if not marks or marks[0] is None:
        return None
    return marks[0] if all(one is not None and one.score == marks[0].score for one in marks) else None


def _read_mark(criterion: Criterion, row: dict[str, Any]) -> Mark | None:
    reasoning = read_words(row.get("reasoning"))
    met = row.get("met", row.get("satisfied"))
    score = read_score(row.get("score"))
    if criterion.ranges:
        return None if score is None else Mark(min(1.0, max(0.0, score / HIGHEST)), reasoning)
    return Mark(float(met), reasoning) if isinstance(met, bool) else None
