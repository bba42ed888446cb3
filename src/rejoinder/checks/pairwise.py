"""`compare`: whether the reply is at least as good as another one. A model is asked in both orders, because judges
favour the first text; only an answer that is the same in both orders counts fully.

The score is 1 if the reply wins in both orders, 0 if it loses in both, and between them for a tie or if the order
decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct, structs

from rejoinder.checks.base import Context, error_verdict, gather_all, scored_verdict
from rejoinder.checks.judge import Answer, ask_votes, combine, first_trouble, judging_of, unread
from rejoinder.checks.judge_answers import Judgement, candidate_words, read_verdict, read_words
from rejoinder.checks.registry import grades
from rejoinder.formatting.judge import format_comparison, other_answer
from rejoinder.model import Compare, Failure, Reply, State, Verdict, reaches

Better: TypeAlias = Literal["1", "2", "tie"]
_BETTER: dict[str, Better] = {"1": "1", "2": "2", "tie": "tie", "a": "1", "b": "2"}
_FIRST: dict[Better, float] = {"1": 1.0, "tie": 0.5, "2": 0.0}
"""The score of the text shown first, for each answer."""


_STATES: dict[bool, State] = {True: "passed", False: "failed"}


class Preference(Struct, frozen=True):
    better: Better
    reasoning: str | None = None


@grades(Compare)
async def grade_compare(check: Compare, context: Context) -> Verdict:
    replies: list[Reply] = []
    question = context.port.question()
    if check.other is None and check.other_target is not None:
        context = structs.replace(context, port=context.port.reserve(check.target, 2 * check.votes))
        other = await context.port.ask_other(check.other_target)
        if isinstance(other, Failure):
            reason = f"`{check.other_target}` could not be asked: {other.message}"
            return error_verdict(check, None, reason)
        replies.append(other)
        rival = other.text
    else:
        rival = other_answer(check, question.reference_answer)
    own = context.reply.text
    orders = [format_comparison(check, context.case, question, pair) for pair in ((own, rival), (rival, own))]
    if not rival.strip():
        if replies:
            judging = judging_of(check, context, orders[0], [Answer(replies=replies)])
            return judging.added_to(error_verdict(check, None, f"`{check.other_target}` gave an empty reply"))
        reason = (
            "there is nothing to compare with: give `reply`, `reply_of` or a reference answer in `expected_messages`"
        )
        return error_verdict(check, None, reason)
    words = candidate_words(question, own, rival)
    asked = [ask_votes(check, context, shown, lambda text: read_preference(text, words)) for shown in orders]
    both = await gather_all(asked)
    answers = [answer for order in both for answer in order]
    judging = judging_of(check, context, orders[0], [*answers, Answer(replies=replies)])
    if trouble := first_trouble(check, answers):
        return judging.added_to(error_verdict(check, None, trouble))
    forth, back = (
        [_worth(answer, first=first) for answer in order] for order, first in zip(both, (True, False), strict=True)
    )
    votes = [Judgement((a.score + b.score) / 2, reasoning=a.reasoning) for a, b in zip(forth, back, strict=True)]
    judgement, scores = combine(check, votes)
    verdict = scored_verdict(
        check,
        None,
        reaches(judgement.score, judging.threshold),
        unread(answers) or _reason(forth, back),
        score=judgement.score,
        reasoning=judgement.reasoning,
        children=(_order("shown first", forth), _order("shown second", back)),
        votes=scores,
    )
    return judging.added_to(verdict)


def read_preference(text: str, words: Sequence[str] = ()) -> Preference | None:
    """The judge's preferred answer; None if it does not say. Raises Unreadable."""
    return read_verdict(text, ("better", "winner"), _preference, lambda preference: preference.better, words)


def _preference(data: dict[str, Any]) -> Preference | None:
    better = _BETTER.get(str(data.get("better", data.get("winner"))).strip().lower())
    return None if better is None else Preference(better, read_words(data.get("reasoning")))


def _worth(answer: Answer, *, first: bool) -> Judgement:
    """The reply's score from a preference; `first`: the reply was shown first."""
    if answer.value is None:
        return Judgement(0.0)
    score = _FIRST[answer.value.better]
    return Judgement(score if first else 1.0 - score, reasoning=answer.value.reasoning)


def _mean(votes: list[Judgement]) -> float:
    return math.fsum(vote.score for vote in votes) / len(votes)


def _reason(forth: list[Judgement], back: list[Judgement]) -> str:
    first, second = _mean(forth), _mean(back)
    if first > 0.5 and second > 0.5:
        return "better in both orders"
    if first < 0.5 and second < 0.5:
        return "worse in both orders"
    if (first - 0.5) * (second - 0.5) < 0:
        return f"better only when {'shown first' if first > second else 'shown second'}: the order decides"
    if first == second:
        return "as good as the other"
    return f"{'better' if first + second > 1 else 'worse'} in one order, a tie in the other"


def _order(title: str, votes: list[Judgement]) -> Verdict:
    score = _mean(votes)
    word = "better" if score > 0.5 else "worse" if score < 0.5 else "a tie"
    reason = votes[0].reasoning or word
    return Verdict(check=title, kind="order", state=_STATES[score >= 0.5], reason=reason, score=score, name=title)
