"""`llm_judge`, a model that scores the reply, and the code that all judges share: votes, second attempts, costs.

If an answer cannot be read, the judge is asked once more in the same conversation; then it is an error, never a silent
zero.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from msgspec import Struct, structs

from rejoinder.checks.base import Context, asked_value, error_verdict, gather_all, pass_mark, scored_verdict
from rejoinder.checks.judge_answers import Judgement, Unreadable, candidate_words, read_judgement
from rejoinder.checks.registry import grades
from rejoinder.formatting.judge import ASK_AGAIN, format_judge_prompt, judge_digest
from rejoinder.formatting.ready_judges import READY_JUDGES
from rejoinder.model import (
    NO_USAGE,
    ChatMessage,
    Complete,
    Diagnostic,
    Failure,
    Faithful,
    Judged,
    JudgePrompt,
    LlmJudge,
    ReadyJudge,
    Relevant,
    Reply,
    Usage,
    Verdict,
    reaches,
)
from rejoinder.words.numbers import beginning

T = TypeVar("T")


class Answer(Struct):
    """The outcome of asking a judge once or twice: a readable value, or the reason why it is missing."""

    value: Any = None
    trouble: str | None = None
    unreadable: bool = False
    complaint: str = ASK_AGAIN
    """The message to the judge after an unreadable answer."""
    replies: list[Reply] = []


def ask_votes(
    check: Judged, context: Context, shown: JudgePrompt, read: Callable[[str], T | None]
) -> Awaitable[list[Answer]]:
    """Ask a judge once per vote, all at the same time. The calls are numbered here, in document order."""
    messages = (ChatMessage("system", shown.system), ChatMessage("user", shown.user))
    first = [context.port.ask_judge(messages, check.target) for _ in range(check.votes)]
    return _ask_all(check, context, messages, first, read)


async def _ask_all(
    check: Judged,
    context: Context,
    messages: tuple[ChatMessage, ...],
    first: Iterable[Awaitable[Reply | Failure]],
    read: Callable[[str], T | None],
) -> list[Answer]:
    """The answers of a judge. Unreadable ones are asked for again in the order of the votes, so that equal prompts keep
    their numbers."""
    answers = await gather_all([_hear(call, [], read) for call in first])
    unclear = [answer for answer in answers if answer.unreadable]
    calls = [context.port.ask_judge((*messages, *_second_chance(answer)), check.target) for answer in unclear]
    again = iter(await gather_all([_hear(call, old.replies, read) for call, old in zip(calls, unclear, strict=True)]))
    return [next(again) if answer.unreadable else answer for answer in answers]


def _second_chance(answer: Answer) -> tuple[ChatMessage, ChatMessage]:
    return ChatMessage("assistant", answer.replies[-1].text), ChatMessage("user", answer.complaint)


async def _hear(call: Awaitable[Reply | Failure], before: list[Reply], read: Callable[[str], T | None]) -> Answer:
    reply = await call
    if isinstance(reply, Failure):
        when = "the judge could not be asked again" if before else "the judge could not be asked"
        return Answer(trouble=f"{when}: {reply.message}", replies=before)
    replies = [*before, reply]
    why = Unreadable()
    try:
        value = read(reply.text)
        if value is not None:
            return Answer(value=value, replies=replies)
    except Unreadable as error:
        why = error
    trouble = f"{why.trouble}: {beginning(reply.text, 80)!r}"
    return Answer(trouble=trouble, unreadable=True, complaint=why.complaint, replies=replies)


def first_trouble(check: Judged, answers: Sequence[Answer]) -> str | None:
    """The reason why there is no verdict. An unreadable answer is not a reason with `on_invalid: zero`."""
    ignored = check.on_invalid == "zero"
    return next((answer.trouble for answer in answers if answer.trouble and not (answer.unreadable and ignored)), None)


def unread(answers: Sequence[Answer]) -> str | None:
    """The message about answers that count as zero."""
    trouble = next((answer.trouble for answer in answers if answer.unreadable), None)
    return f"{trouble}; counted as 0" if trouble else None


class Judging(Struct, frozen=True):
    """The judge's data in every verdict of a judge."""

    usage: Usage
    cost: float | None
    judged: bool
    judge: str
    judged_by: str
    threshold: float
    diagnostics: tuple[Diagnostic, ...]
    criteria: str | None = None
    """The version of ready-made criteria."""

    def added_to(self, verdict: Verdict) -> Verdict:
        return structs.replace(verdict, **structs.asdict(self))


def judging_of(check: Judged, context: Context, shown: JudgePrompt, answers: Sequence[Answer]) -> Judging:
    """The judge, its instructions, and the total cost of all answers."""
    replies = [reply for answer in answers for reply in answer.replies]
    costs = [reply.cost for reply in replies]
    return Judging(
        usage=sum((reply.usage for reply in replies), NO_USAGE) if replies else Usage(),
        cost=None if None in costs or not costs else math.fsum(cost for cost in costs if cost is not None),
        judged=bool(replies),
        judge=context.port.judge_name(check.target),
        judged_by=judge_digest(check),
        threshold=_mark(check),
        diagnostics=shown.diagnostics,
    )


def combine(check: Judged, votes: Sequence[Judgement]) -> tuple[Judgement, tuple[float, ...]]:
    """The judgement of all votes together, and the scores of each if there are several."""
    if len(votes) == 1:
        return votes[0], ()
    scores = tuple(vote.score for vote in votes)
    if check.combine == "majority":
        score = sum(reaches(vote, pass_mark(check)) for vote in scores) / len(scores)
        agreeing = [vote for vote in votes if reaches(vote.score, pass_mark(check)) == reaches(score, _mark(check))]
    else:
        score = math.fsum(scores) / len(scores)
        agreeing = votes
    # The words of the vote that lies nearest to the outcome, so that reason and score do not contradict each other.
    nearest = min(agreeing, key=lambda vote: abs(vote.score - score))
    return Judgement(score, nearest.hits, nearest.misses, nearest.reasoning, nearest.cut), scores


def _mark(check: Judged) -> float:
    """The lowest passing score; a majority is more than half of the votes, whatever score each vote needs."""
    if check.votes > 1 and check.combine == "majority":
        return (check.votes // 2 + 1) / check.votes
    return pass_mark(check)


@grades(LlmJudge, Faithful, Relevant, Complete)
async def grade_llm_judge(check: LlmJudge | ReadyJudge, context: Context) -> Verdict:
    value = asked_value(check)
    question = context.port.question()
    shown = format_judge_prompt(check, context.case, question, context.reply.text)
    words = candidate_words(question, context.reply.text)
    answers = await ask_votes(check, context, shown, lambda text: read_judgement(text, words))
    judging = judging_of(check, context, shown, answers)
    if isinstance(check, ReadyJudge):
        judging = structs.replace(judging, criteria=READY_JUDGES[type(check)].version)
    if trouble := first_trouble(check, answers):
        return judging.added_to(error_verdict(check, value, trouble))
    judgement, votes = combine(check, [answer.value or Judgement(0.0) for answer in answers])
    reason = judgement.reasoning or unread(answers) or f"scored {judgement.score:g}"
    if judgement.cut is not None:
        reason = f"{judgement.cut}: {reason}"
    verdict = scored_verdict(
        check,
        value,
        reaches(judgement.score, judging.threshold),
        reason,
        score=judgement.score,
        hits=judgement.hits,
        misses=judgement.misses,
        reasoning=judgement.reasoning,
        votes=votes,
    )
    return judging.added_to(verdict)
