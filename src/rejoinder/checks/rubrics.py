"""`rubric`: a model judges the reply by each criterion of a list.

A rubric of yes-or-no criteria passes if all are met; with several votes a criterion is met if at least half of them say
so. With score ranges, or a threshold, the weighted mean decides, and a required criterion that is not met fails the
check whatever the mean is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, structs

from rejoinder.checks.base import Context, error_verdict, scored_verdict
from rejoinder.checks.judge import ask_votes, combine, first_trouble, judging_of, unread
from rejoinder.checks.judge_answers import Judgement, candidate_words, read_score, read_verdict, read_words
from rejoinder.checks.registry import grades
from rejoinder.formatting.judge import format_judge_prompt
from rejoinder.model import Criterion, Rubric, Verdict, reaches, weighted_mean

HIGHEST = 10
"""The maximum of a criterion with score ranges."""


class Mark(Struct, frozen=True):
    """A judge's mark for one criterion, from 0 to 1."""

    score: float
    reasoning: str | None = None


Marks = dict[str, Mark]


@grades(Rubric)
async def grade_rubric(check: Rubric, context: Context) -> Verdict:
    value = _shown(check)
    question = context.port.question()
    shown = format_judge_prompt(check, context.case, question, context.reply.text)
    words = candidate_words(question, context.reply.text)
    answers = await ask_votes(check, context, shown, lambda text: read_marks(text, check.criteria, words))
    judging = judging_of(check, context, shown, answers)
    if trouble := first_trouble(check, answers):
        return judging.added_to(error_verdict(check, value, trouble))
    marks: list[Marks] = [answer.value[0] if answer.value else {} for answer in answers]
    whole = [answer.value[1] if answer.value else None for answer in answers]
    parts = [_judge_criterion(each, [mark.get(each.id, Mark(0.0)) for mark in marks]) for each in check.criteria]
    votes = [Judgement(_mean_of(check, mark), reasoning=words) for mark, words in zip(marks, whole, strict=True)]
    judgement, scores = combine(check, votes)
    score = _mean(check, [float(part.passed) for part in parts]) if check.needs_all else judgement.score
    judging = structs.replace(judging, threshold=1.0) if check.needs_all else judging
    pairs = list(zip(check.criteria, parts, strict=True))
    failing = [each for each, part in pairs if not part.passed and (check.needs_all or each.required)]
    verdict = scored_verdict(
        check,
        value,
        reaches(score, judging.threshold) and not failing,
        unread(answers) or _reason(pairs),
        score=score,
        hits=tuple(each.text for each, part in pairs if part.passed),
        misses=tuple(each.text for each, part in pairs if not part.passed),
        reasoning=judgement.reasoning,
        children=tuple(parts),
        votes=scores,
    )
    return judging.added_to(verdict)


def _reason(pairs: Sequence[tuple[Criterion, Verdict]]) -> str:
    """The number of met criteria, and the texts of the others."""
    unmet = [criterion for criterion, part in pairs if not part.passed]
    required = [criterion.text for criterion in unmet if criterion.required]
    others = [criterion.text for criterion in unmet if not criterion.required]
    words = [f"{len(pairs) - len(unmet)} of {len(pairs)} met"]
    words += [f"required and not met: {', '.join(required)}"] if required else []
    words += [f"not met: {', '.join(others)}"] if others else []
    return "; ".join(words)


def _shown(check: Rubric) -> str | None:
    """The check's display value: a list of plain sentences is shown as written."""
    plain = all(each == Criterion(id=each.id, text=each.text) for each in check.criteria)
    return ", ".join(each.text for each in check.criteria) if plain else None


def _mean_of(check: Rubric, marks: Marks) -> float:
    return _mean(check, [marks[each.id].score if each.id in marks else 0.0 for each in check.criteria])


def _mean(check: Rubric, scores: Sequence[float]) -> float:
    return weighted_mean(zip((each.weight for each in check.criteria), scores, strict=True)) or 0.0


def _judge_criterion(criterion: Criterion, marks: Sequence[Mark]) -> Verdict:
    """The verdict of all votes on one criterion."""
    score = math.fsum(mark.score for mark in marks) / len(marks)
    needed = (criterion.min_score if criterion.min_score is not None else 0.5) if criterion.ranges else 0.5
    met = reaches(score, needed)
    reason = min(marks, key=lambda mark: abs(mark.score - score)).reasoning
    if not reason:
        reason = f"{score * HIGHEST:.3g} of {HIGHEST}" if criterion.ranges else "met" if met else "not met"
    state = "passed" if met else "failed"
    label = f"criterion {criterion.text}"
    return Verdict(check=label, kind="criterion", state=state, reason=reason, score=score, name=criterion.id)


def read_marks(text: str, criteria: Sequence[Criterion], words: Sequence[str] = ()) -> tuple[Marks, str | None] | None:
    """A judge's marks for every criterion, and its words on the whole; None if a mark is missing. Raises Unreadable."""
    return read_verdict(
        text,
        ("criteria", "checks"),
        lambda data: _marks(data, criteria),
        lambda read: {name: mark.score for name, mark in read[0].items()},
        words,
    )


def _marks(data: dict[str, Any], criteria: Sequence[Criterion]) -> tuple[Marks, str | None] | None:
    rows = data.get("criteria", data.get("checks"))
    if not isinstance(rows, list):
        return None
    marks = {each.id: mark for each in criteria if (mark := _mark_of(each, rows)) is not None}
    if len(marks) < len(criteria):
        return None
    return marks, read_words(data.get("reasoning", data.get("overall_reasoning")))


def _mark_of(criterion: Criterion, rows: list[Any]) -> Mark | None:
    """The mark of a criterion; None if no row of it can be read, or if rows contradict each other."""
    own = [row for row in rows if isinstance(row, dict) and str(row.get("id")) == criterion.id]
    marks = [_read_mark(criterion, row) for row in own]
    if not marks or marks[0] is None:
        return None
    return marks[0] if all(mark is not None and mark.score == marks[0].score for mark in marks) else None


def _read_mark(criterion: Criterion, row: dict[str, Any]) -> Mark | None:
    reasoning = read_words(row.get("reasoning"))
    met = row.get("met", row.get("satisfied"))
    score = read_score(row.get("score"))
    if criterion.ranges:
        return None if score is None else Mark(min(1.0, max(0.0, score / HIGHEST)), reasoning)
    return Mark(float(met), reasoning) if isinstance(met, bool) else None
