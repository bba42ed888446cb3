"""`llm_judge`: a model is asked about the reply, and its answer is read as a score.

The judge's contract is a JSON object with `score` (0 to 1), `hits`, `misses` and `reasoning`.
"""

from __future__ import annotations

from rejoinder.checks.base import Context, error_verdict, scored_verdict
from rejoinder.checks.judge import ask_votes, combine, first_trouble, spending, unread
from rejoinder.checks.judge_answers import Judgement, candidate_words, read_judgement
from rejoinder.checks.registry import judges
from rejoinder.formatting import format_judge_prompt
from rejoinder.model import LlmJudge, Verdict, reaches


@judges(LlmJudge)
async def judge_llm_judge(check: LlmJudge, context: Context) -> Verdict:
    value = check.criteria.strip() if check.criteria else None
    question = context.port.question()
    shown = format_judge_prompt(check, context.case, question, context.reply.text)
    words = candidate_words(question, context.reply.text)
    answers = await ask_votes(check, context, shown, lambda text: read_judgement(text, words))
    spent = spending(check, context, shown, answers)
    if trouble := first_trouble(check, answers):
        return error_verdict(check, value, trouble, **spent)
    judgement, votes = combine(check, [answer.value or Judgement(0.0) for answer in answers])
    reason = judgement.reasoning or unread(answers) or f"scored {judgement.score:g}"
    if judgement.cut is not None:
        reason = f"{judgement.cut}: {reason}"
    return scored_verdict(
        check,
        value,
        reaches(judgement.score, spent["threshold"]),
        reason,
        score=judgement.score,
        hits=judgement.hits,
        misses=judgement.misses,
        reasoning=judgement.reasoning,
        votes=votes,
        **spent,
    )
