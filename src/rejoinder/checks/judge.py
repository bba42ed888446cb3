"""`llm_judge`: a model is asked about the reply, and its answer is read as a score.

The judge's contract is a JSON object with `score` (0 to 1), `hits`, `misses` and `reasoning`. An answer that cannot be
read is an error, never a silent zero.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import msgspec

from rejoinder.checks.base import Context, error_verdict, scored_verdict
from rejoinder.formatting import format_judge_prompt
from rejoinder.model import Failure, LlmJudge, Verdict

PASS_MARK = 0.5
MOST_POINTS = 4
"""Hits and misses that are kept, each."""
MOST_BRACES = 200
"""Opening braces that are tried in a judge's prose."""


async def judge_llm_judge(check: LlmJudge, context: Context) -> Verdict:
    label = f"llm_judge {check.criteria}" if check.criteria else "llm_judge"
    shown = format_judge_prompt(check, context.case, context.port.question(), context.reply.text)
    answer = await context.port.ask_judge(shown.system, shown.user, check.target)
    if isinstance(answer, Failure):
        reason = f"the judge could not be asked: {answer.message}"
        return error_verdict(check, label, reason, diagnostics=shown.diagnostics)
    spent = {"usage": answer.usage, "cost": answer.cost, "judged": True, "diagnostics": shown.diagnostics}
    judgement = read_judgement(answer.text)
    if judgement is None:
        return error_verdict(check, label, f"the judge's answer cannot be read: {_shorten(answer.text)}", **spent)
    score = judgement["score"]
    threshold = PASS_MARK if check.threshold is None else check.threshold
    reason = judgement["reasoning"] or f"scored {score:g}"
    return scored_verdict(check, label, score >= threshold, reason, **judgement, **spent)


def read_judgement(text: str) -> dict[str, Any] | None:
    """The judge's JSON: the whole answer, or the last object with a score in its prose; None when there is none."""
    for data in _objects(text):
        score = data.get("score")
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            continue
        reasoning = data.get("reasoning")
        return {
            "score": min(1.0, max(0.0, float(score))),
            "hits": _points(data.get("hits")),
            "misses": _points(data.get("misses")),
            "reasoning": reasoning if isinstance(reasoning, str) and reasoning else None,
        }
    return None


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, the whole of it first and then the last one first."""
    try:
        whole = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        whole = None
    if isinstance(whole, dict):
        yield whole
        return
    decoder = json.JSONDecoder()
    position = len(text)
    for _ in range(MOST_BRACES):
        position = text.rfind("{", 0, position)
        if position < 0:
            return
        try:
            data, _end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict):
            yield data


def _points(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(point for point in value if isinstance(point, str) and point.strip())[:MOST_POINTS]


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}...")
