"""`semantic`: whether the reply means the same as an expected text. An embedding model turns both into vectors, and the
score is the cosine of the angle between them.

Such models recognise the subject of a text, but hardly a negation: docs/reference/checks/semantic.md says more.
"""

from __future__ import annotations

import math
import operator
import sys
from array import array
from functools import lru_cache

from rejoinder.checks.base import Context, asked_value, error_verdict, gather_all, scored_verdict
from rejoinder.checks.registry import grades
from rejoinder.model import Failure, Reply, Semantic, Verdict, reaches


@grades(Semantic)
async def grade_semantic(check: Semantic, context: Context) -> Verdict:
    value = asked_value(check)
    expected = [text for text in check.expected if text.strip()]
    if not expected:
        return error_verdict(check, value, "the expected text is empty once its variables are filled in")
    if not context.reply.text.strip():
        return scored_verdict(check, value, False, "the reply is empty", score=0.0, threshold=check.threshold)
    answers = await gather_all([context.port.embed(text, check.target) for text in (context.reply.text, *expected)])
    failure = next((answer for answer in answers if isinstance(answer, Failure)), None)
    if failure is not None:
        return error_verdict(check, value, f"the embedding could not be computed: {failure.message}")
    vectors = [answer.vector for answer in answers if not isinstance(answer, Failure)]
    if len({len(vector) for vector in vectors}) > 1:
        return error_verdict(check, value, "the embeddings have different lengths, so they cannot be compared")
    if not all(map(_norm, vectors)):
        return error_verdict(check, value, "an embedding is all zeros, so it says nothing about the text's meaning")
    likeness = [cosine(vectors[0], vector) for vector in vectors[1:]]
    best = max(range(len(likeness)), key=likeness.__getitem__)
    score = round(likeness[best], 6)
    which = f" to {expected[best]!r}" if len(expected) > 1 else ""
    model = next((f" by {answer.model}" for answer in answers if isinstance(answer, Reply) and answer.model), "")
    reason = f"similarity {score:.3f}{which}{model}; {check.threshold:g} is needed"
    passed = reaches(score, check.threshold)
    return scored_verdict(check, value, passed, reason, score=score, threshold=check.threshold)


def cosine(first: bytes, second: bytes) -> float:
    """The cosine, from 0 to 1: an opposite vector counts like an unrelated one."""
    product = math.fsum(map(operator.mul, _floats(first), _floats(second)))
    norm = _norm(first) * _norm(second)
    return min(1.0, max(0.0, product / norm)) if norm else 0.0


@lru_cache(maxsize=512)
def _floats(vector: bytes) -> array[float]:
    values = array("f")
    values.frombytes(vector)
    if sys.byteorder == "big":
        values.byteswap()
    return values


@lru_cache(maxsize=512)
def _norm(vector: bytes) -> float:
    return math.sqrt(math.fsum(value * value for value in _floats(vector)))
